"""Streams in Spark: queries that go on, that fail, several of one stream, batches, and a broker that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import amqp_broker
from tests.spark_connector.with_spark.scene import Collector, Scene, numbered


@pytest.fixture
def log(scene: Scene) -> Scene:
    scene.declare("s", **{"x-queue-type": "stream"})
    return scene


def query(scene: Scene, **options: object) -> DataFrame:
    reader = scene.spark.readStream.format("amqp").option("uri", scene.url).option("queue", "s")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def test_what_is_there_comes_once_and_stays(log: Scene) -> None:
    log.publish(numbered(2500), "s")
    got = Collector()
    frame = query(log, maxMessagesPerBatch=1000, numPartitions=1)
    log.drain(frame.select("offset", "body"), got)
    assert [len(batch) for batch in got.batches.values()] == [1000, 1000, 500]
    assert got.bodies == numbered(2500)
    log.publish(numbered(10, 2500), "s")
    log.drain(frame.select("offset", "body"), got)
    assert got.bodies == numbered(2510)
    other = Collector()
    log.drain(query(log).select("offset", "body"), other, "another")  # another query reads it all again
    assert other.bodies == numbered(2510)
    assert log.ask("stream.offsets", stream="s")["next"] == 2510


def test_a_batch_that_failed_comes_again_with_the_same_rows_whatever_the_limit(log: Scene) -> None:
    log.publish(numbered(300), "s")
    failed, good = Collector(fails_in=1), Collector()
    with pytest.raises(StreamingQueryException, match="as the test wants it"):
        log.drain(query(log, maxMessagesPerBatch=100), failed)
    log.drain(query(log, maxMessagesPerBatch=30), good)
    assert good.batches[1] == failed.batches[1]
    assert failed.batches[0] == list(enumerate(numbered(100)))
    assert len(good.batches[2]) == 30
    assert good.bodies == numbered(200, 100)


def test_a_running_query_gets_what_comes(log: Scene) -> None:
    _, table = log.to_memory(query(log, startingOffsets="latest", pollTimeout="50ms").select("body", "partition"))
    vhost = log.url.rpartition("/")[2]
    log.wait_until(lambda: bool(log.ask("stream.stat", vhost=vhost, name="s")["holds"]))  # it has begun
    for start in range(0, 300, 100):
        log.publish(numbered(100, start), "s")
    log.wait_until(lambda: len(log.rows(table)) >= 1 and bytes(log.rows(table)[-1].body) == b"299")
    assert {row.partition for row in log.rows(table)} == {0}


def test_a_batch_reads_ranges(log: Scene) -> None:
    log.publish(numbered(5000), "s")
    assert log.browse("s").count() == 5000
    assert log.browse("s").count() == 5000
    some = log.browse("s", startingOffsets="100", endingOffsets="200").select("offset").collect()
    assert sorted(row.offset for row in some) == list(range(100, 200))
    row = log.browse("s", endingOffsets="1").collect()[0]
    assert (row.queue, row.offset, row.routing_key, row.redelivered, row.delivery_count) == ("s", 0, "s", False, 0)
    assert row.enqueued_at is not None


def test_streams_and_queues_are_read_apart(log: Scene) -> None:
    both = log.spark.readStream.format("amqp").option("uri", log.url).option("queues", "q,s").option("group", "g")
    with pytest.raises(StreamingQueryException, match="of these s are streams and others not"):
        log.drain(both.load(), Collector())


def test_what_retention_took_fails_the_query_unless_it_may(log: Scene) -> None:
    log.publish(numbered(100), "s")
    got = Collector()
    log.drain(query(log, maxMessagesPerBatch=40), got)
    log.publish(numbered(100, 100), "s")
    assert log.ask("stream.trim", vhost=log.url.rpartition("/")[2], name="s", before=150)["ok"]
    with pytest.raises(StreamingQueryException, match="offsets 100 to 150 are gone"):
        log.drain(query(log), got)
    log.drain(query(log, failOnDataLoss="false"), got)
    assert got.bodies == [*numbered(100), *numbered(50, 150)]


def test_a_broker_that_dies_in_the_middle_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    with amqp_broker.running() as broker:
        scene = Scene(spark, broker.url, tmp_path, 90_010)
        scene.declare("s", **{"x-queue-type": "stream"})
        scene.publish(numbered(1000), "s")
        _, table = scene.to_memory(query(scene, maxMessagesPerBatch=200).select("offset", "body"))
        scene.wait_until(lambda: len(scene.rows(table)) > 0)
        broker.restart(kill=True)
        scene.publish(numbered(100, 1000), "s")
        scene.wait_until(lambda: len(scene.rows(table)) >= 1100)
        found = sorted((row.offset, bytes(row.body)) for row in scene.rows(table))
        assert found == list(enumerate(numbered(1100)))
        scene.close()
