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
from spark_connector.batch_reader import BrowseReader
from spark_connector.batch_writer import AmqpBatchWriter
from spark_connector.errors import OptionError
from spark_connector.option_kinds import EARLIEST
from spark_connector.options import Options
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
        if self._options.mode not in ("auto", "browse"):
            raise OptionError(
                f"option 'mode' cannot be {self._options.mode!r} with spark.read, which only looks at a queue "
                "(browse); to consume what is there use spark.readStream with trigger(availableNow=True)"
            )
        return BrowseReader(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        rows.check(schema, self._options.headers_format)
        _check_stream(self._options)
        if self._options.mode == "browse":
            raise OptionError("option 'mode' cannot be 'browse' with spark.readStream: use spark.read, or 'lease'")
        if self._options.mode == "staged":
            return StagedStreamReader(self._options, schema)
        return LeaseStreamReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("save mode 'overwrite' is none for messages: write with .mode(\"append\")")
        return AmqpBatchWriter(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return AmqpStreamWriter(self._options, schema)


def _check_stream(options: Options) -> None:
    """Raises OptionError for offsets that a stream cannot have: what a queue has given away is not there any more."""
    if options.starting_offsets != EARLIEST:
        raise OptionError(
            f"option 'startingOffsets' cannot be '{options.starting_offsets}' with spark.readStream: a stream takes "
            "messages out of its queue, from the oldest on, and its checkpoint says where it goes on; leave the option "
            "out. To begin with what comes from now on, purge the queue, or bind a new one"
        )
    if "ending_offsets" in options.given:
        raise OptionError(
            "option 'endingOffsets' is for spark.read: a stream has no end; to stop at what is there now leave it out "
            "and use trigger(availableNow=True)"
        )
