"""Queries over amqps:// with a certificate of their own: stream, snapshot and transactional sink."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark_connector.tls_place import TlsPlace, tls_place
from tests.spark_connector.with_spark.scene import PATIENCE_S, Scene, numbered


@pytest.fixture
def place(tmp_path: Path) -> Iterator[TlsPlace]:
    with tls_place(tmp_path) as place:
        yield place


def test_a_query_over_tls_and_one_that_trusts_somebody_else(
    spark: SparkSession, place: TlsPlace, tmp_path: Path
) -> None:
    scene = Scene(spark, place.plain, tmp_path, 90_002)
    for queue in ("q", "out"):
        scene.declare(queue)
    scene.publish(numbered(300))
    stream = spark.readStream.format("amqp").options(queue="q", group="g", **place.options).load()
    writer = stream.selectExpr("body", "'out' routing_key").writeStream.format("amqp")
    writer = writer.options(delivery="transactional", checkpointLocation=scene.checkpoint(), **place.options)
    query = scene.started(writer.trigger(availableNow=True).start())
    assert query.awaitTermination(PATIENCE_S)
    assert scene.counts() == (0, 0)
    snapshot = spark.read.format("amqp").options(queue="out", **place.options)
    assert sorted(bytes(row.body) for row in snapshot.load().collect()) == sorted(numbered(300))
    with pytest.raises(PySparkException, match=r"certificate is not trusted: .*option 'caFile' \("):
        snapshot.option("caFile", place.other_ca).load().collect()
    scene.close()


@pytest.mark.long
def test_the_drain_command_over_tls(place: TlsPlace, spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, place.plain, tmp_path, 90_003)
    scene.declare("q")
    scene.publish(numbered(30))
    command = [sys.executable, "-m", "amqp_broker", "drain", "q", "--to", "out", "--format", "json", "--quiet"]
    files = ["--ca-file", "ca.pem", "--cert-file", "cert.pem", "--key-file", "key.pem"]
    done = subprocess.run(
        [*command, "--url", place.url, *files], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert "30 messages of queue 'q' are in out" in done.stdout
    assert scene.counts() == (0, 0)
    refused = subprocess.run([*command, "--url", place.url], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "set option '--ca-file'" in refused.stderr
    scene.close()
