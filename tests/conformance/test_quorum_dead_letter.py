"""Quorum queues: dead letters, from them and into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.quorum import declare, ours_only, take, wait_for_counts
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_frames import Message

Named = Callable[[str], str]


def classic(channel: Channel, name: str) -> str:
    return channel.declare(name, durable=True)


@pytest.fixture(params=[declare, classic], ids=["to-quorum", "to-classic"])
def dead(request: pytest.FixtureRequest, channel: Channel, named: Named) -> str:
    """The queue that dead letters arrive in; a consumer waits on it."""
    queue: str = request.param(channel, named("dead"))
    channel.consume(queue, consumer_tag="undertaker", no_ack=True)
    return queue


def death_of(message: Message) -> dict[str, Any]:
    deaths = message.headers["x-death"]
    assert isinstance(deaths, list)
    found = {key: value for key, value in deaths[0].items() if key != "time"}
    assert deaths[0]["time"] is not None
    return found


@pytest.mark.holds("quorum queue: rejected messages go to the dead letter exchange, with x-death")
def test_rejected(connection: Connection, channel: Channel, named: Named, dead: str) -> None:
    """In order, with their properties."""
    queue = declare(channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection.fill(queue, b"1", b"2", b"3", message_id="m", headers={"mine": 1})
    other = connection.channel()
    for _ in range(3):
        other.send("basic.reject", delivery_tag=take(other, queue).delivery_tag)
    letters = [channel.expect_delivery("undertaker") for _ in range(3)]
    assert [letter.body for letter in letters] == [b"1", b"2", b"3"]
    assert [letter.redelivered for letter in letters] == [False] * 3
    letter = letters[0]
    assert (letter.exchange, letter.routing_key) == ("", dead)
    assert (letter.properties["message_id"], letter.headers["mine"]) == ("m", 1)
    assert death_of(letter) == {
        "count": 1, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": [queue]
    }  # fmt: skip
    assert letter.headers["x-first-death-reason"] == "rejected"
    wait_for_counts(other, queue, 0, 0)


@pytest.mark.holds("quorum queue: what is above the delivery limit is dead-lettered, reason delivery_limit")
def test_delivery_limit(connection: Connection, channel: Channel, named: Named, dead: str) -> None:
    """After two returns."""
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_delivery_limit=1
    )
    connection.fill(queue, b"poison")
    other = connection.channel()
    for _ in range(2):
        other.send("basic.nack", delivery_tag=take(other, queue).delivery_tag, requeue=True)
    letter = channel.expect_delivery("undertaker")
    assert (letter.body, death_of(letter)["reason"]) == (b"poison", "delivery_limit")


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: expired messages are dead-lettered")
def test_expired(connection: Connection, channel: Channel, named: Named, dead: str) -> None:
    """Without their expiration, which x-death keeps."""
    queue = declare(channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection.fill(queue, b"old", expiration="30")
    letter = channel.expect_delivery("undertaker")
    assert (letter.body, death_of(letter)["reason"]) == (b"old", "expired")
    assert death_of(letter)["original-expiration"] == "30"
    assert "expiration" not in letter.properties


@pytest.mark.holds("quorum queue: what x-max-length drops is dead-lettered")
def test_maxlen(connection: Connection, channel: Channel, named: Named, dead: str) -> None:
    """The oldest first."""
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_max_length=1
    )
    connection.fill(queue, b"1", b"2", b"3")
    letters = [channel.expect_delivery("undertaker") for _ in range(2)]
    assert [(letter.body, death_of(letter)["reason"]) for letter in letters] == [(b"1", "maxlen"), (b"2", "maxlen")]


@ours_only
@pytest.mark.holds("quorum queue: reject-publish-dlx dead-letters what it nacks")
def test_reject_publish_dlx(connection: Connection, channel: Channel, named: Named, dead: str) -> None:
    """RabbitMQ's classic queues have it."""
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_max_length=1,
        x_overflow="reject-publish-dlx",
    )  # fmt: skip
    confirming = connection.channel()
    confirming.call("confirm.select")
    confirming.publish("", queue, b"1")
    confirming.publish("", queue, b"2")
    assert [each.name for each in confirming.expect_confirms(2)] == ["basic.ack", "basic.nack"]
    assert channel.expect_delivery("undertaker").body == b"2"


