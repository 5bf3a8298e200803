"""StreamLook: what a stream has, and where a time begins in it, for operators: as this node has applied it, or, where
it has no copy, as a member of the stream's group says.

    question "figures"  {"vhost", "name"}                  -> {"figures": those}, null where nobody has used it yet
    question "offset"   {"vhost", "name", "time" or "at"}  -> {"offset": offset}
    question "segments" {"vhost", "name", "from", "limit"} -> {"segments": {"files", "rows", "next"}}
             any of them                                   -> {"refused": [code, text]}

The member that leads is asked first, and the others after it. A member takes the asker's word for as whom it asks, and
looks itself whether that one may.

Invariants:
1. A page that is not in RAM is read in a thread, and not in the loop.
2. Each member is asked once: where none says anything, the request is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from amqp_broker.management.refused import FAILED, Refused, precondition
from amqp_broker.management.request import Request
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.queue_types.stream.offsets import OFFSET, parse_start
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps
from queues.arguments import ArgumentError
from queues.stream.segments import Segment, segments_from
from queues.stream.settings import StreamSettings
from queues.stream.source import CompactionFigures, GroupFigures, ShareFigures, StreamFigures, StreamSource, source_of
from queues.stream.start import Start, StartKind, page_of, place_of
from queues.stream.stream import Hold, Stream
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.management.access import Asker
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue

log = logging.getLogger("amqp_broker.cluster")

T = TypeVar("T")

_FIGURES, _OFFSET, _SEGMENTS = "figures", "offset", "segments"
#: Times are below this, milliseconds since the epoch; and offsets.
MOST_TIME = 1 << 62
#: Segments of one answer, and unless somebody asks for more or less.
MOST_SEGMENTS = 100
SEGMENTS = 50
_PLACES = "an offset, below 0 so many from the end, first, last, next, or an age such as 1h (one of Y M D h m s)"


class Seen(NamedTuple):
    """node: who has said it. figures: None where nobody has used the stream yet."""

    node: str
    figures: StreamFigures | None


class Laid(NamedTuple):
    """node: who has said it. files: in how many a stream lies there. rows: some of its segments. following: the offset
    at which those behind them begin, None where there are no more."""

    node: str
    files: int
    rows: list[Segment]
    following: int | None


def start_of(request: Request) -> Start:
    """Where a request looks: `time`, milliseconds since the epoch, or `at`, as x-stream-offset says it. Raises
    ValueError."""
    if not request.has("at"):
        return Start(StartKind.TIME, request.number("time", None, 0, MOST_TIME))
    at = request.get("at")
    if not isinstance(at, str):
        at = request.number("at", None, -MOST_TIME, MOST_TIME)
    try:
        start = parse_start({OFFSET: at})
    except ArgumentError:
        raise ValueError(f"field at has to be {_PLACES}; got {at[:100]!r}") from None
    if request.has("time"):
        raise ValueError("fields time and at: leave out one of the two")
    return start


class StreamLook:
    """See the module's docstring. peers: to ask the other nodes."""

    def __init__(self, broker: Broker, peers: PeerQuestions) -> None:
        self._vhosts = broker.vhosts
        self._timers = broker.timers
        self._clock = broker.clock
        self._peers = peers
        peers.serve({_FIGURES: lambda request: self._serve(request, self._own_figures)})
        peers.serve({_OFFSET: lambda request: self._serve(request, self._own_offset)})
        peers.serve({_SEGMENTS: lambda request: self._serve(request, self._own_segments)})

    def figures(self, queue: Queue, asker: Asker) -> Steps:
        """What is Seen of a stream. Raises Refused, and ValueError where nobody can be asked."""
        if not queue.elsewhere():
            yield from self._pages_of_ends(_source_of(queue))
            return Seen(self._peers.own_node, _looked(queue, lambda source: source.figures()))
        node, said = yield from self._ask(queue, _FIGURES, {}, asker, _read_figures)
        return Seen(node, said)

    def offset(self, queue: Queue, start: Start, asker: Asker) -> Steps:
        """The offset at which one begins who begins there. Raises as `figures` does."""
        if not queue.elsewhere():
            yield from self._page_of(_source_of(queue), start)
            return _looked(queue, lambda source: _offset_of(source.stream(), start, self._clock.now))
        _, said = yield from self._ask(queue, _OFFSET, _said(start), asker, int)
        return said

    def segments(self, queue: Queue, offset: int, most: int, asker: Asker) -> Steps:
        """How a stream is Laid, so many segments at most from the one on that has an offset. Raises as `figures`
        does."""
        if not queue.elsewhere():
            source = _source_of(queue)
            rows, following = yield from segments_from(
                lambda: source.stream() if not queue.elsewhere() else None, offset, most
            )
            stream = source.stream()
            return Laid(self._peers.own_node, stream.log.segment_count() if stream is not None else 0, rows, following)
        asked = {"from": offset, "limit": most}
        node, said = yield from self._ask(queue, _SEGMENTS, asked, asker, _read_segments)
        return Laid(node, *said)

    def check_reachable(self, queues: Sequence[Queue]) -> None:
        """Raises ValueError where a stream is elsewhere, and there is a link to none of its members."""
        for queue in queues:
            nodes = queue.elsewhere()
            if nodes and not any(self._peers.is_linked(node) for node in nodes):
                raise _no_copy(queue)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask(
        self, queue: Queue, verb: str, more: JsonObject, asker: Asker, read: Callable[[JsonValue], object]
    ) -> Steps:
        """Its result: the member that has answered, and what `read` has made of that."""
        asked = {"vhost": queue.declaration.vhost, "name": queue.name, **more}
        leader = queue.described_at()
        refused: ValueError = _no_copy(queue)
        for node in sorted(queue.elsewhere(), key=lambda each: each != leader):
            answer = yield self._peers.ask(node, verb, asked, asker)
            if answer is None:
                continue
            try:
                if verb in answer.fields:
                    return node, read(answer.fields[verb])
                code, text = answer.fields["refused"]
                refused = Refused(str(code), str(text))
            except (KeyError, TypeError, ValueError) as error:
                log.error("%s says what are no figures of a stream: %s", node, error)
        raise refused

    # -- answering -----------------------------------------------------------------------------------------------------

    def _serve(self, request: Request, look: Callable[[Request, Queue], Steps]) -> Steps:
        """Another node asks."""
        try:
            queue = request.asker.find_queue(self._vhosts, request.text("vhost"), request.text("name"))
            if queue.elsewhere() or source_of(queue) is None:
                raise _moving(queue)
            found = yield from look(request, queue)
        except Refused as error:
            found = {"refused": [error.code, str(error)]}
        return found, ""

    def _own_figures(self, request: Request, queue: Queue) -> Steps:
        seen = yield from self.figures(queue, request.asker)
        return {_FIGURES: _written(seen.figures)}

    def _own_offset(self, request: Request, queue: Queue) -> Steps:
        return {_OFFSET: (yield from self.offset(queue, start_of(request), request.asker))}

    def _own_segments(self, request: Request, queue: Queue) -> Steps:
        offset, most = request.number("from", 0, 0, MOST_TIME), request.number("limit", SEGMENTS, 1, MOST_SEGMENTS)
        _, files, rows, following = yield from self.segments(queue, offset, most, request.asker)
        return {_SEGMENTS: {"files": files, "rows": [row._asdict() for row in rows], "next": following}}

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _pages_of_ends(self, source: StreamSource) -> Steps:
        """What says when a stream begins and ends is in RAM then, or soon is."""
        stream = source.stream()
        yield from self._pages(source, (stream.first, stream.next - 1) if stream is not None else ())

    def _page_of(self, source: StreamSource, start: Start) -> Steps:
        stream = source.stream()
        page = page_of(start, stream, self._clock.now) if stream is not None else -1
        yield from self._pages(source, [page] if page >= 0 else ())

    def _pages(self, source: StreamSource, offsets: Sequence[int]) -> Steps:
        """Wait until the pages with these offsets are read: in a thread, where they are not in RAM."""
        for offset in offsets:
            stream = source.stream()
            coming = stream.log.coming(offset) if stream is not None else None
            if coming is not None:
                yield AwaitedRead(coming, self._timers, self._clock)


