"""StreamVerbs: `stream.stat`, `stream.find`, `stream.segments`, `stream.trim`, `stream.seek` and `stream.forget`: a
stream by its offsets, and its groups of readers, for operators and tools; and `stream.grow` and `stream.compact`.

Who has the stream answers from what it has applied. Who has not asks a member what there is to be seen
(stream_look.py), and what is to be changed goes into the stream's log by this node's own commands, as what its clients
publish does. Of one that has partitions all are meant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.errors import ChannelException
from amqp_broker.management.refused import precondition
from amqp_broker.management.request import Request
from amqp_broker.management.verbs import partitions as partition_verbs
from amqp_broker.management.verbs.partitions import changed
from amqp_broker.management.verbs.stream_look import MOST_SEGMENTS, MOST_TIME, SEGMENTS, StreamLook, start_of
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps
from amqp_broker.vhosts.partitioning import grow
from queues.stream.shares import MOST_PARTITIONS
from queues.stream.source import source_of

if TYPE_CHECKING:
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue
    from queues.stream.source import StreamSource

_MOST_OFFSET = (1 << 63) - 1


class StreamVerbs:
    """See the module's docstring."""

    def __init__(self, broker: Broker, peers: PeerQuestions) -> None:
        self._broker = broker
        self._look = StreamLook(broker, peers)
        self._vhosts = broker.vhosts
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "stream.stat": self._stat,
            "stream.find": self._find,
            "stream.segments": self._segments,
            "stream.trim": self._trim,
            "stream.seek": self._seek,
            "stream.forget": self._forget,
            "stream.grow": self._grow,
            "stream.compact": self._compact,
        }

    def _queue(self, request: Request) -> Queue:
        return request.asker.find_queue(self._vhosts, request.text("vhost"), request.text("name"))

    def _source(self, request: Request) -> tuple[Queue, StreamSource]:
        """A stream that is whole. Raises ValueError."""
        queue = self._queue(request)
        source = source_of(queue)
        if source is None:
            name, vhost, kind = queue.name, queue.declaration.vhost, queue.declaration.type
            if which := queue.which_partition():
                raise ValueError(f"queue '{name}' in vhost '{vhost}' has {which}")
            raise ValueError(f"queue '{name}' in vhost '{vhost}' is of type {kind}: it has no offsets")
        return queue, source

    def _stat(self, request: Request) -> Steps:
        figures_of = partial(self._look.figures, asker=request.asker)
        if self._queue(request).partitions():
            return (yield from partition_verbs.stat(self._queue(request), figures_of))
        queue, _ = self._source(request)
        node, figures = yield from figures_of(queue)
        found: JsonObject = {
            "name": queue.name, "vhost": queue.declaration.vhost, "node": node, "consumers": queue.consumer_count(),
            **partition_verbs.extent_of(figures),
        }  # fmt: skip
        if figures is None:
            return found
        settings = figures.settings
        return {
            **found,
            "producers": figures.producers,
            "groups": [
                {"name": name, **group._asdict(), "lag": partition_verbs.lag_of(figures, group.position)}
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
        offset_of = partial(self._look.offset, start=start_of(request), asker=request.asker)
        if self._queue(request).partitions():
            return (yield from partition_verbs.find(self._queue(request), offset_of))
        queue, _ = self._source(request)
        return {"offset": (yield from offset_of(queue))}

    def _segments(self, request: Request) -> Steps:
        """How the stream lies in files on the node that answers: a page of them."""
        offset, most = request.number("from", 0, 0, MOST_TIME), request.number("limit", SEGMENTS, 1, MOST_SEGMENTS)
        queue, _ = self._source(request)
        node, files, rows, following = yield from self._look.segments(queue, offset, most, request.asker)
        yield None
        return {"node": node, "files": files, "segments": [row._asdict() for row in rows], "next": following}

    # -- changes -------------------------------------------------------------------------------------------------------

    def _change(self, request: Request, key: str, do: partition_verbs.Change) -> Steps:
        """Carried out in the stream, or in each of its partitions; answers what came of it under this key. Nothing is
        begun where this node reaches nobody who has the stream."""
        queue = self._queue(request)
        self._look.check_reachable(queue.partitions() or [queue])
        if queue.partitions():
            return (yield from partition_verbs.change(queue, key, do))
        _, source = self._source(request)
        return {key: (yield from changed(partial(do, source)))}

    def _trim(self, request: Request) -> Steps:
        first = request.number("before", None, 0, _MOST_OFFSET)
        return self._change(request, "first_offset", lambda part, then: part.trim(first, then))

    def _compact(self, request: Request) -> Steps:
        """All members compact it now: each by itself, so this does not wait for them."""
        return self._change(request, "next_offset", lambda part, then: part.compact(then))

    def _seek(self, request: Request) -> Steps:
        group, offset = request.text("group"), request.number("offset", None, 0, _MOST_OFFSET)
        return self._change(request, "position", lambda part, then: part.seek(group, offset, then))

    def _forget(self, request: Request) -> Steps:
        group, queue = request.text("group"), self._queue(request)
        self._look.check_reachable(queue.partitions() or [queue])
        if queue.partitions():
            return (yield from partition_verbs.forget(queue, group, partial(self._look.figures, asker=request.asker)))
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
