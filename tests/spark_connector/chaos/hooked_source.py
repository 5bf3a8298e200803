"""The data source with moments to die in. Nothing of it is changed, only watched; and some tasks dawdle, so that Spark
speculates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from spark_connector.data_source import AmqpDataSource
from spark_connector.stream_reader import LeaseStreamReader
from spark_connector.stream_writer import AmqpStreamWriter
from tests.spark_connector.chaos.attempts import BEGUN, HALF, READ, STAGED, note
from tests.spark_connector.chaos.moments import STOPS, reach

SLOW_SHARE, SLOW_SECONDS = 0.15, 1.5


class HookedSource(AmqpDataSource):
    """format("hooked")."""

    @classmethod
    def name(cls) -> str:
        return "hooked"

    def streamReader(self, schema: StructType) -> LeaseStreamReader:  # noqa: N802
        return HookedReader(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AmqpStreamWriter:  # noqa: N802
        return HookedWriter(self._options, schema)


class HookedReader(LeaseStreamReader):
    """The reader."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if any(at["o"] > self._groups[queue].trimmed for queue, at in start["q"].items() if queue in self._groups):
            reach("logged")  # the commit log has the batch before, which is not settled yet
        end = super().latestOffset(start, limit)
        if end != start:
            reach("claimed")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        parts = super().partitions(start, end)
        if parts:
            reach("planned")
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        is_first = context.attemptNumber() == 0
        note(BEGUN)
        if is_first and random.random() < SLOW_SHARE:
            Event().wait(SLOW_SECONDS)
        for number, batch in enumerate(super().read(partition)):
            reach("reading")
            yield batch
            if number == 0:
                note(HALF)
                # Spark gives no twin to the only task of a stage: it has no other to compare it with.
                for moment in STOPS if is_first and context.partitionId() > 0 else ():
                    reach(moment)
        note(READ)


class HookedWriter(AmqpStreamWriter):
    """The writer."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = super().write(iterator)
        note(STAGED)
        reach("staged")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        reach("committing")
        super().commit(messages, batchId)
        reach("committed")
