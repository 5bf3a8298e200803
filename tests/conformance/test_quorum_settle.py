"""Quorum queues: what acknowledgements, rejections and lost channels do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.quorum import declare, ours_only, take, wait_for_counts
from tests.conformance.replies import unknown_delivery_tag
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]
Connect = Callable[..., Connection]


@pytest.fixture
def queue(channel: Channel, named: Named) -> str:
    return declare(channel, named("queue"))


@pytest.mark.holds("quorum queue: basic.ack, single, multiple and for all")
def test_acks(connection: Connection, channel: Channel, queue: str) -> None:
    """What is acknowledged does not come back."""
    connection.fill(queue, b"1", b"2", b"3", b"4", b"5", b"6")
    channel.consume(queue)
    channel.expect_deliveries(b"1", b"2", b"3", b"4", b"5", b"6")
    channel.send("basic.ack", delivery_tag=5)
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.send("basic.ack", delivery_tag=4)
    channel.call("channel.close", reply_code=200)
    other = connection.channel()
    assert other.get_bodies(queue) == [b"3", b"6"]
    connection.fill(queue, b"7", b"8")
    for _ in range(2):
        take(other, queue)
    other.send("basic.ack", delivery_tag=0, multiple=True)
    other.call("channel.close", reply_code=200)
    wait_for_counts(connection.channel(), queue, 0, 0)


@pytest.mark.holds("quorum queue: unknown delivery tags -> 406, and what the channel holds returns")
def test_an_unknown_tag(connection: Connection, channel: Channel, queue: str) -> None:
    """Twice is unknown too."""
    connection.fill(queue, b"1", b"2")
    channel.consume(queue)
    channel.expect_deliveries(b"1", b"2")
    channel.send("basic.ack", delivery_tag=1)
    channel.refused(406, unknown_delivery_tag(1), "basic.ack", delivery_tag=1)
    message = take(connection.channel(), queue)
    assert (message.body, message.redelivered) == (b"2", True)


@pytest.mark.holds("quorum queue: requeued messages return to their places, redelivered, with x-delivery-count")
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_requeue(connection: Connection, channel: Channel, queue: str, name: str) -> None:
    """The count is that of returns, beside the publisher's headers."""
    connection.fill(queue, b"1", b"2", b"3", headers={"mine": 1})
    for count in (1, 2):
        first = take(channel, queue)
        assert first.body == b"1"
        assert first.redelivered == (count > 1)
        channel.send(name, delivery_tag=first.delivery_tag, requeue=True)
    message = take(channel, queue)
    assert (message.body, message.redelivered) == (b"1", True)
    assert message.headers == {"mine": 1, "x-delivery-count": 2}
    second = take(channel, queue)
    assert (second.body, second.redelivered) == (b"2", False)
    assert second.headers.get("x-delivery-count", 0) == 0


@pytest.mark.holds("quorum queue: basic.nack multiple with requeue keeps the order")
def test_nack_multiple(connection: Connection, channel: Channel, queue: str) -> None:
    """Together, to their places."""
    connection.fill(queue, b"1", b"2", b"3", b"4")
    channel.call("basic.qos", prefetch_count=3)
    tag = channel.consume(queue)
    channel.expect_deliveries(b"1", b"2", b"3")
    channel.call("basic.cancel", consumer_tag=tag)
    channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)
    assert [take(channel, queue).body for _ in range(4)] == [b"1", b"2", b"3", b"4"]


@pytest.mark.holds("quorum queue: rejected without requeue is gone")
def test_reject(connection: Connection, channel: Channel, queue: str) -> None:
    """There is no dead letter exchange."""
    connection.fill(queue, b"1", b"2")
    channel.send("basic.reject", delivery_tag=take(channel, queue).delivery_tag)
    assert take(channel, queue).body == b"2"
    wait_for_counts(channel, queue, 0, 0)


@pytest.mark.holds("quorum queue: basic.recover returns all that the channel holds")
def test_recover(connection: Connection, channel: Channel, queue: str) -> None:
    """They come again."""
    connection.fill(queue, b"1", b"2")
    channel.consume(queue)
    channel.expect_deliveries(b"1", b"2")
    channel.send("basic.recover", requeue=True)
    channel.expect("basic.recover-ok")
    messages = channel.expect_deliveries(b"1", b"2")
    assert [(each.redelivered, each.delivery_tag) for each in messages] == [(True, 3), (True, 4)]


@pytest.mark.holds("quorum queue: a closed channel or connection returns what it held")
@pytest.mark.parametrize("lost", ["channel.close", "connection.close", "drop"])
def test_a_closed_channel_returns_all(connect: Connect, channel: Channel, queue: str, lost: str) -> None:
    """In order, before what is ready, redelivered."""
    going = connect()
    holder = going.channel()
    going.fill(queue, b"1", b"2", b"3")
    holder.call("basic.qos", prefetch_count=2)
    holder.consume(queue)
    holder.expect_deliveries(b"1", b"2")
    if lost == "channel.close":
        holder.call("channel.close", reply_code=200)
    elif lost == "connection.close":
        going.close()
    else:
        going.drop()
    wait_for_counts(channel, queue, 3, 0)
    channel.consume(queue)
    messages = channel.expect_deliveries(b"1", b"2", b"3")
    assert [each.redelivered for each in messages] == [True, True, False]


@ours_only
@pytest.mark.holds("quorum queue: x-delivery-limit is 20, and a message above it is gone")
def test_the_delivery_limit(connection: Connection, channel: Channel, queue: str) -> None:
    """The default of RabbitMQ 4; off with -1."""
    connection.fill(queue, b"poison")
    for count in range(21):
        message = take(channel, queue)
        assert message.headers.get("x-delivery-count", 0) == count
        channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
    wait_for_counts(channel, queue, 0, 0)


@ours_only
@pytest.mark.holds("quorum queue: x-delivery-limit -1 is none")
def test_no_delivery_limit(connection: Connection, channel: Channel, named: Named) -> None:
    """It is counted all the same."""
    queue = declare(channel, named("queue"), x_delivery_limit=-1)
    connection.fill(queue, b"m")
    for _ in range(30):
        channel.send("basic.nack", delivery_tag=take(channel, queue).delivery_tag, requeue=True)
    assert take(channel, queue).headers == {"x-delivery-count": 30}


@pytest.mark.holds("quorum queue: one message is a lock: who has it has it alone")
def test_a_lock(connect: Connect, queue: str) -> None:
    """The next holder comes when the first is gone, and what the first says then counts for nothing."""
    first, second = connect(), connect().channel()
    first.fill(queue, b"lock")
    holder = first.channel()
    holder.call("basic.qos", prefetch_count=1)
    holder.consume(queue)
    holder.expect_deliveries(b"lock")
    second.call("basic.qos", prefetch_count=1)
    second.consume(queue)
    second.expect_silence(queue)
    first.drop()
    assert second.expect_delivery().redelivered
