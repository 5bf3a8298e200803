"""Writing: with confirms or in one transaction, from batches and streams."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from tests.spark_connector.with_spark.scene import Scene, numbered


def rows(scene: Scene, count: int) -> DataFrame:
    return scene.spark.range(count).repartition(2).selectExpr("cast(id as string) body", "'q' routing_key")


@pytest.mark.parametrize("delivery", ["confirm", "transactional"])
def test_a_table_becomes_messages(scene: Scene, delivery: str) -> None:
    rows(scene, 3000).write.format("amqp").mode("append").options(uri=scene.url, delivery=delivery).save()
    assert sorted(scene.bodies("q")) == sorted(numbered(3000))


@pytest.mark.parametrize("delivery", ["confirm", "transactional"])
def test_what_was_read_can_be_written_as_it_is(scene: Scene, delivery: str) -> None:
    properties = {"app_id": "a", "headers": {"k": "v"}, "priority": 3, "message_id": "m", "delivery_mode": 1}
    scene.publish([b"\x00\xff"], properties=properties)
    scene.declare("copy")
    frame = scene.browse().drop("routing_key")
    frame.write.format("amqp").mode("append").options(uri=scene.url, delivery=delivery, routingKey="copy").save()
    (row,) = scene.browse("copy").collect()
    assert (bytes(row.body), row.app_id, row.headers, row.priority, row.message_id, row.delivery_mode) == (
        b"\x00\xff", "a", {"k": "v"}, 3, "m", 1,
    )  # fmt: skip


@pytest.mark.parametrize("delivery", ["confirm", "transactional"])
def test_a_stream_becomes_messages(scene: Scene, delivery: str) -> None:
    scene.declare("out")
    scene.publish(numbered(2000))
    frame = scene.stream(maxMessagesPerBatch=1500).selectExpr("body", "'out' routing_key", "message_id")
    writer = frame.writeStream.format("amqp").option("uri", scene.url).option("delivery", delivery)
    writer = writer.option("checkpointLocation", scene.checkpoint()).trigger(availableNow=True)
    scene.started(writer.start()).awaitTermination(60)
    assert sorted(scene.bodies("out")) == sorted(numbered(2000))
    assert scene.counts() == (0, 0)


@pytest.mark.parametrize(
    ("delivery", "said"),
    [
        ("confirm", "no queue takes messages to exchange '' with routing key 'nowhere'"),
        ("transactional", "is routed to no queue: exchange '', routing key 'nowhere'"),
    ],
)
def test_a_message_that_no_queue_takes_fails_the_write(scene: Scene, delivery: str, said: str) -> None:
    writer = scene.spark.range(1).selectExpr("'x' body").write.format("amqp").mode("append")
    writer = writer.options(uri=scene.url, routingKey="nowhere", delivery=delivery)
    with pytest.raises(PySparkException) as caught:
        writer.save()
    assert said in str(caught.value)
    writer.option("mandatory", "false").save()


def test_a_queue_may_be_declared_on_the_way(scene: Scene) -> None:
    frame = scene.spark.range(2).selectExpr("cast(id as string) value")
    options = {"uri": scene.url, "routingKey": "fresh", "declareQueue": "true"}
    frame.write.format("amqp").mode("append").options(**options).save()
    assert sorted(scene.bodies("fresh")) == [b"0", b"1"]


def test_an_application_and_a_version_are_written_once(scene: Scene) -> None:
    for version, count in ((0, 10), (0, 10), (1, 5), (0, 10)):
        options = {"uri": scene.url, "delivery": "transactional", "txnAppId": "job", "txnVersion": str(version)}
        rows(scene, count).write.format("amqp").mode("append").options(**options).save()
    assert sorted(scene.bodies("q")) == sorted([*numbered(10), *numbered(5)])


def test_a_failed_task_leaves_nothing_of_a_transaction(scene: Scene) -> None:
    frame = scene.spark.range(100).repartition(2).selectExpr(
        "cast(id as string) body", "case when id = 50 then null else 'q' end routing_key"
    )
    with pytest.raises(PySparkException, match="a row has no routing_key"):
        frame.write.format("amqp").mode("append").options(uri=scene.url, delivery="transactional").save()
    assert scene.bodies("q") == []
    assert scene.ask("txn.stat")["apps"] == [] or all(
        each["staged_messages"] == 0 for each in scene.ask("txn.stat")["apps"]
    )


def test_overwriting_is_refused(scene: Scene) -> None:
    with pytest.raises(PySparkException, match="save mode 'overwrite'"):
        rows(scene, 1).write.format("amqp").mode("overwrite").options(uri=scene.url).save()


def test_a_streaming_write_has_no_name_of_its_own(scene: Scene) -> None:
    options = {"uri": scene.url, "delivery": "transactional", "txnAppId": "a", "txnVersion": "1", "routingKey": "q"}
    frame = scene.stream().select("body")
    writer = frame.writeStream.format("amqp").options(**options).option("checkpointLocation", scene.checkpoint())
    scene.publish(numbered(1))
    with pytest.raises((PySparkException, StreamingQueryException), match="option 'txnAppId' is for batch writes"):
        scene.started(writer.trigger(availableNow=True).start()).awaitTermination(30)
