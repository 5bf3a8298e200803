"""Messages of queues from the command line: looked at, moved, replayed."""

from __future__ import annotations

import json

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from tests.cli.admin.conftest import Command


def fill(command: Command, name: str, count: int, **arguments: object) -> None:
    """An empty queue of that name gets messages `0`, `1`, ..., and a hostile one."""
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDelete(queue=name))
        channel.call(m.QueueDeclare(queue=name, durable=True, arguments=Table(arguments)))
        channel.confirm_select()
        for number in range(count):
            channel.publish("", name, b"%d" % number, {"headers": {"even": number % 2 == 0}})
        channel.publish("", name, b"\x1b[2J<script>\xff", {"type": "hostile"})
        channel.wait_for_confirms()


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_messages_are_shown_and_stay(command: Command, queue_type: str) -> None:
    fill(command, "seen", 3, **{"x-queue-type": queue_type})
    out = command.out("queue", "peek", "seen")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("#")] == ["#1", "#2", "#3", "#4"]
    assert "\\x1b[2J<script>\\xff" in out
    assert "\x1b" not in out
    found = json.loads(command.out("queue", "peek", "seen", "--json", "--from", "newest", "--limit", "2"))
    assert [message["position"] for message in found] == [4, 3]
    even = json.loads(command.out("queue", "peek", "seen", "--json", "--filter", "header.even=true"))
    assert [message["position"] for message in even] == [1, 3]
    assert command.out("queue", "peek", "seen", "--body", "2") == "1"
    assert "no message at position 9" in command.refusal("queue", "peek", "seen", "--body", "9")
    assert "no such messages" in command.out("queue", "peek", "seen", "--unacked")
    with Connection.open(command.url) as connection, connection.channel() as channel:
        delivery = channel.get("seen")
        assert delivery is not None
        assert not delivery.redelivered
        assert "held" in command.out("queue", "peek", "seen", "--unacked")


def test_what_is_wrong_is_said(command: Command) -> None:
    assert "no queue 'nothing'" in command.refusal("queue", "peek", "nothing")
    assert "no queue 'nothing'" in command.refusal("queue", "move", "nothing", "--to-queue", "x", "--dry-run")
    assert "--to-exchange" in command.call("queue", "move", "seen")[2]
    assert "filter: " in command.call("queue", "replay", "seen", "--filter", "colour=red")[2]


def test_messages_are_moved(command: Command) -> None:
    fill(command, "from", 5)
    fill(command, "to", 0)
    assert "3 of 6 messages would be moved" in command.out(
        "queue", "move", "from", "--to-queue", "to", "--filter", "header.even=true", "--dry-run"
    )
    out = command.out("queue", "move", "from", "--to-queue", "to", "--filter", "header.even=true")
    assert out == "3 of 6 messages moved; put back: 3 not wanted\n  3 to queue 'to'\n"
    assert command.out("queue", "move", "from", "--to-queue", "to", "--position", "4").startswith("1 of 3 messages")
    assert command.out("queue", "peek", "to", "--filter", "3", "--body", "5") == "3"
    wrong = command.refusal("queue", "move", "from", "--to-queue", "to", "--position", "77")
    assert "no message at position 77" in wrong
    assert "put back: 2 unroutable" in command.out("queue", "move", "from", "--to-exchange", "amq.direct")
    for to in (("--to-queue", "nowhere"), ("--to-exchange", "nowhere")):
        assert "'nowhere'" in command.refusal("queue", "move", "from", *to)
        assert "'nowhere'" in command.refusal("queue", "move", "from", *to, "--dry-run")


def test_dead_letters_are_replayed(command: Command) -> None:
    fill(command, "dead", 0)
    fill(command, "work", 9, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    with Connection.open(command.url) as connection, connection.channel() as channel:
        found = channel.get_many("work", 20)
        channel.nack(found[-1], multiple=True, requeue=False)
    out = command.out("queue", "replay", "dead", "--dry-run")
    assert out.startswith("10 of 11 messages would be moved")
    assert "10 that died in 'work' (rejected): to queue 'work'" in out
    assert command.out("queue", "replay", "dead", "--limit", "4", "--rate", "1000").startswith("4 of 11 messages moved")
    assert "6 of 7 messages moved; put back: 1 of unknown origin" in command.out("queue", "replay", "dead")