@pytest.mark.holds("quorum queue: dead letters of classic queues arrive in it")
def test_from_a_classic_queue(connection: Connection, channel: Channel, named: Named) -> None:
    """All of them, in order."""
    dead = declare(channel, named("dead"))
    channel.consume(dead, no_ack=True)
    queue = channel.declare(
        named("queue"), arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-max-length": 1}
    )
    connection.fill(queue, b"1", b"2", b"3", b"4")
    letters = channel.expect_deliveries(b"1", b"2", b"3")
    assert death_of(letters[0])["queue"] == queue


@pytest.mark.holds("quorum queue: dead letters go through exchanges to several queues of both types")
def test_several_targets(connection: Connection, channel: Channel, named: Named) -> None:
    """A fanout."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    targets = [declare(channel, named("dead")), declare(channel, named("dead")), classic(channel, named("dead"))]
    for target in targets:
        channel.call("queue.bind", queue=target, exchange=exchange)
        channel.consume(target, consumer_tag=target, no_ack=True)
    queue = declare(channel, named("queue"), x_dead_letter_exchange=exchange, x_max_length=1)
    connection.fill(queue, b"1", b"2")
    found = [channel.expect_delivery() for _ in targets]
    assert sorted(each.consumer_tag for each in found) == sorted(targets)
    assert {(each.body, each.routing_key) for each in found} == {(b"1", queue)}


@pytest.mark.holds("quorum queue: dead letters without a queue are dropped, or kept if x-dead-letter-strategy says so")
@pytest.mark.octets_too_slow
@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_nowhere_to_go(connection: Connection, channel: Channel, named: Named, strategy: str) -> None:
    """When a queue comes, those that were kept are there."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange=exchange, x_dead_letter_strategy=strategy,
        x_overflow="reject-publish",
    )  # fmt: skip
    connection.fill(queue, b"early")
    other = connection.channel()
    other.send("basic.reject", delivery_tag=take(other, queue).delivery_tag)
    connection.let_pass(100)
    dead = declare(channel, named("dead"))
    channel.call("queue.bind", queue=dead, exchange=exchange)
    channel.consume(dead, no_ack=True)
    connection.fill(queue, b"late")
    other.send("basic.reject", delivery_tag=take(other, queue).delivery_tag)
    expected = {b"late"} if strategy == "at-most-once" else {b"early", b"late"}
    assert {channel.expect_delivery().body for _ in expected} == expected


@ours_only
@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: x-dead-letter-strategy at-least-once waits for a full target")
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_full_target(connection: Connection, channel: Channel, named: Named, kind: str) -> None:
    """Until it has room."""
    limits = {"x-queue-type": kind, "x-max-length": 1, "x-overflow": "reject-publish"}
    dead = channel.declare(named("dead"), durable=True, arguments=limits)
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead,
        x_dead_letter_strategy="at-least-once", x_overflow="reject-publish",
    )  # fmt: skip
    connection.fill(queue, b"1", b"2")
    other = connection.channel()
    for _ in range(2):
        other.send("basic.reject", delivery_tag=take(other, queue).delivery_tag)
    wait_for_counts(other, dead, 1, 0)
    connection.let_pass(50)
    channel.consume(dead, no_ack=True)
    assert {channel.expect_delivery().body for _ in range(2)} == {b"1", b"2"}


