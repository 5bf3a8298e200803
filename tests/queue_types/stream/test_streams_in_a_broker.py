"""Streams of a running broker: what administrators see of them, definitions, policies, a restart, a stopped folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import BasicConsume, BasicGet, BasicQos, ExchangeDeclare, QueueBind, QueueDeclare
from amqp_broker.system_client import SystemClient, SystemRequestError
from tests.robustness.broker import PROJECT_ROOT, Broker

pytestmark = pytest.mark.once

STREAM = {"x-queue-type": "stream"}


def declaration(name: str, **arguments: object) -> QueueDeclare:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return QueueDeclare(0, name, False, True, False, False, False, Table({**STREAM, **named}))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("streams")) as running:
        yield running


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with broker.connect() as opened:
        yield opened


def fill(connection: Connection, name: str, *bodies: bytes, **arguments: object) -> None:
    with connection.channel() as channel:
        channel.call(declaration(name, **arguments))
        channel.confirm_select()
        for body in bodies:
            channel.publish("", name, body)
        channel.wait_for_confirms()


def listed(broker: Broker, name: str) -> dict[str, Any]:
    with SystemClient(broker.url) as client:
        return next(dict(row) for row in client.request("queue.list", vhost="/")["queues"] if row["name"] == name)


def shown(broker: Broker, name: str) -> dict[str, Any]:
    """As the HTTP API shows it."""
    with SystemClient(broker.url) as client:
        return dict(client.request("object", kind="queues", vhost="/", name=name)["object"])


def test_what_administrators_see(broker: Broker, connection: Connection) -> None:
    fill(connection, "counted", b"1", b"2", b"3", x_max_age="7D")
    with connection.channel() as channel:
        channel.call(BasicQos(0, 2, False))
        arguments = Table({"x-stream-offset": "first"})
        channel.call(BasicConsume(0, "counted", "c", False, False, False, False, arguments))
        row = listed(broker, "counted")
        assert (row["type"], row["messages_ready"], row["messages_unacked"], row["consumers"]) == ("stream", 3, 0, 1)
        assert (row["first_offset"], row["next_offset"]) == (0, 3)
        assert row["stream_bytes"] > 3
        found = shown(broker, "counted")
        assert (found["type"], found["messages"], found["consumers"]) == ("stream", 3, 1)
        assert found["arguments"] == {"x-queue-type": "stream", "x-max-age": "7D"}
        assert found["members"] == found["online"] == [found["leader"]]
        assert found["deliver"] == 2
        assert found["consumer_details"][0]["consumer_tag"] == "c"


def test_a_policy_is_shown_and_reaches_it(broker: Broker, connection: Connection) -> None:
    fill(connection, "governed", b"1", x_max_length_bytes=5)
    with SystemClient(broker.url) as client:
        definition = {"max-length-bytes": 1000, "max-age": "1h"}
        fields = {"vhost": "/", "pattern": "^governed$", "definition": definition, "apply_to": "streams"}
        client.request("policy.put", name="p", **fields)
        preview = client.request("policy.preview", name="q", **fields)
        assert "governed" in json.dumps(preview)
    found = shown(broker, "governed")
    assert (found["policy"], found["effective_policy_definition"]) == ("p", definition)


def test_definitions_export_and_import_it(broker: Broker, connection: Connection) -> None:
    fill(connection, "exported", b"1", x_max_age="7D")
    with SystemClient(broker.url) as client:
        definitions = client.request("definitions.export")["definitions"]
        queue = next(each for each in definitions["queues"] if each["name"] == "exported")
        assert queue["type"] == "stream"
        client.request("definitions.import", definitions={"queues": [{**queue, "name": "imported"}]})
    fill(connection, "imported", b"1", x_max_age="7D")
    assert listed(broker, "imported")["messages_ready"] == 1


def test_where_a_message_would_go(broker: Broker, connection: Connection) -> None:
    fill(connection, "asked", b"1", x_max_length_bytes=1000)
    with SystemClient(broker.url) as client:
        found = client.request("route.test", vhost="/", exchange="", routing_key="asked")
    assert "asked" in json.dumps(found)


def test_it_outlives_a_kill_and_is_counted_in_a_stopped_folder(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, broker.connect() as connection:
        fill(connection, "lasting", *[b"%d" % number for number in range(100)])
        broker.kill()
    with Broker(tmp_path) as broker, broker.connect() as connection:
        fill(connection, "lasting", b"100")
        assert listed(broker, "lasting")["next_offset"] == 101
    command = [sys.executable, "-m", "amqp_broker", "inspect", str(broker.data), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = {row["name"]: (row["kind"], row["messages"]) for row in json.loads(done.stdout)["queues"]}
    assert found["lasting"] == ("stream", 101)


def test_a_queue_over_a_stream_is_shown_and_outlives_a_kill(tmp_path: Path) -> None:
    over = {"x-queue-type": "quorum", "x-stream-source": "orders", "x-stream-offset": "first"}
    with Broker(tmp_path) as broker, broker.connect() as connection:
        fill(connection, "orders", *[b"%d" % number for number in range(100)])
        with connection.channel() as channel:
            channel.call(QueueDeclare(0, "billing", False, True, False, False, False, Table(over)))
            channel.call(BasicGet(0, "billing", True))
        broker.kill()
    with Broker(tmp_path) as broker, broker.connect() as connection:
        with connection.channel() as channel:
            channel.call(QueueDeclare(0, "billing", False, True, False, False, False, Table(over)))
        assert listed(broker, "billing")["messages_ready"] + listed(broker, "billing")["messages_unacked"] in (99, 100)
        found = shown(broker, "billing")
        assert (found["type"], found["next_offset"], found["messages_lost"]) == ("quorum", 1, 0)
        assert found["arguments"] == over
        assert found["leader"] == shown(broker, "orders")["leader"]
    command = [sys.executable, "-m", "amqp_broker", "inspect", str(broker.data), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    counted = {row["name"]: (row["kind"], row["messages"]) for row in json.loads(done.stdout)["queues"]}
    assert counted["orders"] == ("stream", 100)
    assert counted["billing"][0] == "quorum"
    assert counted["billing"][1] in (99, 100)


def test_its_offsets_are_looked_at_found_and_trimmed(broker: Broker, connection: Connection) -> None:
    fill(connection, "trimmed", *[b"%d" % number for number in range(10)], x_max_age="7D")
    named = {"vhost": "/", "name": "trimmed"}
    with SystemClient(broker.url) as client:
        found = client.request("stream.stat", **named)
        assert (found["messages"], found["first_offset"], found["next_offset"]) == (10, 0, 10)
        assert (found["max_age_ms"], found["max_length_bytes"]) == (7 * 86_400_000, None)
        assert found["first_time"] <= found["last_time"]
        assert client.request("stream.find", **named, time=0)["offset"] == 0
        assert client.request("stream.find", **named, time=found["last_time"] + 1)["offset"] == 10
        assert client.request("stream.trim", **named, before=4)["first_offset"] == 4
        assert client.request("stream.trim", **named, before=2)["first_offset"] == 4
        assert client.request("stream.stat", **named)["messages"] == 6
        with connection.channel() as channel:
            channel.call(QueueDeclare(0, "plain", False, True, False, False, False, Table()))
        with pytest.raises(SystemRequestError, match="'plain' in vhost '/' is of type classic: it has no offsets"):
            client.request("stream.stat", vhost="/", name="plain")
    command = [sys.executable, "-m", "amqp_broker", "stream", "trim", "trimmed", "--before", "5", "--url", broker.url]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "the stream 'trimmed' begins at offset 5\n"
    command[4:8] = ["stat", "trimmed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("5 messages, offsets from 5, next 10\n")
    command[4:6] = ["find", "trimmed", "2001-01-01T00:00:00+0000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "5\n"
    for where, offset in (("first", 5), ("next", 10), ("1h", 5), ("-2", 8), ("7", 7)):
        if where != "-2":  # would be an option
            assert command_line(broker, "find", "trimmed", where) == f"{offset}\n"
        assert command_line(broker, "seek", "trimmed", "g", "--to", where) == (
            f"group 'g' of the stream 'trimmed' goes on at offset {offset}\n"
        )
    lines = command_line(broker, "segments", "trimmed").splitlines()
    assert lines[0].endswith(f" files at {found['node']}")
    assert lines[-1].startswith("in no file yet: offsets from 5, next 10, 5 messages, ")
    listed_ = json.loads(command_line(broker, "segments", "trimmed", "--json", "--limit", "1"))
    assert listed_["segments"][0]["first_offset"] == 5
    assert command_line(broker, "trim", "trimmed", "--before", "next") == "the stream 'trimmed' begins at offset 10\n"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        command_line(broker, "seek", "trimmed", "g", "--to", "soon")
    assert "'soon' is no offset, no time such as" in refused.value.stderr


def command_line(broker: Broker, *words: str) -> str:
    command = [sys.executable, "-m", "amqp_broker", "stream", *words, "--url", broker.url]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_one_with_partitions_is_looked_at_sought_grown_and_trimmed(broker: Broker, connection: Connection) -> None:
    fill(connection, "divided", *[b"%d" % number for number in range(6)], x_stream_partitions=2)
    named = {"vhost": "/", "name": "divided"}
    with SystemClient(broker.url) as client:
        found = client.request("stream.stat", **named)
        assert (found["messages"], [part["next_offset"] for part in found["partitions"]]) == (6, [3, 3])
        assert [part["name"] for part in found["partitions"]] == ["divided-0", "divided-1"]
        assert found["partitions"][0]["leader"]
        with connection.channel() as channel:
            channel.call(BasicQos(0, 100, False))
            arguments = Table({"x-stream-offset": "first", "x-stream-group": "g"})
            channel.call(BasicConsume(0, "divided", "c", False, False, False, False, arguments))
            (group,) = client.request("stream.stat", **named)["groups"]
            assert (group["name"], group["members"], group["lag"]) == ("g", 1, 6)
            assert [row["owner"] for row in group["partitions"]] == [found["partitions"][0]["leader"]] * 2
            with pytest.raises(SystemRequestError, match="consumers read with it: cancel them"):
                client.request("stream.forget", **named, group="g")
            row = listed(broker, "divided")
            assert (row["messages_ready"], row["consumers"], row["partitions"]) == (6, 1, 2)
            assert listed(broker, "divided-0")["consumers"] == 0
        assert command_line(broker, "seek", "divided", "g", "--to", "2").splitlines() == [
            f"group 'g' of the stream 'divided-{number}' goes on at offset 2" for number in range(2)
        ]
        assert command_line(broker, "grow", "divided", "--partitions", "3") == (
            "the stream 'divided' has 3 partitions\n"
        )
        assert len(client.request("stream.stat", **named)["partitions"]) == 3
        with pytest.raises(SystemRequestError, match="has 3 partitions, and cannot have 2: there can only be more"):
            client.request("stream.grow", **named, partitions=2)
        with pytest.raises(SystemRequestError, match="has no partitions: only a stream that was declared with"):
            client.request("stream.grow", vhost="/", name="divided-0", partitions=2)
    fill(connection, "divided", b"6", b"7", b"8", x_stream_partitions=3)
    assert command_line(broker, "trim", "divided", "--before", "1").splitlines() == [
        f"the stream 'divided-{number}' begins at offset 1" for number in range(3)
    ]
    lines = command_line(broker, "stat", "divided").splitlines()
    assert lines[0] == "6 messages in 3 partitions"
    assert lines[2].startswith("divided-0: 3 messages, offsets from 1, next 4, ")
    assert "group g: 0 members, 4 behind" in lines
    assert command_line(broker, "find", "divided", "2001-01-01T00:00:00+0000") == (
        "divided-0: 1\ndivided-1: 1\ndivided-2: 1\n"
    )
    command_line(broker, "forget", "divided", "g")
    assert json.loads(command_line(broker, "stat", "divided", "--json"))["groups"] == []


def test_partitions_are_part_of_the_whole_in_definitions_and_policies(broker: Broker, connection: Connection) -> None:
    fill(connection, "whole", b"1", x_stream_partitions=3)
    with SystemClient(broker.url) as client:
        definitions = client.request("definitions.export", vhost="/")["definitions"]
        names = [each["name"] for each in definitions["queues"]]
        assert "whole" in names
        assert not [name for name in names if name.startswith("whole-")]
        compared = client.request("definitions.diff", definitions=definitions, vhost="/")
        assert not any(compared["counts"].values())
        queue = next(each for each in definitions["queues"] if each["name"] == "whole")
        client.request("definitions.import", definitions={"queues": [{**queue, "name": "other"}]}, vhost="/")
        client.request(
            "policy.put", vhost="/", name="p", pattern="^other$", definition={"max-length-bytes": 5}, apply_to="streams"
        )
        fill(connection, "other-2", b"1")
        assert client.request("stream.stat", vhost="/", name="other-2")["max_length_bytes"] == 5
    assert shown(broker, "other-2")["policy"] == "p"
    assert shown(broker, "other-2")["partition_of"] == "other"
    fill(connection, "other", b"1", x_stream_partitions=3)


def test_a_super_stream_is_declared_as_rabbitmq_does(broker: Broker, connection: Connection) -> None:
    """An exchange and streams, bound by number: it works as any exchange with any queues."""
    with connection.channel() as channel:
        arguments = Table({"x-super-stream": True})
        channel.call(ExchangeDeclare(0, "invoices", "direct", False, True, False, False, False, arguments))
        for number in range(3):
            channel.call(declaration(f"invoices-{number}"))
            order = Table({"x-stream-partition-order": number})
            channel.call(QueueBind(0, f"invoices-{number}", "invoices", f"{number}", False, order))
        channel.confirm_select()
        channel.publish("invoices", "1", b"x")
        channel.wait_for_confirms()
    assert [listed(broker, f"invoices-{number}")["messages_ready"] for number in range(3)] == [0, 1, 0]


def test_one_with_partitions_is_shown_as_any_queue(broker: Broker, connection: Connection) -> None:
    fill(connection, "seen", b"1", b"2", b"3", x_stream_partitions=2)
    found = shown(broker, "seen")
    assert (found["type"], found["messages"], found["partitions"], found["partition_of"]) == ("stream", 3, 2, None)
    assert found["leader"] in found["members"]
    with SystemClient(broker.url) as client:
        assert "seen" in json.dumps(client.request("route.test", vhost="/", exchange="", routing_key="seen"))
        before = client.request("totals")["messages"]
        fill(connection, "seen", b"4", x_stream_partitions=2)
        view = client.request("quorum.view", vhost="/", name="seen")
        assert view["group"] == client.request("quorum.view", vhost="/", name="seen-0")["group"]
        for verb in ("stream.fetch", "queue.peek"):
            with pytest.raises(SystemRequestError):
                client.request(verb, vhost="/", name="seen")
    assert before >= 3
