"""`amqp-broker drain`: each message once in the files, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from amqp_broker.cli.main import main
from amqp_broker.pytest_plugin import BrokerForTest
from amqp_broker.system_client import SystemClient
from spark_connector.drain import Drain, drain
from tests.spark_connector.with_spark.scene import Scene, numbered

COMMAND = [sys.executable, "-m", "amqp_broker", "drain", "q"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["drain", *arguments, "--quiet"]) == 2
    return capsys.readouterr().err


@pytest.mark.long
def test_killed_on_the_way_it_goes_on_where_it_was(scene: Scene, tmp_path: Path) -> None:
    scene.publish(numbered(20_000))
    folder = tmp_path / "out"
    command = [*COMMAND, "--to", str(folder), "--url", scene.url, "--batch", "4000", "--cores", "1", "--quiet"]
    first = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        scene.wait_until(lambda: (folder / "batch=000001").exists() or first.poll() is not None)
        assert first.poll() is None
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "messages of queue 'q' are in" in done.stdout
    table = pq.read_table(folder)
    assert sorted(table.column("body").to_pylist()) == sorted(numbered(20_000))
    assert scene.counts() == (0, 0)
    assert not (folder / "_unfinished").exists()


def test_mistakes_are_told_in_one_line_before_spark_is_started(
    amqp_broker: BrokerForTest, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = amqp_broker.url
    assert "queue 'none'" in refused(capsys, "none", "--to", str(tmp_path / "a"), "--url", url)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("precious")
    said = refused(capsys, "q", "--to", str(tmp_path / "b"), "--url", url)
    assert "is not empty and no earlier drain wrote it: give a new folder" in said
    said = refused(capsys, "other", "--to", str(tmp_path / "a"), "--url", url)
    assert "belongs to another drain (queue 'none'" in said
    monkeypatch.setitem(sys.modules, "spark_connector.drain", None)
    said = refused(capsys, "q", "--to", str(tmp_path / "c"), "--url", url)
    assert "pip install 'warrenmq[spark]'" in said


@pytest.mark.parametrize(("file_format", "body", "expected"), [("json", "text", "0"), ("csv", "base64", "MA==")])
def test_formats_of_text(
    amqp_broker_system: SystemClient, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    file_format: str, body: str, expected: str,
) -> None:  # fmt: skip
    scene.publish(numbered(3), properties={"headers": {"n": 1}})
    monkeypatch.setattr(type(scene.spark), "stop", lambda session: None)  # the session is the tests' own
    seen: list[tuple[int, int]] = []
    order = Drain(scene.url, "q", tmp_path / "out", file_format, body)
    assert drain(order, lambda done, total: seen.append((done, total))) == 3
    assert (seen[0], seen[-1]) == ((0, 3), (3, 3))
    frame = scene.spark.read.option("header", "true").option("escape", '"').format(file_format).load(str(order.folder))
    rows = {row.body: row for row in frame.collect()}
    assert json.loads(rows[expected].headers) == {"n": 1}
    assert len(rows) == 3
