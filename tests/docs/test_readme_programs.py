"""The README's programs, as they stand there, but for the address of the broker and where they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from amqp_broker.pytest_plugin import BrokerForTest
from tests.docs.blocks import block_named

PATIENCE_S = 300
#: Spark gives a Python that it starts ten seconds, and nothing in a plain program can change that.
TRIES = 4
#: For the Java below it, whose life is too short for its slow compiler.
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """With the interpreter of these tests by its path: its environment is not activated."""
    (folder / "program.py").write_text(source)
    path = ":".join(each for each in os.environ["PATH"].split(":") if Path(each) != Path(sys.executable).parent)
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYSPARK_PYTHON")}
    command = [sys.executable, "program.py"]
    return subprocess.run(
        command, cwd=folder, env=variables | QUICK | {"PATH": path}, capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_the_first_program(amqp_broker: BrokerForTest, tmp_path: Path) -> None:
    done = run(block_named("the first program").replace("amqp://guest:guest@127.0.0.1/", amqp_broker.url), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one coffee\n", "")


@pytest.mark.xdist_group("spark")
def test_a_queue_into_spark(amqp_broker: BrokerForTest, tmp_path: Path) -> None:
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one coffee", mandatory=True)
    source = block_named("a queue into Spark").replace(
        'format("amqp")', f'format("amqp").option("uri", {amqp_broker.url!r})'
    )
    for _ in range(TRIES):
        done = run(source, tmp_path)
        if "failed to connect back" not in done.stdout + done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    assert list((tmp_path / "orders").glob("*.parquet"))
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        assert connection.channel().queue_declare("orders", passive=True).method.message_count == 0
