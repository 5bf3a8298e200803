"""A queue as a table: a snapshot of its ready messages, which stay where they are (`mode=browse`).

What is below the sequence that the queue had reached when the query was planned is read, each task a range of it. Spark
reads again for every action; a message that consumers take meanwhile is missing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector.columns import Columns
from spark_connector.decode import Decoder
from spark_connector.errors import Refused
from spark_connector.fetch import batches
from spark_connector.link import Answer
from spark_connector.offsets import split
from spark_connector.option_kinds import EARLIEST, LATEST
from spark_connector.options import Options
from spark_connector.service import Service, explained


class Snapshot(InputPartition):
    """The messages of a queue with sequences of [start, below)."""

    def __init__(self, queue: str, start: int, below: int) -> None:
        self.queue = queue
        self.start = start
        self.below = below


class BrowseReader(DataSourceReader):
    """The batch source."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._queues = options.source_queues
        self._decoder = Decoder(schema, options.headers_format)

    def partitions(self) -> list[InputPartition]:
        """Where the snapshot of each queue begins and ends, in parts. Never none: Spark would make one up."""
        service = Service(self._options, is_first=True)
        parts: list[InputPartition] = []
        for queue in self._queues:
            answer = _browse(service, queue, {"columns": [], "max_bytes": 1})
            found = Columns(answer.body, frozenset({"offset"}))
            below = int(answer.headers["x-next-sequence"])
            start = int(found.offset.values[0]) if found.rows and found.offset is not None else below
            start, below = self._bounded(start, below)
            for low, high in split(start, below, self._options.num_partitions, 1 << 62) or [(below, below)]:
                parts.append(Snapshot(queue, low, high))
        service.close()
        return parts

    def _bounded(self, first: int, below: int) -> tuple[int, int]:
        """What of the snapshot [first, below) the options ask for; the end is not behind the start."""
        ends = {EARLIEST: first, LATEST: below}
        start, end = (
            min(max(ends.get(each, each), first), below)
            for each in (self._options.starting_offsets, self._options.ending_offsets)
        )
        return start, max(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        assert isinstance(partition, Snapshot)
        service = Service(self._options)
        at, is_more = partition.start, partition.start < partition.below
        while is_more:
            request = {
                "from_sequence": at, "below": partition.below, "max_bytes": self._options.fetch_size,
                "columns": self._decoder.parts,
            }  # fmt: skip
            answer = _browse(service, partition.queue, request)
            at, is_more = int(answer.headers["x-end"]), bool(answer.headers["x-more"])
            yield from batches(self._decoder, answer.body, partition.queue, None, self._options.arrow_batch_rows)
        service.close()


def _browse(service: Service, queue: str, request: Mapping[str, Any]) -> Answer:
    try:
        return service.ask("lease.browse", {"queue": queue, **request})
    except Refused as error:
        raise explained(error, queue, None) from error
