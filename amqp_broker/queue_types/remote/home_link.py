"""HomeLink: this node's stream of commands to the classic queues of one other node, their home.

    submit -> unsent -> end_turn: frames to the home -> unconfirmed -> Confirmed -> the receipt is complete
    frames from the home -> receive_effects -> consumers, answers, receipts

A session lasts as long as the link. When that is lost nobody knows what became of the commands on their way, so nothing
is sent again: their receipts are completed with Refusal.UNKNOWN, consumers are cancelled, who waits is told. Without a
link every command has that fate at the end of the turn.

Invariants:
1. Commands have consecutive numbers from 1 within a session, in the order of `submit`; each is sent once.
2. At most `IN_FLIGHT_BYTES` of commands (or one larger one) are sent and not confirmed.
3. The home learns what was taken off the link, and what clients have taken, before its windows keep it waiting for
   something that has happened.
4. A consumer number is given once, over all sessions.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import cython

from amqp_broker.octets.buffer import Buffer
from amqp_broker.queue_types.proxy.command_sink import CommandSink
from amqp_broker.queue_types.remote.effects_codec import (
    Blocked,
    Count,
    EffectsReader,
    HomeEffect,
    QueueCounted,
    Taken,
    encode_count,
    encode_taken,
)
from amqp_broker.queue_types.remote.home_session import CONSUMER_WINDOW_BYTES, LINK_WINDOW_BYTES
from queues.effects import Confirmed, GetAnswered, Refusal
from queues.message import Message
from queues.outcomes import PublishOutcome
from queues.page import AddressBook
from queues.quorum.commands import Command, Detach, Enqueue, Settle
from queues.wire.reader import Malformed
from raft.errors import PeerProtocolError

if not cython.compiled:
    from queues.quorum.batch_writer import put_publish_to_one
    from queues.quorum.commands import put_batch_head, put_command, put_publish

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
    from amqp_broker.queue_types.proxy.queue import QueueProxy
    from queues.receipts import Receipt

log = logging.getLogger("amqp_broker.proxies")

#: What a frame of commands holds at most, octets (one larger command goes alone).
FRAME_BYTES = 256 * 1024
#: Commands that were sent and are not confirmed, octets.
IN_FLIGHT_BYTES = 8 * 1024 * 1024
#: What a Count is taken for, octets.
_COUNT_BYTES = 27
_FRAME_BYTES = FRAME_BYTES
_IN_FLIGHT_BYTES = IN_FLIGHT_BYTES
#: The home hears of what was taken when it is so much of its windows.
_CONSUMER_SHARE_BYTES = CONSUMER_WINDOW_BYTES // 4
_LINK_SHARE_BYTES = LINK_WINDOW_BYTES // 4
#: Consumer numbers begin at session << this: in a new process they are above all earlier ones, as sessions are times.
_NUMBER_BITS = 20
_TAKEN: int = PublishOutcome.TAKEN

#: Called with why there is no answer, or with a queue's messages, unacknowledged and leased messages, and consumers.
Counted = Callable[[Refusal | None, int, int, int, int], None]


class Run:
    """Commands of consecutive numbers that leave in one frame: those of a batch, or one Count. count, size: of the
    commands, and their octets; done: how many are confirmed. octets: of a batch, once it is whole. receipts: those of
    the commands, in order, None for none; the list itself is None where nobody has any."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.done = 0
        self.octets: bytes | None = None
        self.counts: tuple[int, bool] | None = None  # what a Count says
        self.receipts: list[Receipt | None] | None = None

    def expect(self, receipt: Receipt) -> None:
        """It is that of the command that comes next."""
        if self.receipts is None:
            self.receipts = [None] * self.count
        self.receipts.append(receipt)
        receipt.expect()


