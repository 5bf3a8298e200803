"""Streams from the command line: held, published again; what a producer has published."""

from __future__ import annotations

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from tests.cli.admin.conftest import Command


def fill(command: Command, name: str, count: int) -> None:
    """An empty stream of that name gets messages `0`, `1`, ... of the producer `p`."""
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDelete(queue=name))
        channel.call(m.QueueDeclare(queue=name, durable=True, arguments=Table({"x-queue-type": "stream"})))
        channel.confirm_select()
        for number in range(count):
            value = "even" if number % 2 == 0 else "odd"
            headers = {"x-producer-id": "p", "x-producer-sequence": number, "x-stream-filter-value": value}
            channel.publish("", name, b"%d" % number, {"headers": headers, "type": value})
        channel.wait_for_confirms()


def taken(command: Command, name: str) -> list[bytes]:
    """What a classic queue has got."""
    with Connection.open(command.url) as connection, connection.channel() as channel:
        found = channel.get_many(name, 100)
        for delivery in found:
            channel.ack(delivery)
    return [delivery.body for delivery in found]


def target(command: Command, name: str, **arguments: object) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDelete(queue=name))
        table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
        channel.call(m.QueueDeclare(queue=name, durable=True, arguments=table))
        if name == "odd":
            channel.call(m.QueueBind(queue=name, exchange="amq.direct", routing_key="log"))


def test_a_hold_is_seen_and_ended(command: Command) -> None:
    fill(command, "log", 3)
    assert command.out("stream", "hold", "log", "audit", "--at", "1", "--for", "2h") == (
        "the stream 'log' is held from offset 1 on for 2h0m\n"
    )
    assert "held from offset 1 on, for audit, 1h59m more" in command.out("stream", "stat", "log")
    assert command.out("stream", "hold", "log", "audit", "--end") == "hold 'audit' of the stream 'log' is ended\n"
    assert "held" not in command.out("stream", "stat", "log")
    assert "--at and --end" in command.call("stream", "hold", "log", "audit")[2]
    assert "is no time such as" in command.call("stream", "hold", "log", "audit", "--at", "1", "--for", "soon")[2]
    assert "no queue 'none'" in command.refusal("stream", "hold", "none", "audit", "--at", "1")


def test_what_became_of_a_send(command: Command) -> None:
    fill(command, "log", 3)
    assert "published sequence 2 last, at offset 2" in command.out("stream", "producer", "log", "p")
    assert "published sequence 2 last" in command.out("stream", "producer", "log", "p", "--sequence", "1")
    assert "it has sequence 2 last" in command.refusal("stream", "producer", "log", "p", "--sequence", "3")
    assert "remembers no producer 'q'" in command.out("stream", "producer", "log", "q")


def test_a_range_is_published_again(command: Command) -> None:
    fill(command, "log", 300)
    target(command, "to")
    said = command.out("stream", "replay", "log", "--from", "5", "--to", "9", "--to-queue", "to")
    assert said == "4 of 4 messages published again\n  4 to queue 'to'\n"
    assert taken(command, "to") == [b"5", b"6", b"7", b"8"]
    assert "300 of 300" in command.out("stream", "replay", "log", "--from", "0", "--to-queue", "to")
    assert len(taken(command, "to")) == 100
    target(command, "to")
    assert "2 of 300 messages published again" in command.out(
        "stream", "replay", "log", "--from", "0", "--to-queue", "to", "--value", "odd", "--limit", "2"
    )
    assert taken(command, "to") == [b"1", b"3"]
    assert "1 of 4 messages published again; 3 not wanted" in command.out(
        "stream", "replay", "log", "--from", "2001-01-01T00:00:00+0000", "--to", "4", "--to-queue", "to",
        "--filter", "2", "--rate", "1000",
    )  # fmt: skip
    assert taken(command, "to") == [b"2"]
    assert "300 messages, offsets from 0" in command.out("stream", "stat", "log")


def test_a_limit_says_where_to_go_on(command: Command) -> None:
    fill(command, "log", 10)
    target(command, "to")
    replay = ("stream", "replay", "log", "--to-queue", "to", "--limit", "4", "--from")
    assert command.out(*replay, "0") == (
        "4 of 10 messages published again; that is the limit, the next one is offset 4\n  4 to queue 'to'\n"
    )
    assert "the next one is offset 8" in command.out(*replay, "4")
    assert command.out(*replay, "8").startswith("2 of 2 messages published again\n")
    assert taken(command, "to") == [b"%d" % number for number in range(10)]


