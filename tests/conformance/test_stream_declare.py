"""Streams: how they are declared, what they cannot be, what is told of them, how they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import inequivalent, invalid_argument
from tests.conformance.streams import NEWER, arguments_of, consume, declare, reader
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]

ours_only = pytest.mark.ours_only(NEWER)


@pytest.mark.holds("stream: transient, exclusive, auto-delete or without a name -> 406")
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
    ],
    ids=["transient", "auto-delete", "exclusive"],
)
def test_what_it_cannot_be(channel: Channel, named: Named, vhost: str, options: dict[str, Any], what: str) -> None:
    """It is for many, and as long as nobody deletes it."""
    queue = named("stream")
    text = f"PRECONDITION_FAILED - invalid property '{what}' for queue '{queue}' in vhost '{vhost}'"
    channel.refused(406, text, "queue.declare", queue=queue, arguments=arguments_of(), **options)


@pytest.mark.holds("stream: transient, exclusive, auto-delete or without a name -> 406")
def test_the_broker_makes_no_name_for_it(channel: Channel) -> None:
    """Names that the broker makes are for queues of one connection."""
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    channel.refused(406, text, "queue.declare", durable=True, arguments=arguments_of())


@pytest.mark.holds("stream: arguments of other types -> 406")
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-expires", 1000),
        ("x-message-ttl", 1000),
        ("x-dead-letter-exchange", ""),
        ("x-max-length", 5),
        ("x-overflow", "drop-head"),
        ("x-max-priority", 5),
        ("x-single-active-consumer", True),
        ("x-queue-mode", "lazy"),
    ],
)
def test_arguments_of_other_types(channel: Channel, named: Named, vhost: str, argument: str, value: object) -> None:
    """Nothing that a stream would not do is taken."""
    queue = named("stream")
    text = (
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}' "
        "of queue type rabbit_stream_queue"
    )
    arguments = {**arguments_of(), argument: value}
    channel.refused(406, text, "queue.declare", queue=queue, durable=True, arguments=arguments)


@pytest.mark.holds("stream: arguments with bad values -> 406")
@pytest.mark.parametrize(
    ("argument", "value", "cause"),
    [
        ("x-max-age", "5", "invalid_max_age"),
        ("x-max-age", "0s", "invalid_max_age"),
        ("x-max-age", 5, "{unacceptable_type,signedint}"),
        ("x-max-length-bytes", "5", '"expected integer, got longstr"'),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", -1, "{value_negative,-1}"),
        ("x-initial-cluster-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "nearest", "invalid_queue_locator_arg"),
    ],
)
def test_bad_values(
    channel: Channel, named: Named, vhost: str, argument: str, value: object, cause: str
) -> None:
    """The texts have the terms of its language."""
    queue = named("stream")
    text = invalid_argument(argument, queue, vhost, cause)
    arguments = {**arguments_of(), argument: value}
    channel.refused(406, text, "queue.declare", queue=queue, durable=True, arguments=arguments)


@pytest.mark.holds("stream: arguments with bad values -> 406")
def test_a_segment_that_is_too_large(channel: Channel, named: Named) -> None:
    """Three thousand million octets are the limit."""
    text = "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    arguments = arguments_of(x_stream_max_segment_size_bytes=3_000_000_001)
    channel.refused(406, text, "queue.declare", queue=named("stream"), durable=True, arguments=arguments)


@ours_only
@pytest.mark.holds("stream: arguments with bad values -> 406")
@pytest.mark.parametrize(("value", "what"), [(15, "value"), (256, "value"), ("16", "type")])
def test_a_filter_size_that_cannot_be(channel: Channel, named: Named, value: object, what: str) -> None:
    """From 16 to 255 octets."""
    text = f"PRECONDITION_FAILED - Invalid {what} for x-stream-filter-size-bytes"
    arguments = arguments_of(x_stream_filter_size_bytes=value)
    channel.refused(406, text, "queue.declare", queue=named("stream"), durable=True, arguments=arguments)


@ours_only
@pytest.mark.holds("stream: arguments with bad values -> 406")
def test_an_age_below_zero(channel: Channel, named: Named, vhost: str) -> None:
    """RabbitMQ 3.10 ends the connection with 541."""
    queue = named("stream")
    text = invalid_argument("x-max-age", queue, vhost, "invalid_max_age")
    arguments = arguments_of(x_max_age="-1s")
    channel.refused(406, text, "queue.declare", queue=queue, durable=True, arguments=arguments)


@pytest.mark.holds("stream: all of its arguments together -> declare-ok, and again")
def test_all_arguments_together(channel: Channel, named: Named) -> None:
    """As a definitions file may have them; an unknown one passes."""
    queue = named("stream")
    for _ in range(2):
        declare(
            channel,
            queue,
            x_max_length_bytes=10_000_000,
            x_max_age="7D",
            x_stream_max_segment_size_bytes=1_000_000,
            x_stream_filter_size_bytes=32,
            x_initial_cluster_size=1,
            x_queue_leader_locator="balanced",
            x_unknown="whatever",
        )


@pytest.mark.holds("stream: declared again with other arguments, or as another type -> 406")
def test_other_arguments_are_not_equivalent(connection: Connection, named: Named, vhost: str) -> None:
    """A limit more, and another type."""
    queue = declare(connection.channel(), named("stream"))
    text = inequivalent(
        "x-max-length-bytes", "queue", queue, vhost, "the value '5' of type 'signedint'", "none"
    )
    arguments = arguments_of(x_max_length_bytes=5)
    connection.channel().refused(406, text, "queue.declare", queue=queue, durable=True, arguments=arguments)
    for arguments in ({"x-queue-type": "classic"}, {"x-queue-type": "quorum"}):
        channel = connection.channel()
        channel.send("queue.declare", queue=queue, durable=True, arguments=arguments)
        assert "inequivalent arg 'x-queue-type'" in channel.expect_close(406, by="queue.declare")


@ours_only
@pytest.mark.holds("stream: declare-ok counts all messages, and consumers")
def test_counts(connection: Connection, named: Named) -> None:
    """At once, where RabbitMQ's are seconds late; what is acknowledged stays."""
    channel = reader(connection)
    queue = declare(channel, named("stream"))
    assert channel.counts(queue) == (0, 0)
    connection.fill(queue, b"1", b"2", b"3")
    assert channel.counts(queue) == (3, 0)
    consume(channel, queue)
    for message in channel.expect_deliveries(b"1", b"2", b"3"):
        channel.send("basic.ack", delivery_tag=message.delivery_tag)
    assert channel.counts(queue) == (3, 1)