def _offset_of(stream: Stream | None, start: Start, now: int) -> int:
    """No offset is beyond the end. Raises CorruptRecord, OSError."""
    return min(place_of(start, stream, now), stream.next) if stream is not None else 0


def _said(start: Start) -> JsonObject:
    """As `start_of` reads it; times in the words of members that know nothing else."""
    kind, value = start
    if kind is StartKind.TIME:
        return {"time": value}
    if kind is StartKind.OFFSET:
        return {"at": value}
    if kind is StartKind.FROM_END:
        return {"at": -value}
    return {"at": f"{value // 1000}s" if kind is StartKind.AGE else kind.name.lower()}


def _source_of(queue: Queue) -> StreamSource:
    source = source_of(queue)
    assert source is not None  # who calls has looked
    return source


def _looked(queue: Queue, look: Callable[[StreamSource], T]) -> T:
    """What there is to be seen here. Raises Refused where there is no copy any more, since somebody began to look, and
    where a page is damaged, which is had from another node if one has it."""
    source = _source_of(queue)
    if queue.elsewhere():
        raise _moving(queue)
    try:
        return look(source)
    except (CorruptRecord, OSError) as error:
        if source.mend(error):
            raise precondition(
                f"queue '{queue.name}': a page of it cannot be read on this node, and is had from another one: try "
                f"again in a moment"
            ) from None
        raise Refused(FAILED, f"queue '{queue.name}' cannot be read: {error}") from None


def _moving(queue: Queue) -> Refused:
    return precondition(f"queue '{queue.name}' is just moving to another node: ask again")


def _no_copy(queue: Queue) -> ValueError:
    return ValueError(f"queue '{queue.name}' has no copy on this node: ask one of {', '.join(queue.elsewhere())}")


def _written(figures: StreamFigures | None) -> JsonValue:
    """Figures as another node reads them. Those of groups, shares, holds and compaction are lists."""
    return {**figures._asdict(), "settings": asdict(figures.settings)} if figures is not None else None


def _read_figures(said: JsonValue) -> StreamFigures | None:
    """As `_written`. Fields that a later version may say are passed over. Raises KeyError, TypeError."""
    if said is None:
        return None
    known = {name: said[name] for name in StreamFigures._fields}
    settings = {each.name: said["settings"][each.name] for each in fields(StreamSettings)}
    compaction = said["compaction"]
    return StreamFigures(**{
        **known,
        "settings": StreamSettings(**settings),
        "holds": {name: Hold(*each) for name, each in said["holds"].items()},
        "groups": {name: GroupFigures(*each) for name, each in said["groups"].items()},
        "shares": {name: ShareFigures(members, tuple(owners)) for name, (members, owners) in said["shares"].items()},
        "compaction": CompactionFigures(*compaction) if compaction is not None else None,
    })  # fmt: skip


def _read_segments(said: JsonValue) -> tuple[int, list[Segment], int | None]:
    """As `_own_segments` says them; fields that a later version may say are passed over. Raises KeyError, TypeError."""
    rows = [Segment(**{name: row[name] for name in Segment._fields}) for row in said["rows"]]
    return int(said["files"]), rows, said["next"]
