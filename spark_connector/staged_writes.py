"""Two phases (`delivery=transactional`): tasks stage their rows at the broker, the driver commits them all at once.

A task's rows are staged under a number of its own (`attempt`, drawn by lot: task numbers begin again when a driver
does), and the commit names the attempt of each partition that Spark has chosen. So a task that was tried twice, a
speculative copy and what an earlier driver left behind are dropped, and a batch that Spark commits again is not
published again: the broker remembers each application's last epoch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from amqp_broker.client import ClientError
from spark_connector.encode import Blob, Encoder
from spark_connector.errors import ConnectorError, PublishFailed, Refused
from spark_connector.options import Options
from spark_connector.publisher import publish
from spark_connector.service import Service

#: A part of an attempt that is sent at once has about so many octets, and so many messages at most.
PART_BYTES: Final = 1 << 20
PART_MESSAGES: Final = 2000


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the driver: where its rows are."""

    app: str
    epoch: int
    partition: int
    attempt: int
    blobs: int
    count: int


@dataclass
class Published(WriterCommitMessage):
    """What a task tells the driver that has published with confirms."""

    count: int


def write(
    options: Options,
    schema: StructType,
    rows: Iterator[pa.RecordBatch],
    named: Callable[[TaskContext], tuple[str, int]],
) -> WriterCommitMessage:
    """In a task: publishes or stages its rows. named: the application and the epoch of its transaction."""
    encoder = Encoder(schema, options)
    if options.delivery == "confirm":
        return Published(publish(options, encoder, rows))
    context = TaskContext.get()
    assert context is not None
    return stage(options, encoder, rows, *named(context), context.partitionId())


def stage(
    options: Options, encoder: Encoder, batches: Iterable[pa.RecordBatch], app: str, epoch: int, partition: int
) -> Staged:
    """Stages all rows of a task. Raises PublishFailed, Refused, BrokerUnavailable."""
    attempt = random.SystemRandom().getrandbits(62)
    service = Service(options)
    blob = Blob()
    sequence = count = 0

    def send() -> None:
        nonlocal sequence
        fields = {
            "app": app, "epoch": epoch, "partition": partition, "attempt": attempt, "sequence": sequence,
            "mandatory": options.mandatory,
        }  # fmt: skip
        try:
            service.ask("txn.stage", fields, blob.take())
        except Refused as error:
            raise _explained(error) from error
        sequence += 1

    for batch in batches:
        for message in encoder.messages(batch):
            if blob.count >= PART_MESSAGES or (blob.count and blob.octets + len(message.body) > PART_BYTES):
                send()
            blob.add(message)
            count += 1
    if blob.count or not sequence:
        send()
    service.close()
    return Staged(app, epoch, partition, attempt, sequence, count)


def commit(options: Options, staged: Sequence[Staged]) -> None:
    """Publishes what these tasks have staged, all of it or nothing; once.

    Raises Refused, BrokerUnavailable, and PublishFailed if no queue took some of the messages: they are gone, the
    others are published, and a query that is started again goes on behind them.
    """
    if not staged:
        return
    request = {
        "app": staged[0].app, "epoch": staged[0].epoch,
        "attempts": {str(each.partition): each.attempt for each in staged},
        "blobs": {str(each.partition): each.blobs for each in staged},
    }  # fmt: skip
    service = Service(options)
    try:
        answer = service.ask("txn.commit", request)
    except Refused as error:
        raise _explained(error) from error
    service.close()
    unroutable = int(answer.fields.get("unroutable", 0))
    if unroutable and options.mandatory:
        raise PublishFailed(
            f"no queue took {unroutable} of the {sum(each.count for each in staged)} messages of a transaction, which "
            "is committed: declare or bind one, correct 'exchange' or 'routingKey', or set mandatory=false; the batch "
            "will not be published again"
        )


def abort(options: Options, app: str, epoch: int) -> None:
    """Drops what was staged. It would be dropped in time without it: a failure here changes nothing."""
    service = Service(options, is_first=True)
    try:
        service.ask("txn.abort", {"app": app, "epoch": epoch})
    except (ConnectorError, ClientError):
        service.drop()
        return
    service.close()


def _explained(error: Refused) -> ConnectorError:
    """A refusal in words for the user of a sink."""
    ways = {
        "not-found": "declare or bind a queue, correct 'exchange' or 'routingKey', or set mandatory=false",
        "access-refused": "grant the user write permission on the exchange, or log in as another one",
        "gone": "what was staged has expired: start the query again, it stages anew",
    }
    if error.code in ways:
        return Refused(f"transactional sink: {error}; {ways[error.code]}", error.code)
    return PublishFailed(f"transactional sink: {error}")
