"""x-single-active-consumer: one consumer at a time, the next in line takes over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.fixture
def queue(channel: Channel, named: Named) -> str:
    return channel.declare(named("queue"), arguments={"x-single-active-consumer": True})


@pytest.mark.holds("x-single-active-consumer: only the first consumer gets messages, whatever its credit")
def test_only_the_first_consumer_is_active(connection: Connection, queue: str) -> None:
    """A busy active consumer is not helped by the others."""
    first, second = connection.channel(), connection.channel()
    first.call("basic.qos", prefetch_count=1)
    first.consume(queue, consumer_tag="first")
    second.consume(queue, consumer_tag="second")
    connection.fill(queue, b"1", b"2", b"3")
    for tag, body in enumerate((b"1", b"2", b"3"), 1):
        message = first.expect_delivery("first")
        assert message.body == body
        second.expect_silence(queue)
        first.send("basic.ack", delivery_tag=tag)


@pytest.mark.holds("x-single-active-consumer: the longest waiting consumer takes over after a cancel")
def test_the_next_in_line_takes_over(connection: Connection, queue: str) -> None:
    """One after the other, in the order in which they came."""
    channel = connection.channel()
    for tag in ("a", "b", "c"):
        channel.consume(queue, consumer_tag=tag, no_ack=True)
    for tag in ("a", "b", "c"):
        channel.publish("", queue, tag.encode())
        assert channel.expect_delivery(tag).body == tag.encode()
        channel.call("basic.cancel", consumer_tag=tag)


@pytest.mark.holds("x-single-active-consumer: a closed channel hands over what it held, in order")
@pytest.mark.parametrize("lost", [False, True], ids=["channel", "connection"])
def test_held_messages_are_handed_over(connect: Connect, queue: str, lost: bool) -> None:
    """Marked as redelivered; then what was still ready."""
    active, waiting = connect(), connect().channel()
    channel = active.channel()
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue, consumer_tag="active")
    waiting.consume(queue, consumer_tag="waiting")
    active.fill(queue, b"1", b"2", b"3")
    for body in (b"1", b"2"):
        assert channel.expect_delivery("active").body == body
    waiting.expect_silence(queue)
    if lost:
        active.drop()
    else:
        channel.call("channel.close", reply_code=200)
    messages = [waiting.expect_delivery("waiting") for _ in range(3)]
    assert [(message.body, message.redelivered) for message in messages] == [
        (b"1", True), (b"2", True), (b"3", False)
    ]  # fmt: skip


@pytest.mark.holds("x-single-active-consumer: a waiting consumer that leaves changes nothing")
def test_a_waiting_consumer_may_leave(connection: Connection, queue: str) -> None:
    """The active one goes on, the third is next."""
    channel = connection.channel()
    for tag in ("a", "b", "c"):
        channel.consume(queue, consumer_tag=tag, no_ack=True)
    channel.call("basic.cancel", consumer_tag="b")
    channel.publish("", queue, b"1")
    channel.expect_delivery("a")
    channel.call("basic.cancel", consumer_tag="a")
    channel.publish("", queue, b"2")
    channel.expect_delivery("c")


@pytest.mark.holds("x-single-active-consumer: waiting consumers count in consumer_count")
def test_waiting_consumers_are_counted(channel: Channel, queue: str) -> None:
    """They are consumers, just not active."""
    for _ in range(3):
        channel.consume(queue)
    assert channel.counts(queue) == (0, 3)


@pytest.mark.holds("x-single-active-consumer: basic.get is allowed on a classic queue")
def test_get_is_allowed(connection: Connection, channel: Channel, queue: str) -> None:
    """It is no consumer."""
    connection.fill(queue, b"m")
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"m"


@pytest.mark.holds("x-single-active-consumer: an exclusive consumer -> 403")
def test_an_exclusive_consumer_is_refused(channel: Channel, queue: str, vhost: str) -> None:
    """Two ways of being alone do not go together."""
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
    channel.refused(403, text, "basic.consume", queue=queue, exclusive=True)
