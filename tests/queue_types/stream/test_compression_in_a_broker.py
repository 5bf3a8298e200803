"""Streams of a running broker that are compressed: for readers of every kind nothing is different, it is told how much
is saved, and a policy turns it on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.system_client import SystemClient
from tests.robustness.broker import PROJECT_ROOT, Broker

pytestmark = pytest.mark.once

PATIENCE_S = 60
BODIES = [b'{"reading": %d, "unit": "degrees", "place": "the roof"}' % number * 40 for number in range(1000)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    environment = {"AMQP_BROKER_STREAM_COMPRESSION": "50ms", "AMQP_BROKER_PAGE_SIZE": "16KiB"}
    with Broker(tmp_path_factory.mktemp("compressed"), env=environment) as running:
        yield running


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with broker.connect() as opened:
        yield opened


def fill(connection: Connection, name: str, **arguments: object) -> None:
    table = Table({"x-queue-type": "stream", **{key.replace("_", "-"): value for key, value in arguments.items()}})
    with connection.channel() as channel:
        channel.call(QueueDeclare(0, name, False, True, False, False, False, table))
        channel.confirm_select()
        for start in range(0, len(BODIES), 5):  # small chunks, so that few pages of many are in RAM
            for body in BODIES[start : start + 5]:
                channel.publish("", name, body)
            channel.wait_for_confirms()


def stat(broker: Broker, name: str) -> dict[str, Any]:
    with SystemClient(broker.url) as client:
        return dict(client.request("stream.stat", vhost="/", name=name))


def wait_for_half(broker: Broker, name: str) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = stat(broker, name)
        if 2 * found["stream_bytes"] < found["stream_uncompressed_bytes"]:
            return found
        Event().wait(0.02)
    pytest.fail(f"after {PATIENCE_S} s: {found}")


def read(connection: Connection, name: str, **arguments: object) -> list[bytes]:
    table = {"x-stream-offset": "first", **{key.replace("_", "-"): value for key, value in arguments.items()}}
    found: list[bytes] = []
    with connection.channel() as channel:
        consumer = channel.consume(name, prefetch_count=100, arguments=table)
        while len(found) < len(BODIES):
            message = consumer.next(PATIENCE_S)
            assert message is not None
            found.append(message.body)
            channel.ack(message)
    return found


def test_nobody_who_reads_finds_a_difference(broker: Broker, connection: Connection) -> None:
    fill(connection, "packed", x_stream_compression="zlib")
    found = wait_for_half(broker, "packed")
    assert found["compression"] == "zlib"
    assert found["stream_uncompressed_bytes"] > sum(map(len, BODIES))
    assert read(connection, "packed") == read(connection, "packed", x_stream_group="readers") == BODIES
    with SystemClient(broker.url) as client:
        row = client.request("object", kind="queues", vhost="/", name="packed")["object"]
        assert 2 * row["stream_bytes"] < row["stream_uncompressed_bytes"]
    command = [sys.executable, "-m", "amqp_broker", "stream", "stat", "packed", "--url", broker.url]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ", compressed from " in done.stdout


def test_a_policy_turns_it_on_for_what_is_there(broker: Broker, connection: Connection) -> None:
    fill(connection, "governed")
    found = stat(broker, "governed")
    assert found["stream_bytes"] == found["stream_uncompressed_bytes"]
    definition = {"stream-compression": "zlib"}
    policy = {"pattern": "governed", "definition": definition, "apply_to": "streams", "priority": 0}
    with SystemClient(broker.url) as client:
        client.request("policy.put", vhost="/", name="small", **policy)
    wait_for_half(broker, "governed")
    assert read(connection, "governed") == BODIES


def test_what_is_refused(connection: Connection) -> None:
    table = Table({"x-queue-type": "stream", "x-stream-compression": "lz4"})
    with connection.channel() as channel, pytest.raises(Exception, match="406") as refused:
        channel.call(QueueDeclare(0, "refused", False, True, False, False, False, table))
    assert "'lz4' is none of none and zlib" in str(refused.value)
