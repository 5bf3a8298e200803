"""basic.ack, nack, reject, recover: tags, multiple, requeue and its position, redelivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import unknown_delivery_tag
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]


def _holding(connection: Connection, *bodies: bytes) -> tuple[Channel, str]:
    """A channel that holds these messages of a fresh queue unacknowledged, with tags from 1."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, *bodies)
    channel.consume(queue, consumer_tag="holder")
    channel.expect_deliveries(*bodies)
    channel.call("basic.cancel", consumer_tag="holder")
    return channel, queue


SETTLEMENTS = ["basic.ack", "basic.nack", "basic.reject"]


@pytest.mark.holds("basic.ack, nack, reject: unknown delivery tag -> 406, the channel closes and its deliveries return")
@pytest.mark.parametrize("name", SETTLEMENTS)
def test_an_unknown_tag_is_a_406(connection: Connection, name: str) -> None:
    """Row 8: everything that the channel held is ready again."""
    channel, queue = _holding(connection, b"1", b"2")
    channel.refused(406, unknown_delivery_tag(5), name, delivery_tag=5)
    assert connection.channel().get_bodies(queue) == [b"1", b"2"]


@pytest.mark.holds("basic.ack: the same tag twice -> 406")
@pytest.mark.parametrize("name", SETTLEMENTS)
def test_settling_twice_is_a_406(connection: Connection, name: str) -> None:
    """Row 8: a tag is settled once."""
    channel, _queue = _holding(connection, b"1", b"2")
    channel.send(name, delivery_tag=1)
    channel.refused(406, unknown_delivery_tag(1), name, delivery_tag=1)


@pytest.mark.holds("basic.ack: the tag of another channel -> 406")
def test_a_tag_of_another_channel_is_a_406(connection: Connection) -> None:
    """Row 8: tags belong to the channel that delivered."""
    channel, _queue = _holding(connection, b"1")
    connection.channel().refused(406, unknown_delivery_tag(1), "basic.ack", delivery_tag=1)
    channel.send("basic.ack", delivery_tag=1)
    channel.call("basic.qos")


