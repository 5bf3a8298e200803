"""Time to live of messages and of queues. Clocks are the broker's: tests wait for what it does, not for time
to pass.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.mark.holds("x-message-ttl: messages that nobody took in time are gone")
def test_a_queue_ttl_expires_messages(connection: Connection) -> None:
    """What is left counts no more, and is not delivered."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-message-ttl": 50})
    connection.fill(queue, b"1", b"2")
    connection.let_pass(200)
    assert channel.counts(queue) == (0, 0)
    assert channel.get(queue) is None


@pytest.mark.holds("x-message-ttl: a delivered message does not expire")
def test_a_held_message_does_not_expire(connection: Connection) -> None:
    """While a consumer holds it, the clock does not matter; requeued, it is too old."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-message-ttl": 100})
    connection.fill(queue, b"held")
    message = channel.get(queue, no_ack=False)
    assert message is not None
    connection.let_pass(300)
    channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
    assert channel.get(queue) is None


@pytest.mark.holds("x-message-ttl 0, expiration 0: delivered at once or expired")
@pytest.mark.parametrize("by", ["queue", "message"])
def test_ttl_zero_is_now_or_never(channel: Channel, by: str) -> None:
    """Row 25: with a waiting consumer it arrives, without one it does not."""
    arguments = {"x-message-ttl": 0} if by == "queue" else {}
    properties = {} if by == "queue" else {"expiration": "0"}
    queue = channel.declare(exclusive=True, arguments=arguments)
    channel.publish("", queue, b"never", False, False, **properties)
    assert channel.get(queue) is None
    channel.consume(queue, consumer_tag="waiting", no_ack=True)
    channel.publish("", queue, b"now", False, False, **properties)
    assert channel.expect_delivery("waiting").body == b"now"


@pytest.mark.holds("expiration: the smaller of the queue's and the message's time to live counts")
@pytest.mark.parametrize(("queue_ms", "message_ms"), [(50, 600_000), (600_000, 50)])
def test_the_smaller_time_counts(connection: Connection, queue_ms: int, message_ms: int) -> None:
    """Row 25."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-message-ttl": queue_ms})
    connection.fill(queue, b"m", expiration=str(message_ms))
    connection.let_pass(200)
    assert channel.get(queue) is None


@pytest.mark.holds("expiration: a message expires only when it reaches the head")
def test_a_message_behind_a_longer_one_waits(connection: Connection) -> None:
    """Row 25: counted until then, and never delivered after its time."""
    channel = connection.channel()
    dead = channel.declare(exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.declare(exclusive=True, arguments=arguments)
    connection.fill(queue, b"long", expiration="600000")
    connection.fill(queue, b"short", expiration="20")
    connection.let_pass(200)
    assert channel.counts(queue) == (2, 0)
    assert channel.get(dead) is None
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"long"
    channel.consume(dead, no_ack=True)
    channel.expect_deliveries(b"short")
    assert channel.get(queue) is None


@pytest.mark.holds("expiration: delivered with the message, as published")
def test_the_expiration_stays_a_property(channel: Channel) -> None:
    """Only dead-lettering removes it."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", expiration="600000")
    message = channel.get(queue)
    assert message is not None
    assert message.properties == {"expiration": "600000"}


@pytest.mark.holds("expiration: a requeued message keeps its original time")
def test_requeueing_does_not_renew(connection: Connection) -> None:
    """Row 25: after a requeue it expires when it would have expired anyway."""
    channel = connection.channel()
    dead = channel.declare(exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.declare(exclusive=True, arguments=arguments)
    connection.fill(queue, b"m", expiration="300")
    message = channel.get(queue, no_ack=False)
    assert message is not None
    channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
    channel.consume(dead, no_ack=True)
    letter = channel.expect_delivery()
    assert letter.headers["x-death"][0]["reason"] == "expired"


@pytest.mark.holds("x-expires: an unused queue is deleted")
def test_an_unused_queue_is_deleted(connect: Connect, named: Named, vhost: str) -> None:
    """With the messages in it."""
    connection = connect()
    channel = connection.channel()
    queue = channel.declare(named("queue"), durable=True, arguments={"x-expires": 100})
    connection.fill(queue, b"m")
    connection.let_pass(500)
    channel.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.holds("x-expires: a queue with a consumer is in use")
def test_a_consumed_queue_is_kept(connection: Connection, named: Named, vhost: str) -> None:
    """Its time begins when the last consumer leaves."""
    channel = connection.channel()
    queue = channel.declare(named("queue"), arguments={"x-expires": 100})
    tag = channel.consume(queue)
    connection.let_pass(300)
    assert channel.counts(queue) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    connection.let_pass(500)
    channel.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.holds("x-expires: basic.get, a redeclare and a passive declare are uses")
@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_a_use_renews_the_lease(connection: Connection, named: Named, vhost: str, use: str) -> None:
    """Used every third of its time it outlives it."""
    channel = connection.channel()
    arguments = {"x-expires": 600}
    queue = channel.declare(named("queue"), arguments=arguments)
    for _ in range(4):
        connection.let_pass(200)
        if use == "get":
            assert channel.get(queue) is None
        elif use == "passive":
            assert channel.counts(queue) == (0, 0)
        else:
            channel.declare(queue, arguments=arguments)


@pytest.mark.holds("x-expires: deleted dead-letters nothing")
def test_expiry_of_a_queue_dead_letters_nothing(connection: Connection, named: Named) -> None:
    """What was in it is gone."""
    channel = connection.channel()
    dead = channel.declare(exclusive=True)
    arguments = {"x-expires": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.declare(named("queue"), arguments=arguments)
    connection.fill(queue, b"m")
    connection.let_pass(300)
    assert channel.get(dead) is None
