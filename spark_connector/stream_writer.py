"""df.writeStream.format("amqp"): every row of every batch a message.

A transaction is named by the query's id, which its checkpoint keeps, and the number of the batch: both come to the task
from Spark. So a batch that runs again after a crash is the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector import staged_writes
from spark_connector.encode import Encoder
from spark_connector.errors import ConnectorError, OptionError
from spark_connector.options import Options
from spark_connector.staged_writes import Staged


class AmqpStreamWriter(DataSourceStreamArrowWriter):
    """The streaming sink. Another instance, in another process, commits: all it knows is in the tasks' messages."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.txn_app_id is not None:
            raise OptionError(
                "option 'txnAppId' is for batch writes in foreachBatch: a streaming write goes by its query's id"
            )
        if options.declare_queue:
            raise OptionError("option 'declareQueue' is for batch writes: declare the queue before the query starts")
        self._options = options
        self._schema = schema
        Encoder(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See staged_writes."""
        return staged_writes.write(self._options, self._schema, iterator, _transaction)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of the batch are done."""
        staged_writes.commit(self._options, [each for each in messages if isinstance(each, Staged)])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch has failed. If no task got as far as to say its query's name, the broker drops it in time."""
        staged = [each for each in messages if isinstance(each, Staged)]
        if staged:
            staged_writes.abort(self._options, staged[0].app, batchId)


def _transaction(task: TaskContext) -> tuple[str, int]:
    query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise ConnectorError("Spark names no query and batch to this task: delivery=transactional needs them")
    return f"spark-{query}", int(batch)