@ours_only
@pytest.mark.octets_too_slow
@pytest.mark.parametrize("kind", ["quorum", "classic"])
@pytest.mark.holds("quorum queue: of several targets at-least-once waits for the full one, and the others get it once")
def test_a_full_target_among_others(connection: Connection, channel: Channel, named: Named, kind: str) -> None:
    """They got it again with each try."""
    limits = {"x-queue-type": kind, "x-max-length": 1, "x-overflow": "reject-publish"}
    full = channel.declare(named("full"), durable=True, arguments=limits)
    others = [declare(channel, named("dead")), classic(channel, named("dead"))]
    connection.fill(full, b"0")
    for target in (full, *others):
        channel.call("queue.bind", queue=target, exchange="amq.direct", routing_key=full)
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="amq.direct", x_dead_letter_routing_key=full,
        x_dead_letter_strategy="at-least-once", x_overflow="reject-publish",
    )  # fmt: skip
    connection.fill(queue, b"1")
    channel.send("basic.reject", delivery_tag=take(channel, queue).delivery_tag)
    for target in others:
        wait_for_counts(channel, target, 1, 0)
    connection.let_pass(2500)  # it is tried twice
    assert channel.get_bodies(full) == [b"0"]
    channel.consume(full, no_ack=True)
    channel.expect_deliveries(b"1")
    assert [channel.counts(target) for target in others] == [(1, 0), (1, 0)]


@ours_only
@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: a letter of at-least-once waits for a full classic target, reject-publish-dlx or not")
@pytest.mark.parametrize("has_letters", [True, False])
def test_a_full_target_that_has_dead_letters(
    connection: Connection, channel: Channel, named: Named, has_letters: bool
) -> None:
    """Each try was another dead letter; or it was lost, where the dead letters of the target go nowhere."""
    last = classic(channel, named("last"))
    limits = {
        "x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": last if has_letters else named("nobody"),
    }  # fmt: skip
    full = channel.declare(named("full"), durable=True, arguments=limits)
    connection.fill(full, b"0")
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=full,
        x_dead_letter_strategy="at-least-once", x_overflow="reject-publish",
    )  # fmt: skip
    connection.fill(queue, b"1")
    channel.send("basic.reject", delivery_tag=take(channel, queue).delivery_tag)
    connection.let_pass(1500)
    assert channel.counts(last) == (0, 0)
    assert channel.get_bodies(full) == [b"0"]
    connection.let_pass(1500)
    wait_for_counts(channel, full, 1, 0)
    assert channel.get_bodies(full) == [b"1"]
    assert channel.counts(last) == (0, 0)


@pytest.mark.holds("quorum queue: a dead letter cycle without a rejection is dropped, with one it goes on")
def test_a_cycle(connection: Connection, channel: Channel, named: Named) -> None:
    """Back to the queue that it comes from."""
    queue = named("queue")
    declare(channel, queue, x_dead_letter_exchange="", x_dead_letter_routing_key=queue, x_delivery_limit=0)
    connection.fill(queue, b"m")
    channel.send("basic.reject", delivery_tag=take(channel, queue).delivery_tag)
    wait_for_counts(channel, queue, 1, 0)
    message = take(channel, queue)
    assert death_of(message)["reason"] == "rejected"
    channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
    wait_for_counts(channel, queue, 0, 0)
    channel.expect_silence(queue)
    assert channel.get(queue) is None


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: many dead letters at once")
def test_many(connection: Connection, channel: Channel, named: Named) -> None:
    """More than are on their way at a time."""
    dead = declare(channel, named("dead"))
    queue = declare(channel, named("queue"), x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    bodies = [str(number).encode() for number in range(2500)]
    connection.fill(queue, *bodies)
    other = connection.channel()
    other.consume(queue)
    for number in range(len(bodies)):
        other.expect_delivery()
        if number == 1200:
            other.send("basic.nack", delivery_tag=0, multiple=True)
    other.send("basic.nack", delivery_tag=0, multiple=True)
    channel.consume(dead, no_ack=True)
    assert [channel.expect_delivery().body for _ in bodies] == bodies
