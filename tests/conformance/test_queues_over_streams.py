"""Queues over streams: what can be declared, what is handed out, and where a publish goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance import quorum
from tests.conformance.quorum import take, wait_for_counts
from tests.conformance.streams import NEWER, declare, offset_of, read
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]

pytestmark = pytest.mark.ours_only(NEWER)


@pytest.fixture
def stream(channel: Channel, named: Named) -> str:
    return declare(channel, named("stream"))


def over(channel: Channel, name: str, stream: str, **arguments: object) -> str:
    return quorum.declare(channel, name, x_stream_source=stream, **{"x_stream_offset": "first", **arguments})


@pytest.mark.holds("queue over a stream: each has all of the stream, and its consumers share it")
def test_each_has_all_of_it(connection: Connection, channel: Channel, stream: str, named: Named) -> None:
    """With the stream's offsets; and what one takes is there for the other, and in the stream."""
    names = [over(channel, named(name), stream) for name in ("one", "two")]
    channel.call("confirm.select")
    for number in range(4):
        channel.publish("", stream, b"%d" % number)
    channel.expect_confirms(4)
    for name in names:
        first, second = connection.channel(), connection.channel()
        found = [take(each, name) for each in (first, second, first, second)]
        assert [(offset_of(message), message.body) for message in found] == [(n, b"%d" % n) for n in range(4)]
        for each in (first, second):
            each.send("basic.ack", delivery_tag=0, multiple=True)
        wait_for_counts(channel, name, 0, 0)
    assert len(read(connection, stream, 4)) == 4


@pytest.mark.holds("queue over a stream: what is published to it, by name or binding, goes to the stream once")
def test_a_publish(connection: Connection, channel: Channel, stream: str, named: Named) -> None:
    """However many of its queues are meant."""
    names = [over(channel, named(name), stream) for name in ("one", "two")]
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    for name in (stream, *names):
        channel.call("queue.bind", queue=name, exchange=exchange, routing_key="")
    channel.call("confirm.select")
    channel.publish("", names[0], b"by name")
    channel.publish(exchange, "", b"by bindings")
    channel.expect_confirms(2)
    assert [message.body for message in read(connection, stream, 2)] == [b"by name", b"by bindings"]
    channel.call("exchange.delete", exchange=exchange)


@pytest.mark.holds("queue over a stream: without its stream, or about messages of its own -> 406")
def test_what_cannot_be(channel: Channel, stream: str, named: Named, vhost: str) -> None:
    """The stream has to be there, and what is about a queue's own messages has no meaning."""
    name, source = named("queue"), named("nowhere")
    table = {"x-queue-type": "quorum", "x-stream-source": source}
    text = (
        f"PRECONDITION_FAILED - cannot declare queue '{name}' in vhost '{vhost}': x-stream-source names "
        f"'{source}', and there is no stream of this name: declare that first"
    )
    channel.refused(406, text, "queue.declare", queue=name, durable=True, arguments=table)


@pytest.mark.holds("queue over a stream: its stream is not deleted before it -> 406")
def test_the_stream_stays(connection: Connection, channel: Channel, stream: str, named: Named, vhost: str) -> None:
    """And goes when the queue has gone."""
    name = over(channel, named("queue"), stream)
    text = (
        f"PRECONDITION_FAILED - cannot delete queue '{stream}' in vhost '{vhost}': it has the messages of '{name}': "
        "delete these queues first"
    )
    channel.refused(406, text, "queue.delete", queue=stream)
    again = connection.channel()
    again.call("queue.delete", queue=name)
    again.call("queue.delete", queue=stream)
