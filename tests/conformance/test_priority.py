"""x-max-priority: higher first, first in first out within one."""

from __future__ import annotations

import pytest

from tests.conformance.wire import Connection


def _fill(connection: Connection, queue: str, *priorities: int | None) -> None:
    """One message for each priority, its body the position and the priority."""
    for index, priority in enumerate(priorities):
        properties = {} if priority is None else {"priority": priority}
        connection.fill(queue, b"%d:%s" % (index, str(priority).encode()), **properties)


@pytest.mark.holds("x-max-priority: higher priorities first, equal ones in order; none is 0")
def test_higher_priorities_come_first(connection: Connection) -> None:
    """Each body says when it was published."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-priority": 10})
    _fill(connection, queue, 1, None, 5, 0, 5, 10, 1)
    expected = [b"5:10", b"2:5", b"4:5", b"0:1", b"6:1", b"1:None", b"3:0"]
    assert channel.get_bodies(queue) == expected


@pytest.mark.holds("x-max-priority: a higher priority than the maximum counts as the maximum")
def test_priorities_are_clamped(connection: Connection) -> None:
    """The property is delivered as it was published."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-priority": 3})
    _fill(connection, queue, 3, 200, 2)
    messages = [channel.get(queue) for _ in range(3)]
    found = [(m.body, m.properties["priority"]) for m in messages if m]
    assert found == [(b"0:3", 3), (b"1:200", 200), (b"2:2", 2)]


@pytest.mark.holds("a queue without x-max-priority ignores priorities")
def test_without_the_argument_order_is_arrival(connection: Connection) -> None:
    """First in, first out."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    _fill(connection, queue, 0, 9, 5)
    assert channel.get_bodies(queue) == [b"0:0", b"1:9", b"2:5"]


@pytest.mark.holds("x-max-priority: consumers get the highest that is ready whenever they have credit")
def test_a_consumer_gets_the_highest(connection: Connection) -> None:
    """With a prefetch of one, what comes later may overtake what waits."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-priority": 5})
    _fill(connection, queue, 1, 1)
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    channel.expect_deliveries(b"0:1")
    _fill(connection, queue, 4)
    channel.send("basic.ack", delivery_tag=1)
    channel.expect_deliveries(b"0:4")
    channel.send("basic.ack", delivery_tag=2)
    channel.expect_deliveries(b"1:1")


@pytest.mark.holds("x-max-priority: a requeued message returns to its place within its priority")
def test_requeue_returns_to_its_priority(connection: Connection) -> None:
    """Neither to the front of all nor to the end."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-priority": 5})
    _fill(connection, queue, 5, 3, 3, 1)
    for _ in range(3):
        assert channel.get(queue, no_ack=False) is not None
    for tag in (2, 1, 3):
        channel.send("basic.nack", delivery_tag=tag, requeue=True)
    assert channel.get_bodies(queue) == [b"0:5", b"1:3", b"2:3", b"3:1"]


@pytest.mark.holds("x-max-priority with x-max-length: drop-head drops what would be delivered next")
def test_overflow_drops_the_head(connection: Connection) -> None:
    """The head of a priority queue is its highest priority, though few expect that."""
    channel = connection.channel()
    arguments = {"x-max-priority": 5, "x-max-length": 2}
    queue = channel.declare(exclusive=True, arguments=arguments)
    _fill(connection, queue, 5, 1, 5, 0)
    assert channel.get_bodies(queue) == [b"1:1", b"3:0"]


@pytest.mark.holds("x-max-priority 0 and 255 are accepted and work")
@pytest.mark.parametrize(("maximum", "order"), [(0, [b"0:1", b"1:200", b"2:7"]), (255, [b"1:200", b"2:7", b"0:1"])])
def test_the_extreme_maxima(connection: Connection, maximum: int, order: list[bytes]) -> None:
    """With 0 all are equal."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-priority": maximum})
    _fill(connection, queue, 1, 200, 7)
    assert channel.get_bodies(queue) == order
