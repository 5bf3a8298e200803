"""Home: serves the classic queues of this node to the other nodes of the cluster.

    receive_commands -> HomeSession.run -> ClassicQueue -> effects
    synced -> confirms;  end_turn -> frames of effects

A node's session begins with its first frame and ends with the link, or with the first frame of a newer session. What a
session is confirmed, fetches, counts and is delivered goes to it in order, in frames of effects_codec.py.

Invariants:
1. A persistent publish is confirmed after the journal is synced past it, and everything behind it after that.
2. A frame of an older session, or of one that did not begin on this link, changes nothing.
3. What comes before this node knows its queues, or before a node's last session has left them, waits for that; it is at
   most what a node may have in flight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from amqp_broker.queue_types.remote.consumer_round import ConsumerRound
from amqp_broker.queue_types.remote.effects_codec import Blocked, Count, Taken, decode_to_home, is_batch
from amqp_broker.queue_types.remote.home_session import HomeSession, RemoteConsumer
from amqp_broker.turn.task import Task
from queues.classic import ClassicQueue
from queues.effects import Refusal
from queues.page import AddressBook
from queues.quorum.batch_reader import BatchReader
from queues.wire.reader import Malformed
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_broker.links.tenants import Send
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Jobs
    from queues.message import Message
    from queues.pager import Pager
    from queues.queue import Queue
    from queues.timers import Timers

log = logging.getLogger("amqp_broker.cluster")

#: Consumers that had to wait for memory try again after this time, milliseconds.
_MEMORY_RETRY_MS = 200
#: So often those are looked at that hold something and stand in no dispatcher, for whether their queue is gone.
_LOOK_MS = 5000


class HomeVHost(Protocol):
    """What is used of VHost: how it publishes into its queues."""

    def publish(self, message: Message, queues: Sequence[Queue], now: int) -> int: ...


class Home:
    """vhosts: those of the node, by name. find_queue(id): one of its queues, as far as other nodes know them too.
    remove_queue deletes one of this node's queues, for good. send: its effects to another node. sessions: of the nodes
    that use queues here. touched: those with something to send. withheld: ids of queues that have left, or are about
    to."""

    def __init__(
        self,
        vhosts: Mapping[str, HomeVHost],
        find_queue: Callable[[int], Queue | None],
        remove_queue: Callable[[ClassicQueue], object],
        pager: Pager,
        timers: Timers,
        background: Jobs,
        clock: TurnClock,
        send: Send,
    ) -> None:
        self._vhosts = vhosts
        self._find_queue = find_queue
        self._remove_queue = remove_queue
        self._pager = pager
        self._background = background
        self._clock = clock
        self._send_frame = send
        self.sessions: dict[str, HomeSession] = {}
        self._executed_before = 0
        self._awaiting: dict[HomeSession, None] = {}
        self._leaving: dict[str, HomeSession] = {}
        self._starved = ConsumerRound(timers, clock, background, _MEMORY_RETRY_MS, self._feed)
        self._watched = ConsumerRound(timers, clock, background, _LOOK_MS, self._look_at)
        self._addresses = AddressBook()
        self._held: dict[int, ClassicQueue] = {}
        self.withheld: dict[int, None] = {}
        self._is_blocked = False
        self._is_started = False
        self._early: list[tuple[str, bytes]] = []
        self.touched: dict[HomeSession, None] = {}

    @property
    def wants_sync(self) -> bool:
        """Whether confirms wait for the disk."""
        return bool(self._awaiting)

    # -- inputs ------------------------------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """The queues of this node are there."""
        self._is_started = True
        self._receive_early(now)

    def _receive_early(self, now: int) -> None:
        """What came before it could be executed, as far as it can be now."""
        early, self._early = self._early, []
        for node, payload in early:
            try:
                self.receive_commands(node, payload, now)
            except PeerProtocolError as error:
                log.error("%s; nothing more of its session is executed", error)
                self._close(node)

    def receive_commands(self, node: str, payload: bytes, now: int) -> None:
        """A frame from another node. Raises PeerProtocolError."""
        if not self._is_started or node in self._leaving:
            self._early.append((node, payload))
            return
        try:
            if is_batch(payload):
                self._run(node, payload, now)
                return
            frame = decode_to_home(payload)
        except Malformed as error:
            raise PeerProtocolError(f"{node}: {error}") from error
        session = self.sessions.get(node)
        if session is None or session.session != frame.session:
            log.debug("a frame of session %d of %s comes too late", frame.session, node)
        elif isinstance(frame, Count):
            session.count(frame, now)
        elif isinstance(frame, Taken):
            session.take(frame, now)

    def _run(self, node: str, payload: bytes, now: int) -> None:
        batch = BatchReader(payload, self._addresses)
        if batch.origin != node:
            raise PeerProtocolError(f"{node} sends commands of '{batch.origin}'")
        session = self.sessions.get(node)
        if session is None or batch.session > session.session:
            if batch.first != 1:
                log.debug("a frame of session %d of %s was sent on a link that is gone", batch.session, node)
                return
            self._close(node)
            if node in self._leaving:
                self._early.append((node, payload))
                return
            session = self._open(node, batch.session)
        if session.session == batch.session:
            session.run(batch, now)

    def _open(self, node: str, number: int) -> HomeSession:
        """A new session begins."""
        session = HomeSession(self, node, number, self._pager, self._background, self._clock)
        self.sessions[node] = session
        if self._is_blocked:
            session.writer.put(Blocked(True))
        return session

    def peer_disconnected(self, node: str, now: int) -> None:
        """The link to a node is lost: everything that its consumers held returns."""
        self._early = [each for each in self._early if each[0] != node]
        self._close(node)

    def _close(self, node: str) -> None:
        session = self.sessions.pop(node, None)
        if session is None:
            return
        self._executed_before += session.executed
        self.touched.pop(session, None)
        self._awaiting.pop(session, None)
        steps = session.leave()
        if not session.is_large():
            for _ in steps:
                pass
            return
        self._leaving[node] = session
        Task(self._background, steps).when_done(partial(self._left, node))

    def _left(self, node: str, _: object) -> None:
        """Nothing of a node's session is in any queue any more: its next one begins, if that was waiting."""
        del self._leaving[node]
        self._receive_early(self._clock.now)

    # -- statistics ----------------------------------------------------------------------------------------------------

    def executed(self) -> int:
        """Commands of other nodes, since the start."""
        return self._executed_before + sum([session.executed for session in self.sessions.values()])

    # -- output ------------------------------------------------------------------------------------------------------

    def end_turn(self, position: int, is_blocked: bool, now: int) -> None:
        """Everything of this turn is in the journal, which ends at `position`. is_blocked: whether publishers have to
        wait for memory or disk (Alarms)."""
        if is_blocked != self._is_blocked:
            self._is_blocked = is_blocked
            for session in self.sessions.values():
                session.writer.put(Blocked(is_blocked))
                session.touch()
        touched, self.touched = self.touched, {}
        for session in touched:
            if session.end_turn(position):
                self._awaiting[session] = None
            for frame in session.writer.take():
                self._send_frame(session.peer, frame)

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there: what waited for that is confirmed at the end of the turn."""
        if self._awaiting:
            self._awaiting = {session: None for session in self._awaiting if session.synced(position)}

    # -- for the sessions --------------------------------------------------------------------------------------------

    def find(self, queue_id: int) -> ClassicQueue | None:
        """The classic queue of this node that has this id."""
        if self._held:
            held = self._held.get(queue_id)
            if held is not None:
                return held
        queue = self._find_queue(queue_id)
        return queue if isinstance(queue, ClassicQueue) else None

    def hold(self, queue: ClassicQueue) -> None:
        """It is about to leave, and another stands for it in its virtual host: what comes for it is for it still."""
        self._held[queue.queue_id] = queue

    def withhold(self, queue: ClassicQueue) -> None:
        """Its messages are being brought elsewhere: nothing comes to it any more."""
        self._held.pop(queue.queue_id, None)
        self.withheld[queue.queue_id] = None

    def give_back(self, queue: ClassicQueue) -> None:
        """It stays."""
        self._held.pop(queue.queue_id, None)
        self.withheld.pop(queue.queue_id, None)

    def why_missing(self, queue_id: int) -> Refusal:
        """Why there is no such queue here: who publishes to one that has left is to try again."""
        return Refusal.UNKNOWN if queue_id in self.withheld else Refusal.NO_QUEUE

    def vhost_of(self, queue: ClassicQueue) -> HomeVHost:
        """The virtual host of a queue."""
        return self._vhosts[queue.declaration.vhost]

    def remove_if_abandoned(self, queue: ClassicQueue) -> None:
        """An auto-delete queue goes with its last consumer."""
        if queue.declaration.is_auto_delete and not queue.is_deleted and not queue.dispatcher.consumers:
            self._remove_queue(queue)

    def watch(self, consumer: RemoteConsumer) -> None:
        """It holds something and stands in no dispatcher: it does not hear of it when its queue goes."""
        self._watched.add(consumer)

    def _look_at(self, consumer: RemoteConsumer, now: int) -> None:
        if consumer.queue.is_deleted:
            consumer.let_go()
        elif consumer.held:
            self.watch(consumer)

    def is_short_of_memory(self, consumer: RemoteConsumer) -> bool:
        """What is unacknowledged cannot be paged: when memory is short, who holds much gets nothing for a while."""
        pager = self._pager
        if pager.used + pager.others_bytes <= pager.budget_bytes or len(consumer.held) < pager.unacked_allowed():
            return False
        self._starved.add(consumer)
        return True

    def _feed(self, consumer: RemoteConsumer, now: int) -> None:
        if consumer.is_attached:
            consumer.session.retry(consumer, now)
