"""Quorum queues: how they are declared, what they cannot be, what is told of them, how they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.quorum import declare, ours_only, take
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]
Connect = Callable[..., Connection]


@pytest.mark.holds("quorum queue: transient, exclusive, auto-delete or without a name -> 406")
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
    """It lives on several nodes, and as long as nobody deletes it."""
    queue = named("queue")
    text = f"PRECONDITION_FAILED - invalid property '{what}' for queue '{queue}' in vhost '{vhost}'"
    channel.refused(406, text, "queue.declare", queue=queue, arguments={"x-queue-type": "quorum"}, **options)


@pytest.mark.holds("quorum queue: transient, exclusive, auto-delete or without a name -> 406")
def test_the_broker_makes_no_name_for_it(channel: Channel) -> None:
    """Names that the broker makes are for queues of one connection."""
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    channel.refused(406, text, "queue.declare", durable=True, arguments={"x-queue-type": "quorum"})


@ours_only
@pytest.mark.holds("quorum queue: arguments of other types, or out of their range -> 406")
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-queue-mode", "lazy"),
        ("x-max-age", "7D"),
        ("x-quorum-initial-group-size", 0),
        ("x-dead-letter-strategy", "sometimes"),
        ("x-message-deduplication", -1),
        ("x-deduplication-ttl", 1000),
        ("x-consumer-timeout", 0),
        ("x-queue-leader-locator", "nearest"),
        ("x-delivery-limit", -2),
        ("x-max-priority", 256),
        ("x-overflow", "explode"),
    ],
)
def test_bad_arguments_are_refused(channel: Channel, named: Named, argument: str, value: object) -> None:
    """The text names the argument and the queue."""
    queue = named("queue")
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "quorum", argument: value})
    text = channel.expect_close(406, by="queue.declare")
    assert text.startswith(f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}'")


@ours_only
@pytest.mark.holds("quorum queue: all of its arguments together -> declare-ok")
def test_all_arguments_together(channel: Channel, named: Named) -> None:
    """As a definitions file may have them."""
    arguments = {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": 3,
        "x-queue-leader-locator": "balanced",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": 5,
        "x-message-ttl": 60_000,
        "x-expires": 600_000,
        "x-max-length": 100,
        "x-max-length-bytes": 100_000,
        "x-max-in-memory-length": 10,
        "x-max-priority": 10,
        "x-single-active-consumer": True,
        "x-message-deduplication": True,
        "x-deduplication-ttl": 1000,
        "x-consumer-timeout": 60_000,
    }
    queue = named("queue")
    for _ in range(2):
        assert channel.declare(queue, durable=True, arguments=arguments) == queue


@pytest.mark.holds("quorum queue: declared again as a classic one, or with other arguments -> 406")
def test_another_type_is_not_equivalent(connection: Connection, named: Named) -> None:
    """Both ways round."""
    queue, classic = named("queue"), named("classic")
    declare(connection.channel(), queue)
    connection.channel().declare(classic, durable=True)
    for name, arguments in ((queue, {}), (queue, {"x-max-length": 1}), (classic, {"x-queue-type": "quorum"})):
        channel = connection.channel()
        if name is queue and arguments:
            arguments = {"x-queue-type": "quorum", **arguments}
        channel.send("queue.declare", queue=name, durable=True, arguments=arguments)
        assert "inequivalent arg" in channel.expect_close(406, by="queue.declare")


@pytest.mark.holds("quorum queue: declare-ok counts ready messages and consumers")
def test_counts(connection: Connection, named: Named) -> None:
    """What is held is not ready."""
    channel = connection.channel()
    queue = declare(channel, named("queue"))
    connection.fill(queue, b"1", b"2", b"3")
    assert channel.counts(queue) == (3, 0)
    take(channel, queue)
    connection.channel().call("basic.qos", prefetch_count=1)
    assert channel.counts(queue) == (2, 0)
    consuming = connection.channel()
    consuming.call("basic.qos", prefetch_count=1)
    consuming.consume(queue)
    assert consuming.expect_delivery().body == b"2"
    assert channel.counts(queue) == (1, 1)


@pytest.mark.holds("quorum queue: purge drops what is ready, and counts it")
def test_purge(connection: Connection, channel: Channel, named: Named) -> None:
    """What is held stays held."""
    queue = declare(channel, named("queue"))
    connection.fill(queue, b"1", b"2", b"3")
    message = take(channel, queue)
    assert channel.call("queue.purge", queue=queue).message_count == 2
    assert channel.call("queue.purge", queue=queue).message_count == 0
    channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
    assert take(channel, queue).body == b"1"


@pytest.mark.holds("quorum queue: delete counts the ready messages; consumers are cancelled")
def test_delete(connect: Connect, named: Named) -> None:
    """Who consumes is told, and the name is free for a queue of another type."""
    deleting = connect()
    channel, other = deleting.channel(), connect().channel()
    queue = declare(channel, named("queue"))
    deleting.fill(queue, b"1", b"2", b"3")
    other.call("basic.qos", prefetch_count=1)
    other.consume(queue, consumer_tag="mine")
    tag = other.expect_delivery().delivery_tag
    assert channel.call("queue.delete", queue=queue).message_count == 2
    assert other.expect("basic.cancel").consumer_tag == "mine"
    other.send("basic.ack", delivery_tag=tag)
    assert other.declare(queue, durable=True) == queue
    assert channel.counts(queue) == (0, 0)


@ours_only
@pytest.mark.holds("quorum queue: delete with if-unused or if-empty works as for classic ones")
def test_delete_with_conditions(connection: Connection, named: Named, vhost: str) -> None:
    """RabbitMQ refuses both."""
    queue = declare(connection.channel(), named("queue"))
    connection.fill(queue, b"1")
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' not empty"
    connection.channel().refused(406, text, "queue.delete", queue=queue, if_empty=True)
    consuming = connection.channel()
    consuming.consume(queue)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' in use"
    connection.channel().refused(406, text, "queue.delete", queue=queue, if_unused=True)


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: x-expires deletes it when it was unused for so long")
def test_expires(connection: Connection, channel: Channel, named: Named, vhost: str) -> None:
    """A consumer keeps it; fetching begins its time anew."""
    queue = declare(channel, named("queue"), x_expires=150)
    tag = channel.consume(queue)
    connection.let_pass(300)
    assert channel.counts(queue) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    connection.let_pass(400)
    text = f"NOT_FOUND - no queue '{queue}' in vhost '{vhost}'"
    channel.refused(404, text, "queue.declare", queue=queue, passive=True)
