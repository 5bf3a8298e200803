"""A queue that is a stream, or several, as a Spark stream or table: batches are ranges of offsets (`mode=stream`).

Nothing is claimed, settled or owned: any number of queries reads the same, each as its own checkpoint says, and again
from the beginning whenever it is started without one. That Spark asks for what comes after `start` proves that all
before it is in its commit log: a hold there keeps retention from what it has not read.

Invariants:
1. `read` depends on its partition and the options alone, and gives the same rows every time, in any process.
2. A hold is never behind what Spark has been seen to start from.
3. No connection is made before a method of the driver or `read` needs one: readers are pickled.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_connector.decode import Decoder
from spark_connector.errors import OptionError, Refused
from spark_connector.offsets import Offsets, Position
from spark_connector.option_kinds import EARLIEST, LATEST
from spark_connector.options import Options
from spark_connector.range_source import Bounds, RangeSource, StreamRange, Streams, lost, read_range
from spark_connector.service import Service

log = logging.getLogger("spark_connector")

#: A hold that a query moves on with its checkpoint is renewed no more often; one of a query that has nothing to read,
#: when this part of its time is over.
HOLD_SECONDS: Final = 30.0
_HOLD_PART: Final = 4
#: How often the progress report asks how much there is.
REPORT_SECONDS: Final = 1.0


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source of `mode=stream`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if "ending_offsets" in options.given or "ending_timestamp" in options.given:
            raise OptionError(
                "options 'endingOffsets' and 'endingTimestamp' are for spark.read: a streaming query has no end; to "
                "stop at what is there now leave them out and use trigger(availableNow=True)"
            )
        self._options = options
        self._initial: dict[str, Any] | None = None
        self._streams = Streams(options.source_queues)
        self._queues: dict[str, int] = {}
        self._decoder = Decoder(schema, options.headers_format)
        self._sources: dict[str, RangeSource] = {}
        self._service: Service | None = None
        self._targets: dict[str, int] | None = None
        self._waiting_since: float | None = None
        self._held: dict[str, tuple[int, float]] = {}
        self._report: dict[str, Any] | None = None
        self._reported = 0.0

    # -- in the driver -------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins; its hold has a name that its checkpoint remembers, and begins when
        Spark asks for the first batch. Spark asks again until there is one: `latest` is what it was at first."""
        if self._initial is None:
            positions = {queue: start_of(self._options, self._source(queue)) for queue in self._look()}
            self._initial = Offsets(positions, f"spark-{uuid.uuid4().hex[:16]}").to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what such a query reads."""
        self._targets = {queue: self._source(queue).bounds().next for queue in self._look()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch."""
        if self._targets is None or not self._queues:
            self._look()
        at = self._with_new_queues(Offsets.from_json(start))
        self._hold(at)
        wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
        end, there = self._reach(at, wanted)
        if self._targets is None and (there == 0 or self._is_too_few(there)):
            time.sleep(self._options.poll_timeout)
            end, there = self._reach(at, wanted)
            if self._is_too_few(there):
                return at.to_json()
        if end != at:
            self._waiting_since = None
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the streams reach: shown in the query's progress. Asked of the broker once a second at most."""
        if self._service is None:
            return None
        if self._report is None or time.monotonic() - self._reported >= REPORT_SECONDS:
            found = {queue: self._source(queue).bounds() for queue in self._queues}
            positions = {queue: Position(each.incarnation, each.next) for queue, each in found.items()}
            self._report = Offsets(positions).to_json()
            self._reported = time.monotonic()
        return self._report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a batch, which may be one of an earlier run."""
        if not self._queues:
            self._look()
        first, last = Offsets.from_json(start), Offsets.from_json(end)
        parts: list[InputPartition] = []
        for queue in last:
            source, to = self._source(queue), last[queue]
            found = source.bounds()
            at = first[queue] if queue in first else Position(to.incarnation, found.first)
            if to.incarnation != found.incarnation:
                source.checked(to, found)  # which says that it is lost
                continue
            begin = source.checked(at, found)
            parts += source.parts(begin, min(to.offset, found.next), found)
        return parts

    def commit(self, end: dict[str, Any]) -> None:
        """All before `end` is done."""
        self._hold(Offsets.from_json(end))

    def stop(self) -> None:
        """The hold stays until its time is over: the query may go on."""
        if self._service is not None:
            self._service.close()

    # -- in the tasks --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        assert isinstance(partition, StreamRange)
        return read_range(self._options, self._decoder, partition)

    # ------------------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_sources": {}, "_service": None}

    def _asked(self) -> Service:
        if self._service is None:
            self._service = Service(self._options, is_first=True)
        return self._service

    def _look(self) -> dict[str, int]:
        """The streams that there are now."""
        self._queues = self._streams.look(self._asked())
        return self._queues

    def _source(self, queue: str) -> RangeSource:
        source = self._sources.get(queue)
        if source is None:
            partition = self._queues.get(queue, 0)
            source = self._sources[queue] = RangeSource(self._options, self._asked(), queue, partition)
        return source

    def _with_new_queues(self, at: Offsets) -> Offsets:
        """Those that the checkpoint does not know begin with their oldest."""
        for queue in self._queues:
            if queue not in at:
                found = self._source(queue).bounds()
                at = at.with_position(queue, Position(found.incarnation, found.first))
        return at

    def _reach(self, at: Offsets, wanted: int) -> tuple[Offsets, int]:
        """The end of a batch of up to `wanted` messages, an equal share of each queue; and how many there are."""
        share = max(-(-wanted // len(self._queues)), 1)
        octets = max(int(self._options.max_bytes) // len(self._queues), 1)
        end, there = at, 0
        for queue in self._queues:
            target = self._targets[queue] if self._targets is not None else None
            reached, found = self._source(queue).reach(at[queue], share, octets, target)
            end = end.with_position(queue, reached)
            there += max(found.next - at[queue].offset, 0) if reached.incarnation == at[queue].incarnation else 1
        return end, there

    def _is_too_few(self, there: int) -> bool:
        """Whether to wait for a fuller batch."""
        if there >= self._options.min_messages:
            return False
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return time.monotonic() - self._waiting_since < float(self._options.max_trigger_delay)

    def _hold(self, at: Offsets) -> None:
        """Keep what is from there on, under the name that the checkpoint has."""
        if not self._options.hold or not at.hold:
            return
        now, seconds = time.monotonic(), float(self._options.hold_time)
        for queue in at:
            if queue not in self._queues:
                continue
            offset, since = self._held.get(queue, (-1, -seconds))
            is_due = now - since >= (min(HOLD_SECONDS, seconds / _HOLD_PART) if at[queue].offset != offset
                                     else seconds / _HOLD_PART)  # fmt: skip
            if queue not in self._held or is_due:
                try:
                    self._source(queue).hold(at.hold, at[queue].offset, seconds)
                except Refused as error:
                    log.warning("going on without a hold, so that retention may be faster: %s", error)
                self._held[queue] = (at[queue].offset, now)


class RangeReader(DataSourceReader):
    """The batch source of `mode=stream`: what is there when the query is planned, or what the options say of it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._decoder = Decoder(schema, options.headers_format)

    def partitions(self) -> list[InputPartition]:
        """Never none: Spark would make one up."""
        service = Service(self._options, is_first=True)
        parts: list[InputPartition] = []
        for queue, partition in Streams(self._options.source_queues).look(service).items():
            source = RangeSource(self._options, service, queue, partition)
            start, found = start_of(self._options, source), source.bounds()
            end = max(end_of(self._options, source, found), start.offset)
            parts += source.parts(start, end, found) or [StreamRange(queue, start.incarnation, end, end, partition)]
        service.close()
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        assert isinstance(partition, StreamRange)
        return read_range(self._options, self._decoder, partition)


def start_of(options: Options, source: RangeSource) -> Position:
    """Where a query begins at a stream. Raises DataLoss for an offset that is gone, unless that may be."""
    said = options.starting_timestamp
    if said is not None:
        found = source.bounds(said)
        return Position(found.incarnation, found.at)
    found = source.bounds()
    wanted = options.starting_offset_of(source.queue)
    ends = {EARLIEST: found.first, LATEST: found.next}
    offset = ends[wanted] if isinstance(wanted, str) else wanted
    if offset < found.first:
        lost(options, source.queue, f"offset {offset} (startingOffsets) is gone: it has {found.first} to {found.next}")
    return Position(found.incarnation, min(max(offset, found.first), found.next))


def end_of(options: Options, source: RangeSource, found: Bounds) -> int:
    """Where a batch query ends at a stream."""
    said = options.ending_timestamp
    if said is not None:
        return source.bounds(said).at
    wanted = options.ending_offset_of(source.queue)
    ends = {EARLIEST: found.first, LATEST: found.next}
    return min(ends[wanted] if isinstance(wanted, str) else wanted, found.next)
