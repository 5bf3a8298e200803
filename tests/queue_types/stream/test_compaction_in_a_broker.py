"""Compaction of a running broker: what is left for readers of every kind, what is said of it, what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.system_client import SystemClient, SystemRequestError
from tests.robustness.broker import PROJECT_ROOT, Broker

pytestmark = pytest.mark.once

COMPACTED = {"x-queue-type": "stream", "x-stream-compact": True}
PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("compacted")) as running:
        yield running


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with broker.connect() as opened:
        yield opened


def declare(connection: Connection, name: str, **arguments: object) -> None:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    with connection.channel() as channel:
        channel.call(QueueDeclare(0, name, False, True, False, False, False, Table({**COMPACTED, **named})))


def publish(connection: Connection, name: str, *messages: tuple[str, bytes]) -> None:
    """Each a key, which is in the header `key`, and a body."""
    with connection.channel() as channel:
        channel.confirm_select()
        for key, body in messages:
            channel.publish("", name, body, {"headers": Table({"key": key})})
        channel.wait_for_confirms()


def stat(broker: Broker, name: str) -> dict[str, Any]:
    with SystemClient(broker.url) as client:
        return dict(client.request("stream.stat", vhost="/", name=name))


def compacted(broker: Broker, name: str, tombstones: int) -> dict[str, Any]:
    """Have it compacted, and wait until it is."""
    with SystemClient(broker.url) as client:
        below = client.request("stream.compact", vhost="/", name=name)["next_offset"]
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found: dict[str, Any] = stat(broker, name)["compaction"]
        if found["agreed"] >= below and found["tombstones"] == tombstones:
            return found
    pytest.fail(f"after {PATIENCE_S} s: {found}")


def read(connection: Connection, name: str, end: int, **arguments: object) -> dict[int, bytes]:
    """What a consumer gets from first on, until it has this offset."""
    table = {"x-stream-offset": "first", **{key.replace("_", "-"): value for key, value in arguments.items()}}
    found: dict[int, bytes] = {}
    with connection.channel() as channel:
        consumer = channel.consume(name, prefetch_count=100, arguments=table)
        while end not in found:
            message = consumer.next(PATIENCE_S)
            assert message is not None
            offset = (message.properties.headers or {})["x-stream-offset"]
            assert isinstance(offset, int)
            found[offset] = message.body
            channel.ack(message)
    return found


VERSIONS = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", b""), ("c", b"5"), ("d", b"6")]


def test_readers_get_the_newest_of_each_key_and_all_is_as_it_was_after_a_restart(
    broker: Broker, connection: Connection
) -> None:
    declare(connection, "values", x_stream_key="header:key", x_stream_tombstone_age="0s")
    publish(connection, "values", *VERSIONS)
    found = compacted(broker, "values", 0)
    assert (found["key"], found["below"], found["dirty_percent"]) == ("header:key", 7, 0)
    left = {2: b"3", 5: b"5", 6: b"6"}
    assert read(connection, "values", 6) == left
    assert read(connection, "values", 6, x_stream_group="readers") == left
    publish(connection, "values", ("a", b"7"))
    assert read(connection, "values", 7) == {**left, 7: b"7"}
    with SystemClient(broker.url) as client:
        row = client.request("object", kind="queues", vhost="/", name="values")["object"]
        assert (row["compacted_below"], row["tombstones"], row["messages"]) == (7, 0, 8)


def test_a_tombstone_stays_until_it_is_old_enough(broker: Broker, connection: Connection) -> None:
    declare(connection, "young", x_stream_key="header:key")
    publish(connection, "young", *VERSIONS)
    compacted(broker, "young", 1)
    assert read(connection, "young", 6) == {2: b"3", 4: b"", 5: b"5", 6: b"6"}


def test_the_command_line(broker: Broker, connection: Connection) -> None:
    declare(connection, "lined")
    publish(connection, "lined", ("", b"1"), ("", b"2"))
    command = [sys.executable, "-m", "amqp_broker", "stream", "compact", "lined", "--url", broker.url]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "the stream 'lined' is being compacted below offset 2\n"
    compacted(broker, "lined", 0)
    command[4] = "stat"
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said = r"compacted by routing-key: on \S+ below offset 2, on all nodes below 2; 0 % are not, 0 tombstones"
    assert re.search(said, done.stdout), done.stdout
    assert read(connection, "lined", 1) == {1: b"2"}  # the routing key is the queue's name


def test_what_is_refused(broker: Broker, connection: Connection) -> None:
    for arguments, text in (
        ({"x_stream_key": "colour"}, "'colour' is none of routing-key, message-id and header:NAME"),
        ({"x_stream_key": "header:"}, "'header:' is none of"),
        ({"x_stream_compact": "yes"}, "expected true or false, got longstr"),
        ({"x_stream_compact": False, "x_stream_key": "message-id"}, "with x-stream-compact true only"),
        ({"x_stream_tombstone_age": "soon"}, "'soon' is no time such as 12h or 7D"),
    ):
        with pytest.raises(Exception, match="406") as refused:
            declare(connection, "refused", **arguments)
        assert text in str(refused.value)
    with SystemClient(broker.url) as client:
        with connection.channel() as channel:
            table = Table({"x-queue-type": "stream"})
            channel.call(QueueDeclare(0, "as it came", False, True, False, False, False, table))
        with pytest.raises(SystemRequestError, match="'as it came' is not compacted: that is declared with"):
            client.request("stream.compact", vhost="/", name="as it came")
    declare(connection, "source")
    over = Table({"x-queue-type": "quorum", "x-stream-source": "source"})
    with connection.channel() as channel, pytest.raises(Exception, match="which is compacted"):
        channel.call(QueueDeclare(0, "over", False, True, False, False, False, over))
