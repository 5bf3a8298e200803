"""The blocks of docs/spark.md that need Spark, as they stand there, but for where the broker is and where files go."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from tests.docs.blocks import block_named
from tests.spark_connector.with_spark.scene import Scene, numbered

COUNT = 20


def as_here(text: str, scene: Scene) -> str:
    """The program with the scene's broker and folder."""
    text = text.replace('format("amqp")', f'format("amqp").option("uri", {scene.url!r})')
    for name in ("orders", "orders-checkpoint", "done-checkpoint"):
        for option in ("path", "checkpointLocation"):
            text = text.replace(f'("{option}", "{name}")', f'("{option}", {str(scene.folder / name)!r})')
    return text


def run(text: str, scene: Scene, **given: object) -> dict[str, Any]:
    """Returns what the program has named. Its queries end with the scene."""
    names: dict[str, Any] = {"spark": scene.spark, **given}
    exec(as_here(text, scene), names)
    for query in scene.spark.streams.active:
        scene.started(query)
    return names


def test_a_stream_becomes_files(scene: Scene) -> None:
    scene.declare("orders")
    scene.publish(numbered(COUNT), "orders")
    run(block_named("a stream into files"), scene)
    scene.wait_until(lambda: scene.counts("orders") == (0, 0))
    found = scene.spark.read.parquet(str(scene.folder / "orders")).collect()
    assert sorted(bytes(row.body) for row in found) == sorted(numbered(COUNT))


def test_a_queue_is_drained(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the session that is there: as a process of its own the command runs in test_over_tls.py."""
    monkeypatch.setattr(type(scene.spark), "stop", lambda session: None)
    monkeypatch.chdir(scene.folder)
    scene.declare("orders")
    scene.publish(numbered(COUNT), "orders")
    words = shlex.split(block_named("a drain"), comments=True)
    assert words[0] == "amqp-broker"
    assert main([*words[1:], "--url", scene.url]) == 0
    assert scene.spark.read.parquet(str(Path(scene.folder / "orders"))).count() == COUNT
    assert scene.counts("orders") == (0, 0)


def test_a_look_takes_nothing(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.declare("orders")
    scene.publish(numbered(COUNT), "orders")
    run(block_named("a look"), scene)
    assert f"|     orders|   {COUNT}|" in capsys.readouterr().out
    assert scene.counts("orders") == (COUNT, 0)


def test_rows_and_streams_are_written(scene: Scene) -> None:
    """The rows go to a queue, from which the stream comes."""
    scene.declare("done")
    with Connection.open(scene.url) as connection, connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="sales", type="direct", durable=True))
        channel.call(m.QueueBind(queue="q", exchange="sales", routing_key="CH"))
    rows = scene.spark.createDataFrame([("CH", number) for number in range(COUNT)], "country string, amount int")
    run(block_named("writing"), scene, rows=rows, stream=scene.stream())
    scene.wait_until(lambda: scene.counts("done") == (COUNT, 0))
    assert sorted(scene.bodies("done")) == sorted(b'{"country":"CH","amount":%d}' % number for number in range(COUNT))


def test_a_batch_is_written_once_by_hand(scene: Scene) -> None:
    scene.declare("done")
    scene.publish(numbered(COUNT))
    each = run(block_named("a batch by hand"), scene)["each"]
    query = scene.drain(scene.stream().select("body"), each)
    assert query.exception() is None
    assert sorted(scene.bodies("done")) == sorted(numbered(COUNT))
