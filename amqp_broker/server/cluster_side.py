"""ClusterSide: what `serve` does for a node that is, or may become, one of several: sockets, secret, links, members.

    made      before anything is touched: sockets bound, secret and certificates read
    settle    with the folder locked: what the folder knows of the members completes the settings
    start     the node is recovered: links, from now on those that the node's membership asks for
    hand_over, close   the end

A node without cluster_listen has none of this but an eye on its folder: one that belongs to a cluster is not to start
without its links.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_broker.links.members_file import KnownMembers, read_members, write_members
from amqp_broker.server.peer_tls import TlsCredentials, load_credentials
from amqp_broker.server.peers import PeerLinks
from amqp_broker.server.sockets import address_of, bind_all
from amqp_broker.settings.cluster_config import read_secret
from amqp_broker.settings.kinds import Address, MemberAddress
from amqp_broker.settings.setting import ConfigError

if TYPE_CHECKING:
    from amqp_broker.links.acquaintances import Acquaintances
    from amqp_broker.node import Node
    from amqp_broker.server.driver import Driver
    from amqp_broker.settings.config import Config
    from storage.disk import Disk

log = logging.getLogger("amqp_broker.cluster")

#: A node that stops waits so long until others lead its groups, and again until they have heard what it had to say.
HAND_OVER_S = 1.0
_LOOK_S = 0.01


class ClusterSide:
    """See the module's docstring. Raises OSError, ConfigError when sockets or files cannot be had. has_port: it has the
    sockets; else somebody else has, and hands over who comes."""

    def __init__(self, config: Config, *, has_port: bool = True) -> None:
        self._config = config
        self._has_port = has_port
        self._known: KnownMembers | None = None
        self._credentials: TlsCredentials | None = None
        self._links: PeerLinks | None = None
        self._seen: tuple[object, ...] = ()
        #: This node has to end: it is no member any more, or its folder has forgotten what it has promised.
        self.over = asyncio.Event()
        #: Whether a stop because of that is one in good order.
        self.is_released = False
        self._secret = b""
        self._sockets: list[socket.socket] = []
        if config.cluster_listen:
            assert config.cluster_secret_file is not None
            self._secret = read_secret(config.cluster_secret_file)
            self._credentials = load_credentials(config)
            if has_port:
                self._sockets = bind_all(config.cluster_listen, "--cluster-listen")

    def settle(self, disk: Disk) -> Config:
        """The settings, with the ports that were taken and, in a folder that was made to join, the members to join.
        Raises ConfigError, StorageError."""
        config = self._config
        if self._has_port:
            config = replace(config, cluster_listen=tuple(map(address_of, self._sockets)))
        known = self._known = read_members(disk)
        if known is not None:
            if known.node != config.node_name:
                raise ConfigError(
                    f"node_name: {config.node_name!r} is not valid; allowed: {known.node}, the name that this folder "
                    f"was made for"
                )
            if known.joins and not known.members and not known.since:
                raise ConfigError(
                    f"data_dir: this folder was made for {known.node} to join a cluster, and nobody has answered that: "
                    f"repeat `amqp-broker cluster join`"
                )
            others = [member.name for member in known.members if member.name != known.node]
            if others and not config.cluster_listen:
                raise ConfigError(
                    f"cluster_listen: '' is not valid; allowed: an address, because this folder belongs to a cluster "
                    f"with {', '.join(others)}"
                )
            if known.joins and others:  # and if nobody else is left, there is nobody to wait for
                config = replace(config, cluster=config.cluster or known.members, cluster_join=True)
        self._config = config
        return config

    def prepare(self, acquaintances: Acquaintances) -> None:
        """What the folder knows of itself, for a node that has not been recovered yet."""
        acquaintances.take_folder(self._known, joins=self._config.cluster_join)

    async def start(self, node: Node, driver: Driver, disk: Disk) -> None:
        """Listen to the other members and dial them; `driver` runs the turns from now on."""
        self._node = node
        self._replication = node.replication
        self._acquaintances = node.acquaintances
        self._membership, self._groups = node.membership, node.groups
        self._driver = driver
        self._disk = disk
        if not self._config.cluster_listen:
            return
        if self._known is not None:
            self._membership.remember(self._known.members)
        config = self._config
        if not config.cluster:  # a node alone may go by another name than it is given: that of its folder
            config = replace(config, node_name=self._replication.own_node)
        self._links = self._make_links(config, self._secret, self._credentials)
        driver.link_with(self._links)
        await self._links.start(self._sockets)
        self._links.set_members(self._take_members() | self._membership.worker_addresses())
        driver.end_turns_with(self._follow)

    def _make_links(
        self, config: Config, secret: bytes, credentials: TlsCredentials | None, is_inside: bool = False
    ) -> PeerLinks:
        return PeerLinks(
            config,
            secret,
            self._driver,
            credentials=credentials,
            random_source=random.SystemRandom(),
            entropy=secrets.token_bytes,
            is_inside=is_inside,
        )

    def _take_members(self) -> dict[str, Address]:
        """The members to have links with, and where they are."""
        return self._membership.take_addresses()

    @property
    def is_over(self) -> bool:
        """Whether this node has to end: see `over`."""
        return self.over.is_set()

    @property
    def why_over(self) -> str:
        """Why its folder is not to be used any more."""
        return self._acquaintances.reason

    def _follow(self) -> None:
        """At the end of a turn: members have come, gone or moved."""
        assert self._links is not None
        acquaintances = self._acquaintances
        if acquaintances.is_over and not self.is_over:
            self.is_released = self._membership.is_removed and self._node.is_ready
            if self.is_released:
                log.warning("this node was removed from the cluster, and stops; to come back it needs an empty folder")
            self.over.set()
        for name in self._membership.dismissed_by:
            self._links.cool(name)
        if acquaintances.refusals.has_changed:
            for name, is_refused in acquaintances.refusals.take():
                if is_refused:
                    self._links.leave(name)
                else:
                    self._links.cool(name, is_cold=False)
        membership = self._membership
        seen = (membership.version, acquaintances.joined_at, acquaintances.generation, membership.places)
        if seen == self._seen:
            return
        self._seen = seen
        others = self._take_members()
        wanted = others | membership.worker_addresses()
        gone = [name for name in self._links.members if name not in wanted and self._links.is_connected(name)]
        self._links.set_members(wanted)
        for name in gone:
            self._driver.on_disconnected(name)
        self._remember(others)

    def _remember(self, others: Mapping[str, Address]) -> None:
        """Write the MEMBERS file, for the next start."""
        own, acquaintances = self._replication.own_node, self._acquaintances
        members = [MemberAddress(name, address) for name, address in others.items()]
        if (address := self._membership.own_address) is not None:
            members.append(MemberAddress(own, address))
        known = acquaintances.describe_folder(tuple(sorted(members)), joins=self._config.cluster_join)
        if known == self._known or (self._known is None and not others):
            return
        try:
            write_members(self._disk, known)
        except OSError as error:
            log.critical("the members could not be written down: %s", error)
            self._driver.fail(error)
        self._known = known

    # -- waiting and leaving -------------------------------------------------------------------------------------------

    def describe_wait(self) -> str:
        """What a node that is not ready waits for, for its log."""
        replication = self._replication
        names = sorted({*self._membership.addresses(), replication.own_node})
        linked = [name for name in names if replication.is_connected(name)]
        missing = [name for name in names if name not in linked and name != replication.own_node]
        group = replication.metadata_group
        if not group.members:
            return f"waiting to be added to the cluster: {_links(linked, missing)}"
        leader = f"{group.leader} leads" if group.leader is not None else "nobody leads"
        return f"waiting for a majority of {', '.join(group.members)}: {leader}, {_links(linked, missing)}"

    async def hand_over(self) -> None:
        """Have others lead what this node leads, so that nobody has to wait for an election. A moment at most."""
        self._groups.leave()
        groups = self._replication.groups()
        handed = [group for group in groups if group.is_leader and self._membership.hand_over(group)]
        if handed:
            log.info("%d groups are handed over", len(handed))
            await self._wait_while(lambda: any(group.is_leader for group in handed))

    async def say_the_rest(self) -> None:
        """What this node still has to say to its groups: what its clients held goes back. A moment at most."""
        replication = self._replication
        await self._wait_while(
            lambda: (replication.is_alone or bool(replication.connected()))
            and any(group.backlog_bytes() or group.settling for group in self._groups)
        )

    async def _wait_while(self, condition: Callable[[], bool]) -> None:
        self._driver.wants_turn()
        deadline = time.monotonic() + HAND_OVER_S
        # Nothing goes on but the end: not worth an event of the node's.
        while condition() and time.monotonic() < deadline and not self._driver.has_failed:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Close the links and the sockets."""
        if self._links is not None:
            await self._links.close()
            self._driver.end_turns_with(None)

    def close_sockets(self) -> None:
        """The end of one that was never started. The sockets of others are their links' to close."""
        if self._links is None:
            for each in self._sockets:
                each.close()


def _links(linked: list[str], missing: list[str]) -> str:
    groups = (("linked with", linked), ("no link with", missing))
    parts = [f"{what} {', '.join(names)}" for what, names in groups if names]
    return ", ".join(parts) or "there are no others"
