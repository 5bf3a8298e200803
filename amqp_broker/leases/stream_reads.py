"""StreamReads: verbs of streams for clients, who need no tag: `stream.offsets`, `stream.fetch` and `stream.hold` for
who may consume from it, and `stream.producer`, also for who may publish to it.

A range is read again as often as wanted, by anybody, and nobody holds anything for it: there is no lease and no owner.
Whoever has the stream answers from its own copy; what others may know already and this one does not is waited for (a
barrier in the log). A node that has none passes the request on to one that has (LeaseService).

    request -> the queue is there, the user may read it -> a task of the background
            -> the page is read in the background -> a chunk of it is written into the blob -> ... -> answered

Invariants:
1. A slice looks at one chunk, or at some hundred pages; the stream is looked up anew in each.
2. A connection has a few of these requests under way at most: each may hold a blob.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from amqp_broker.leases.blob import BlobWriter
from amqp_broker.leases.errors import BUSY, GONE, INVALID, LeaseError
from amqp_broker.leases.fields import MAX_NUMBER, Fields
from amqp_broker.queue_types.stream.filters import FILTER, UNFILTERED, ReaderFilter, parse_filter
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task
from queues.arguments import ArgumentError
from queues.page import AddressBook
from queues.stream.record import filter_hash_of, get_record
from queues.stream.source import TooManyHolds, source_of
from queues.stream.stream import Hold
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.leases.answer import Answer
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue
    from queues.stream.source import StreamSource
    from queues.stream.stream import Stream
    from queues.stream.tail import Stored

log = logging.getLogger("amqp_broker")

OFFSETS: Final = "stream.offsets"
FETCH: Final = "stream.fetch"
HOLD: Final = "stream.hold"
PRODUCER: Final = "stream.producer"
READS: Final = (OFFSETS, FETCH, HOLD, PRODUCER)
#: Asked of a stream with partitions, they are asked of each.
OF_EACH_PARTITION: Final = (HOLD, PRODUCER)
#: Messages of one blob.
_BLOB_MESSAGES: Final = 16_384
#: So many records that a filter passes over are looked at for one answer: where it stopped says x-end.
_MOST_LOOKED_AT: Final = 1_000_000
#: So many of these requests may wait at a connection.
MOST_UNDER_WAY: Final = 8
#: So many pages are counted in a slice, and so many cuts given in an answer.
_PAGES: Final = 256
MOST_CUTS: Final = 10_000
_MOST_TIME: Final = 1 << 62
_NO_FILTER_BLOOM: Final = 64  # records that a chunk which is passed over by its Bloom filter counts as


class StreamReads:
    """within_time: an answer that is `busy` when the time of a command is up."""

    def __init__(self, broker: Broker, within_time: Callable[[Answer, str], Answer]) -> None:
        self._exchange = broker.read_exchange
        self._group_of = broker.group_of
        self._background = broker.background
        self._timers = broker.timers
        self._clock = broker.clock
        self._max_blob_bytes = broker.config.max_blob_size_bytes
        self._within_time = within_time
        self._addresses = AddressBook()
        self._under_way: dict[object, int] = {}

    def member(self, queue: Queue) -> str | None:
        """The node that has a stream, where this one has not; None where this one answers. Raises LeaseError."""
        if source_of(queue) is None or not queue.elsewhere():
            return None
        node = self._exchange.nearest(self._group_of(queue.queue_id), queue.queue_id)
        if not node:
            text = f"queue '{queue.name}' has no copy on this node, and there is a link to none that has one"
            raise LeaseError(BUSY, f"{text}: {', '.join(queue.elsewhere())}")
        return node

    def request(self, asker: object, queue: Queue, fields: Fields, answer: Answer) -> None:
        """Serve a request about a queue that the user may read. asker: who has a few under way at most. Raises
        LeaseError."""
        source = source_of(queue)
        if source is None:
            parts = queue.partitions()
            if parts and fields.verb == OFFSETS:
                answer.give({"partitions": [each.name for each in parts]})
                return
            kind = queue.declaration.type
            if which := queue.which_partition():
                raise LeaseError(INVALID, f"{fields.verb}: queue '{queue.name}' has {which}")
            raise LeaseError(INVALID, f"{fields.verb}: queue '{queue.name}' is of type {kind}: it has no offsets")
        if self._under_way.get(asker, 0) >= MOST_UNDER_WAY:
            raise LeaseError(BUSY, f"{fields.verb}: {MOST_UNDER_WAY} requests of this connection are under way: "
                             "wait for their answers")  # fmt: skip
        answer = self._within_time(answer, fields.verb)
        asked: type[_Asked] = _VERBS[fields.verb]
        steps = asked(self, queue, source, fields).steps(answer)
        self._under_way[asker] = self._under_way.get(asker, 0) + 1
        task = Task(self._background, _refusing(steps, queue, source, answer))
        task.when_done(lambda result: self._ended(asker))

    def _ended(self, asker: object) -> None:
        left = self._under_way[asker] - 1
        if left:
            self._under_way[asker] = left
        else:
            del self._under_way[asker]

    # -- for the requests ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time of the turn, milliseconds."""
        return int(self._clock.now)

    @property
    def max_blob_bytes(self) -> int:
        """What a blob may have at most."""
        return int(self._max_blob_bytes)

    def ready(self, queue: Queue, source: StreamSource, offset: int | None, needs: bool = False) -> Steps:
        """The stream, once this node knows where it ends (None) or at least that it goes up to this offset, or beyond
        it where there `needs` to be a message; and once the page with the offset is in RAM. Raises LeaseError."""
        stream = self.find(queue, source)
        if offset is None or stream is None or offset + needs > stream.next:
            current: Completion[Exception | None] = Completion()
            source.catch_up(lambda error, _: current.complete(error))
            error = yield current
            stream = self.find(queue, source)
            if error is not None:
                raise LeaseError(BUSY, f"nobody knows where the stream ends: {error}")
        if stream is not None and not stream.is_compacted_enough:
            raise LeaseError(BUSY, f"queue '{queue.name}' is compacted by this node, which has taken it from another "
                             "one: try again in a moment")  # fmt: skip
        if stream is not None and offset is not None:
            coming = stream.log.coming(offset)
            if coming is not None:
                yield AwaitedRead(coming, self._timers, self._clock)
                stream = self.find(queue, source)
        return stream

    @staticmethod
    def find(queue: Queue, source: StreamSource) -> Stream | None:
        """None where nobody has used it yet: a node that has no copy any more, since it was asked, does not know that.
        Raises LeaseError."""
        if queue.is_deleted:
            raise LeaseError(GONE, f"queue '{queue.name}' was deleted")
        if queue.elsewhere():
            raise LeaseError(BUSY, f"queue '{queue.name}' has no copy on this node any more: ask again")
        return source.stream()

    def wants(self, wanted: ReaderFilter, stored: Stored, place: int, offset: int) -> bool:
        """Whether a filter lets a record through."""
        octets = stored.chunk.octets
        return wanted.wants(
            filter_hash_of(octets, place), lambda: get_record(octets, place, offset, stored.time, self._addresses)
        )


