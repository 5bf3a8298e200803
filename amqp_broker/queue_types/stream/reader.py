"""StreamReader: a plain consumer of a stream: its place, what it wants, and nothing in any log.

    consume -> Grown, credit -> StreamQueue, in slices -> serve -> records are copied into the channel's output
    ack, nack, reject -> credit, in any order

What it was given is not kept: an acknowledgement is credit for one message more, and what comes back is not delivered
again. Who wants that reads from an earlier offset.

Invariants:
1. It gets what was published in the order of offsets, from `offset` on, each once: everything that its filter wants.
2. It is among those that its queue serves, or it has no credit, or the stream has nothing more for it.
3. A copied record is the delivery of its message, octet for octet (queues/stream/record.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cython

from queues.message import Delivery
from queues.stream.record import filter_hash_of, get_record, next_record
from queues.stream.start import page_of, place_of
from queues.stream.stream import Stream

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32

if TYPE_CHECKING:

    from amqp_broker.queue_types.stream.distant_stream import DistantReading
    from amqp_broker.queue_types.stream.filters import ReaderFilter
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.consumer import Subscriber
    from queues.message import Message
    from queues.stream.start import Start
    from queues.stream.tail import Stored
    from storage.disk import Pending

#: A message that is made, and not copied, is worth so many units of a slice; a chunk that is passed over as many.
MADE = 4
_MADE = MADE
#: An offset that is not known yet.
_UNPLACED = -1
#: Where a reader ends that reads for ever.
_NEVER = 1 << 62


class LooksAt(NamedTuple):
    """A group of readers by its name, or the share that it has of all partitions."""

    group: str
    is_share: bool


class StreamReader:
    """offset: of the message that it looks at next, below 0 before it was served. is_late: its queue is to serve it.
    is_behind: with those who are far behind.
    knows_end: this node's copy has had all that was committed when the consumer came. start: where it begins. filter:
    what it wants of that, None for everything. counts: the queue's. looks_at: of the stream's groups, None for none.
    ending: where it is to end, as long as it is not known which offset that is: until. It is cancelled there."""

    def __init__(
        self,
        queue: StreamQueue,
        consumer: Subscriber,
        start: Start,
        wanted: ReaderFilter | None,
        ending: Start | None = None,
    ) -> None:
        self.offset = _UNPLACED
        self.is_late = False
        self.is_behind = False
        self.is_ended = False
        self.knows_end = False
        self.queue = queue
        self.consumer = consumer
        self.counts = queue.counts
        self.start = start
        self.filter = wanted
        self.ending = ending
        self.until = _NEVER
        self.looks_at: LooksAt | None = None
        # What channels hold of what was copied: there is nothing to tell one from another by.
        self._copied = _delivery(consumer, None, 0)
        # Where in its chunk the next record is, so that who has little credit does not look for it anew each time. One
        # that was compacted meanwhile is shorter.
        self._chunk = _UNPLACED
        self._length = 0
        self._record = 0
        self._place = 0

    def end(self, gives_back: bool) -> None:
        """The consumer is cancelled. gives_back: its client settles nothing any more."""
        self.is_ended = True
        if self.is_behind:
            self.trail(False)

    def trail(self, is_behind: bool) -> None:
        """It is far behind now, or is not any more."""
        self.is_behind = is_behind
        self.consumer.trail(is_behind)

    def serve(self, room: int, now: int) -> int:
        """Hand out what there is, for as long as there is credit and room, in units of about a microsecond. Returns
        the room that is left; none: there may be more. Raises CorruptRecord, OSError."""
        consumer = self.consumer
        if self.ending is not None:
            consumer.is_waiting = True
            return room
        stream = self.queue.readable(self)
        if stream is None:  # nobody has published anything, or this node does not know of it yet
            if self.offset == _UNPLACED and not place_of(self.start, self.queue.empty_stream(), now):
                self.offset = 0  # what comes is published from now on
            consumer.is_waiting = True
            return room if self.until else self._end_here(room)
        is_unsound = self.queue.compactor is not None and not stream.is_compacted_enough
        if is_unsound or (self.offset == _UNPLACED and not self._begin(stream, now)):
            consumer.is_waiting = True
            return room
        while consumer.has_credit():
            if room <= 0:
                return 0
            self.offset = max(self.offset, stream.first)
            if self.offset >= self.until:
                break
            stored = stream.log.chunk_at(self.offset, self.wait)
            if stored is None:
                consumer.is_waiting = True
                return room
            if self.offset < stored.first:
                self.offset = stored.first
            if self.offset >= self.until:
                break
            if self.filter is not None and not self.filter.may_want(stored.chunk):
                self.offset = stored.next
                room -= _MADE
            else:
                room = self.serve_chunk(stored, room)
        if self.offset >= self.until:
            return self._end_here(room)
        consumer.is_waiting = False
        return room

    def _end_here(self, room: int) -> int:
        """It has all that it has asked for."""
        self.queue.give_up(self)
        return room

    def _begin(self, stream: Stream | DistantReading, now: int) -> bool:
        """Find the place. Returns whether it has one: what is beyond the end of this node's copy may be in the log, and
        whoever goes on at another node is not to get again what it had at that one. On a node without a copy others
        are asked."""
        if not isinstance(stream, Stream):
            self.queue.place_elsewhere(self)
            return False
        page = page_of(self.start, stream, now)
        if page >= 0:
            coming = stream.log.coming(page)
            if coming is not None and not coming.done():
                self.wait(coming)
                return False
        offset = place_of(self.start, stream, now)
        if offset > stream.next and not self.knows_end:
            self.queue.find_end(self)
            return False
        self.offset = min(offset, stream.next)
        return True

    def wait(self, read: Pending) -> None:
        """A page has to be read first: it is served again when that is there."""
        self.queue.serve_behind(self, read)

    def serve_chunk(self, stored: Stored, room: int) -> int:
        """Hand out what a chunk has from `offset` on. Returns the room that is left."""
        consumer, wanted = self.consumer, self.filter
        octets, start, end = stored.chunk.octets, stored.chunk.start, stored.chunk.end
        has_holes = stored.chunk.has_holes
        offset, first, behind = self.offset, stored.first, stored.next
        last = min(behind, self.until)
        place = self.find(octets, start, end, first)
        while offset < last and room > 0 and consumer.has_credit():
            if has_holes:
                offset = behind if place == end else first + get_u32(octets, place + 4)
                if offset >= last:
                    self.offset = offset
                    break
            here, offset = place, offset + 1
            place = next_record(octets, place)
            # Whoever looks at it while the consumer is told sees what comes next.
            self.offset, self._record, self._place = offset, offset - first, place - start
            if wanted is not None and not self.wants(stored, here, offset - 1):
                room -= 1
            elif consumer.deliver_record(self._copied, octets, here, offset - 1, b""):
                self.counts.delivered += 1
                room -= 1
            else:
                message = get_record(octets, here, offset - 1, stored.time, self.queue.addresses)
                self.counts.delivered += 1
                consumer.deliver(_delivery(consumer, message, offset - 1))
                room -= _MADE
        return room

    def wants(self, stored: Stored, place: int, offset: int) -> bool:
        """Whether its filter lets a record through."""
        octets = stored.chunk.octets
        assert self.filter is not None  # who calls looks
        return self.filter.wants(
            filter_hash_of(octets, place),
            lambda: get_record(octets, place, offset, stored.time, self.queue.addresses),
        )

    def find(self, octets: bytes, start: int, end: int, first: int) -> int:
        """Where the record at `offset`, or the next one that is there, begins in the chunk whose first one has this
        offset; `end` where there is none."""
        wanted, place = self.offset - first, start
        if self._chunk == first and self._length == end - start and self._record <= wanted:
            place = start + self._place
        while place < end and get_u32(octets, place + 4) < wanted:
            place = next_record(octets, place)
        self._chunk, self._length, self._record, self._place = first, end - start, wanted, place - start
        return place


def _delivery(consumer: object, message: Message | None, offset: int) -> Delivery:
    delivery = Delivery.__new__(Delivery)
    delivery.message = message  # type: ignore[assignment]  # None: it was copied
    delivery.sequence = offset
    delivery.consumer = consumer
    delivery.returns = 0
    delivery.is_redelivered = False
    return delivery
