"""`amqp-broker list`: every kind, as a table, as JSON and as CSV; columns, order, filter; page by page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest

from amqp_broker import RunningBroker
from amqp_broker.cli.admin.kinds import KINDS
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.system_client import SystemClient
from tests.cli.admin.conftest import Command

VHOST = "lists"


@pytest.fixture(scope="module")
def channel_url(broker: RunningBroker) -> Iterator[str]:
    """Of a virtual host with 2,000 queues, a few messages, a consumer."""
    with SystemClient(broker.url) as client:
        client.request("vhost.create", name=VHOST, permissions_for="guest", description="for lists")
        client.request("policy.put", vhost=VHOST, name="short", pattern="^q1", definition={"max-length": 5})
        client.request("operator_policy.put", vhost=VHOST, name="cap", pattern=".", definition={"max-length": 9})
        client.request(
            "topic_permission.put", user="guest", vhost=VHOST, exchange="amq.topic", write="^a", read="^a"
        )
        client.request("vhost.limits", vhost=VHOST, limits={"max-queues": 3000})
        client.request("user.limits", user="guest", limits={"max-channels": 1000})
    with Connection.open(broker.url, virtual_host=VHOST, name="lister") as connection:
        channel = connection.channel()
        for number in range(2000):
            channel.call(m.QueueDeclare(queue=f"q{number:04}", durable=number == 0))
        for number in (7, 7, 7, 9):
            channel.publish("", f"q{number:04}", b"xy" * number)
        channel.call(m.QueueBind(queue="q0003", exchange="amq.topic", routing_key="a.*"))
        channel.consume("q0005", consumer_tag="worker")
        yield broker.url


def test_every_kind_has_its_columns(command: Command, channel_url: str) -> None:
    for name, kind in KINDS.items():
        rows = command.rows(name, "--limit", "3")
        assert rows or name in ("parameters", "global-parameters", "unroutable"), name
        assert all(tuple(row) == kind.columns for row in rows), name
        lines = command.out("list", name, "--limit", "3").splitlines()
        assert tuple(lines[0].split()) == kind.columns
        assert len(lines) == len(rows) + 1
        found = list(csv.reader(io.StringIO(command.out("list", name, "--limit", "3", "--csv"))))
        assert (tuple(found[0]), len(found)) == (kind.columns, len(rows) + 1)
        everything = command.rows(name, "--columns", "all", "--limit", "1")
        tops = {column.partition(".")[0] for column in kind.columns}
        assert not rows or tops <= set(everything[0]), name


def test_two_thousand_queues_in_pages(command: Command, channel_url: str) -> None:
    rows = command.rows("queues", "--vhost", VHOST, "--columns", "name")
    assert [row["name"] for row in rows] == [f"q{number:04}" for number in range(2000)]
    assert len(command.rows("queues", "--vhost", VHOST, "--limit", "501")) == 501


def test_order_and_filter(command: Command, channel_url: str) -> None:
    (first, second, third) = command.rows("queues", "--vhost", VHOST, "--sort", "-messages_ready", "--limit", "3")
    assert (first["name"], first["messages_ready"], first["message_bytes_ready"]) == ("q0007", 3, 42)
    assert (second["name"], third["messages_ready"]) == ("q0009", 0)
    assert first["oldest_message_age_ms"] >= 0
    by_age = command.rows("queues", "--vhost", VHOST, "--sort", "oldest_message_age_ms", "--columns", "name")
    assert {row["name"] for row in by_age[:2]} == {"q0007", "q0009"}, "what is not known stands last"
    names = [row["name"] for row in command.rows("queues", "--filter", "Q004", "--columns", "name", "--sort", "-name")]
    assert names == [f"q{number:04}" for number in range(49, 39, -1)]
    text = command.out("list", "queues", "--vhost", VHOST, "--columns", "name,policy", "--filter", "q100")
    assert text.splitlines()[:2] == ["name   policy", "q1000  short"]


def test_a_column_under_another(command: Command, channel_url: str) -> None:
    (row,) = command.rows("consumers", "--vhost", VHOST)
    assert (row["queue.name"], row["consumer_tag"], row["channel_details.number"]) == ("q0005", "worker", 1)
    columns = "name,client_properties.connection_name,state"
    (named,) = command.rows("connections", "--filter", "LISTER", "--columns", columns)
    assert (named["name"], named["state"]) == (row["channel_details.connection_name"], "running")


def test_the_group_of_a_noun_lists_it_too(command: Command, channel_url: str) -> None:
    arguments = ("--vhost", VHOST, "--columns", "name,type")
    assert command.out("queue", "list", *arguments) == command.out("list", "queues", *arguments)


def test_what_cannot_be_shown(command: Command) -> None:
    assert "queues have no 'nix'; these are: name, vhost" in command.refusal("list", "queues", "--columns", "nix")
    assert "nodes have no 'nix'" in command.refusal("list", "nodes", "--columns", "nix", status=2)
    assert "no vhost 'nix'; `amqp-broker list vhosts`" in command.refusal("list", "queues", "--vhost", "nix")
    assert "exclude each other" in command.refusal("list", "queues", "--json", "--csv", status=2)
    assert "--columns names none" in command.refusal("list", "queues", "--columns", ",", status=2)
    assert "--sort needs" in command.refusal("list", "queues", "--columns", "all", "--sort", "name", status=2)
    assert "No such command 'quues'" in command.refusal("list", "quues", status=2)


def test_nobody_there_and_nobody_known(command: Command) -> None:
    there = command.url
    command.url = "amqp://guest:guest@127.0.0.1:1/%2F"
    assert "--url says where the broker is" in command.refusal("list", "queues")
    command.url = there.replace("guest:guest", "guest:wrong")
    assert "ACCESS_REFUSED" in command.refusal("list", "queues")
    command.url = "http://h"
    assert "is no AMQP URL" in command.refusal("list", "queues", status=2)


def test_who_may_not_look(command: Command, broker: RunningBroker) -> None:
    with SystemClient(broker.url) as client:
        client.request("user.put", name="plain", password="plain", tags=[])
        client.request("permission.put", user="plain", vhost="/", configure="", write=".*", read=".*")
    command.url = broker.url.replace("guest:guest", "plain:plain")
    text = command.refusal("list", "queues")
    assert "user 'plain' lacks the tag viewer; name a user who may in --url" in text


def test_the_url_from_the_environment(
    command: Command, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from amqp_broker.cli.main import main

    monkeypatch.setenv("AMQP_BROKER_MANAGEMENT_URL", broker.url)
    assert main(["list", "nodes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "solo"
