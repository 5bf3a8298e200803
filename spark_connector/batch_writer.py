"""df.write.format("amqp"): every row a message, with confirms or in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector import staged_writes
from spark_connector.encode import Encoder
from spark_connector.options import Options
from spark_connector.publisher import declare_queue
from spark_connector.staged_writes import Staged


class AmqpBatchWriter(DataSourceArrowWriter):
    """The batch sink. Made once for a job, and pickled to its tasks: the job's name is common to them."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._app = options.txn_app_id or f"spark-job-{uuid.uuid4().hex}"
        self._epoch = options.txn_version or 0
        Encoder(schema, options)  # fails here, not in every task
        if options.declare_queue:
            declare_queue(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See staged_writes."""
        return staged_writes.write(self._options, self._schema, iterator, lambda task: (self._app, self._epoch))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        staged_writes.commit(self._options, [each for each in messages if isinstance(each, Staged)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The job has failed."""
        if self._options.delivery == "transactional":
            staged_writes.abort(self._options, self._app, self._epoch)
