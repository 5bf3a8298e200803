"""Spark, whose driver and executors have packages with the names of ours, reads, streams and writes queues."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pika
from pyspark.sql import Row

import amqp_broker
import queues.classic
from amqp_broker.client import Connection
from spark_connector.local_session import local_session

COUNT = 20


def owners(_: Iterator[Row]) -> Iterator[str]:
    """In an executor: whose packages there are."""
    import octets.buffer

    import exchanges.registry
    import queues.classic
    import raft.host
    import storage.journal

    modules = (exchanges.registry, octets.buffer, queues.classic, raft.host, storage.journal)
    yield ", ".join(each.OWNER for each in modules)


def main() -> None:
    folder = Path("spark").absolute()
    folder.mkdir()
    with amqp_broker.running() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.queue_declare("out", durable=True)
            channel.confirm_delivery()
            for number in range(COUNT):
                channel.basic_publish("", "q", str(number).encode(), pika.BasicProperties(delivery_mode=2))
        spark = local_session(folder, cores=2, level="error")
        try:
            options = {"uri": broker.url, "queue": "q"}
            table = spark.read.format("amqp").options(**options).load()
            assert table.count() == COUNT
            said = table.rdd.mapPartitions(owners).collect()
            wanted = ", ".join(f"stranger's {name}" for name in ("exchanges", "octets", "queues", "raft", "storage"))
            assert set(said) == {wanted}, said
            stream = spark.readStream.format("amqp").options(**options, group="etl").load()
            query = stream.writeStream.format("parquet").option("path", str(folder / "parquet"))
            query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
            query.start().awaitTermination()
            assert spark.read.parquet(str(folder / "parquet")).count() == COUNT
            bodies = table.sparkSession.createDataFrame([(b"back",)], "body binary")
            bodies.write.format("amqp").options(uri=broker.url, routingKey="out").mode("append").save()
        finally:
            spark.stop()
        with Connection.open(broker.url) as own, own.channel() as reader:
            delivery = reader.get("out")
            assert delivery is not None
            assert delivery.body == b"back"
    assert queues.classic.OWNER == "stranger's queues"
    assert "amqp_broker.node" not in sys.modules


if __name__ == "__main__":
    main()