def incarnation_of(queue: Queue) -> str:
    """A stream that was declared anew has another one."""
    return f"{queue.queue_id:x}"


def _refusing(steps: Steps, queue: Queue, source: StreamSource, answer: Answer) -> Steps:
    try:
        yield from steps
    except LeaseError as error:
        answer.refuse(error)
    except (CorruptRecord, OSError) as error:
        if not queue.is_deleted and source.mend(error):
            why = "a page of it cannot be read on this node, and is had from another one: try again in a moment"
            answer.refuse(LeaseError(BUSY, f"queue '{queue.name}': {why}"))
            return
        log.error("queue '%s' cannot be read: %s", queue.name, error)
        answer.refuse(LeaseError(GONE, f"queue '{queue.name}' cannot be read here, its pages are damaged: {error}"))


class _Asked:
    """A request about one stream."""

    def __init__(self, reads: StreamReads, queue: Queue, source: StreamSource, fields: Fields) -> None:
        self._reads = reads
        self._queue = queue
        self._source = source
        self._read(fields)

    def _read(self, fields: Fields) -> None:
        """What it asks for. Raises LeaseError."""
        raise NotImplementedError

    def steps(self, answer: Answer) -> Steps:
        """Give the answer. Raises LeaseError, CorruptRecord, OSError."""
        raise NotImplementedError


