"""The data source "amqp": what Spark asks for readers and writers. It makes no connection itself."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from spark_connector import schema as rows
from spark_connector.auto_reader import AutoReader, AutoStreamReader
from spark_connector.batch_reader import BrowseReader
from spark_connector.batch_writer import AmqpBatchWriter
from spark_connector.errors import OptionError
from spark_connector.option_kinds import EARLIEST
from spark_connector.options import Options
from spark_connector.range_reader import RangeReader, RangeStreamReader
from spark_connector.staged_reader import StagedStreamReader
from spark_connector.stream_reader import LeaseStreamReader
from spark_connector.stream_writer import AmqpStreamWriter


class AmqpDataSource(DataSource):
    """format("amqp"). Raises OptionError and SchemaError as soon as Spark asks for anything."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.parse(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> StructType:
        return rows.row_type(self._options.headers_format)

    def reader(self, schema: StructType) -> DataSourceReader:
        rows.check(schema, self._options.headers_format)
        if self._options.mode not in ("auto", "browse", "stream"):
            raise OptionError(
                f"option 'mode' cannot be {self._options.mode!r} with spark.read, which only looks at a queue "
                "(browse); to consume what is there use spark.readStream with trigger(availableNow=True)"
            )
        readers = {"auto": _auto_reader, "browse": _browse_reader, "stream": RangeReader}
        return readers[self._options.mode](self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        rows.check(schema, self._options.headers_format)
        if self._options.mode == "browse":
            raise OptionError("option 'mode' cannot be 'browse' with spark.readStream: use spark.read, or 'lease'")
        if self._options.mode == "stream":
            return RangeStreamReader(self._options, schema)
        if self._options.mode == "auto":
            return AutoStreamReader(self._options, schema, _lease_reader)
        _check_queue(self._options)
        if self._options.mode == "staged":
            return StagedStreamReader(self._options, schema)
        return LeaseStreamReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("save mode 'overwrite' is none for messages: write with .mode(\"append\")")
        return AmqpBatchWriter(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return AmqpStreamWriter(self._options, schema)


def _lease_reader(options: Options, schema: StructType) -> LeaseStreamReader:
    _check_queue(options)
    return LeaseStreamReader(options, schema)


def _browse_reader(options: Options, schema: StructType) -> DataSourceReader:
    check_no_stream(options)
    return BrowseReader(options, schema)


def _auto_reader(options: Options, schema: StructType) -> DataSourceReader:
    return AutoReader(options, schema, _browse_reader)


def _check_queue(options: Options) -> None:
    """Raises OptionError for offsets that a queue cannot have: what it has given away is not there any more."""
    check_no_stream(options)
    if options.starting_offsets != EARLIEST:
        raise OptionError(
            f"option 'startingOffsets' cannot be '{options.starting_offsets}' with spark.readStream, unless the "
            "queue is a stream: this takes messages out of a queue, from the oldest on, and its checkpoint says where "
            "it goes on; leave the option out. To begin with what comes from now on, purge the queue, or bind a new one"
        )
    if "ending_offsets" in options.given:
        raise OptionError(
            "option 'endingOffsets' is for spark.read: a stream has no end; to stop at what is there now leave it out "
            "and use trigger(availableNow=True)"
        )


def check_no_stream(options: Options) -> None:
    """Raises OptionError for what only streams have."""
    for name, field in _OF_STREAMS:
        if field in options.given:
            raise OptionError(f"option '{name}' is for queues that are streams (x-queue-type stream)")
    for name, value in (("startingOffsets", options.starting_offsets), ("endingOffsets", options.ending_offsets)):
        if isinstance(value, dict):
            raise OptionError(f"option '{name}' by queue is for queues that are streams (x-queue-type stream)")


_OF_STREAMS = (
    ("startingTimestamp", "starting_timestamp"), ("endingTimestamp", "ending_timestamp"),
    ("filterValues", "filter_values"), ("matchUnfiltered", "match_unfiltered"),
)  # fmt: skip
