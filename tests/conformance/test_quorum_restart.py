"""Quorum queues: what outlives the broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop_tests.broker_under_test import Restartable
from tests.conformance.quorum import declare, take
from tests.conformance.wire import Connection

Named = Callable[[str], str]

pytestmark = pytest.mark.octets_too_slow


@pytest.mark.holds("restart: a quorum queue keeps its messages, transient ones too, and its settings")
def test_messages_survive(dialled: Callable[[], Connection], restartable: Restartable, named: Named) -> None:
    """In order; what was held is redelivered; what was acknowledged is gone; counts go on."""
    connection = dialled()
    channel = connection.channel()
    queue = declare(channel, named("queue"), x_max_length=4, x_delivery_limit=7)
    connection.fill(queue, b"0", b"1", b"2", delivery_mode=1)
    connection.fill(queue, b"3", b"4", delivery_mode=2, headers={"h": [1, "x"]}, priority=3)
    for _ in range(2):
        channel.send("basic.nack", delivery_tag=take(channel, queue).delivery_tag, requeue=True)
    channel.send("basic.ack", delivery_tag=take(channel, queue).delivery_tag)
    assert take(channel, queue).body == b"2"
    restartable.stop()
    restartable.start()
    connection = dialled()
    channel = connection.channel()
    declare(channel, queue, x_max_length=4, x_delivery_limit=7)
    messages = [take(channel, queue) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in messages] == [(b"2", True), (b"3", False), (b"4", False)]
    assert messages[1].properties["headers"] == {"h": [1, "x"]}
    assert channel.get(queue) is None


@pytest.mark.holds("restart: a quorum queue goes on with publishes, consumers and deletion")
def test_it_goes_on(dialled: Callable[[], Connection], restartable: Restartable, named: Named) -> None:
    """Several of them, in several groups, several times."""
    connection = dialled()
    channel = connection.channel()
    queues = [declare(channel, named("queue")) for _ in range(10)]
    for round_number in range(3):
        for queue in queues:
            connection.fill(queue, str(round_number).encode())
        restartable.stop()
        restartable.start()
        connection = dialled()
        channel = connection.channel()
    for queue in queues:
        channel.consume(queue, consumer_tag=queue, no_ack=True)
        assert [channel.expect_delivery(queue).body for _ in range(3)] == [b"0", b"1", b"2"]
        channel.call("queue.delete", queue=queue)
        channel.expect("basic.cancel")


@pytest.mark.holds("restart: dead letters of quorum queues that had nowhere to go are there still")
def test_dead_letters_survive(dialled: Callable[[], Connection], restartable: Restartable, named: Named) -> None:
    """With x-dead-letter-strategy at-least-once."""
    exchange = named("exchange")
    connection = dialled()
    channel = connection.channel()
    channel.call("exchange.declare", exchange=exchange, type="fanout", durable=True)
    queue = declare(
        channel, named("queue"), x_dead_letter_exchange=exchange, x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
    )  # fmt: skip
    connection.fill(queue, b"1", b"2")
    for _ in range(2):
        channel.send("basic.reject", delivery_tag=take(channel, queue).delivery_tag)
    channel.call("basic.qos")
    connection.fill(queue, b"3")  # what was rejected before is in the log then
    restartable.stop()
    restartable.start()
    channel = dialled().channel()
    dead = declare(channel, named("dead"))
    channel.call("queue.bind", queue=dead, exchange=exchange)
    channel.consume(dead, no_ack=True)
    assert {channel.expect_delivery().body for _ in range(2)} == {b"1", b"2"}


@pytest.mark.ours_only("a plugin there")
@pytest.mark.holds("restart: delayed messages arrive when they are due, in a quorum queue too")
def test_delayed_messages_survive(dialled: Callable[[], Connection], restartable: Restartable, named: Named) -> None:
    """What was due meanwhile comes at once, in the order in which it was due."""
    exchange, classic = named("exchange"), named("classic")
    channel = dialled().channel()
    channel.call(
        "exchange.declare", exchange=exchange, type="x-delayed-message", durable=True,
        arguments={"x-delayed-type": "fanout"},
    )  # fmt: skip
    queue = declare(channel, named("queue"))
    channel.declare(classic, durable=True)
    for each in (queue, classic):
        channel.call("queue.bind", queue=each, exchange=exchange)
    channel.call("confirm.select")
    for delay in (900, 300, 600):
        channel.publish(exchange, "", str(delay).encode(), delivery_mode=2, headers={"x-delay": delay})
    assert {each.name for each in channel.expect_confirms(3)} == {"basic.ack"}
    restartable.stop()
    restartable.start()
    connection = dialled()
    for each in (queue, classic):
        channel = connection.channel()
        channel.consume(each, no_ack=True)
        channel.expect_deliveries(b"300", b"600", b"900")
