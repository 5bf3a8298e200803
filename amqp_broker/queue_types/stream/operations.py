"""StreamOperations: what tools ask of a stream (queues/stream/source.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.errors import ConnectionException
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.receipts import JointReceipt
from queues.quorum.effects import Refusal
from queues.stream.commands import Trim
from queues.stream.source import StreamFigures, Trimmed

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue


class StreamOperations:
    """A StreamSource."""

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue

    def figures(self) -> StreamFigures | None:
        """See StreamSource."""
        stream = self._queue.stream()
        if stream is None:
            return None
        log = stream.log
        first_time = last_time = 0
        oldest = log.chunk_at(stream.first)
        if oldest is not None:
            newest = log.chunk_at(stream.next - 1)
            assert newest is not None  # there is an oldest one
            first_time, last_time = oldest.time, newest.time
        return StreamFigures(
            stream.first, stream.next, log.octets, first_time, last_time, stream.settings, len(stream.producers),
            stream.holds,
        )  # fmt: skip

    def find(self, time: int) -> int:
        """See StreamSource."""
        stream = self._queue.stream()
        return stream.log.offset_at(time) if stream is not None else 0

    def trim(self, first: int, then: Trimmed) -> None:
        """See StreamSource."""
        queue = self._queue
        queue.prepare()
        receipt = JointReceipt()
        queue.group.submit(Trim(queue.queue_id, first), receipt)

        def done(refusals: list[Refusal]) -> None:
            if refusals:
                text = f"queue '{queue.name}': its log did not take it ({refusals[0].name}): look, and try again"
                then(ConnectionException(ReplyCode.INTERNAL_ERROR, text), 0)
                return
            stream = queue.stream()
            then(None, stream.first if stream is not None else 0)

        receipt.seal(done)
