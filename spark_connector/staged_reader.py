"""Queues of any AMQP 0-9-1 broker as a Spark stream, at least once (`mode=staged`).

The driver consumes, writes what it got into a shared folder, syncs, acks; the tasks read the folder. Batches are ranges
of that log, so whatever Spark does they hold the same rows; but a driver that dies between sync and ack gets those
messages again, as other rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_connector.decode import Decoder
from spark_connector.errors import DataLoss, OptionError
from spark_connector.foreign_queue import ForeignQueue
from spark_connector.offsets import Offsets, Position, split
from spark_connector.options import Options
from spark_connector.staging_log import StagingLog
from spark_connector.stream_reader import Range

log = logging.getLogger("spark_connector")


class StagedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source of `mode=staged`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        for name, value in (("group", options.group), ("stagingDir", options.staging_dir)):
            if value is None:
                raise OptionError(f"option '{name}' is missing: mode=staged needs 'group' and 'stagingDir'")
        self._options = options
        self._queues = options.source_queues
        self._decoder = Decoder(schema, options.headers_format)
        self._sources: dict[str, tuple[StagingLog, ForeignQueue]] = {}
        self._targets: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The oldest that the folder still holds."""
        logs = {queue: self._source(queue)[0] for queue in self._queues}
        return Offsets({queue: Position(each.incarnation, each.first) for queue, each in logs.items()}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what such a query reads."""
        sources = {queue: self._source(queue) for queue in self._queues}
        self._targets = {queue: log.next + foreign.ready() for queue, (log, foreign) in sources.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: what is staged beyond `start`, or else what the broker has now."""
        at = end = self._known(Offsets.from_json(start))
        self._ack(at)
        wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
        share, octets = -(-wanted // len(self._queues)), self._options.max_bytes // len(self._queues)
        for queue in self._queues:
            staged, foreign = self._source(queue)
            if staged.next == at[queue].offset:
                most = share if self._targets is None else min(share, self._targets[queue] - staged.next)
                if most > 0:
                    foreign.stage(most, max(octets, 1), self._options.poll_timeout)
            end = end.moved(queue, staged.next)
        return end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a batch."""
        first, last = self._known(Offsets.from_json(start)), Offsets.from_json(end)
        self._ack(first)
        parts = (self._options.num_partitions, self._options.max_per_partition)
        return [
            Range(queue, last[queue].incarnation, low, high)
            for queue in last
            if queue in first and first[queue].incarnation == last[queue].incarnation
            for low, high in split(first[queue].offset, last[queue].offset, *parts)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        assert isinstance(partition, Range)
        staged = StagingLog(self._options.staging_dir, self._options.group, partition.queue)
        for blob, first, count in staged.read(partition.start, partition.end):
            batch = self._decoder.batch(blob, partition.queue, partition.incarnation).slice(first, count)
            for row in range(0, count, self._options.arrow_batch_rows):
                yield batch.slice(row, self._options.arrow_batch_rows)

    def commit(self, end: dict[str, Any]) -> None:
        """All before `end` is done."""
        if self._options.ack_mode == "commit":
            self._trim(Offsets.from_json(end))

    def stop(self) -> None:
        for staged, foreign in self._sources.values():
            foreign.close()
            staged.close()

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_sources": {}}

    def _source(self, queue: str) -> tuple[StagingLog, ForeignQueue]:
        if queue not in self._sources:
            staged = StagingLog(self._options.staging_dir, self._options.group, queue)
            staged.lock()
            self._sources[queue] = staged, ForeignQueue(self._options, queue, staged)
        return self._sources[queue]

    def _known(self, at: Offsets) -> Offsets:
        """The offsets with queues that are new since then; without what is lost, if that may be."""
        for queue in self._queues:
            staged = self._source(queue)[0]
            now = Position(staged.incarnation, staged.first)
            if queue not in at:
                at = at.with_position(queue, now)
            elif at[queue].incarnation != staged.incarnation or not staged.first <= at[queue].offset <= staged.next:
                what = (
                    f"queue '{queue}': the checkpoint goes on at offset {at[queue].offset}, the folder 'stagingDir' "
                    f"has {staged.first} to {staged.next}, or is another one than before"
                )
                if self._options.fail_on_data_loss:
                    raise DataLoss(f"{what}; start with a new checkpointLocation, or set failOnDataLoss=false")
                log.warning("%s; going on there (failOnDataLoss=false)", what)
                at = at.with_position(queue, now)
        return at

    def _ack(self, at: Offsets) -> None:
        if self._options.ack_mode == "eager":
            self._trim(at)

    def _trim(self, at: Offsets) -> None:
        for queue in at:
            staged = self._source(queue)[0]
            if staged.incarnation == at[queue].incarnation:
                staged.trim(at[queue].offset)