def test_what_no_queue_takes_does_not_count_and_nothing_behind_it_is_left_out(command: Command) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        for name in ("log", "4", "6"):
            channel.call(m.QueueDelete(queue=name))
            kind = "stream" if name == "log" else "classic"
            channel.call(m.QueueDeclare(queue=name, durable=True, arguments=Table({"x-queue-type": kind})))
        channel.call(m.QueueBind(queue="log", exchange="amq.topic", routing_key="#"))
        for name in ("4", "6"):
            channel.call(m.QueueBind(queue=name, exchange="amq.direct", routing_key=name))
        channel.confirm_select()
        for number in range(8):
            channel.publish("amq.topic", str(number), b"%d" % number)
        channel.wait_for_confirms()
    said = command.out("stream", "replay", "log", "--from", "0", "--to-exchange", "amq.direct", "--limit", "2")
    assert said.startswith("2 of 8 messages published again; 5 unroutable; that is the limit, the next one is offset 7")
    assert (taken(command, "4"), taken(command, "6")) == ([b"4"], [b"6"])
    for name in ("log", "4", "6"):  # other tests look at what amq.topic gives to nobody
        delete(command, name)


def test_partitions_are_replayed_each(command: Command) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        arguments = Table({"x-queue-type": "stream", "x-stream-partitions": 3})
        channel.call(m.QueueDeclare(queue="whole", durable=True, arguments=arguments))
    target(command, "to")
    status, _, said = command.call("stream", "replay", "whole", "--from", "0", "--to-queue", "to")
    assert status == 1
    assert "'whole' has partitions, each with offsets of its own" in said
    assert "'whole-0' to 'whole-2'" in said
    delete(command, "whole")


def delete(command: Command, name: str) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDelete(queue=name))


def test_partitions_are_held_and_asked_together(command: Command) -> None:
    with Connection.open(command.url) as connection, connection.channel() as channel:
        arguments = Table({"x-queue-type": "stream", "x-stream-partitions": 2})
        channel.call(m.QueueDeclare(queue="whole", durable=True, arguments=arguments))
        channel.confirm_select()
        headers = {"x-producer-id": "p", "x-producer-sequence": 7, "x-stream-key": "a"}
        channel.publish("", "whole", b"x", {"headers": headers})
        channel.wait_for_confirms()
    said = command.out("stream", "hold", "whole", "audit", "--at", "0", "--for", "2h")
    assert said.splitlines() == [f"the stream 'whole-{number}' is held from offset 0 on for 2h0m" for number in (0, 1)]
    stat = command.out("stream", "stat", "whole")
    assert "partition 0 held from offset 0 on, for audit, 1h59m more" in stat
    assert "partition 1 held from" in stat
    shown = command.out("stream", "producer", "whole", "p").splitlines()
    assert sorted(line.partition(": ")[2] for line in shown) == [
        "", "producer 'p' has published sequence 7 last, at offset 0",
    ]  # fmt: skip
    known = next(line.partition(": ")[0] for line in shown if ": " in line)
    status, out, said = command.call("stream", "producer", "whole", "p", "--sequence", "7")
    assert (status, out) == (1, "")
    assert f"leads to one of {known}: ask the partition" in said
    assert "it has sequence 7 last" in command.refusal("stream", "producer", "whole", "p", "--sequence", "8")
    delete(command, "whole")


def test_each_keeps_its_key_and_goes_into_the_same_stream_too(command: Command) -> None:
    fill(command, "log", 3)
    target(command, "odd")
    command.out("stream", "replay", "log", "--from", "0", "--to-exchange", "amq.direct")
    assert taken(command, "odd") == [b"0", b"1", b"2"]
    assert "3 of 3 messages" in command.out("stream", "replay", "log", "--from", "0", "--to-queue", "log")
    assert "6 messages, offsets from 0" in command.out("stream", "stat", "log")
    unroutable = command.out("stream", "replay", "log", "--from", "0", "--to", "2", "--to-exchange", "amq.topic")
    assert unroutable == "0 of 2 messages published again; 2 unroutable\n"


def test_a_full_queue_ends_it_and_where_to_go_on_is_said(command: Command) -> None:
    fill(command, "log", 3)
    target(command, "too small", x_max_length=1, x_overflow="reject-publish")
    status, out, said = command.call("stream", "replay", "log", "--from", "0", "--to-queue", "too small", "--rate", "5")
    assert (status, out) == (1, "1 of 3 messages published again\n")
    assert "is full and has refused 1 of them: make room, and go on at offset 1" in said


def test_what_is_gone_or_wrong_is_said(command: Command) -> None:
    fill(command, "log", 3)
    target(command, "to")
    command.out("stream", "trim", "log", "--before", "2")
    gone = command.call("stream", "replay", "log", "--from", "0", "--to-queue", "to")[2]
    assert "begins at offset 2: 0 is gone" in gone
    nowhere = command.refusal("stream", "replay", "log", "--from", "2", "--to-queue", "nowhere")
    assert "no queue 'nowhere'" in nowhere
    assert "--to-exchange" in command.call("stream", "replay", "log", "--from", "0")[2]
    replay = ("stream", "replay", "log", "--from", "0", "--to-queue", "to")
    assert "filter: " in command.call(*replay, "--filter", "a=b")[2]
