"""PartitionWriter: what is published to a partitioned stream goes to the partition of its key.

The key is the header `x-stream-key`; without one, the routing key, but not of what came through the default exchange:
there it is the queue's name and says nothing. What has no key goes to the partitions in turns.

Invariant: what is published again goes where it went before, or the stream could not know it: what has a producer's
number and no key goes to a partition of that producer, and a dead letter to one of its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_broker.messages.facts import MessageFacts
from amqp_broker.queue_types.proxy.command_sink import marked_enqueue
from queues.effects import Refusal
from queues.outcomes import PublishOutcome
from queues.receipts import LetterReceipt
from queues.stream.murmur import partition_of
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.parts import StreamParts
    from queues.message import Message
    from queues.queue import Queue
    from queues.receipts import Receipt

KEY: Final = "x-stream-key"
_KEY_FIELD = b"\x0cx-stream-key"
_PRODUCER_FIELD = b"\x0dx-producer-id"
#: The octet with the flag "there are headers" in a content header frame.
_FLAGS_AT = 19
_HAS_HEADERS = 0x20


class PartitionWriter(WriteGroup):
    """Of one partitioned stream on this node."""

    is_local = False

    def __init__(self, parts: StreamParts) -> None:
        self._parts = parts
        self._last = -1

    def publish(
        self, message: Message, queues: list[Queue], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """See WriteGroup: `queues` is the one stream."""
        streams = self._parts.streams
        if not streams:  # they are being deleted
            if receipt is not None:
                receipt.expect()
                receipt.complete(Refusal.NO_QUEUE)
            return PublishOutcome.TAKEN
        part = streams[self._choose(message, receipt if is_again else None, len(streams))]
        return part.writer.put(message, receipt, is_again)

    def _choose(self, message: Message, receipt: Receipt | None, partitions: int) -> int:
        content = message.content
        has_headers = content[_FLAGS_AT] & _HAS_HEADERS
        raw = message.raw
        key = raw[2 + raw[0] :] if raw[0] else b""
        if has_headers and content.find(_KEY_FIELD, _FLAGS_AT, message.header_end) >= 0:
            key = _octets(MessageFacts(message).headers.get(KEY)) or key
        if key:
            return partition_of(key, partitions)
        if isinstance(receipt, LetterReceipt):
            return receipt.number % partitions
        if has_headers and content.find(_PRODUCER_FIELD, _FLAGS_AT, message.header_end) >= 0:
            producer = marked_enqueue((), message, False).producer
            if producer:
                return partition_of(producer, partitions)
        self._last = (self._last + 1) % partitions
        return self._last


def _octets(value: object) -> bytes:
    """Of a key: a string, or a number as it is written; none for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else b""
