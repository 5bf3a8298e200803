"""Queues, exchanges, bindings, connections and consumers: what is changed of them from the command line; health."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from amqp_broker.cli.admin.health import CHECKS, USUAL
from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.client.errors import ConnectionClosed, ConsumerCancelled
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from tests.cli.admin.conftest import Command


def queue_of(command: Command, name: str, *columns: str) -> dict[str, Any]:
    wanted = ",".join(("name", *columns))
    (found,) = (row for row in command.rows("queues", "--columns", wanted, "--vhost", "/") if row["name"] == name)
    return found


def test_a_queues_life(command: Command) -> None:
    arguments = ("--argument", "x-max-length=10", "--argument", "x-overflow=reject-publish")
    assert "0 messages" in command.out("queue", "declare", "orders", "--auto-delete", *arguments)
    row = queue_of(command, "orders", "arguments", "durable", "auto_delete", "type")
    assert row["arguments"] == {"x-max-length": 10, "x-overflow": "reject-publish"}
    assert (row["durable"], row["auto_delete"], row["type"]) == (True, True, "classic")
    command.out("queue", "declare", "votes", "--type", "quorum")
    assert queue_of(command, "votes", "type")["type"] == "quorum"
    with Connection.open(command.url) as connection, connection.channel() as channel:
        for _ in range(3):
            channel.publish("", "orders", b"x")
        channel.call(m.QueueDeclare(queue="orders", passive=True))
    assert "PRECONDITION_FAILED" in command.refusal("queue", "delete", "orders", "--if-empty")
    assert command.out("queue", "purge", "orders") == "queue 'orders' is purged: 3 messages dropped\n"
    command.out("queue", "delete", "orders", "--if-empty", "--if-unused")
    assert "no queue 'orders' in vhost '/'; `amqp-broker list queues`" in command.refusal("queue", "delete", "orders")
    assert "no queue 'orders'" in command.refusal("queue", "purge", "orders")
    assert "inequivalent arg" in command.refusal("queue", "declare", "votes")
    command.out("queue", "delete", "votes")
    assert "is not NAME=VALUE" in command.refusal("queue", "declare", "x", "--argument", "foo", status=2)
    assert "cannot be sent" in command.refusal("queue", "declare", "x", "--argument", f"n={1 << 70}", status=2)
    command.refusal("queue", "declare", "x", "--vhost", "nix")


def test_exchanges_and_bindings(command: Command) -> None:
    command.out("exchange", "declare", "from", "topic", "--transient")
    command.out("exchange", "declare", "to", "headers", "--internal", "--auto-delete")
    command.out("queue", "declare", "sink")
    rows = {row["name"]: row for row in command.rows("exchanges", "--vhost", "/")}
    assert (rows["from"]["type"], rows["from"]["durable"]) == ("topic", False)
    assert (rows["to"]["internal"], rows["to"]["auto_delete"]) == (True, True)
    command.out("binding", "add", "from", "to", "--to-exchange", "--key", "a.#")
    command.out("binding", "add", "to", "sink", "--argument", "x-match=any", "--argument", "n=1")
    command.out("binding", "add", "to", "sink")
    bound = [row for row in command.rows("bindings", "--vhost", "/") if row["source"] in ("from", "to")]
    assert [(row["destination"], row["routing_key"]) for row in bound] == [("to", "a.#"), ("sink", ""), ("sink", "")]
    assert {"x-match": "any", "n": 1} in [row["arguments"] for row in bound]
    command.out("binding", "delete", "to", "sink", "--argument", "n=1", "--argument", "x-match=any")
    assert "list bindings" in command.refusal("binding", "delete", "to", "sink", "--argument", "n=1")
    assert "no queue 'none'" in command.refusal("binding", "add", "to", "none")
    assert "PRECONDITION_FAILED" in command.refusal("exchange", "delete", "from", "--if-unused")
    command.out("binding", "delete", "from", "to", "--to-exchange", "--key", "a.#")
    command.out("exchange", "delete", "from", "--if-unused")
    assert "no exchange 'from'" in command.refusal("exchange", "delete", "from")
    command.out("exchange", "delete", "to")
    command.out("queue", "delete", "sink")
    assert "'nonsense'" in command.refusal("exchange", "declare", "x", "nonsense")


def test_a_binding_that_json_cannot_name_is_deleted(command: Command) -> None:
    """3.14 as a decimal is shown as the number, and is another argument than that."""
    command.out("queue", "declare", "odd")
    arguments = Table({"v": Decimal("3.14")})
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.call(m.QueueBind(queue="odd", exchange="amq.headers", arguments=arguments))
    command.out("binding", "delete", "amq.headers", "odd", "--argument", "v=3.14")
    assert not [row for row in command.rows("bindings", "--vhost", "/") if row["source"] == "amq.headers"]
    command.out("queue", "delete", "odd")


def test_consumers_are_cancelled_and_connections_closed(command: Command) -> None:
    command.out("queue", "declare", "work")
    command.out("user", "add", "dora", "--no-password")
    with Connection.open(command.url, name="worker-7") as connection:
        channel = connection.channel()
        consumer = channel.consume("work", consumer_tag="tag-1")
        (row,) = command.rows("connections", "--filter", "worker-7", "--columns", "name,user_provided_name")
        name = row["name"]
        assert "no consumer 'tag-9'" in command.refusal("consumer", "cancel", name, "1", "tag-9")
        command.out("consumer", "cancel", name, "1", "tag-1")
        with pytest.raises(ConsumerCancelled):
            consumer.next(timeout=10)
        assert "no connection 'nope'" in command.refusal("connection", "close", "nope")
        command.out("connection", "close", name, "--reason", "moving house")
        with pytest.raises(ConnectionClosed, match="moving house") as closed:
            channel.call(m.QueueDeclare(queue="work", passive=True))
        assert closed.value.reply_code == 320
    assert command.out("connection", "close", "--user", "dora") == "connections of user 'dora' closed: 0\n"
    command.out("user", "delete", "dora")
    command.out("queue", "delete", "work")
    assert "no user 'dora'" in command.refusal("connection", "close", "--user", "dora")
    assert "name one connection" in command.refusal("connection", "close", status=2)
    assert "name one connection" in command.refusal("connection", "close", "c", "--user", "dora", status=2)


def test_the_environment_says_where_the_broker_is(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_BROKER_MANAGEMENT_URL", command.url)
    for arguments in (["status"], ["cluster", "status"], ["definitions", "export"]):
        assert main(arguments) == 0, capsys.readouterr().err


def test_health(command: Command) -> None:
    assert command.out("health").splitlines() == [f"{name}: ok" for name in USUAL]
    assert command.out("health", "--check", "quorum-critical") == "quorum-critical: ok\n"
    said = json.loads(command.out("health", "--json", "--check", "alarms", "--check", "ready"))
    assert said == {"is_well": True, "checks": {"alarms": "", "ready": ""}}
    assert "'nix' is not one of" in command.refusal("health", "--check", "nix", status=2)
    command.url = command.url.replace("guest:guest", "nobody:wrong")
    assert command.out("health", "--check", "alive") == "alive: ok\n"
    assert "refuses" in command.refusal("health", "--check", "alive", "--check", "ready")
    command.url = "amqp://guest:guest@127.0.0.1:1/%2F"
    assert "Connection refused" in command.refusal("health")
    assert "Connection refused" in command.refusal("health", "--check", "alive")


def test_what_is_wrong_is_said() -> None:
    bad: dict[str, Any] = {
        "ready": False, "is_draining": True, "alarms": [{"node": "n1", "resource": "disk"}], "listeners": [],
        "below_connection_limit": False, "leaderless_groups": [3],
        "quorum_critical": [{"name": f"q{number}", "virtual_host": "/", "type": "quorum"} for number in range(6)],
    }  # fmt: skip
    found = {name: check(bad) for name, check in CHECKS.items()}
    assert found["ready"] == "", "it is going away, and that says so"
    assert (found["alarms"], found["leaders"]) == ("disk on n1", "group 3 has no leader")
    assert "'q4' in '/', ..." in found["quorum-critical"]
    assert all(found[name] for name in ("draining", "listeners", "connection-limit"))
    assert CHECKS["ready"]({**bad, "is_draining": False})


def test_status(command: Command) -> None:
    lines = command.out("status").splitlines()
    assert lines[0] == "name: solo"
    assert any(line.startswith("listener: amqp on 127.0.0.1 port ") for line in lines)
    assert json.loads(command.out("status", "--json"))["members"] == ["solo"]
