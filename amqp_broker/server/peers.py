"""PeerLinks: this node's links to the other members of its cluster, at most one to each.

Every member listens, and dials every other to which it has no link. Where two dial each other at the same time the
senior's link stays (the senior is the one whose name comes first), and every link has a number of the senior's, so that
both agree which is the newer. A newer link takes the place of the older: the peer would not have dialled if it had one.
Where the older one is a member's that counts, the newer is a candidate until its first frame has said that it is not of
another cluster with the same names and secret: a copy that was restored must not cut the links of the running one.

It hands over whole frames and knows nothing of what is in them. A frame that is lost with its link is not sent again.

Invariants:
1. For each member `on_connected` and `on_disconnected` come in turn, beginning with the former, and `on_frame` only
   between them, only of the link that stands then.
2. No callback comes from within `send` or `drop`, and none after `close` or, for a member, after it was removed.
3. A member is dialled while it has no link, after 50 ms at first and after 2 s at last, jittered, never more often.
4. What strangers can hold is bounded: `max_pending_peers` links for `peer_handshake_timeout` each.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol

from amqp_broker.links.peer_handshake import LinkIdentity
from amqp_broker.links.peer_protocol import LinkOpened, PeerProved
from amqp_broker.server.descriptors import EXHAUSTED
from amqp_broker.server.peer_link import LinkCallbacks, PeerLink
from amqp_broker.server.peer_socket import LONG_READ_BYTES
from amqp_broker.server.peer_tls import TlsCredentials
from amqp_broker.settings.cluster_config import ClusterConfig
from amqp_broker.settings.config import is_loopback
from amqp_broker.settings.kinds import Address

log = logging.getLogger("amqp_broker.cluster")

FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 2.0
#: So many connections wait to be accepted.
_BACKLOG = 100
#: How long nobody is accepted after the process or the machine has run out of something, seconds.
_REST_S = 1.0


class RandomSource(Protocol):
    """What is used of random.Random."""

    def random(self) -> float: ...


class PeerCallbacks(LinkCallbacks, Protocol):
    """Who hears of the links. What it raises stops the link it is raised on, and is told to the loop."""

    def on_connected(self, node_id: str) -> None: ...

    def on_disconnected(self, node_id: str) -> None: ...

    def farewell(self, node_id: str) -> list[bytes]:
        """What one is told that is no member, and comes all the same; nothing, if that is not certain."""

    def counts(self, node_id: str) -> bool:
        """Whether the link to a member is one whose place nobody takes without being looked at."""

    def refusal(self, node_id: str, payload: bytes) -> list[bytes]:
        """What one is told that begins with this frame, and is not let in; nothing for who may be."""


class Backoff:
    """Delays that double, each between half and all of itself, so that nodes do not dial in step."""

    def __init__(self, random_source: RandomSource) -> None:
        self._random_source = random_source
        self._delay_s = FIRST_DELAY_S

    def next_delay(self) -> float:
        """The delay before the next attempt, in seconds."""
        delay_s = self._delay_s * (0.5 + self._random_source.random() / 2.0)
        self._delay_s = min(2 * self._delay_s, LONGEST_DELAY_S)
        return delay_s

    def reset(self) -> None:
        """An attempt has succeeded."""
        self._delay_s = FIRST_DELAY_S


class Member:
    """Another member of the cluster, and the link to it."""

    def __init__(self, name: str, address: Address, random_source: RandomSource) -> None:
        self.name = name
        self.address = address
        self.link: PeerLink | None = None
        #: The attempt to dial that is under way.
        self.attempt: PeerLink | None = None
        self.candidate: PeerLink | None = None
        self.task: asyncio.Task[None] | None = None
        self.lacks_link = asyncio.Event()
        self.lacks_link.set()
        self.backoff = Backoff(random_source)
        self.last_epoch = 0
        self.last_failure = ""
        #: It takes links for no more than to say that this node is no member: it is not called too often.
        self.is_cold = False


class Expected:
    """Whoever is listened to: members, and who is to be told that it is none."""

    def __init__(self, members: Container[str], farewell: Callable[[str], list[bytes]]) -> None:
        self._members = members
        self._farewell = farewell

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._members or bool(self._farewell(name)))


class PeerLinks:
    """See the module's docstring. `secret` is read_secret's, `entropy` gives unguessable octets, `chance` jitters.
    is_inside: see LinkIdentity. beside: links to others under another secret, which take what is for those."""

    def __init__(
        self,
        config: ClusterConfig,
        secret: bytes,
        callbacks: PeerCallbacks,
        *,
        credentials: TlsCredentials | None,
        random_source: RandomSource,
        entropy: Callable[[int], bytes],
        is_inside: bool = False,
    ) -> None:
        self.config = config
        frame_max = config.cluster_frame_max_bytes
        self.identity = LinkIdentity(config.node_name, config.cluster_name, secret, frame_max, is_inside)
        self.credentials = credentials
        self.entropy = entropy
        self.members: dict[str, Member] = {}
        self.beside: PeerLinks | None = None
        self.expected = Expected(self.members, callbacks.farewell)
        self.callbacks = callbacks
        self.room = bytearray(LONG_READ_BYTES)
        self._parted: dict[str, None] = {}  # whom it was said to
        self._random_source = random_source
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._pending: dict[PeerLink, None] = {}
        #: Nobody is dialled any more, and a link that does not come to stand is no news.
        self.calls_nobody = False
        self._timer: asyncio.TimerHandle | None = None

    # -- for the driver ----------------------------------------------------------------------------------------------

    async def start(self, listeners: Sequence[socket.socket]) -> None:
        """Listen on these sockets, and dial the members of the configuration."""
        if self.credentials is None and not all(is_loopback(each.host) for each in self.config.cluster_listen):
            log.warning(
                "links between nodes are authenticated, but everybody on the way can read them: "
                "set cluster_cert, cluster_key and cluster_ca, or see to a private network"
            )
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._listeners.append(listener)
            task = self._loop.create_task(self._accept(listener))
            task.add_done_callback(self._accepting_ended)
            self._accepting.append(task)
        self.set_members(self.config.others)
        self._timer = self._loop.call_later(self.config.peer_ping_ms / 1000.0, self._tick)

    def stand_beside(self, others: PeerLinks) -> None:
        """These are links to others under another secret, and take what is for those."""
        self.beside = others

    def set_members(self, others: Mapping[str, Address]) -> None:
        """The other members from now on. Links to those who are left out are closed, without a callback; a new address
        counts from the next time that the member is dialled."""
        for name in [name for name in self.members if name not in others]:
            self._remove(self.members.pop(name))
        for name, address in others.items():
            if name in self.members:
                self.members[name].address = address
            elif name != self.identity.node_name:
                member = Member(name, address, self._random_source)
                self.members[name] = member
                member.task = self._loop.create_task(self._keep_linked(member))
                member.task.add_done_callback(self._dialling_ended)

    def send(self, node_id: str, payloads: list[bytes]) -> bool:
        """Send frames, in order. Returns False if there is no link, and they are gone. Raises ValueError for a payload
        above cluster_frame_max."""
        member = self.members.get(node_id)
        if member is None and self.beside is not None:
            return self.beside.send(node_id, payloads)
        if member is None or member.link is None or not member.link.is_open:
            return False
        member.link.send(payloads)
        return True

    def drop(self, node_id: str, reason: str) -> None:
        """Close the link to a member that has sent what it must not. It is dialled again."""
        member = self.members.get(node_id)
        if member is None and self.beside is not None:
            self.beside.drop(node_id, reason)
        elif member is not None and member.link is not None:
            member.link.drop(reason)

    def cool(self, node_id: str, is_cold: bool = True) -> None:
        """A member wants no link with this node; or it does again."""
        member = self.members.get(node_id)
        if member is not None:
            member.is_cold = is_cold

    def leave(self, node_id: str) -> None:
        """Close the link to a member with which there is nothing to be said, when what was said is written. It is
        dialled again now and then."""
        self.cool(node_id)
        member = self.members.get(node_id)
        if member is not None and member.link is not None:
            member.link.part([])

    def call_nobody(self) -> None:
        """Dial no more: a link that is lost from now on stays so, unless the other side makes a new one. The others
        stop as well, so one that does not open is no news."""
        self.calls_nobody = True

    def is_connected(self, node_id: str) -> bool:
        """Whether there is a link to this member."""
        member = self.members.get(node_id)
        return member is not None and member.link is not None and member.link.is_open

    async def close(self) -> None:
        """Close everything. No callback comes any more."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = self._accepting + [member.task for member in self.members.values() if member.task is not None]
        for task in self._accepting:
            task.cancel()
        for member in self.members.values():
            self._remove(member)
        self.members.clear()
        for link in list(self._pending):
            link.drop("this node stops", logging.DEBUG)
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    def _remove(self, member: Member) -> None:
        if member.task is not None:
            member.task.cancel()
        for link in (member.link, member.attempt, member.candidate):
            if link is not None:
                link.drop("it is no member any more, or this node stops", logging.INFO)
        member.link = None
        member.candidate = None

    # -- dialling ----------------------------------------------------------------------------------------------------

    async def _keep_linked(self, member: Member) -> None:
        while True:
            await member.lacks_link.wait()
            await asyncio.sleep(member.backoff.next_delay())
            if member.link is None and not self.calls_nobody:
                await self._dial(member)
            if member.link is not None and not member.is_cold:
                member.backoff.reset()

    async def _dial(self, member: Member) -> None:
        link = PeerLink(self, self._loop, member.name)
        member.attempt = link
        try:
            async with asyncio.timeout(self.config.peer_handshake_timeout_ms / 1000.0):
                link.connected(await self._connected(member.address))
        except (OSError, TimeoutError, UnicodeError, RuntimeError) as error:  # the last: no thread for a look-up
            self._log_failure(member, str(error) or "no answer")
        else:
            member.last_failure = ""
            await link.settled
        finally:
            member.attempt = None

    async def _connected(self, address: Address) -> socket.socket:
        """A connection to the first that answers of whatever the name stands for. Raises OSError, UnicodeError,
        RuntimeError."""
        failure = OSError(f"{address.host!r} stands for no address")
        for family, kind, number, _, place in await self._loop.getaddrinfo(*address, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, number)
            connection.setblocking(False)
            try:
                await self._loop.sock_connect(connection, place)
            except OSError as error:
                connection.close()
                failure = error
            except BaseException:  # its time is up, or the member is none any more
                connection.close()
                raise
            else:
                return connection
        raise failure

    def _dialling_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("defect in dialling: a member is not dialled any more", exc_info=error)

    def _log_failure(self, member: Member, failure: str) -> None:
        """A member that is down is worth a line, not one for each attempt."""
        level = logging.DEBUG if self.calls_nobody or failure == member.last_failure else logging.WARNING
        member.last_failure = failure
        log.log(level, "cannot reach %s at %s: %s; trying again", member.name, member.address, failure)

    # -- accepting ---------------------------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        """Accept until it is cancelled, whatever the system says."""
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                hint = ": raise `ulimit -n`" if error.errno in EXHAUSTED else ""
                log.error("cannot accept a link: %s; trying again in %g s%s", error, _REST_S, hint)
                await asyncio.sleep(_REST_S)
                continue
            self._accepted(connection)

    def _accepting_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("defect in accepting: no member is accepted any more", exc_info=error)

    def take(self, connection: socket.socket, octets: bytes) -> None:
        """Somebody else has accepted it, and has read these octets."""
        self._accepted(connection, octets)

    def _accepted(self, connection: socket.socket, octets: bytes = b"") -> None:
        link = PeerLink(self, self._loop, None)
        self._pending[link] = None
        if len(self._pending) > self.config.max_pending_peers:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.drop("too many links at once have not proved who they are")
        try:
            link.connected(connection, octets)
        except OSError:  # it is gone already
            self._pending.pop(link, None)

    # -- from the links ----------------------------------------------------------------------------------------------

    def link_proved(self, link: PeerLink, proved: PeerProved) -> None:
        """Whether a link is wanted: see the module's docstring."""
        member = self.members.get(proved.name)
        if member is None:
            if link.dialled is None and self.callbacks.farewell(proved.name):
                link.admit(int(time.time() * 1000) if self.identity.node_name < proved.name else 0)
            else:
                link.drop(f"{proved.name!r} is no member any more")
            return
        is_senior = self.identity.node_name < proved.name
        attempt = member.attempt
        if link.dialled is not None:
            if member.link is not None:
                link.drop("the peer's own is there already", logging.DEBUG)
                return
        elif is_senior and attempt is not None and attempt.is_admitted and not attempt.is_open and not attempt.is_lost:
            link.drop("this node's own is about to open", logging.DEBUG)
            return
        elif not is_senior and self._is_old(member, link, proved.epoch):
            return
        if is_senior:
            member.last_epoch = max(member.last_epoch + 1, int(time.time() * 1000))
        link.admit(member.last_epoch if is_senior else 0)

    def link_opened(self, link: PeerLink, opened: LinkOpened) -> None:
        """The link takes the place of an older one, or is to say first who it is."""
        self._pending.pop(link, None)
        member = self.members.get(opened.name)
        if member is None:
            level = logging.DEBUG if opened.name in self._parted else logging.INFO
            self._parted[opened.name] = None
            log.log(level, "%s is told that it is no member of this cluster", opened.name)
            link.part(self.callbacks.farewell(opened.name))
            return
        if self._is_old(member, link, opened.epoch):
            return
        if member.link is None or not member.link.is_open or not self.callbacks.counts(opened.name):
            self._let_stand(member, link)
            return
        if member.candidate is not None:
            member.candidate.drop("a newer one has come", logging.DEBUG)
        member.candidate = link
        link.stand_as_candidate()
        self._loop.call_later(self.config.peer_handshake_timeout_ms / 1000.0, self._let_silent_stand, member, link)

    def heard_first(self, link: PeerLink, payload: bytes) -> None:
        """A candidate says who it is."""
        member = self.members.get(link.name or "")
        if member is None or member.candidate is not link:
            link.drop("nobody waits for it any more", logging.DEBUG)
            return
        words = self.callbacks.refusal(member.name, payload)
        if words:
            member.candidate = None
            link.part(words)
            return
        self._let_stand(member, link)
        self.callbacks.on_frame(member.name, payload)

    def _let_silent_stand(self, member: Member, link: PeerLink) -> None:
        if member.candidate is link and not link.is_lost and self.members.get(member.name) is member:
            self._let_stand(member, link)

    def _let_stand(self, member: Member, link: PeerLink) -> None:
        link.take_place()
        member.candidate = None
        if member.link is not None:
            member.link.drop("a newer one takes its place", logging.INFO)
            self._disconnect(member)
        member.link = link
        member.lacks_link.clear()
        level = logging.DEBUG if member.is_cold else logging.INFO
        log.log(level, "linked with %s (number %d)", member.name, link.epoch)
        self.callbacks.on_connected(member.name)

    def _is_old(self, member: Member, link: PeerLink, epoch: int) -> bool:
        """Drops a link that is older than the one that stands, and says so."""
        standing = member.link
        if standing is None or not standing.is_open or standing.epoch < epoch:
            return False
        link.drop(f"it is older (number {epoch}) than the one that stands ({standing.epoch})", logging.INFO)
        return True

    def link_lost(self, link: PeerLink) -> None:
        """The link is gone; if it stood, the member is dialled again."""
        self._pending.pop(link, None)
        member = self.members.get(link.name) if link.name is not None else None
        if member is not None and member.candidate is link:
            member.candidate = None
        if member is not None and member.link is link:
            self._disconnect(member)
            if member.candidate is not None and member.candidate.is_open:
                self._let_stand(member, member.candidate)

    def _disconnect(self, member: Member) -> None:
        member.link = None
        member.lacks_link.set()
        self.callbacks.on_disconnected(member.name)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self.config.peer_ping_ms / 1000.0, self._tick)
        for member in self.members.values():
            if member.link is not None:
                member.link.tick()
