"""ClusterNode: one node of a simulated cluster: one life after another on one disk, each a whole Node.

It does what the server's driver does, without sockets and threads: it turns inputs into turns, takes the output, and
runs syncs. When things happen is the world's business.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from amqp_broker.flow.peer import Peer
from amqp_broker.links.members_file import KnownMembers, read_members, write_members
from amqp_broker.metadata import commands
from amqp_broker.node import Node, Turn
from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import Address, MemberAddress
from amqp_broker.turn.sync_job import SyncJob
from raft.errors import FolderGivenUp
from raft.memory import Point
from storage.errors import SyncFailed
from tests.simulation.pace import RandomPace
from tests.simulation.settings import PASSWORD_HASH, USER
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.application import Application

EPOCH_MS = 1_700_000_000_000
MS = 1000
#: How far off clocks are at first, milliseconds.
MAX_OFFSET = 500


class Copy(NamedTuple):
    """Of a disk, at some time: what the others had to know of the node then."""

    disk: SimulatedDisk
    incarnation: int
    point: Point


class Crashed(Exception):
    """The machine has gone down in the midst of an input."""


def run_sync(job: SyncJob) -> None:
    """By itself, so that a broken rule may take its place."""
    job.run()


class ClusterNode:
    """offset: how far its clock is off, ms. clock_set_at, frozen_until, stalls_until: microseconds of the world.
    incarnation: rises when it begins anew with an empty disk. has_forgotten: its disk was set back, or emptied."""

    node_type: type[Node] = Node
    disk_type: type[SimulatedDisk] = SimulatedDisk

    def __init__(self, name: str, configs: tuple[Config, Config], raft_settings: dict[str, int], seed: int) -> None:
        self.name = name
        self.raft_settings = raft_settings
        self.incarnation = 1
        self.has_forgotten = False
        self.config, self._config_to_join = configs
        self.chance = random.Random(seed)
        self._pace = RandomPace(seed)
        self.disk = self.disk_type(random.Random(seed + 1))
        self.is_removed = False
        #: Of the folder with which it will be added next.
        self.next_identity = self.chance.randbytes(16).hex()
        self.offset = self.chance.randint(-MAX_OFFSET, MAX_OFFSET)
        self.clock_set_at = -1
        self.is_up = False
        self.lives = 0
        self.frozen_until = 0
        self.deferred: list[Callable[[], None]] = []
        self.stalls_until = 0
        self.tick_at: int | None = None
        self.turn_is_due = False
        self.turns = 0
        self.inputs = 0  # and ends of turns
        self.job: SyncJob | None = None
        self.job_has_run = False
        self.clients: dict[Any, Application] = {}  # by connection
        self.node: Node
        self._last_now = 0
        self._members_version = (-1, 0)
        self._others: dict[str, Address] = {}

    # -- time ----------------------------------------------------------------------------------------------------------

    def now(self, time: int) -> int:
        """This node's clock, ms; within a life it never goes back, as the driver's does not."""
        self._last_now = max(self._last_now, EPOCH_MS + time // MS + self.offset)
        return self._last_now

    def set_clock(self, by: int, time: int) -> None:
        """Turn it ahead, or back: by so many ms, at a time of the world."""
        self.offset += by
        self.clock_set_at = time

    # -- lives ---------------------------------------------------------------------------------------------------------

    def start(self, time: int, watch: Callable[[ClusterNode], None]) -> None:
        """A new life on the disk. `watch` sees the node before it reads the disk. Raises Crashed, Violation."""
        self.lives += 1
        self.is_up = True
        self.turn_is_due = False
        self.tick_at = None
        self.job = None
        self.job_has_run = False
        self.clients = {}
        self._last_now = 0
        now = self.now(time)
        try:
            known = read_members(self.disk)
            self.node = self.node_type(self.config, self.disk, now, self.chance.randbytes)
            self.node.store.leave_slice, self.node.store.leave_bytes = 1, 200
            self._pace.set(self.node.background)
            self.node.replication.acquaintances.take_folder(known, joins=self.config.cluster_join)
            host = self.node.replication.host
            host.settings = replace(host.settings, **self.raft_settings)
            watch(self)
            self.node.recover(now)
            for check in self.node.take_page_checks():
                check.run()
        except FolderGivenUp as error:
            if not self.has_forgotten:
                raise Violation(f"{self.name} gives its folder up: {error}") from error
            self.is_up, self.is_removed = False, True
            return
        except Exception as error:
            if self.disk.is_down:
                raise Crashed from None
            raise Violation(f"{self.name} does not start: {error}") from error
        if known is not None:
            self.node.membership.known = dict(known.members)
        self._others = self.node.membership.addresses()
        self._members_version = (-1, 0)

    @property
    def address(self) -> Address:
        """Where the others reach it."""
        return self.config.cluster_listen[0]

    def empty(self, members: tuple[MemberAddress, ...], since: int) -> None:
        """Throw the disk away: the node is to join these as a new one, added at this index of the metadata."""
        self.disk = self.disk_type(random.Random(self.chance.getrandbits(32)))
        self.config = self._config_to_join
        self.incarnation += 1
        object.__setattr__(self.config, "cluster", members)
        self.is_removed = self.has_forgotten = False
        write_members(self.disk, KnownMembers(self.name, members, True, since, self.next_identity))
        self.next_identity = self.chance.randbytes(16).hex()

    def copy_disk(self) -> Copy:
        """What a snapshot of the disk holds, with the node running."""
        disk = copy.deepcopy(self.disk)
        disk.crash_at = disk.fail_sync_at = None
        disk.crash()
        host = self.node.replication.host
        return Copy(disk, self.incarnation, host.memory.point(host.promised_position))

    def set_back(self, disk: SimulatedDisk | None) -> None:
        """Have an earlier copy of the disk, or an emptied one but for the file of the members."""
        self.has_forgotten = True
        known = read_members(self.disk)
        self.disk = disk if disk is not None else self.disk_type(random.Random(self.chance.getrandbits(32)))
        if disk is None and known is not None:
            write_members(self.disk, known)

    def has_seen(self, peer: str, point: Point) -> bool:
        """Whether this node knows, on its disk, that a peer was further than that, or another one."""
        replication = self.node.replication
        memory = replication.host.memory
        witness = memory.witnesses.get(peer)
        if witness is None or memory.written(peer) > replication.synced_position:
            return False
        found = witness.point
        return found.identity == point.identity and (found.number, found.position) > (point.number, point.position)

    def knows(self, peer: str) -> bool:
        """Whether it wants a link to this one."""
        return peer in self._others

    def follow_members(self) -> list[str] | None:
        """At the end of a turn, as ClusterSide does: write down who belongs to the cluster. Returns whom it wants links
        with, if that has changed. Raises Crashed."""
        membership, acquaintances = self.node.membership, self.node.replication.acquaintances
        if (membership.version, acquaintances.joined_at) == self._members_version:
            return None
        self._members_version = (membership.version, acquaintances.joined_at)
        self._others = membership.take_addresses()
        members = [MemberAddress(name, address) for name, address in self._others.items()]
        if membership.own_address is not None:
            members.append(MemberAddress(self.name, membership.own_address))
        known = acquaintances.describe_folder(tuple(sorted(members)), joins=self.config.cluster_join)
        self.guard(lambda: write_members(self.disk, known))
        return list(self._others)

    def crash(self, *, is_power: bool) -> None:
        """The life ends. A sync on its way may have reached the disk, in part, or not."""
        self.is_up = False
        self.clients = {}
        job, self.job = self.job, None
        if job is not None and not self.job_has_run and not self.disk.is_down and self.chance.random() < 0.7:
            self.disk.crash_at = self.chance.randint(1, 4)
            try:
                run_sync(job)
            except (SimulatedCrash, OSError):
                self.disk.crash_at = None
        if is_power or self.disk.is_down or self.disk.has_failed:
            self.disk.crash()
        else:
            self.disk.come_back()

    # -- inputs --------------------------------------------------------------------------------------------------------

    def guard(self, action: Callable[[], object]) -> None:
        """Have something done to the node. Raises Crashed, if the disk goes down in it, or Violation."""
        self.inputs += 1
        try:
            action()
        except SimulatedCrash:
            raise Crashed from None
        except SyncFailed:
            raise Crashed from None
        except Violation:
            raise
        except Exception as error:
            if self.disk.is_down:
                raise Crashed from None
            raise Violation(f"{self.name} fails: {type(error).__name__}: {error}") from error
        if self.disk.is_down:
            raise Crashed

    def connect(self, application: Application, time: int) -> Any:
        """A client connects. Returns the connection."""
        peer = Peer("127.0.0.1", 10_000 + len(self.clients), "127.0.0.1", 5672, is_loopback=True)
        connection = self.node.open_connection(peer, self.now(time))
        connection.transport = application
        self.clients[connection] = application
        return connection

    def take_over(self, connection: Any, application: Application) -> None:
        """A connection that another worker had is this one's."""
        connection.set_transport(application)
        self.clients[connection] = application

    def end_turn(self, time: int) -> Turn:
        """The end of a turn, with all of its output."""
        self.turns += 1
        return self.node.end_turn(self.now(time))

    def put_user(self) -> None:
        """Whoever finds no user proposes one, as a first start does."""
        if self.node.broker.metadata.user(USER) is None:
            self.node.broker.propose(commands.put_user(USER, PASSWORD_HASH, ["administrator"]))
            self.node.broker.propose(commands.set_permission(USER, "/", ".*", ".*", ".*"))

    # -- the disk ------------------------------------------------------------------------------------------------------

    def run_job(self) -> None:
        """The sync that was taken. Raises Crashed."""
        assert self.job is not None
        try:
            run_sync(self.job)
        except (SimulatedCrash, SyncFailed):
            raise Crashed from None
        self.job_has_run = True
