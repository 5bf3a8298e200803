"""confirm_delay: confirms wait for others of their channel, for so long at most and never for the disk twice."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, declare, small_config
from tests.node.test_turns import confirming, confirms

DELAY_MS = 5


def delaying() -> NodeDriver:
    return NodeDriver(small_config(confirm_delay_ms=DELAY_MS))


def pass_time(driver: NodeDriver, milliseconds: int) -> None:
    driver.now += milliseconds
    driver.node.tick(driver.now)


def test_they_leave_together_when_the_first_has_waited_so_long() -> None:
    driver = delaying()
    client = confirming(driver, declare("a", durable=False))
    client.publish(1, "a", b"x")
    deadline = driver.turn().next_deadline
    assert deadline is not None
    assert deadline <= driver.now + DELAY_MS
    pass_time(driver, DELAY_MS - 1)
    client.publish(1, "a", b"y")
    driver.turn()
    assert confirms(client) == []
    pass_time(driver, 1)
    driver.turn()
    assert confirms(client) == [("ack", 2, True)]
    client.publish(1, "a", b"z")
    driver.turn()
    pass_time(driver, DELAY_MS)
    driver.turn()
    assert confirms(client) == [("ack", 3, False)]


def test_they_wait_from_when_they_could_leave() -> None:
    driver = delaying()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    pass_time(driver, 2 * DELAY_MS)
    driver.turn()
    assert confirms(client) == [], "the disk has it not"
    driver.synced(driver.take_sync())
    assert confirms(client) == []
    pass_time(driver, DELAY_MS)
    driver.turn()
    assert confirms(client) == [("ack", 1, False)]


def test_a_nack_stands_between_the_acks() -> None:
    driver = delaying()
    full = declare("full", durable=False, x_max_length=1, x_overflow="reject-publish")
    client = confirming(driver, full)
    for _ in range(2):
        client.publish(1, "full", b"x")
        driver.turn()
    pass_time(driver, DELAY_MS)
    driver.turn()
    assert confirms(client) == [("ack", 1, False), ("nack", 2, False)]


CLOSES = [
    pytest.param(1, methods.ChannelClose(200, "done", 0, 0), "channel.close-ok", id="channel"),
    pytest.param(0, methods.ConnectionClose(200, "done", 0, 0), "connection.close-ok", id="connection"),
    pytest.param(1, methods.QueueDeclare(0, "none", passive=True), "channel.close", id="error"),
]


@pytest.mark.parametrize(("number", "method", "answer"), CLOSES)
def test_what_is_done_is_said_before_the_channel_goes(number: int, method: methods.Method, answer: str) -> None:
    """As it is without a delay. Nothing more is said when that has passed."""
    driver = delaying()
    client = confirming(driver, declare("a", durable=False))
    client.publish(1, "a", b"x")
    driver.turn()
    client.publish(1, "a", b"y")
    driver.turn()
    client.send(number, method)
    driver.settle()
    heard = client.take()
    assert [event.method.name for event in heard] == ["basic.ack", answer]
    assert heard[0].method == methods.BasicAck(2, True)
    pass_time(driver, DELAY_MS)
    driver.turn()
    assert client.names() == []


def test_what_the_disk_has_not_is_not_said_though_the_channel_goes() -> None:
    driver = delaying()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    client.send(1, methods.ChannelClose(200, "done", 0, 0))
    driver.turn()
    pass_time(driver, DELAY_MS)
    driver.settle()
    assert client.names() == ["channel.close-ok"]
