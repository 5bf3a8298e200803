"""GroupReader: a consumer that reads a stream together with others (`x-stream-group`); the stream keeps how far they
are.

    join -> somebody else reads: wait -> this one does: serve, from the group's position on
    ack -> `_held` gets shorter at its beginning -> StorePosition, now and then
    requeue -> `_again` -> the same message once more, marked, with its count; the position waits for it
    leave: what is settled is stored, and the next one reads

Whether it reads is looked up in the stream in each slice, never remembered: so it does not matter how the news came.

Invariants:
1. `_held` has, in order, every offset that was delivered in this generation and lies at or above the position; of them
   `_settled` are done. The position is the first of `_held`, or `offset` where there is none.
2. What was delivered in an earlier generation is nobody's: its acknowledgements are credit, and nothing else.
3. Without acknowledgements (no_ack) a message leaves when a position behind it is stored.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.errors import AmqpException, precondition_failed
from amqp_broker.queue_types.stream.reader import MADE, LooksAt, StreamReader
from amqp_broker.turn.awaited_read import AwaitedRead
from queues.effects import Refusal
from queues.message import Delivery, Message
from queues.receipts import JointReceipt
from queues.stream.commands import JoinGroup, LeaveGroup, StorePosition
from queues.stream.groups import MOST_GROUPS, Member
from queues.stream.record import get_record, next_record, number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.queue_types.stream.distant_stream import DistantReading
    from amqp_broker.queue_types.stream.filters import ReaderFilter
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.turn.clock import TurnClock
    from queues.consumer import Subscriber
    from queues.queue import Done
    from queues.quorum.commands import Command
    from queues.stream.start import Start
    from queues.stream.stream import Stream
    from queues.stream.tail import Stored
    from queues.timers import Timer, Timers
    from storage.disk import Pending

log = logging.getLogger("amqp_broker")

#: Without acknowledgements, so many are stored as done at a time, before they leave.
_AT_ONCE = 256


class GroupSettings:
    """What a node's groups go by. store_after: of so many settled messages the position is stored at once, of fewer
    after store_ms. handover_ms: for so long somebody who was cancelled may settle what it holds. far_bytes: who has
    more to read, whether in a group or alone, is far behind."""

    def __init__(
        self, timers: Timers, clock: TurnClock, store_after: int, store_ms: int, handover_ms: int, far_bytes: int
    ) -> None:
        self.clock = clock
        self.store_after = store_after
        self.store_ms = store_ms
        self.handover_ms = handover_ms
        self.far_bytes = far_bytes
        self._timers = timers

    def awaited(self, read: Pending) -> AwaitedRead:
        """A read in the background."""
        return AwaitedRead(read, self._timers, self.clock)

    def after(self, milliseconds: int, then: Callable[[], None]) -> Timer:
        """Call `then` when so much time has passed."""
        return self._timers.at(self.clock.now + milliseconds, lambda now: then())


class GroupDelivery(Delivery):
    """reader, generation: to whom it was delivered, and in which of its times."""

    reader: GroupReader
    generation: int


class GroupReader(StreamReader):
    """generation: in which it reads, 0 while it does not. number: what the stream knows it by, with its node. _out: how
    many messages its client holds. _done, _asked: without acknowledgements, what is stored, and is about to be."""

    def __init__(
        self,
        queue: StreamQueue,
        consumer: Subscriber,
        start: Start,
        wanted: ReaderFilter | None,
        name: str,
        settings: GroupSettings,
    ) -> None:
        super().__init__(queue, consumer, start, wanted)
        self.name = name
        self.looks_at = LooksAt(name, False)
        self.generation = 0
        self.number = queue.group.new_consumer()
        self._group = queue.group
        self._member = Member(queue.group.own_node, self.number)
        self._settings = settings
        self._held: deque[int] = deque()
        self._settled: set[int] = set()
        self._again: deque[int] = deque()
        self._returns: dict[int, int] = {}
        self._given_before = 0  # what lies before it may have been delivered by another one
        self._is_joining = False
        self._has_left = False
        self._stored = 0
        self._unstored = 0
        self._storing: Timer | None = None
        self._leaving: Timer | None = None
        self._out = 0
        self._done = self._asked = 0

    # -- membership ----------------------------------------------------------------------------------------------------

    def join(self, then: Done) -> None:
        """Ask to be a member; `then` is told when it is one, and this node knows of it. Where a new group begins is for
        good, so it has to be of all that was committed before."""
        self.queue.prepare()
        self._is_joining = True

        def joined(refusal: Refusal | None) -> None:
            self._is_joining = False
            if refusal is Refusal.UNKNOWN and not self._has_left:
                self.join(then)  # the node's session was lost meanwhile
                return
            if refusal is not None:
                then(self._refused(refusal))
            else:
                self.queue.look_again(self, lambda: then(None))

        def placed(position: int | None) -> None:
            if position is None or self._has_left:
                joined(Refusal.NO_QUEUE)
            else:
                self._submit(JoinGroup(self.queue.queue_id, self.name, self.number, position), joined)

        self.queue.place(self.start, placed)

    def _submit(self, command: Command, then: Callable[[Refusal | None], None]) -> None:
        receipt = JointReceipt()
        self._group.submit(command, receipt)
        receipt.seal(lambda refusals: then(refusals[0] if refusals else None))

    def _refused(self, refusal: Refusal) -> AmqpException:
        if refusal is Refusal.FULL:
            return precondition_failed(
                f"stream '{self.queue.name}' has {MOST_GROUPS} groups already: forget one before '{self.name}' begins"
            )
        return precondition_failed(
            f"group '{self.name}' of stream '{self.queue.name}': the stream is gone, or where the group would begin "
            f"cannot be read: see the log"
        )

    def _reads(self, stream: Stream | DistantReading) -> bool:
        """Whether it is its turn; begins anew where a generation begins."""
        group = stream.groups.get(self.name)
        if group is None or self._member not in group.members:
            # The node's session was lost, and its members with it; or the group was forgotten before this one came.
            if not self._is_joining:
                self.join(self._joined_again)
            return False
        if group.reader != self._member:
            self.generation = 0
            return False
        if group.generation != self.generation:
            self._forget()
            self.generation = group.generation
            self.offset = self._stored = self._done = self._asked = min(group.position, stream.next)
            self._given_before = group.delivered
        return True

    def _joined_again(self, error: Exception | None) -> None:
        if self._has_left:
            return  # its consumer has gone meanwhile
        if error is None:
            self.queue.serve_later(self)
        else:
            log.error("a consumer of group '%s' is cancelled: %s", self.name, error)
            self.queue.give_up(self)

    def _forget(self) -> None:
        self._held.clear()
        self._settled.clear()
        self._again.clear()
        self._returns.clear()
        self._out = self._unstored = 0

    def leave(self) -> None:
        """It is gone, with all that it holds: the next one reads on from what is settled."""
        if self._has_left:
            return
        self._has_left = True
        for timer in (self._storing, self._leaving):
            if timer is not None:
                timer.cancel()
        self._store(bool(self._held))  # what its client had is marked when it comes to another one
        self._forget()
        self._group.submit(LeaveGroup(self.queue.queue_id, self.name, self.number))

    def end(self, gives_back: bool) -> None:
        """The consumer is cancelled. What its client holds it may settle still, for a while."""
        super().end(gives_back)
        self._again.clear()  # the position waits for them
        if gives_back or not self._out:
            self.leave()
        elif self._leaving is None:
            settings = self._settings
            self._leaving = settings.after(settings.handover_ms, self.leave)

    # -- delivering ----------------------------------------------------------------------------------------------------

    def serve(self, room: int, now: int) -> int:
        """See StreamReader."""
        consumer = self.consumer
        stream = self.queue.readable(self)
        if stream is None or not stream.is_compacted_enough or not self._reads(stream):
            consumer.is_waiting = True
            return room
        while consumer.has_credit():
            if room <= 0:
                return 0
            if self._again:
                if not self._deliver_again(stream, self._again[0]):
                    consumer.is_waiting = True
                    return room
                self._again.popleft()
                room -= MADE
                continue
            self.offset = max(self.offset, stream.first)
            stored = stream.log.chunk_at(self.offset, self.wait)
            if stored is None or (consumer.no_ack and not self._may_go(stream)):
                consumer.is_waiting = True
                self._store_soon()
                return room
            if self.offset < stored.first:
                self.offset = stored.first
            if self.filter is not None and not self.filter.may_want(stored.chunk):
                self.offset = stored.next
                room -= MADE
                self._store_soon()
            else:
                room = self.serve_chunk(stored, room)
        consumer.is_waiting = False
        return room

    def _may_go(self, stream: Stream | DistantReading) -> bool:
        """Without acknowledgements: whether what comes next is stored as done; if not, have that done."""
        if self.offset < self._done:
            return True
        until = min(self.offset + _AT_ONCE, stream.next)
        if until > self._asked:
            self._asked = until
            generation = self.generation

            def stored(refusal: Refusal | None) -> None:
                if refusal is None and generation == self.generation:
                    self._done = until
                    self.queue.serve_later(self)

            self._submit(StorePosition(self.queue.queue_id, self.name, generation, until, until), stored)
        return False

    def serve_chunk(self, stored: Stored, room: int) -> int:
        """See StreamReader."""
        consumer = self.consumer
        octets, end, first = stored.chunk.octets, stored.chunk.end, stored.first
        place = self.find(octets, stored.chunk.start, end, first)
        behind = min(stored.next, self._done) if consumer.no_ack else stored.next
        while self.offset < behind and room > 0 and consumer.has_credit():
            if stored.chunk.has_holes:
                self.offset = stored.next if place == end else first + number_of(octets, place)
                if self.offset >= behind:
                    break
            here, offset = place, self.offset
            place = next_record(octets, place)
            self.offset = offset + 1
            if self.filter is not None and not self.wants(stored, here, offset):
                room -= 1
            else:
                self.counts.delivered += 1
                room -= self._hand_over(stored, here, offset)
        if self.filter is not None:
            self._store_soon()
        return room

    def _hand_over(self, stored: Stored, place: int, offset: int) -> int:
        """One record. Returns what it has cost."""
        consumer = self.consumer
        octets = stored.chunk.octets
        if consumer.no_ack:
            consumer.deliver_at_once(self._message(stored, place, offset), False)
            return MADE
        self._held.append(offset)
        self._out += 1
        delivery = self._delivery(None, offset, offset < self._given_before)
        if not delivery.is_redelivered and consumer.deliver_record(delivery, octets, place, offset, b""):
            return 1
        delivery.message = self._message(stored, place, offset)
        consumer.deliver(delivery)
        return MADE

    def _message(self, stored: Stored, place: int, offset: int) -> Message:
        return get_record(stored.chunk.octets, place, offset, stored.time, self.queue.addresses)

    def _deliver_again(self, stream: Stream | DistantReading, offset: int) -> bool:
        """One that came back; if retention, or compaction, was not quicker. False: it has to be had first."""
        stored = stream.log.chunk_at(offset, self.wait) if offset >= stream.first else None
        if stored is None and offset >= stream.first:
            return False
        place = stored.chunk.place_of(offset - stored.first) if stored is not None else -1
        if stored is None or place < 0:
            self._settle(offset)
            return True
        self.counts.delivered += 1
        self._out += 1
        self.consumer.deliver(self._delivery(self._message(stored, place, offset), offset, True))
        return True

    def _delivery(self, message: Message | None, offset: int, is_again: bool) -> GroupDelivery:
        delivery = GroupDelivery.__new__(GroupDelivery)
        delivery.message = message  # type: ignore[assignment]  # None: it was copied
        delivery.sequence = offset
        delivery.consumer = self.consumer
        delivery.returns = self._returns.get(offset, 0)
        delivery.is_redelivered = is_again
        delivery.reader = self
        delivery.generation = self.generation
        return delivery

    # -- settling ------------------------------------------------------------------------------------------------------

    def settled(self, delivery: GroupDelivery) -> None:
        """Its client is done with it."""
        if delivery.generation == self.generation and not self._has_left:
            self._out -= 1
            self._settle(delivery.sequence)
            self._leave_if_done()

    def returned(self, delivery: GroupDelivery) -> None:
        """It comes again, to this one; to the next one, where this one is about to leave."""
        if delivery.generation != self.generation or self._has_left:
            return
        self._out -= 1
        offset = delivery.sequence
        self._returns[offset] = self._returns.get(offset, 0) + 1
        if self.is_ended:
            self._leave_if_done()
        else:
            self._again.append(offset)
            self.queue.serve_later(self)

    def _leave_if_done(self) -> None:
        if self.is_ended and not self._out:
            self.leave()

    def _settle(self, offset: int) -> None:
        held, settled, settings = self._held, self._settled, self._settings
        self._returns.pop(offset, None)
        settled.add(offset)
        while held and held[0] in settled:
            settled.discard(held.popleft())
        self._unstored += 1
        if self._unstored >= settings.store_after:
            self._store()
        else:
            self._begin_to_store()

    def _store_soon(self) -> None:
        """It has passed over what it does not want, or what is gone: nobody settles that."""
        if self.position > self._stored and not self.consumer.no_ack and not self._has_left:
            self._begin_to_store()

    def _begin_to_store(self) -> None:
        settings = self._settings
        if self._storing is None or not self._storing.is_set:
            self._storing = settings.after(settings.store_ms, self._store)

    @property
    def position(self) -> int:
        """Everything before it is settled."""
        return self._held[0] if self._held else self.offset

    def _store(self, is_anyway: bool = False) -> None:
        """The stream is told how far it is, if that is farther than it knows."""
        self._unstored = 0
        position = self.position
        if self.generation and not self.consumer.no_ack and (is_anyway or position > self._stored):
            self._stored = position
            self._group.submit(
                StorePosition(self.queue.queue_id, self.name, self.generation, position, max(self.offset, position))
            )
