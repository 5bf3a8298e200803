"""basic.get: counts, tags, acknowledgement."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import no_queue, unknown_delivery_tag
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]


@pytest.mark.holds("basic.get: -> get-ok with how many are left, or get-empty")
def test_get_counts_what_is_left(connection: Connection) -> None:
    """message_count is what is ready after this one."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"1", b"2", b"3")
    for tag, body, left in ((1, b"1", 2), (2, b"2", 1), (3, b"3", 0)):
        message = channel.get(queue)
        assert message is not None
        assert (message.delivery_tag, message.body, message.message_count) == (tag, body, left)
        assert message.redelivered is False
    assert channel.get(queue) is None


@pytest.mark.holds("basic.get: missing queue -> 404")
def test_get_from_a_missing_queue_is_a_404(channel: Channel, vhost: str) -> None:
    """A soft error that names the queue."""
    channel.refused(404, no_queue("missing-queue", vhost), "basic.get", queue="missing-queue")


@pytest.mark.holds("basic.get: no_ack takes a delivery tag, which cannot be acknowledged")
def test_no_ack_takes_a_tag(connection: Connection) -> None:
    """Rows 8 and 14: removed at once, the tag is counted, acknowledging it is a 406."""
    channel, other = connection.channel(), connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"1", b"2")
    tags = [message.delivery_tag for message in (channel.get(queue), channel.get(queue, no_ack=False)) if message]
    assert tags == [1, 2]
    channel.refused(406, unknown_delivery_tag(1), "basic.ack", delivery_tag=1)
    assert other.get_bodies(queue) == [b"2"]


@pytest.mark.holds("basic.get: counts no prefetch")
def test_get_ignores_prefetch(connection: Connection) -> None:
    """A channel that may hold one unacknowledged delivery can still get as many as it likes."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"1", b"2", b"3")
    channel.call("basic.qos", prefetch_count=1, global_=False)
    bodies = [message.body for message in (channel.get(queue, no_ack=False) for _ in range(3)) if message]
    assert bodies == [b"1", b"2", b"3"]


@pytest.mark.holds("basic.get: delivery tags are shared with basic.deliver")
def test_tags_are_shared_with_deliveries(connection: Connection) -> None:
    """Row 8: one sequence per channel."""
    channel = connection.channel()
    first, second = channel.declare(exclusive=True), channel.declare(exclusive=True)
    connection.fill(first, b"got")
    got = channel.get(first, no_ack=False)
    assert got is not None
    assert got.delivery_tag == 1
    channel.consume(second)
    connection.fill(second, b"delivered")
    assert channel.expect_delivery().delivery_tag == 2


@pytest.mark.holds("basic.get: redelivered says that the message was delivered before")
def test_redelivered_is_honoured(connection: Connection) -> None:
    """Row 14: for no_ack as well."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"m")
    message = channel.get(queue, no_ack=False)
    assert message is not None
    channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=True)
    again = channel.get(queue)
    assert again is not None
    assert (again.body, again.redelivered) == (b"m", True)
