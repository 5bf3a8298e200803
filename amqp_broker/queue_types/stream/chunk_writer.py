"""ChunkWriter: what the clients of this node publish to a stream in a turn becomes one chunk, which is one command.
While its disk is busy, a node alone goes on with it in the next turns (QueueGroup).

    publish -> packed at once -> end of the turn, or 256 KiB: sealed -> AppendChunk -> ... -> applied -> all receipts

Applied is committed: a majority of the members has the chunk on its disks.

Invariants:
1. Messages are in the stream in the order in which they were published here.
2. Every receipt of a chunk is complete once, with what became of the chunk.
3. What it has in hand is counted in the group's `filled_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.messages.facts import MessageFacts, without_header
from amqp_broker.queue_types.proxy.command_sink import marked_enqueue
from amqp_broker.queue_types.stream.filters import VALUE, value_of
from queues.effects import Refusal
from queues.message import Message
from queues.outcomes import PublishOutcome
from queues.quorum.session import BATCH_BYTES
from queues.receipts import LetterReceipt, Receipt
from queues.stream.append_chunk import AppendChunk
from queues.stream.chunk import ChunkBuilder
from queues.stream.record import OFFSET_HEADER, PARTITION_HEADER, hash_of
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.queue import Queue

#: A chunk is sealed when its records have so many octets.
CHUNK_BYTES = BATCH_BYTES
_CHUNK_BYTES = CHUNK_BYTES
#: The octet with the flag "there are headers" in a content header frame.
_FLAGS_AT = 19
_HAS_HEADERS = 0x20
#: What headers that mean something here begin with, as fields of a table: two of a stream, and a producer's name.
_STREAM_KEY = b"x-stream-"
_PRODUCER_KEY = b"\x0dx-producer-id"
_TAKEN: int = PublishOutcome.TAKEN


class _ChunkReceipt(Receipt):
    """Of a chunk: everybody's who waits for one of its messages."""

    def __init__(self, receipts: list[Receipt]) -> None:
        self.receipts = receipts

    def expect(self) -> None:
        """One command: the AppendChunk."""

    def complete(self, refusal: Refusal | None) -> None:
        """It is applied, or was refused."""
        for receipt in self.receipts:
            receipt.complete(refusal)


class ChunkWriter(WriteGroup):
    """Of one stream on this node."""

    is_local = False
    joins = True

    def __init__(self, queue: StreamQueue, group: QueueGroup, filter_bytes: int) -> None:
        self._queue = queue
        self._group = group
        self._builder = ChunkBuilder(filter_bytes)
        self._receipts: list[Receipt] = []
        self._last: Receipt | None = None
        self._octets = 0  # of the records in hand

    def resize_filter(self, filter_bytes: int) -> None:
        """Chunks to come have filters of this size."""
        self.seal()
        self._builder = ChunkBuilder(filter_bytes)

    def written_at(self) -> str:
        """See WriteGroup."""
        return self._group.written_at()

    def publish(
        self, message: Message, queues: list[Queue], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """See WriteGroup: `queues` is the one stream."""
        return self.put(message, receipt, is_again)

    def put(self, message: Message, receipt: Receipt | None, is_again: bool) -> int:
        """A message for the stream. One that comes back is no duplicate but of itself."""
        builder = self._builder
        if not builder.records:
            self._group.fill(self)
        content = message.content
        has_headers = content[_FLAGS_AT] & _HAS_HEADERS
        if has_headers and content.find(_STREAM_KEY, _FLAGS_AT, message.header_end) >= 0:
            octets = self._add_with_headers(message)
        else:
            octets = builder.add(message, 0, 0)
        if is_again:
            if isinstance(receipt, LetterReceipt):
                builder.produced(receipt.sender, receipt.number)
        elif has_headers and content.find(_PRODUCER_KEY, _FLAGS_AT, message.header_end) >= 0:
            marked = marked_enqueue((), message, False)
            if marked.producer:
                builder.produced(marked.producer, marked.producer_sequence)
        if receipt is not None and receipt is not self._last:
            waiting: Receipt = receipt
            waiting.expect()
            self._receipts.append(waiting)
            self._last = waiting
        self._group.filled(octets - self._octets)
        self._octets = octets
        if octets >= _CHUNK_BYTES:
            self.seal()
        return _TAKEN

    def _add_with_headers(self, message: Message) -> int:
        """A message with headers that a stream looks at: a value to filter by, and a place that is not its own."""
        value = value_of(message)
        facts = MessageFacts(message)
        message = without_header(message, facts, OFFSET_HEADER)
        if PARTITION_HEADER in facts.headers:
            message = without_header(message, MessageFacts(message), PARTITION_HEADER)
        return self._builder.add(message, 0, hash_of(value) if value is not None else 0)

    def seal(self) -> None:
        """The chunk is whole: it goes to the log."""
        if not self._builder.records:
            return
        chunk = self._builder.take()
        self._group.filled(-self._octets)
        self._octets = 0
        receipts, self._receipts, self._last = self._receipts, [], None
        for receipt in receipts:
            receipt.close()
        if self._queue.is_deleted:
            for receipt in receipts:
                receipt.complete(Refusal.NO_QUEUE)
            return
        self._queue.prepare()
        command = AppendChunk(self._queue.queue_id, chunk.octets, None, chunk)
        self._group.submit(command, _ChunkReceipt(receipts) if receipts else None)


assert VALUE.encode().startswith(_STREAM_KEY)
assert OFFSET_HEADER.encode().startswith(_STREAM_KEY)
