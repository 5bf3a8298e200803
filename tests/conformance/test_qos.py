"""basic.qos: prefetch per consumer and per channel, changed live."""

from __future__ import annotations

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel


def _numbers(count: int) -> list[bytes]:
    return [b"%d" % index for index in range(count)]


@pytest.fixture
def queue(connection: Connection) -> str:
    """A queue with ten messages, 0 to 9."""
    channel = connection.channel()
    name = channel.declare(exclusive=True)
    connection.fill(name, *_numbers(10))
    return name


@pytest.mark.holds("basic.qos: prefetch_size other than 0 -> 540")
def test_a_prefetch_size_is_a_540(channel: Channel) -> None:
    """Octets are not counted."""
    channel.send("basic.qos", prefetch_size=5)
    channel.connection.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (5)", by="basic.qos")


@pytest.mark.holds("basic.qos: prefetch_count bounds what a consumer holds unacknowledged")
def test_prefetch_bounds_a_consumer(channel: Channel, queue: str) -> None:
    """Row 15: an ack makes room for exactly one, a multiple ack for as many as it covers."""
    channel.call("basic.qos", prefetch_count=3)
    channel.consume(queue)
    channel.expect_deliveries(*_numbers(3))
    channel.expect_silence(queue)
    channel.send("basic.ack", delivery_tag=2)
    channel.expect_deliveries(b"3")
    channel.send("basic.ack", delivery_tag=3, multiple=True)
    channel.expect_deliveries(b"4", b"5")
    channel.expect_silence(queue)


@pytest.mark.holds("basic.qos: 0 means no limit")
def test_zero_is_no_limit(channel: Channel, queue: str) -> None:
    """Row 15."""
    channel.call("basic.qos", prefetch_count=0)
    channel.consume(queue)
    channel.expect_deliveries(*_numbers(10))


@pytest.mark.holds("basic.qos: no_ack consumers ignore prefetch")
def test_no_ack_ignores_prefetch(channel: Channel, queue: str) -> None:
    """Row 15: there is nothing to count."""
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue, no_ack=True)
    channel.expect_deliveries(*_numbers(10))


@pytest.mark.holds("basic.qos: global=false applies to consumers that come later")
def test_existing_consumers_keep_their_prefetch(channel: Channel, queue: str) -> None:
    """Row 15: the first keeps two, the second gets three."""
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue, consumer_tag="first")
    assert [channel.expect_delivery("first").body for _ in range(2)] == _numbers(2)
    channel.call("basic.qos", prefetch_count=3)
    channel.expect_silence(queue)
    channel.consume(queue, consumer_tag="second")
    assert [channel.expect_delivery("second").body for _ in range(3)] == _numbers(5)[2:]
    channel.expect_silence(queue)


@pytest.mark.holds("basic.qos: consumers of one channel have a prefetch each")
def test_each_consumer_has_its_own_prefetch(channel: Channel) -> None:
    """Row 15: two consumers of two hold four."""
    queue = channel.declare(exclusive=True)
    channel.call("basic.qos", prefetch_count=2)
    for tag in ("a", "b"):
        channel.consume(queue, consumer_tag=tag)
    channel.connection.fill(queue, *_numbers(10))
    tags = [channel.expect_delivery().consumer_tag for _ in range(4)]
    assert sorted(tags) == ["a", "a", "b", "b"]
    channel.expect_silence(queue)


@pytest.mark.holds("basic.qos: global=true is shared by all consumers of the channel")
def test_a_global_limit_is_shared(channel: Channel) -> None:
    """Row 15: two consumers hold three together; any ack makes room for one."""
    queue = channel.declare(exclusive=True)
    channel.call("basic.qos", prefetch_count=3, global_=True)
    for tag in ("a", "b"):
        channel.consume(queue, consumer_tag=tag)
    channel.connection.fill(queue, *_numbers(10))
    messages = [channel.expect_delivery() for _ in range(3)]
    channel.expect_silence(queue)
    channel.send("basic.ack", delivery_tag=messages[0].delivery_tag)
    channel.expect_delivery()
    channel.expect_silence(queue)