class _Offsets(_Asked):
    """Where a stream begins and ends, where a time begins in it, and how far so many messages and octets reach."""

    def _read(self, fields: Fields) -> None:
        self._start = fields.number("from", 0, MAX_NUMBER) if fields.has("from") else None
        self._below = fields.number("to", 0, MAX_NUMBER, MAX_NUMBER)
        self._time = fields.number("time", 0, _MOST_TIME) if fields.has("time") else None
        self._messages = fields.number("max_messages", 1, MAX_NUMBER, MAX_NUMBER)
        self._bytes = fields.number("max_bytes", 1, MAX_NUMBER, MAX_NUMBER)
        self._cut_bytes = fields.number("cut_bytes", 1, MAX_NUMBER, MAX_NUMBER)
        self._group = fields.text("group") if fields.has("group") else None

    def steps(self, answer: Answer) -> Steps:
        """See _Asked."""
        start = self._start if self._group is None else None  # a group may be anywhere by now
        stream: Stream | None = yield from self._reads.ready(self._queue, self._source, start)
        first = following = octets = 0
        if stream is not None:
            first, following, octets = stream.first, stream.next, stream.log.unpacked_octets  # as cuts count them
        bounds: JsonObject = {
            "incarnation": incarnation_of(self._queue), "first": first, "next": following, "bytes": octets,
        }  # fmt: skip
        if self._group is not None:
            group = stream.groups.get(self._group) if stream is not None else None
            bounds["position"] = group.position if group is not None else None
        if self._time is not None:
            bounds["at"] = yield from self._at(self._time)
        if self._start is not None:
            start = bounds["start"] = min(max(self._start, first), following)
            bounds["end"], bounds["cuts"] = yield from self._reach(start, min(following, self._below))
        answer.give(bounds)

    def _at(self, time: int) -> Steps:
        stream = self._reads.find(self._queue, self._source)
        if stream is None:
            return 0
        stream = yield from self._reads.ready(self._queue, self._source, stream.log.page_of_time(time))
        return stream.log.offset_at(time)

    def _reach(self, start: int, below: int) -> Steps:
        """From `start` on: the end of what is asked for, to the page; and where parts of `cut_bytes` begin."""
        most = max(min(below, start + self._messages), start)
        end, octets, part = start, 0, 0
        cuts: list[int] = []
        while end < most and octets < self._bytes:
            stream = self._reads.find(self._queue, self._source)
            before = end
            for number, (page_end, size) in enumerate(_pages(stream, end)):
                if end > start and octets + size > self._bytes:
                    octets = self._bytes
                    break
                if part and part + size > self._cut_bytes and len(cuts) < MOST_CUTS:
                    cuts.append(end)
                    part = 0
                end, octets, part = min(page_end, most), octets + size, part + size
                if end >= most or number == _PAGES:
                    break
            if end == before:
                break
            yield None
        return end, cuts


def _pages(stream: Stream | None, offset: int) -> Iterator[tuple[int, int]]:
    return stream.log.page_ends(offset) if stream is not None else iter(())