@pytest.mark.holds("stream: basic.get and queue.purge -> 540, the connection ends")
@pytest.mark.parametrize(("name", "what"), [("basic.get", "basic.get"), ("queue.purge", "queue.purge")])
def test_what_it_does_not_do(channel: Channel, named: Named, vhost: str, name: str, what: str) -> None:
    """Messages are read by who consumes, and stay."""
    queue = declare(channel, named("stream"))
    channel.send(name, queue=queue)
    text = f"NOT_IMPLEMENTED - {what} not supported by stream queues queue '{queue}' in vhost '{vhost}'"
    channel.connection.expect_close(540, text, by=name)


@pytest.mark.holds("stream: delete passes over if-unused and if-empty, and says 0 messages; consumers are cancelled")
def test_delete(connect: Callable[..., Connection], named: Named) -> None:
    """Its messages belong to nobody in particular."""
    connection = connect(capabilities={"consumer_cancel_notify": True})
    channel = reader(connection)
    queue = declare(channel, named("stream"))
    connection.fill(queue, b"1", b"2")
    tag = consume(channel, queue)
    channel.expect_deliveries(b"1", b"2")
    other = connection.channel()
    assert other.call("queue.delete", queue=queue, if_unused=True, if_empty=True).message_count == 0
    assert channel.expect("basic.cancel").consumer_tag == tag
    declare(other, queue)
    assert other.counts(queue) == (0, 0)