@pytest.mark.holds("basic.ack: the tag of a no_ack delivery -> 406")
def test_acknowledging_a_no_ack_delivery_is_a_406(connection: Connection) -> None:
    """Row 8: there is nothing to acknowledge."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.consume(queue, no_ack=True)
    channel.publish("", queue, b"m")
    tag = channel.expect_delivery().delivery_tag
    channel.refused(406, unknown_delivery_tag(tag), "basic.ack", delivery_tag=tag)


@pytest.mark.holds("basic.ack: tag 0, not multiple -> 406")
@pytest.mark.parametrize("name", SETTLEMENTS)
def test_tag_zero_alone_is_a_406(connection: Connection, name: str) -> None:
    """Row 9: zero is no tag."""
    channel, _queue = _holding(connection, b"1")
    channel.refused(406, unknown_delivery_tag(0), name, delivery_tag=0)


@pytest.mark.holds("basic.ack: tag 0, multiple -> all outstanding, also if there are none")
def test_tag_zero_multiple_means_all(connection: Connection) -> None:
    """Row 9: twice, the second time with nothing to do."""
    channel, queue = _holding(connection, b"1", b"2", b"3")
    for _ in range(2):
        channel.send("basic.ack", delivery_tag=0, multiple=True)
    channel.call("channel.close", reply_code=200)
    assert connection.channel().get_bodies(queue) == []


@pytest.mark.holds("basic.ack: multiple -> all up to the tag")
def test_multiple_acknowledges_up_to_the_tag(connection: Connection) -> None:
    """Later ones stay with the channel."""
    channel, queue = _holding(connection, b"1", b"2", b"3", b"4")
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.call("channel.close", reply_code=200)
    assert connection.channel().get_bodies(queue) == [b"3", b"4"]


@pytest.mark.holds("basic.ack: multiple, with a tag that is settled already -> 406")
def test_multiple_with_a_settled_tag_is_a_406(connection: Connection) -> None:
    """Row 9: even though lower and higher ones are outstanding."""
    channel, queue = _holding(connection, b"1", b"2", b"3")
    channel.send("basic.ack", delivery_tag=2)
    channel.refused(406, unknown_delivery_tag(2), "basic.ack", delivery_tag=2, multiple=True)
    assert connection.channel().get_bodies(queue) == [b"1", b"3"]


@pytest.mark.holds("basic.ack: delivery tags are unsigned 64 bit numbers")
@pytest.mark.parametrize("tag", [2**31, 2**63, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_huge_tags_are_unknown(connection: Connection, tag: int, multiple: bool) -> None:
    """The text shows the number as it is."""
    channel, _queue = _holding(connection, b"1")
    channel.refused(406, unknown_delivery_tag(tag), "basic.ack", delivery_tag=tag, multiple=multiple)


@pytest.mark.holds("basic.reject, basic.nack: without requeue -> gone")
@pytest.mark.parametrize("name", ["basic.reject", "basic.nack"])
def test_a_rejected_message_is_gone(connection: Connection, name: str) -> None:
    """Without a dead letter exchange it is dropped."""
    channel, queue = _holding(connection, b"1", b"2")
    channel.send(name, delivery_tag=1)
    channel.call("channel.close", reply_code=200)
    assert connection.channel().get_bodies(queue) == [b"2"]


@pytest.mark.holds("basic.reject, basic.nack: with requeue -> back in its original position, redelivered")
@pytest.mark.parametrize("name", ["basic.reject", "basic.nack"])
@pytest.mark.parametrize("tag", [1, 2, 3])
def test_requeue_restores_the_position(connection: Connection, name: str, tag: int) -> None:
    """Row 10: each of three, while the other two are held and come back later."""
    bodies = [b"1", b"2", b"3"]
    channel, queue = _holding(connection, *bodies)
    connection.fill(queue, b"4")
    channel.send(name, delivery_tag=tag, requeue=True)
    message = channel.get(queue, no_ack=False)
    assert message is not None
    assert (message.body, message.redelivered, message.message_count) == (bodies[tag - 1], True, 1)
    channel.call("channel.close", reply_code=200)
    assert connection.channel().get_bodies(queue) == [*bodies, b"4"]


@pytest.mark.holds("basic.nack: multiple with requeue -> all up to the tag, in their order")
def test_a_multiple_nack_restores_the_order(connection: Connection) -> None:
    """Row 10: the fourth was never delivered and is not marked."""
    channel, queue = _holding(connection, b"1", b"2", b"3")
    connection.fill(queue, b"4")
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    messages = [channel.get(queue) for _ in range(4)]
    assert [(m.body, m.redelivered) for m in messages if m] == [
        (b"1", True), (b"2", True), (b"3", True), (b"4", False)
    ]  # fmt: skip


@pytest.mark.holds("basic.reject: requeued to a queue with a consumer -> delivered again")
def test_a_requeued_message_is_delivered_again(connection: Connection) -> None:
    """Row 10: redelivered on every later delivery, under a new tag."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.consume(queue)
    channel.publish("", queue, b"m")
    assert channel.expect_delivery().redelivered is False
    for tag in (1, 2, 3):
        channel.send("basic.reject", delivery_tag=tag, requeue=True)
        message = channel.expect_delivery()
        assert (message.delivery_tag, message.body, message.redelivered) == (tag + 1, b"m", True)


@pytest.mark.holds("basic.recover, recover-async: requeue=true -> all outstanding are requeued")
@pytest.mark.parametrize("name", ["basic.recover", "basic.recover-async"])
def test_recover_requeues_all(connection: Connection, name: str) -> None:
    """Only basic.recover is answered; the channel goes on with new tags."""
    channel, queue = _holding(connection, b"1", b"2")
    channel.send(name, requeue=True)
    if name == "basic.recover":
        channel.expect("basic.recover-ok")
    messages = [channel.get(queue) for _ in range(2)]
    found = [(m.delivery_tag, m.body, m.redelivered) for m in messages if m]
    assert found == [(3, b"1", True), (4, b"2", True)]


@pytest.mark.holds("basic.recover, recover-async: requeue=false -> 540")
@pytest.mark.parametrize("name", ["basic.recover", "basic.recover-async"])
def test_recover_without_requeue_is_a_540(channel: Channel, name: str) -> None:
    """A hard error that names the flag."""
    channel.send(name, requeue=False)
    channel.connection.expect_close(540, "NOT_IMPLEMENTED - requeue=false", by=name)


@pytest.mark.holds("connection loss: unacknowledged deliveries return, as redelivered")
def test_a_lost_connection_requeues(connect: Connect, named: Callable[[str], str]) -> None:
    """The transport ends without a word; another consumer gets what was held, in order."""
    lost, other = connect(), connect().channel()
    queue = other.declare(named("queue"))
    lost.fill(queue, b"1", b"2", b"3")
    channel = lost.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue)
    channel.expect_deliveries(b"1", b"2")
    other.consume(queue, consumer_tag="heir", arguments={"x-priority": -1})
    assert other.expect_delivery("heir").body == b"3"
    lost.drop()
    found: list[Any] = [(m.body, m.redelivered) for m in (other.expect_delivery("heir") for _ in range(2))]
    assert found == [(b"1", True), (b"2", True)]