class _Fetch(_Asked):
    """The messages of a range as a blob, as far as it goes."""

    def _read(self, fields: Fields) -> None:
        self._first = fields.number("from", 0, MAX_NUMBER)
        self._below = fields.number("to", self._first, MAX_NUMBER, MAX_NUMBER)
        self._needs_some = fields.has("to") and self._first < self._below
        if fields.has("incarnation") and fields.text("incarnation") != incarnation_of(self._queue):
            raise LeaseError(GONE, f"queue '{self._queue.name}' was declared anew: the offsets are of another one")
        most = self._reads.max_blob_bytes
        self._columns = fields.columns()
        self._most_bytes = fields.limit("max_bytes", most, most)
        self._filter = _filter_of(fields)

    def steps(self, answer: Answer) -> Steps:
        """See _Asked. Who says where its range ends may know that this was there: a node that has not heard of it yet
        does not answer as if it were not."""
        stream: Stream | None = yield from self._reads.ready(
            self._queue, self._source, self._first, self._needs_some
        )
        writer = BlobWriter(self._columns, self._most_bytes, _BLOB_MESSAGES)
        offset, looked_at, is_full = self._first, 0, False
        while stream is not None and not is_full and looked_at < _MOST_LOOKED_AT and answer.is_wanted:
            if offset < stream.first:
                if offset == self._first:
                    raise LeaseError(
                        GONE, f"queue '{self._queue.name}' begins at offset {stream.first}: {offset} is gone"
                    )
                break
            stored = stream.log.chunk_at(offset) if offset < self._below else None
            if stored is None:
                break
            if stored.first >= self._below:  # what compaction has taken is before it
                offset = self._below
                break
            offset = max(offset, stored.first)
            end = min(stored.next, self._below)
            if self._filter is None:
                chunk = stored.chunk
                found = writer.add_chunk(
                    stored.first, stored.time, chunk.octets, chunk.start, chunk.end, offset, end
                )
                looked_at += end - offset
            elif not self._filter.may_want(stored.chunk):
                found = end
                looked_at += _NO_FILTER_BLOOM
            else:
                found = self._filtered(writer, stored, offset)
                looked_at += end - offset
            is_full, offset = found < end, found
            yield None
            stream = yield from self._reads.ready(self._queue, self._source, offset)
        bounds = {"x-first": 0, "x-next": 0} if stream is None else {"x-first": stream.first, "x-next": stream.next}
        answer.give_blob(writer.take(), {"x-end": offset, **bounds})

    def _filtered(self, writer: BlobWriter, stored: Stored, first: int) -> int:
        """Returns the offset behind the last one that was looked at, and is in the blob or not wanted."""
        assert self._filter is not None  # who calls looks
        for offset, place in stored.records():
            if offset >= self._below:
                return self._below
            if offset < first or not self._reads.wants(self._filter, stored, place, offset):
                continue
            if not writer.add_stored(offset, stored.time, stored.chunk.octets, place):
                return offset
        return min(stored.next, self._below)


class _Hold(_Asked):
    """Retention stops at an offset until a time, for a name; until 0: not any more."""

    def _read(self, fields: Fields) -> None:
        self._name = fields.text("name")
        self._offset = fields.number("offset", 0, MAX_NUMBER, 0)
        for_ms = fields.number("for_ms", 0, _MOST_TIME, 0)
        self._until = self._reads.now + for_ms if for_ms else fields.number("until", 0, _MOST_TIME, 0)
        if self._until and not fields.has("offset"):
            raise fields.fail("offset", f"an integer from 0 to {MAX_NUMBER}, unless the hold is to end")

    def steps(self, answer: Answer) -> Steps:
        """See _Asked."""
        done: Completion[tuple[Exception | None, int]] = Completion()
        hold = Hold(self._offset, self._until) if self._until else None
        self._source.hold(self._name, hold, lambda error, first: done.complete((error, first)))
        error, first = yield done
        if error is not None:
            raise LeaseError(INVALID if isinstance(error, TooManyHolds) else BUSY, str(error))
        answer.give({"first": first, "until": self._until})


class _Producer(_Asked):
    """What a producer has published last; and whether that reaches a sequence."""

    def _read(self, fields: Fields) -> None:
        self._name = fields.text("producer")
        self._sequence = fields.number("sequence", 0, MAX_NUMBER) if fields.has("sequence") else None

    def steps(self, answer: Answer) -> Steps:
        """See _Asked."""
        stream: Stream | None = yield from self._reads.ready(self._queue, self._source, None)
        producers = stream.producers if stream is not None else {}
        last = producers.get(self._name.encode("utf-8", "surrogateescape"))
        said: JsonObject = {"sequence": None, "offset": None}
        if last is not None:
            said = {"sequence": last.sequence, "offset": last.offset}
        if self._sequence is not None:
            said["is_published"] = last is not None and last.sequence >= self._sequence
        answer.give(said)


_VERBS: Final[dict[str, type[_Asked]]] = {OFFSETS: _Offsets, FETCH: _Fetch, HOLD: _Hold, PRODUCER: _Producer}


def _filter_of(fields: Fields) -> ReaderFilter | None:
    """`filter`, a list of strings, and `match_unfiltered`. Raises LeaseError."""
    if not fields.has("filter"):
        return None
    values = fields.texts("filter")
    try:
        return parse_filter({FILTER: values, UNFILTERED: fields.flag("match_unfiltered", False)})
    except ArgumentError:
        raise fields.fail("filter", "a list of strings, one at least") from None
