"""Why a message is not where somebody looks for it, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from amqp_broker.client import Connection
from amqp_broker.system_client import SystemClient
from tests.cli.admin.conftest import Command


def test_what_went_nowhere_is_listed(command: Command) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        channel.publish("amq.topic", "to.nobody", b"x")
        channel.wait_for_confirms(60)
    (row,) = [row for row in command.rows("unroutable") if row["routing_key"] == "to.nobody"]
    assert (row["exchange"], row["vhost"], row["mandatory"], row["node"]) == ("amq.topic", "/", False, "solo")
    assert "to.nobody" in command.out("list", "unroutable", "--vhost", "/", "--sort", "-at", "--limit", "1")


def test_where_a_message_would_go(command: Command) -> None:
    command.out("queue", "declare", "full", "--argument", "x-max-length=0", "--argument", "x-overflow=reject-publish")
    command.out("queue", "declare", "<b>")
    command.out("binding", "add", "amq.topic", "full", "--key", "a.#")
    command.out("binding", "add", "amq.topic", "<b>", "--key", "other")
    command.out("binding", "add", "amq.headers", "<b>", "--argument", "n=5")
    said = command.out("route", "/", "amq.topic", "a.b", "--bindings")
    assert said.splitlines() == [
        "goes to 1 queue; is refused by full, so its publisher hears basic.nack",
        "exchange 'amq.topic' (topic)",
        "  + 'a.#' -> queue 'full'",
        "  - 'other' -> queue '<b>'",
        "queue 'full' (classic): it is full and refuses it (max-length); waits: there is no consumer",
    ]
    assert "queue '<b>'" in command.out("route", "/", "amq.headers", "", "--header", "n=5")
    assert "queue '<b>'" in command.out("route", "/", "amq.default", "<b>", "--user", "guest")
    status, out, _ = command.call("route", "/", "amq.topic", "x", "--json", "--property", "message_id=7")
    assert (status, json.loads(out)["queue_count"]) == (1, 0)
    assert "no exchange 'nix'" in command.refusal("route", "/", "nix", "")
    assert "is not NAME=VALUE" in command.refusal("route", "/", "amq.topic", "", "--header", "x", status=2)
    for queue in ("full", "<b>"):
        command.out("queue", "delete", queue)


def test_the_group_behind_a_quorum_queue(command: Command) -> None:
    command.out("queue", "declare", "<quorum>", "--type", "quorum")
    said = command.out("queue", "quorum", "<quorum>").splitlines()
    assert said[0].endswith("leader: solo")
    assert said[1] == "member solo: leader, 0 entries behind"
    assert "solo leads, as solo saw: it is the only voter" in said[2]
    assert json.loads(command.out("queue", "quorum", "<quorum>", "--json"))["leader"] == "solo"
    assert "no queue 'nix'" in command.refusal("queue", "quorum", "nix")
    command.out("queue", "delete", "<quorum>")


def test_what_is_the_matter_with_a_queue(command: Command) -> None:
    command.out("queue", "declare", "<lonely>")
    assert command.out("queue", "hints", "<lonely>", "--seconds", "1") == "Nothing is ready.\n"
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        channel.publish("", "<lonely>", b"x")
        channel.wait_for_confirms(60)
    said = command.out("queue", "hints", "<lonely>", "--seconds", "1").splitlines()
    assert said == ["1 message waits and there is no consumer.", "At this pace it is never empty."]
    assert json.loads(command.out("queue", "hints", "<lonely>", "--seconds", "1", "--json"))["eta_ms"] == "never"
    command.refusal("queue", "hints", "nix")
    command.out("queue", "delete", "<lonely>")


class Lines:
    """A command that goes on while something happens: what it has printed."""

    def __init__(self, *arguments: str, url: str) -> None:
        command = [sys.executable, "-m", "amqp_broker", *arguments, "--url", url]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def rest(self) -> list[str]:
        out, _ = self._process.communicate(timeout=60)
        return out.splitlines()


@pytest.mark.parametrize("kind", ["trace", "tail"])
def test_messages_are_followed(command: Command, kind: str) -> None:
    lines = Lines(kind, "--exchange", "amq.topic", "--key", "a.#", "--header", "n=5", "--count", "1", url=command.url)
    url = command.url
    with Connection.open(url) as connection, SystemClient(url) as client, connection.channel() as channel:
        while not client.request("tap.list")["taps"]:
            pass
        channel.publish("amq.topic", "b", b"other")
        channel.publish("amq.topic", "a.b", b"<body>\n", {"headers": {"n": 5}, "message_id": "m1"})
        channel.publish("amq.topic", "a.c", b"headless")
        (line,) = lines.rest()
        assert "published" in line
        assert "'amq.topic' 'a.b' 7 B  id m1" in line
        assert ("<body>\\n" in line) == (kind == "tail")
        assert client.request("tap.list")["taps"] == []
    assert command.out(kind, "--seconds", "1", "--queue", "x", "--json") == ""
    assert "no vhost 'nix'" in command.refusal(kind, "--vhost", "nix")
