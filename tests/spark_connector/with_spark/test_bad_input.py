"""One clear error for each mistake: it names the option or the queue and says what to do; nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import amqp_broker
from amqp_broker.system_client import SystemClient
from tests.spark_connector.with_spark.scene import Collector, Scene, numbered


@contextmanager
def says(*texts: str) -> Iterator[None]:
    with pytest.raises(PySparkException) as caught:
        yield
    for text in texts:
        assert text in str(caught.value)


def test_a_missing_queue(scene: Scene) -> None:
    with says("queue 'nowhere'", "declare it, or correct option 'queue'"):
        scene.drain(scene.stream("nowhere"), Collector())
    with says("queue 'nowhere'", "declare it, or correct option 'queue'"):
        scene.browse("nowhere").count()


def test_a_wrong_password(scene: Scene) -> None:
    parts = urlsplit(scene.url)
    wrong = parts._replace(netloc=f"guest:wrong@{parts.hostname}:{parts.port}")
    reader = scene.spark.read.format("amqp").options(uri=wrong.geturl(), queue="q")
    with says("refuses the login", "check the user and password in 'uri'"):
        reader.load().count()


def test_a_virtual_host_that_is_not_there(scene: Scene) -> None:
    reader = scene.spark.read.format("amqp").options(uri=urlsplit(scene.url)._replace(path="/none").geturl(), queue="q")
    with says("check the virtual host in 'uri'"):
        reader.load().count()


def test_a_user_without_permission(scene: Scene, amqp_broker_system: SystemClient) -> None:
    vhost = urlsplit(scene.url).path.removeprefix("/")
    amqp_broker_system.request("user.put", name="eve", password="pw", tags=[])
    amqp_broker_system.request("permission.put", user="eve", vhost=vhost, configure="", write="", read="^other$")
    parts = urlsplit(scene.url)
    url = parts._replace(netloc=f"eve:pw@{parts.hostname}:{parts.port}").geturl()
    with says("queue 'q'", "grant the user read permission"):
        scene.drain(Scene(scene.spark, url, scene.folder, 0).stream(), Collector())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"qeue": "q"}, "option 'qeue' is unknown to format amqp: did you mean 'queue'?"),
        ({"maxMessagesPerBatch": "many"}, "option 'maxMessagesPerBatch' cannot be 'many'"),
        ({"group": "g"}, "option 'queue' is missing"),
        ({"queue": "q"}, "option 'group' is missing"),
        ({"queue": "q", "group": "g", "mode": "browse"}, "option 'mode' cannot be 'browse' with spark.readStream"),
        ({"queue": "q", "group": "g", "mode": "staged"}, "option 'stagingDir' is missing"),
        ({"queue": "q", "mode": "stream"}, "mode=stream reads queues that are streams"),
        ({"queue": "q", "group": "g", "startingOffsets": "latest"}, "cannot be 'latest' with spark.readStream, unless"),
        ({"queue": "q", "group": "g", "filterValues": "x"}, "option 'filterValues' is for queues that are streams"),
    ],
)
def test_options(scene: Scene, options: dict[str, str], said: str) -> None:
    with says(said):
        frame = scene.spark.readStream.format("amqp").options(uri=scene.url, **options).load()
        scene.drain(frame, Collector())


def test_a_column_that_no_message_has(scene: Scene) -> None:
    reader = scene.spark.read.format("amqp").options(uri=scene.url, queue="q").schema("body binary, size int")
    with says("a message has no column 'size'"):
        reader.load().count()


def test_a_broker_that_is_down_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    with amqp_broker.running() as broker:
        url = broker.url
    reader = spark.read.format("amqp").options(uri=url, queue="q", connectTimeout="1s")
    with says("no answer from amqp://127.0.0.1", "within 1 s (option 'connectTimeout')", "nothing is lost"):
        reader.load().count()


@pytest.mark.long
def test_a_broker_that_dies_in_the_middle_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    with amqp_broker.running() as broker:
        scene = Scene(spark, broker.url, tmp_path, 90_000)
        scene.declare("q")
        scene.publish(numbered(1000))
        _, table = scene.to_memory(scene.stream(maxMessagesPerBatch=200).select("body"))
        scene.wait_until(lambda: len(scene.rows(table)) > 0)
        broker.restart(kill=True)
        scene.publish(numbered(100, 1000))
        scene.wait_until(lambda: len(scene.rows(table)) >= 1100)
        assert sorted(bytes(row.body) for row in scene.rows(table)) == sorted(numbered(1100))
        scene.wait_until(lambda: scene.counts() == (0, 0))
        scene.close()


@pytest.mark.long
def test_a_broker_that_does_not_come_back(spark: SparkSession, tmp_path: Path) -> None:
    with amqp_broker.running() as broker:
        scene = Scene(spark, broker.url, tmp_path, 90_001)
        scene.declare("q")
        scene.publish(numbered(10))
        query, table = scene.to_memory(scene.stream(brokerRetryTimeout="1s", pollTimeout="50ms").select("body"))
        scene.wait_until(lambda: len(scene.rows(table)) == 10)
    with says("within 1 s (option 'brokerRetryTimeout')", "nothing is lost"):
        query.awaitTermination(60)
