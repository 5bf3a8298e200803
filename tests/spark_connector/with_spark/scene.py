"""Scene: what the tests do to a broker and to Spark, in few words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare, QueueDelete
from spark_connector.options import Options
from spark_connector.service import Service

PATIENCE_S = 300
#: Between two looks, each of which is work for Spark or the broker.
LOOK_S = 0.1


class Scene:
    """A broker's virtual host by url, a Spark session, a folder."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, number: int) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self._number = number
        self._tables = 0
        self._queries: list[StreamingQuery] = []

    # -- the broker ----------------------------------------------------------------------------------------------------

    def declare(self, queue: str, **arguments: object) -> None:
        with Connection.open(self.url) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(queue=queue, durable=True, arguments=Table(arguments)))

    def delete(self, queue: str) -> None:
        with Connection.open(self.url) as connection, connection.channel() as channel:
            channel.call(QueueDelete(queue=queue))

    def publish(
        self, bodies: Sequence[bytes], queue: str = "q", properties: Mapping[str, object] | None = None
    ) -> None:
        with Connection.open(self.url) as connection, connection.channel() as channel:
            channel.confirm_select()
            for body in bodies:
                channel.publish("", queue, body, properties or {"delivery_mode": 2}, mandatory=True)
            assert channel.wait_for_confirms() == []

    def ask(self, verb: str, **fields: object) -> Mapping[str, Any]:
        service = Service(Options.parse({"uri": self.url}))
        try:
            return service.ask(verb, fields).fields
        finally:
            service.close()

    def counts(self, queue: str = "q") -> tuple[int, int]:
        """How many messages are ready, and how many leased."""
        found = self.ask("lease.stat", queue=queue)
        return found["ready"], sum(each["next"] - each["trimmed"] for each in found["groups"])

    def bodies(self, queue: str) -> list[bytes]:
        """What a queue holds; it is empty afterwards."""
        found = []
        with Connection.open(self.url) as connection, connection.channel() as channel:
            while (delivery := channel.get(queue, no_ack=True)) is not None:
                found.append(delivery.body)
        return found

    # -- Spark ---------------------------------------------------------------------------------------------------------

    def stream(self, queue: str = "q", /, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("amqp").option("uri", self.url)
        for name, value in {"queue": queue, "group": "g", **options}.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def browse(self, queue: str = "q", /, **options: object) -> DataFrame:
        reader = self.spark.read.format("amqp").option("uri", self.url).option("queue", queue)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def checkpoint(self, name: str = "checkpoint") -> str:
        return str(self.folder / name)

    def to_memory(self, frame: DataFrame, trigger: Mapping[str, Any] | None = None) -> tuple[StreamingQuery, str]:
        """A query into a table of the session that nobody else has, and the table's name."""
        self._tables += 1
        name = f"t{self._number}_{self._tables}"
        writer = frame.writeStream.format("memory").queryName(name)
        return self.started(writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()), name

    def drain(
        self, frame: DataFrame, each: Callable[[DataFrame, int], None], checkpoint: str = "checkpoint"
    ) -> StreamingQuery:
        """Runs what is there through foreachBatch, to the end or the first failure."""
        writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", self.checkpoint(checkpoint))
        query = self.started(writer.trigger(availableNow=True).start())
        query.awaitTermination(PATIENCE_S)
        return query

    def started(self, query: StreamingQuery) -> StreamingQuery:
        self._queries.append(query)
        return query

    def rows(self, table: str) -> list[Row]:
        return self.spark.table(table).collect()

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> float:
        """Looks until it holds; returns after how many seconds."""
        begin = time.monotonic()
        while not condition():
            failed = [query.exception() for query in self._queries if not query.isActive and query.exception()]
            assert not failed, failed
            assert time.monotonic() - begin < seconds, f"not in {seconds} s"
            Event().wait(LOOK_S)
        return time.monotonic() - begin

    def close(self) -> None:
        for query in self._queries:
            with suppress(StreamingQueryException):
                query.stop()


class Collector:
    """For foreachBatch: keeps what each batch held, and fails where it is told to."""

    def __init__(self, fails_in: int | None = None) -> None:
        self.batches: dict[int, list[tuple[int, bytes]]] = {}
        self._fails_in = fails_in

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted((row.offset, bytes(row.body)) for row in frame.select("offset", "body").collect())
        if batch == self._fails_in:
            raise RuntimeError("as the test wants it")

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in sorted(self.batches) for _, body in self.batches[batch]]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