@pytest.mark.holds("basic.qos: global=true: the channel's consumers take turns, of one queue and of several")
@pytest.mark.parametrize("is_one_queue", [True, False])
def test_a_global_limit_is_fair(channel: Channel, is_one_queue: bool) -> None:
    """A limit of one, given back with each ack: nobody is left behind."""
    channel.call("basic.qos", prefetch_count=1, global_=True)
    queues = [channel.declare(exclusive=True) for _ in range(1 if is_one_queue else 3)]
    for tag, queue in zip("abc", 3 * queues, strict=False):
        channel.consume(queue, consumer_tag=tag)
    for queue in queues:
        channel.connection.fill(queue, *_numbers(30))
    served = set()
    for _ in range(30):
        message = channel.expect_delivery()
        served.add(message.consumer_tag)
        channel.send("basic.ack", delivery_tag=message.delivery_tag)
    assert served == {"a", "b", "c"}


@pytest.mark.holds("basic.qos: global=true: a no_ack consumer counts for nothing and waits while the limit is reached")
def test_a_no_ack_consumer_waits_at_a_global_limit(channel: Channel) -> None:
    """What it gets takes no room; there must be some, though."""
    channel.call("basic.qos", prefetch_count=1, global_=True)
    held, free = channel.declare(exclusive=True), channel.declare(exclusive=True)
    channel.connection.fill(held, b"held")
    channel.connection.fill(free, b"1", b"2", b"3")
    channel.consume(held)
    tag = channel.expect_delivery().delivery_tag
    channel.consume(free, consumer_tag="free", no_ack=True)
    channel.expect_silence(free)
    channel.send("basic.ack", delivery_tag=tag)
    channel.expect_deliveries(b"1", b"2", b"3")


@pytest.mark.holds("basic.qos: global=true applies to existing consumers, live")
def test_a_global_limit_can_be_changed_live(channel: Channel, queue: str) -> None:
    """Row 15: raised, it delivers at once; this is how Celery changes its prefetch."""
    channel.call("basic.qos", prefetch_count=1, global_=True)
    channel.consume(queue)
    channel.expect_deliveries(b"0")
    channel.expect_silence(queue)
    channel.call("basic.qos", prefetch_count=4, global_=True)
    channel.expect_deliveries(b"1", b"2", b"3")
    channel.expect_silence(queue)
    channel.call("basic.qos", prefetch_count=2, global_=True)
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    channel.expect_silence(queue)
    channel.send("basic.ack", delivery_tag=3)
    channel.expect_deliveries(b"4")
    channel.call("basic.qos", prefetch_count=0, global_=True)
    channel.expect_deliveries(*_numbers(10)[5:])


@pytest.mark.holds("basic.qos: both limits may apply at once")
def test_both_limits_apply(channel: Channel) -> None:
    """Row 15: two each, three together."""
    queue = channel.declare(exclusive=True)
    channel.call("basic.qos", prefetch_count=2, global_=False)
    channel.call("basic.qos", prefetch_count=3, global_=True)
    for tag in ("a", "b"):
        channel.consume(queue, consumer_tag=tag)
    channel.connection.fill(queue, *_numbers(10))
    tags = [channel.expect_delivery().consumer_tag for _ in range(3)]
    assert max(tags.count("a"), tags.count("b")) <= 2
    channel.expect_silence(queue)


@pytest.mark.holds("basic.qos: requeueing and rejecting make room as well")
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_a_settled_delivery_makes_room(channel: Channel, queue: str, name: str) -> None:
    """Whatever becomes of the message, the consumer no longer holds it."""
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    channel.expect_deliveries(b"0")
    channel.send(name, delivery_tag=1)
    channel.expect_deliveries(b"1")
    channel.send(name, delivery_tag=2, requeue=True)
    message = channel.expect_delivery()
    assert (message.body, message.redelivered) == (b"1", True)


@pytest.mark.holds("basic.qos: never exceeded while publishes and acks race")
def test_prefetch_is_never_exceeded(connection: Connection) -> None:
    """A thousand messages past a prefetch of seven: the next delivery is always within seven of the acked
    ones.
    """
    publisher, consumer = connection.channel(), connection.channel()
    queue = consumer.declare(exclusive=True)
    consumer.call("basic.qos", prefetch_count=7)
    consumer.consume(queue)
    for index in range(300):
        publisher.publish("", queue, b"%d" % index)
    acked = 0
    for index in range(300):
        message = consumer.expect_delivery()
        assert message.body == b"%d" % index
        assert message.delivery_tag - acked <= 7
        if index % 3 == 2:
            acked = message.delivery_tag
            consumer.send("basic.ack", delivery_tag=acked, multiple=True)
    consumer.expect_silence(queue)
