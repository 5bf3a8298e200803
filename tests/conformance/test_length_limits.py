"""x-max-length and x-max-length-bytes with the three ways to overflow."""

from __future__ import annotations

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel


@pytest.mark.holds("x-max-length: drop-head is the default; the oldest go")
@pytest.mark.parametrize("arguments", [{}, {"x-overflow": "drop-head"}], ids=["default", "drop-head"])
def test_the_oldest_messages_are_dropped(connection: Connection, arguments: dict[str, str]) -> None:
    """All are confirmed: they were accepted."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-length": 3, **arguments})
    connection.fill(queue, *[b"%d" % index for index in range(10)])
    assert channel.get_bodies(queue) == [b"7", b"8", b"9"]


@pytest.mark.holds("x-max-length: counts ready messages only")
def test_held_messages_do_not_count(connection: Connection) -> None:
    """Two held and three ready; when the held ones return, the head is dropped."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-length": 3})
    connection.fill(queue, b"1", b"2", b"3")
    for _ in range(2):
        assert channel.get(queue, no_ack=False) is not None
    connection.fill(queue, b"4", b"5")
    assert channel.counts(queue) == (3, 0)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    assert channel.get_bodies(queue) == [b"3", b"4", b"5"]


@pytest.mark.holds("x-max-length 0: only a waiting consumer gets messages")
def test_a_queue_of_length_zero_hands_over(connection: Connection, channel: Channel) -> None:
    """Nothing is ever ready."""
    queue = channel.declare(exclusive=True, arguments={"x-max-length": 0})
    connection.fill(queue, b"dropped")
    assert channel.get(queue) is None
    channel.consume(queue, no_ack=True)
    channel.publish("", queue, b"handed over")
    channel.expect_deliveries(b"handed over")


@pytest.mark.holds("x-max-length-bytes: counts the bodies of ready messages")
def test_octets_are_counted(connection: Connection) -> None:
    """Ten octets hold two bodies of four; headers do not count."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-length-bytes": 10})
    connection.fill(queue, b"aaaa", b"bbbb", b"cccc", headers={"long": "x" * 100})
    assert channel.get_bodies(queue) == [b"bbbb", b"cccc"]


@pytest.mark.holds("x-max-length-bytes: a message larger than the limit drops everything, itself included")
def test_a_message_above_the_limit_fits_nowhere(connection: Connection) -> None:
    """drop-head goes on until the limit holds."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True, arguments={"x-max-length-bytes": 10})
    connection.fill(queue, b"a", b"b", b"x" * 11)
    assert channel.get_bodies(queue) == []


@pytest.mark.holds("x-max-length and x-max-length-bytes: whichever is hit first")
def test_both_limits_apply(connection: Connection) -> None:
    """Three messages, or ten octets."""
    channel = connection.channel()
    arguments = {"x-max-length": 3, "x-max-length-bytes": 10}
    queue = channel.declare(exclusive=True, arguments=arguments)
    connection.fill(queue, b"1", b"2", b"3", b"4")
    assert channel.get_bodies(queue) == [b"2", b"3", b"4"]
    connection.fill(queue, b"1", b"2" * 5, b"3" * 5)
    assert channel.get_bodies(queue) == [b"2" * 5, b"3" * 5]


@pytest.mark.holds("x-overflow reject-publish: the queue keeps what it has")
def test_reject_publish_keeps_the_oldest(channel: Channel) -> None:
    """Without confirms the newest vanish silently; taking one makes room for one."""
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = channel.declare(exclusive=True, arguments=arguments)
    for body in (b"1", b"2", b"3"):
        channel.publish("", queue, body)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"1"
    for body in (b"4", b"5"):
        channel.publish("", queue, body)
    assert channel.get_bodies(queue) == [b"2", b"4"]


@pytest.mark.holds("x-overflow reject-publish: a requeued message is never refused")
def test_requeues_are_never_refused(connection: Connection) -> None:
    """The queue is one above its limit then, and loses nothing."""
    channel = connection.channel()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = channel.declare(exclusive=True, arguments=arguments)
    connection.fill(queue, b"1")
    assert channel.get(queue, no_ack=False) is not None
    connection.fill(queue, b"2")
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    assert channel.get_bodies(queue) == [b"1", b"2"]
