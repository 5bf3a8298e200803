"""`mode=auto`: whether a queue is a stream is asked when a query begins, and then it is read by ranges; else by leases,
or by looking.

Which reader it is follows from the queue, so that a query that goes on has the same one. Tasks know it by their
partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_connector.decode import Decoder
from spark_connector.errors import OptionError
from spark_connector.options import Options
from spark_connector.range_reader import RangeReader, RangeStreamReader
from spark_connector.range_source import StreamRange, is_stream, read_range
from spark_connector.service import Service
from spark_connector.stream_reader import LeaseStreamReader


def are_streams(options: Options) -> bool:
    """Whether the queues are streams. Raises OptionError where some are."""
    service = Service(options, is_first=True)
    try:
        found = [queue for queue in options.source_queues if is_stream(service, queue)]
    finally:
        service.close()
    if found and len(found) < len(options.source_queues):
        raise OptionError(f"option 'queues': of these {', '.join(found)} are streams and others not: read them apart")
    return bool(found)


class AutoStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """lease: makes the other reader. Raises OptionError when it is used, where that does."""

    def __init__(
        self, options: Options, schema: StructType, lease: Callable[[Options, StructType], LeaseStreamReader]
    ) -> None:
        self._options = options
        self._schema = schema
        self._lease = lease
        self._decoder = Decoder(schema, options.headers_format)
        self._found: RangeStreamReader | LeaseStreamReader | None = None

    def _reader(self) -> RangeStreamReader | LeaseStreamReader:
        if self._found is None:
            make = RangeStreamReader if are_streams(self._options) else self._lease
            self._found = make(self._options, self._schema)
        return self._found

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._reader().initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._reader().prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._reader().latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._found.reportLatestOffset() if self._found is not None else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return list(self._reader().partitions(start, end))

    def commit(self, end: dict[str, Any]) -> None:
        self._reader().commit(end)

    def stop(self) -> None:
        if self._found is not None:
            self._found.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: nothing is asked."""
        if isinstance(partition, StreamRange):
            return read_range(self._options, self._decoder, partition)
        return self._lease(self._options, self._schema).read(partition)

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_found": None}


class AutoReader(DataSourceReader):
    """look: makes the other reader."""

    def __init__(
        self, options: Options, schema: StructType, look: Callable[[Options, StructType], DataSourceReader]
    ) -> None:
        self._options = options
        self._schema = schema
        self._look = look
        self._decoder = Decoder(schema, options.headers_format)

    def partitions(self) -> list[InputPartition]:
        make = RangeReader if are_streams(self._options) else self._look
        return list(make(self._options, self._schema).partitions())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: nothing is asked."""
        if isinstance(partition, StreamRange):
            return read_range(self._options, self._decoder, partition)
        return self._look(self._options, self._schema).read(partition)
