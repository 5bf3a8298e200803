"""StreamVerbs: `stream.stat`, `stream.find`, `stream.trim`, `stream.seek` and `stream.forget`: a stream by its offsets,
and its groups of readers, for operators and tools; and `stream.grow` and `stream.compact`.

Who has the stream answers from what it has applied, and who has not names those. Of one that has partitions all are
meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from amqp_broker.errors import ChannelException
from amqp_broker.management import partition_verbs
from amqp_broker.management.partition_verbs import ReadFirst, changed
from amqp_broker.management.refused import precondition
from amqp_broker.management.request import Request
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps
from amqp_broker.vhosts.partitioning import grow
from queues.stream.shares import MOST_PARTITIONS
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue
    from queues.stream.source import StreamSource

_MOST_OFFSET = (1 << 63) - 1
_MOST_TIME = 1 << 62


class StreamVerbs:
    """See the module's docstring."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._vhosts = broker.vhosts
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "stream.stat": self._stat,
            "stream.find": self._find,
            "stream.trim": self._trim,
            "stream.seek": self._seek,
            "stream.forget": self._forget,
            "stream.grow": self._grow,
            "stream.compact": self._compact,
        }

    def _queue(self, request: Request) -> Queue:
        return request.asker.find_queue(self._vhosts, request.text("vhost"), request.text("name"))

    def _source(self, request: Request) -> tuple[Queue, StreamSource]:
        queue = self._queue(request)
        if nodes := queue.elsewhere():
            raise ValueError(f"queue '{queue.name}' has no copy on this node: ask one of {', '.join(nodes)}")
        source = queue.stream_source()
        if source is None:
            name, vhost, kind = queue.name, queue.declaration.vhost, queue.declaration.type
            if which := queue.which_partition():
                raise ValueError(f"queue '{name}' in vhost '{vhost}' has {which}")
            raise ValueError(f"queue '{name}' in vhost '{vhost}' is of type {kind}: it has no offsets")
        return queue, source

    def _ends(self, source: StreamSource) -> Steps:
        """What says when a stream begins and ends is in RAM then, or soon is."""
        stream = source.stream()
        offsets = (stream.first, stream.next - 1) if stream is not None else ()
        yield from self._pages(source, offsets)

    def _pages(self, source: StreamSource, offsets: Sequence[int]) -> Steps:
        """Wait until the pages with these offsets are read: in a thread, where they are not in RAM."""
        for offset in offsets:
            stream = source.stream()
            coming = stream.log.coming(offset) if stream is not None else None
            if coming is not None:
                yield AwaitedRead(coming, self._broker.timers, self._broker.clock)

    def _at(self, time: int) -> ReadFirst:
        def read(source: StreamSource) -> Steps:
            stream = source.stream()
            yield from self._pages(source, [stream.log.page_of_time(time)] if stream is not None else ())

        return read

    def _stat(self, request: Request) -> Steps:
        if self._queue(request).partitions():
            return (yield from partition_verbs.stat(self._queue(request), self._ends))
        queue, source = self._source(request)
        yield from self._ends(source)
        try:
            figures = source.figures()
        except (CorruptRecord, OSError) as error:
            raise partition_verbs.unreadable(queue, source, error) from None
        found: JsonObject = {"name": queue.name, "vhost": queue.declaration.vhost, "consumers": queue.consumer_count()}
        if figures is None:
            return {**found, "messages": 0, "first_offset": 0, "next_offset": 0, "stream_bytes": 0,
                    "stream_uncompressed_bytes": 0}  # fmt: skip
        settings = figures.settings
        return {
            **found,
            "messages": figures.next - figures.first,
            "first_offset": figures.first,
            "next_offset": figures.next,
            "stream_bytes": figures.octets,
            "stream_uncompressed_bytes": figures.unpacked_octets,
            "first_time": figures.first_time or None,
            "last_time": figures.last_time or None,
            "producers": figures.producers,
            "groups": [
                {"name": name, **group._asdict(), "lag": max(0, figures.next - group.position)}
                for name, group in figures.groups.items()
            ],
            "holds": [{"name": name, **hold._asdict()} for name, hold in figures.holds.items()],
            "max_length_bytes": settings.max_length_bytes,
            "max_age_ms": settings.max_age,
            "segment_bytes": settings.segment_bytes,
            "filter_bytes": settings.filter_bytes,
            "compression": settings.compression,
            "compaction": partition_verbs.compaction_of(figures),
        }

    def _find(self, request: Request) -> Steps:
        time = request.number("time", None, 0, _MOST_TIME)
        if self._queue(request).partitions():
            return (yield from partition_verbs.find(self._queue(request), time, self._at(time)))
        queue, source = self._source(request)
        yield from self._at(time)(source)
        try:
            return {"offset": source.find(time)}
        except (CorruptRecord, OSError) as error:
            raise partition_verbs.unreadable(queue, source, error) from None

    def _trim(self, request: Request) -> Steps:
        first = request.number("before", None, 0, _MOST_OFFSET)
        whole = self._queue(request)
        if whole.partitions():
            found = partition_verbs.change(whole, "first_offset", lambda part, then: part.trim(first, then))
            return (yield from found)
        _, source = self._source(request)
        return {"first_offset": (yield from changed(lambda then: source.trim(first, then)))}

    def _compact(self, request: Request) -> Steps:
        """All members compact it now: each by itself, so this does not wait for them."""
        whole = self._queue(request)
        if whole.partitions():
            found = partition_verbs.change(whole, "next_offset", lambda part, then: part.compact(then))
            return (yield from found)
        _, source = self._source(request)
        return {"next_offset": (yield from changed(source.compact))}

    def _seek(self, request: Request) -> Steps:
        group, offset = request.text("group"), request.number("offset", None, 0, _MOST_OFFSET)
        whole = self._queue(request)
        if whole.partitions():
            found = partition_verbs.change(whole, "position", lambda part, then: part.seek(group, offset, then))
            return (yield from found)
        _, source = self._source(request)
        return {"position": (yield from changed(lambda then: source.seek(group, offset, then)))}

    def _forget(self, request: Request) -> Steps:
        group = request.text("group")
        if self._queue(request).partitions():
            return (yield from partition_verbs.forget(self._queue(request), group))
        _, source = self._source(request)
        yield from changed(lambda then: source.forget(group, then))
        return {}

    def _grow(self, request: Request) -> Steps:
        """A stream has more partitions: those who publish to it spread their keys over them from now on."""
        count = request.number("partitions", None, 1, MOST_PARTITIONS)
        queue = self._queue(request)
        vhost = self._vhosts[queue.declaration.vhost]
        request.asker.check_vhost(vhost.name, changes=True)
        try:
            command = grow(self._broker, vhost, queue, count)
        except ChannelException as error:
            raise precondition(error.explanation) from None
        yield self._broker.propose(command)
        found = len(queue.partitions())
        if found < count:
            raise precondition(f"queue '{queue.name}' has {found} partitions: somebody was faster; look, and try again")
        return {"partitions": found}
