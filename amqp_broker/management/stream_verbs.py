"""StreamVerbs: `stream.stat`, `stream.find` and `stream.trim`: a stream by its offsets, for operators and tools.

Every node has the stream, and answers from what it has applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.management.refused import FAILED, Refused, not_found
from amqp_broker.management.request import Request
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue
    from queues.stream.source import StreamSource

_MOST_OFFSET = (1 << 63) - 1
_MOST_TIME = 1 << 62


class _Trimmed:
    """The answer to a trim: an Awaited."""

    def __init__(self, source: StreamSource, first: int) -> None:
        self.is_done = False
        self._found: tuple[Exception | None, int] | None = None
        self._then: Callable[[object], None] | None = None
        source.trim(first, self._trimmed)

    def _trimmed(self, refusal: Exception | None, first: int) -> None:
        self.is_done, self._found = True, (refusal, first)
        if self._then is not None:
            self._then(self._found)

    def when_done(self, then: Callable[[object], None]) -> None:
        """See Awaited."""
        if self.is_done:
            then(self._found)
        else:
            self._then = then


class StreamVerbs:
    """See the module's docstring."""

    def __init__(self, broker: Broker) -> None:
        self._vhosts = broker.vhosts
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "stream.stat": self._stat,
            "stream.find": self._find,
            "stream.trim": self._trim,
        }

    def _source(self, request: Request) -> tuple[Queue, StreamSource]:
        vhost, name = request.text("vhost"), request.text("name")
        found = self._vhosts.get(vhost)
        if found is None:
            raise not_found("vhost", vhost)
        request.asker.check_vhost(vhost)
        queue = found.queues.get(name)
        if queue is None:
            raise not_found("queue", name, vhost)
        source = queue.stream_source()
        if source is None:
            kind = queue.declaration.type
            raise ValueError(f"queue '{name}' in vhost '{vhost}' is of type {kind}: it has no offsets")
        return queue, source

    def _stat(self, request: Request) -> Steps:
        queue, source = self._source(request)
        try:
            figures = source.figures()
        except (CorruptRecord, OSError) as error:
            raise Refused(FAILED, f"queue '{queue.name}' cannot be read: {error}") from None
        found: JsonObject = {"name": queue.name, "vhost": queue.declaration.vhost, "consumers": queue.consumer_count()}
        if figures is None:
            return {**found, "messages": 0, "first_offset": 0, "next_offset": 0, "stream_bytes": 0}
        settings = figures.settings
        return {
            **found,
            "messages": figures.next - figures.first,
            "first_offset": figures.first,
            "next_offset": figures.next,
            "stream_bytes": figures.octets,
            "first_time": figures.first_time or None,
            "last_time": figures.last_time or None,
            "producers": figures.producers,
            "holds": [{"name": name, **hold._asdict()} for name, hold in figures.holds.items()],
            "max_length_bytes": settings.max_length_bytes,
            "max_age_ms": settings.max_age,
            "segment_bytes": settings.segment_bytes,
            "filter_bytes": settings.filter_bytes,
        }
        yield

    def _find(self, request: Request) -> Steps:
        time = request.number("time", None, 0, _MOST_TIME)
        queue, source = self._source(request)
        try:
            return {"offset": source.find(time)}
        except (CorruptRecord, OSError) as error:
            raise Refused(FAILED, f"queue '{queue.name}' cannot be read: {error}") from None
        yield

    def _trim(self, request: Request) -> Steps:
        first = request.number("before", None, 0, _MOST_OFFSET)
        _, source = self._source(request)
        refusal, offset = yield _Trimmed(source, first)
        if refusal is not None:
            raise Refused(FAILED, str(refusal))
        return {"first_offset": offset}
