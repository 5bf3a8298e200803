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

from typing import TYPE_CHECKING, TypeAlias

from amqp_broker.messages.facts import MessageFacts, without_header
from amqp_broker.queue_types.proxy.command_sink import marked_enqueue
from amqp_broker.queue_types.stream.filters import VALUE, value_of
from queues.effects import Refusal
from queues.message import Message
from queues.outcomes import PublishOutcome
from queues.quorum.session import BATCH_BYTES
from queues.receipts import LetterReceipt, Receipt
from queues.stream.append_chunk import make_append
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


#: Receipts, each followed by the first and the last of numbers that it has in a chunk and that follow each other.
Runs: TypeAlias = "list[Receipt | int]"


class _ChunkReceipt(Receipt):
    """Of a chunk: everybody's who waits for some of its messages."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def expect(self) -> None:
        """One command: the AppendChunk."""

    def complete(self, refusal: Refusal | None) -> None:
        """It is applied, or was refused."""
        runs = self.runs
        for place in range(0, len(runs), 3):
            receipt: Receipt = runs[place]  # type: ignore[assignment]
            receipt.complete_run(refusal, runs[place + 1], runs[place + 2])  # type: ignore[arg-type]


def _make_receipt(runs: Runs) -> _ChunkReceipt:
    """As the constructor does it, compiled without a call."""
    receipt = _ChunkReceipt.__new__(_ChunkReceipt)
    receipt.runs = runs
    return receipt


class ChunkWriter(WriteGroup):
    """Of one stream on this node."""

    is_local = False
    joins = True

    def __init__(self, queue: StreamQueue, group: QueueGroup, filter_bytes: int) -> None:
        self._queue: Queue = queue
        self._stream = queue
        self._is_prepared = False
        self._group = group
        self._builder = ChunkBuilder(filter_bytes)
        self._runs: Runs = []  # of the records in hand
        self._receipt: Receipt | None = None  # of the run that is not among them yet, and its numbers
        self._first = self._last = 0
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
        if receipt is not None:
            waiting: Receipt = receipt
            number = waiting.at_hand()
            if waiting is not self._receipt or number > self._last + 1:
                waiting.expect()
                self._end_run()
                self._receipt = waiting
                self._first = number
            self._last = number
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

    def _end_run(self) -> None:
        """The messages of a receipt that follow each other are all there."""
        if self._receipt is not None:
            runs = self._runs
            first: int = self._first
            runs.append(self._receipt)
            runs.append(first)
            runs.append(first if self._last == self._first else self._last)

    def seal(self) -> None:
        """See WriteGroup: the chunk is whole, it goes to the log."""
        if not self._builder.records:
            return
        chunk = self._builder.take()
        self._group.filled(-self._octets)
        self._octets = 0
        receipt: Receipt | None = None
        if self._receipt is not None:
            self._end_run()
            receipt = _make_receipt(self._runs)
            self._runs = []
            self._receipt = None
        queue = self._queue
        if queue.is_deleted:
            if receipt is not None:
                receipt.complete(Refusal.NO_QUEUE)
            return
        if not self._is_prepared:
            self._is_prepared = True
            self._stream.prepare()
        self._group.hand_in(make_append(queue.queue_id, chunk), receipt)


assert VALUE.encode().startswith(_STREAM_KEY)
assert OFFSET_HEADER.encode().startswith(_STREAM_KEY)