class HomeLink(CommandSink):
    """home: the node whose queues it is about. send: commands to another node.

    backlog_bytes: commands that were submitted and are not confirmed, octets. is_blocked: the home wants publishers to
    wait. session: the number of the present one, or of the last; the next one is above it.
    """

    paces = True
    is_serial = True

    def __init__(self, own_node: str, home: str, send: Send, now: int) -> None:
        super().__init__()
        self.own_node = own_node
        self.home = home
        self.is_connected = False
        self.is_blocked = False
        self.backlog_bytes = 0
        self.session = 0
        self.applied = 0
        self.commands_sent = 0
        self._send_frame = send
        self._addresses = AddressBook()
        self._buffer = Buffer(1024)
        self._head = Buffer(128)
        self._next_consumer = now << _NUMBER_BITS
        self._unconfirmed: deque[Run] = deque()  # as they were sent
        self._unsent: deque[Run] = deque()
        self._run: Run | None = None  # that has its octets in the buffer: it may become longer
        self._submitted = 0  # commands that were sent or are to be, and are not confirmed
        self._sent = 0  # of these
        self._in_flight = 0
        self._counting: deque[Counted] = deque()
        self._untaken: dict[int, ProxyConsumer] = {}  # those for whom something came, or waits, as of the last look
        self._received = 0
        self._told = 0

    # -- commands ------------------------------------------------------------------------------------------------------

    def written_at(self) -> str:
        """See WriteGroup."""
        return self.home

    def publish(
        self, message: Message, proxies: Sequence[QueueProxy], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """See WriteGroup. There are no marks by which a message is recognised: a home looks at none."""
        start = self._buffer.length
        put_publish(self._buffer, proxies, message)
        self._was_put(start, receipt)
        return _TAKEN

    def publish_to_one(self, message: Message, queue_id: int, receipt: Receipt | None) -> int:
        """The same, for one queue."""
        start = self._buffer.length
        put_publish_to_one(self._buffer, queue_id, message)
        self._was_put(start, receipt)
        return _TAKEN

    def submit(self, command: Command, receipt: Receipt | None = None) -> int:
        """See CommandSink."""
        if self.settling and not isinstance(command, Enqueue | Settle):
            self.flush()  # what a client has settled comes before what it fetches or counts then
        start = self._buffer.length
        put_command(self._buffer, command)
        self._was_put(start, receipt)
        return self.applied + self._submitted

    def _was_put(self, start: int, receipt: Receipt | None) -> None:
        """A command is in the buffer, from there on."""
        buffer = self._buffer
        size = buffer.length - start
        run = self._run
        if run is not None and buffer.length > _FRAME_BYTES:
            # It is one too much. What came before leaves in a frame of its own.
            run.octets = buffer.get_bytes(0, start)
            buffer.drop_front(start)
            self._unsent.append(run)
            run = None
        if run is None:
            run = self._run = Run()
        if receipt is not None:
            run.expect(receipt)
        elif run.receipts is not None:
            run.receipts.append(None)
        run.count += 1
        run.size += size
        self._submitted += 1
        self.backlog_bytes += size

    def _seal(self) -> None:
        """What is in the buffer is a frame."""
        run = self._run
        if run is not None:
            run.octets = self._buffer.take()
            self._unsent.append(run)
            self._run = None

    def new_consumer(self) -> int:
        """See CommandSink."""
        self._next_consumer += 1
        return self._next_consumer

    def count(self, queue_id: int, then: Counted, is_use: bool = True) -> None:
        """How many messages and consumers a queue has, behind everything that was submitted before. is_use: see
        Count."""
        self.flush()
        self._seal()
        self._counting.append(then)
        run = Run()
        run.count, run.size, run.counts = 1, _COUNT_BYTES, (queue_id, is_use)
        self._unsent.append(run)
        self._submitted += 1
        self.backlog_bytes += _COUNT_BYTES

    # -- output --------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> None:
        """Send what is new, as far as the home keeps up; without a link, tell who waits that it is lost."""
        self.flush()
        if not self.is_connected:
            while self._submitted or self.settling:
                self._lose()
                self.flush()
            return
        self._tell_taken()
        unsent = self._unsent
        while True:
            # What cannot leave yet stays open: what comes until it can leaves in the same frame.
            run = unsent[0] if unsent else self._run
            if run is None or (self._in_flight and self._in_flight + run.size > _IN_FLIGHT_BYTES):
                break
            if not unsent:
                self._seal()
            unsent.popleft()
            first = self.applied + self._sent + 1
            self._unconfirmed.append(run)
            self._sent += run.count
            self._in_flight += run.size
            if run.octets is not None:
                self._send_commands(first, run.count, run.octets)
                run.octets = None
            elif run.counts is not None:
                self._send_frame(self.home, encode_count(Count(self.session, first, *run.counts)))

    def _send_commands(self, first: int, count: int, octets: bytes) -> None:
        head = self._head
        self.commands_sent += count
        count_at = put_batch_head(head, 0, self.own_node, self.session, first, self.applied)
        head.set_u32(count_at, count)
        self._send_frame(self.home, b"".join((head.take(), octets)))

    def _tell_taken(self) -> None:
        """The home learns what was taken, when it is much."""
        consumers: list[tuple[int, int]] = []
        if self._untaken:
            done = []
            for number, delivery_owner in self._untaken.items():
                if self.delivery_owners.get(number) is not delivery_owner:
                    done.append(number)
                    continue
                taken = delivery_owner.received - delivery_owner.waiting_bytes
                if not delivery_owner.waiting:
                    done.append(number)
                if taken - delivery_owner.told >= _CONSUMER_SHARE_BYTES:
                    delivery_owner.told = taken
                    consumers.append((number, taken))
            for number in done:
                del self._untaken[number]
        if consumers or self._received - self._told >= _LINK_SHARE_BYTES:
            self._told = self._received
            self._send_frame(self.home, encode_taken(Taken(self.session, self._received, tuple(consumers))))

    # -- input ---------------------------------------------------------------------------------------------------------

    def receive_effects(self, payload: bytes, now: int) -> None:
        """A frame from the home. Raises PeerProtocolError."""
        try:
            effects = EffectsReader(payload, self._addresses)
            if not self.is_connected or effects.session != self.session:
                log.debug("effects of session %d come too late from %s", effects.session, self.home)
                return
            self._on_effects(effects)
        except Malformed as error:
            raise PeerProtocolError(f"{self.home}: {error}") from error

    def _on_effects(self, effects: EffectsReader) -> None:
        confirms: list[Confirmed] = []
        delivery_owner: ProxyConsumer | None = None  # of the delivery before
        number = 0
        self.begin_effects()
        while effects.next():
            message = effects.message
            if message is None:
                delivery_owner = None  # it may end
                effect = effects.effect
                if isinstance(effect, Confirmed):
                    confirms.append(effect)
                    continue
                if isinstance(effect, GetAnswered) and effect.message is not None:
                    self._received += effect.message.size
                self.take_effect(effect)  # type: ignore[arg-type]  # a home has more of them
                continue
            self._received += message.size
            if delivery_owner is None or effects.consumer != number:
                number = effects.consumer
                delivery_owner = self._owner_of(number)
                if delivery_owner is None:
                    continue
            delivery_owner.received += message.size
            delivery_owner.deliver(effects.delivery_id, message, effects.is_redelivered, effects.delivery_count)
        for confirmed in confirms:
            self._on_confirmed(confirmed)

    def _owner_of(self, number: int) -> ProxyConsumer | None:
        """Whose a delivery is. Nobody's if its queue is deleted here, and not yet there."""
        delivery_owner: ProxyConsumer | None = self.delivery_owners.get(number)
        if delivery_owner is None or delivery_owner.proxy.is_deleted:
            self.delivery_owners.pop(number, None)
            self.submit(Detach(number, True))
            return None
        self._untaken[number] = delivery_owner
        return delivery_owner

    def _on_confirmed(self, effect: Confirmed) -> None:
        first, last = effect.first, effect.last
        if first != self.applied + 1 or last > self.applied + self._sent:
            raise PeerProtocolError(
                f"{self.home} confirms commands {first} to {last} of session {self.session}: "
                f"{self.applied} were confirmed, {self.applied + self._sent} were sent"
            )
        refusals = dict(effect.refused)
        left = last - first + 1
        while left:
            run = self._unconfirmed[0]
            count = min(left, run.count - run.done)
            left -= count
            if run.receipts is None:
                self._confirmed(count)
            else:
                for at in range(run.done, run.done + count):
                    self._confirmed(1)
                    receipt = run.receipts[at]
                    if receipt is not None:
                        receipt.complete(refusals.get(self.applied) if refusals else None)
            run.done += count
            if run.done == run.count:
                self._unconfirmed.popleft()
                self.backlog_bytes -= run.size
                self._in_flight -= run.size

    def _confirmed(self, count: int) -> None:
        self.applied += count
        self._submitted -= count
        self._sent -= count

    def other_effect(self, effect: HomeEffect) -> None:  # type: ignore[override]  # a home has more of them
        """See CommandSink."""
        if isinstance(effect, QueueCounted):
            if not self._counting:
                raise PeerProtocolError(f"{self.home} has counted a queue, and was not asked")
            self._counting.popleft()(None, effect.messages, effect.unacked, effect.leased, effect.consumers)
        elif isinstance(effect, Blocked):
            self.is_blocked = effect.is_blocked

    # -- the link ------------------------------------------------------------------------------------------------------

    def peer_connected(self, now: int) -> None:
        """There is a link: a session begins."""
        if self.is_connected:
            self.peer_disconnected(now)
        self.session = max(now, self.session + 1)
        self._next_consumer = max(self._next_consumer, self.session << _NUMBER_BITS)
        self.is_connected = True
        self.applied = 0
        # It tells the home that whatever it holds of an older session is over.
        self._send_commands(1, 0, b"")

    def peer_disconnected(self, now: int) -> None:
        """The link is lost, and everything that was on its way."""
        self.is_connected = self.is_blocked = False
        self._untaken.clear()
        self._received = self._told = 0
        self._lose()

    def _lose(self) -> None:
        """Nothing that was submitted will be answered."""
        self._seal()
        lost = [*self._unconfirmed, *self._unsent]
        self._unconfirmed.clear()
        self._unsent.clear()
        counting, self._counting = self._counting, deque()
        self.backlog_bytes = self._in_flight = self._submitted = self._sent = 0
        self.give_up(Refusal.UNKNOWN)
        for then in counting:
            then(Refusal.UNKNOWN, 0, 0, 0, 0)
        for run in lost:
            for receipt in run.receipts[run.done :] if run.receipts is not None else ():
                if receipt is not None:
                    receipt.complete(Refusal.UNKNOWN)

    # -- for who looks -------------------------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """Whether something that was submitted is not on the link yet."""
        return bool(self.settling or self._unsent or self._run is not None)

    @property
    def is_idle(self) -> bool:
        """Whether the home has done all that was submitted."""
        return not (self._submitted or self.settling)

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether publishers have to wait: the home is short of memory or disk, or has not confirmed so much."""
        return self.is_blocked or self.backlog_bytes > limit_bytes
