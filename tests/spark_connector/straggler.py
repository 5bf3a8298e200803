"""A task that is stopped in the middle of its range: reads half of it, stops (SIGSTOP), goes on when it is told to,
stages what it has read, and says how it ended: `staged`, or why not.

    python -m tests.spark_connector.straggler URL INCARNATION START END
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from spark_connector import staged_writes
from spark_connector.decode import Decoder
from spark_connector.encode import Encoder
from spark_connector.errors import ConnectorError
from spark_connector.fetch import fetch
from spark_connector.options import Options
from spark_connector.schema import TYPES

QUEUE, GROUP, APP, EPOCH, PARTITION = "q", "g", "app", 0, 0
_BODIES = StructType([StructField("body", TYPES["binary"])])


def options(url: str) -> Options:
    """Small fetches, so that a range is many of them."""
    return Options.parse({
        "uri": url, "group": GROUP, "fetchSize": "1k", "routingKey": "out", "delivery": "transactional",
        "brokerRetryTimeout": "10s",
    })  # fmt: skip


def rows(url: str, incarnation: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The range, as a task reads it."""
    return fetch(options(url), Decoder(_BODIES, "map"), QUEUE, incarnation, start, end)


def stage(url: str, batches: Iterator[pa.RecordBatch]) -> staged_writes.Staged:
    """What was read, staged as a task does it."""
    return staged_writes.stage(options(url), Encoder(_BODIES, options(url)), batches, APP, EPOCH, PARTITION)



def stopping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        yield batch
        if number == 1:
            os.kill(os.getpid(), signal.SIGSTOP)


def main(url: str, incarnation: str, start: int, end: int) -> None:
    try:
        stage(url, stopping(rows(url, incarnation, start, end)))
    except ConnectorError as error:
        sys.stdout.write(f"{error}\n")
    else:
        sys.stdout.write("staged\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
