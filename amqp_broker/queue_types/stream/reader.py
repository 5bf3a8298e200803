"""StreamReader: a plain consumer of a stream: its place, what it wants, and nothing in any log.

    consume -> Grown, credit -> StreamQueue.serve, in slices -> serve -> the channel
    ack, nack, reject -> credit, in any order

What it was given is not kept: an acknowledgement is credit for one message more, and one that comes back is not
delivered again. Who wants that reads from an earlier offset.

Invariants:
1. It gets what was published in the order of offsets, from `offset` on, each once: everything that its filter wants.
2. It is among those that its queue serves, or it has no credit, or the stream has nothing more for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.message import Delivery
from queues.stream.record import filter_hash_of, get_record, next_record

if TYPE_CHECKING:
    from amqp_broker.channel.consumer import ChannelConsumer
    from amqp_broker.queue_types.stream.filters import ReaderFilter
    from amqp_broker.queue_types.stream.offsets import Start
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.message import Message
    from queues.stream.log import Stored
    from queues.stream.stream import Stream

#: A message that is made costs as many units of a slice.
_MADE = 2
#: So many chunks that have nothing for it are passed over for as much as a message costs.
_PASSED = 2
_UNPLACED = -1


class StreamReader:
    """offset: of the message that it looks at next, below 0 before it was served. is_late: its queue serves it."""

    def __init__(self, queue: StreamQueue, consumer: ChannelConsumer, start: Start, wanted: ReaderFilter | None) -> None:
        self.offset = _UNPLACED
        self.is_late = False
        self.is_ended = False
        self._queue = queue
        self._consumer = consumer
        self._start = start
        self._filter = wanted
        # Where in its chunk the next record is, so that who has little credit does not look for it anew each time.
        self._chunk_first = _UNPLACED
        self._record = 0
        self._place = 0

    def serve(self, room: int, now: int) -> int:
        """Hand out what there is, for as long as there is credit and room: in units of about a microsecond. Returns
        the room that is left; 0 or less: there may be more."""
        consumer = self._consumer
        stream = self._queue.stream()
        if stream is None:  # nobody has published anything, or not here yet
            consumer.is_waiting = True
            return room
        if self.offset == _UNPLACED:
            self.offset = self._start(stream, now)
        while consumer.has_credit():
            if room <= 0:
                return room
            self.offset = max(self.offset, stream.first)
            stored = self._queue.chunk_at(stream, self.offset)
            if stored is None:
                consumer.is_waiting = True
                return room
            if self._filter is not None and not self._filter.may_want(stored.chunk):
                self.offset = stored.next
                room -= _PASSED
            else:
                room = self._serve_chunk(stream, stored, room)
        consumer.is_waiting = False
        return room

    def _serve_chunk(self, stream: Stream, stored: Stored, room: int) -> int:
        consumer, chunk = self._consumer, stored.chunk
        octets, offset, place = chunk.octets, self.offset, self._find(stored)
        while offset < stored.next and room > 0 and consumer.has_credit():
            message: Message | None = None
            if self._filter is None or self._wants(stored, place, offset):
                message = get_record(octets, place, offset, stored.time, self._queue.addresses)
            place = next_record(octets, place)
            offset += 1
            # The channel may end the consumer, and somebody may look at it: it is where it is before it is told.
            self.offset, self._record, self._place = offset, offset - stored.first, place - chunk.start
            if message is not None:
                room -= _MADE
                self._deliver(message, offset - 1)
            else:
                room -= 1
        return room

    def _wants(self, stored: Stored, place: int, offset: int) -> bool:
        octets = stored.chunk.octets
        assert self._filter is not None  # who calls looks
        return self._filter.wants(
            filter_hash_of(octets, place),
            lambda: get_record(octets, place, offset, stored.time, self._queue.addresses),
        )

    def _find(self, stored: Stored) -> int:
        """Where the record at `offset` begins."""
        octets, start = stored.chunk.octets, stored.chunk.start
        wanted = self.offset - stored.first
        place, record = start, 0
        if self._chunk_first == stored.first and self._record <= wanted:
            place, record = start + self._place, self._record
        while record < wanted:
            place = next_record(octets, place)
            record += 1
        self._chunk_first, self._record, self._place = stored.first, record, place - start
        return place

    def _deliver(self, message: Message, offset: int) -> None:
        delivery = Delivery.__new__(Delivery)
        delivery.message = message
        delivery.sequence = offset
        delivery.consumer = self._consumer
        delivery.returns = 0
        delivery.is_redelivered = False
        self._queue.counts.delivered += 1
        self._consumer.deliver(delivery)
