"""A whole queue type of a test's own, in a running broker: what a queue of the product goes through, it goes through.

`last_value.py` is the type; no file of the product knows of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.client.errors import ChannelClosed
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import BasicAck, BasicReject, ConfirmSelect, QueueDeclare, QueuePurge
from amqp_broker.system_client import SystemClient, SystemRequestError
from amqp_broker.vhosts.policies import PolicyError, check_policy
from storage.errors import StorageError
from tests.node.node_driver import NodeDriver
from tests.queue_types.last_value import LastValueType
from tests.queue_types.registering import register
from tests.robustness.broker import PROJECT_ROOT, Broker
from tests.web.http_client import Http

PROGRAM = "tests.queue_types.last_value"
PERSISTENT = {"delivery_mode": 2}
OF_THE_TYPE = {"x-queue-type": "last-value"}


def declaration(name: str, **arguments: object) -> QueueDeclare:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return QueueDeclare(0, name, False, True, False, False, False, Table({**OF_THE_TYPE, **named}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("last-value")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[Broker]:
    with Broker(folder, module=PROGRAM) as running:
        yield running


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with broker.connect() as opened:
        yield opened


def listed(broker: Broker, name: str) -> dict[str, Any]:
    with SystemClient(broker.url) as client:
        return next(dict(row) for row in client.request("queue.list", vhost="/")["queues"] if row["name"] == name)


def test_the_last_message_is_kept(connection: Connection) -> None:
    with connection.channel() as channel:
        assert channel.call(declaration("kept")).message_count == 0
        channel.call(ConfirmSelect(False))
        for body in (b"1", b"2", b"3"):
            channel.publish("", "kept", body, PERSISTENT)
        assert channel.call(declaration("kept")).message_count == 1
        message = channel.get("kept", no_ack=True)
        assert message is not None
        assert message.body == b"3"
        assert channel.get("kept", no_ack=True) is None


def test_what_comes_back_is_there_again_unless_there_is_a_newer_one(connection: Connection) -> None:
    with connection.channel() as channel:
        channel.call(declaration("back"))
        channel.publish("", "back", b"old")
        first = channel.get("back")
        assert first is not None
        channel.send(BasicReject(first.delivery_tag, True))
        again = channel.get("back")
        assert again is not None
        assert (again.body, again.redelivered) == (b"old", True)
        channel.publish("", "back", b"new")
        channel.send(BasicReject(again.delivery_tag, True))
        newer = channel.get("back")
        assert newer is not None
        assert newer.body == b"new"
        channel.send(BasicAck(newer.delivery_tag, False))
        assert channel.get("back") is None


def test_it_is_purged(connection: Connection) -> None:
    with connection.channel() as channel:
        channel.call(declaration("purged"))
        channel.publish("", "purged", b"x")
        assert channel.call(QueuePurge(0, "purged", False)).message_count == 1
        assert channel.get("purged", no_ack=True) is None


def test_a_stock_client_declares_publishes_and_consumes(broker: Broker) -> None:
    async def use() -> list[bytes]:
        connection = await aio_pika.connect(broker.url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("stock", durable=True, arguments=OF_THE_TYPE)
            exchange = await channel.declare_exchange("values", aio_pika.ExchangeType.TOPIC)
            await queue.bind(exchange, "price.#")
            found: list[bytes] = []
            for body in (b"1", b"2"):
                await exchange.publish(aio_pika.Message(body), "price.of.tea")
            async with queue.iterator() as messages:
                async for message in messages:
                    found.append(message.body)
                    await message.ack()
                    if message.body == b"3":
                        return found
                    await exchange.publish(aio_pika.Message(b"3"), "price.of.tea")
            return found

    assert asyncio.run(asyncio.wait_for(use(), 30)) == [b"2", b"3"]


def test_arguments_are_checked_with_its_own_texts(connection: Connection) -> None:
    with connection.channel() as channel, pytest.raises(ChannelClosed, match="a last-value queue has a name"):
        channel.call(declaration(""))
    with connection.channel() as channel, pytest.raises(ChannelClosed, match="of queue type last-value"):
        channel.call(declaration("wrong", x_max_length=3))
    with connection.channel() as channel:
        channel.call(declaration("own", x_history=2))
    with connection.channel() as channel, pytest.raises(ChannelClosed, match="inequivalent arg 'x-history'"):
        channel.call(declaration("own", x_history=3))


def test_a_policy_reaches_it_if_it_has_what_that_sets(broker: Broker, connection: Connection) -> None:
    with connection.channel() as channel, SystemClient(broker.url) as client:
        channel.call(declaration("governed"))
        fields = {"vhost": "/", "name": "short", "pattern": "^governed$", "priority": 0}
        client.request("policy.put", **fields, **{"apply-to": "last_value_queues", "definition": {"message-ttl": 0}})
        channel.call(ConfirmSelect(False))
        channel.publish("", "governed", b"x")
        assert channel.get("governed", no_ack=True) is None
        client.request(
            "policy.put", **fields, **{"apply-to": "queues", "definition": {"message-ttl": 0, "max-length": 5}}
        )
        channel.publish("", "governed", b"x")
        assert channel.get("governed", no_ack=True) is not None


def test_statistics_name_its_type(broker: Broker, connection: Connection) -> None:
    with connection.channel() as channel:
        channel.call(declaration("counted"))
        channel.call(ConfirmSelect(False))
        for body in (b"1", b"2"):
            channel.publish("", "counted", body)
    found = listed(broker, "counted")
    assert (found["type"], found["messages_ready"], found["replaced"]) == ("last-value", 1, 1)
    with SystemClient(broker.url) as client:
        rows = client.request("objects.page", kind="queues", vhost="/", columns=["name", "replaced"])["rows"]
    assert ["counted", 1] in rows


def test_definitions_export_and_import_it(broker: Broker, connection: Connection) -> None:
    with connection.channel() as channel, SystemClient(broker.url) as client:
        channel.call(declaration("exported"))
        definitions = client.request("definitions.export")["definitions"]
        queue = next(each for each in definitions["queues"] if each["name"] == "exported")
        assert queue["type"] == "last-value"
        queues = [{**queue, "name": "imported"}]
        client.request("definitions.import", definitions={"queues": queues})
        assert listed(broker, "imported")["type"] == "last-value"
        unknown = {**queue, "name": "q", "type": "first-value", "arguments": {}}
        with pytest.raises(SystemRequestError, match="cannot be had; one of classic, quorum, stream, last-value can"):
            client.request("definitions.import", definitions={"queues": [unknown]})


def test_it_outlives_a_restart_and_is_counted_in_a_stopped_folder(tmp_path: Path) -> None:
    with Broker(tmp_path, module=PROGRAM) as broker, broker.connect() as connection, connection.channel() as channel:
        channel.call(declaration("lasting"))
        channel.call(declaration("taken"))
        channel.call(ConfirmSelect(False))
        for body in (b"1", b"2"):
            channel.publish("", "lasting", body, PERSISTENT)
            channel.publish("", "taken", body, PERSISTENT)
        assert channel.get("taken", no_ack=True) is not None
    command = [sys.executable, "-m", PROGRAM, "inspect", str(broker.data), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    )
    found = {row["name"]: (row["kind"], row["messages"]) for row in json.loads(done.stdout)["queues"]}
    assert found["lasting"] == ("last-value", 1)
    assert found.get("taken", ("last-value", 0)) == ("last-value", 0)
    with Broker(tmp_path, module=PROGRAM) as broker, broker.connect() as connection, connection.channel() as channel:
        message = channel.get("lasting", no_ack=True)
        assert message is not None
        assert message.body == b"2"
        assert channel.get("taken", no_ack=True) is None


def test_management_lists_and_metrics_show_it_as_any_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = ("--management-listen=127.0.0.1:0", "--prometheus-listen=127.0.0.1:0")
    with Broker(tmp_path, *pages, module=PROGRAM) as broker:
        assert broker.process.stdout is not None
        http = Http(broker.process.stdout.readline().decode().removeprefix("management ").strip())
        assert http("PUT", "/queues/%2F/shown", {"durable": True, "arguments": OF_THE_TYPE}).status == 201
        message = {"routing_key": "shown", "payload_encoding": "string", "properties": {}}
        for body in ("1", "2"):
            assert http("POST", "/exchanges/%2F/amq.default/publish", {**message, "payload": body}).json["routed"]
        shown = http.get("/queues/%2F/shown")
        assert (shown["type"], shown["messages_ready"]) == ("last-value", 1)
        wanted = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
        assert [each["payload"] for each in http("POST", "/queues/%2F/shown/get", wanted).json] == ["2"]
        # The command is told of no type.
        assert main(["list", "queues", "--url", broker.url, "--json"]) == 0
        row = next(each for each in json.loads(capsys.readouterr().out) if each["name"] == "shown")
        assert (row["type"], row["messages_ready"]) == ("last-value", 1)
        (port,) = [each["port"] for each in http.get("/overview")["listeners"] if each["protocol"] == "http/prometheus"]
        metrics = Http(f"http://127.0.0.1:{port}/")
        text = metrics("GET", "/metrics/per-object", prefix="", authorization="").body.decode()
        samples = {
            (each.name, each.labels.get("queue_type")): each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
            if each.labels.get("queue") == "shown"
        }
        assert http.get("/v1/queue-types")["types"][-1]["name"] == "last-value"
        assert "rabbit_last-value_queue" in text.partition("rabbitmq_global_messages_delivered_total")[2]
        assert samples["rabbitmq_queue_messages_ready", None] == 1
        assert samples["rabbitmq_queue_info", "rabbit_last-value_queue"] == 1
        assert http("DELETE", "/queues/%2F/shown").status == 204


def test_its_folder_is_not_touched_by_a_broker_that_does_not_know_it() -> None:
    with register(LastValueType):
        driver = NodeDriver()
        client = driver.client(1)
        client.send(1, declaration("lasting"), ConfirmSelect(False))
        driver.settle()
        client.publish(1, "lasting", b"1")
        driver.settle()
    text = "queue 'lasting' in vhost '/' is of type 'last-value', and this version knows classic, quorum"
    with pytest.raises(StorageError, match=text):
        driver.crash()
    with register(LastValueType):
        driver.start()
        assert driver.queue("lasting").message_count() == 1


def test_policies_are_checked_against_what_it_has() -> None:
    with pytest.raises(PolicyError, match="one of all, queues, classic_queues, quorum_queues, streams, exchanges"):
        check_policy(".*", "last_value_queues", 0, {"message-ttl": 1})
    with register(LastValueType):
        check_policy(".*", "last_value_queues", 0, {"message-ttl": 1})
