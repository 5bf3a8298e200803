"""Streams: what consumers may ask, where they begin, what they get, and what acknowledgements do."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.replies import invalid_argument, unknown_delivery_tag
from tests.conformance.streams import NEWER, consume, declare, offset_of, read, reader
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Named = Callable[[str], str]

ours_only = pytest.mark.ours_only(NEWER)


@pytest.fixture
def stream(channel: Channel, named: Named) -> str:
    return declare(channel, named("stream"))


# -- refusals


@pytest.mark.holds("stream: consume without a prefetch -> 406")
@pytest.mark.parametrize(("is_global", "no_ack"), [(None, False), (None, True), (True, False)])
def test_a_prefetch_is_demanded(
    channel: Channel, stream: str, vhost: str, is_global: bool | None, no_ack: bool
) -> None:
    """Asked first, also with no_ack, and where only the channel has one."""
    if is_global is not None:
        channel.call("basic.qos", prefetch_count=5, global_=True)
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in vhost '{vhost}''"
    channel.refused(406, text, "basic.consume", queue=stream, no_ack=no_ack)


@pytest.mark.holds("stream: consume with no_ack, or with a global prefetch besides -> 540, the connection ends")
def test_no_ack_is_a_540(connection: Connection, stream: str, vhost: str) -> None:
    """Acknowledgements are what slows the broker down."""
    reader(connection).send("basic.consume", queue=stream, no_ack=True)
    text = (
        "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues "
        f"queue '{stream}' in vhost '{vhost}'"
    )
    connection.expect_close(540, text, by="basic.consume")


@pytest.mark.holds("stream: consume with no_ack, or with a global prefetch besides -> 540, the connection ends")
def test_a_global_prefetch_is_a_540(connection: Connection, stream: str, vhost: str) -> None:
    """A channel with both limits."""
    channel = reader(connection)
    channel.call("basic.qos", prefetch_count=5, global_=True)
    channel.send("basic.consume", queue=stream)
    text = f"NOT_IMPLEMENTED - queue '{stream}' in vhost '{vhost}' does not support global qos"
    connection.expect_close(540, text, by="basic.consume")


@pytest.mark.holds("stream: arguments of consumers of other types -> 406")
@pytest.mark.parametrize(("argument", "value"), [("x-priority", 5), ("x-cancel-on-ha-failover", True)])
def test_arguments_of_other_types(
    connection: Connection, stream: str, vhost: str, argument: str, value: object
) -> None:
    """All consumers get everything; unknown arguments pass."""
    channel = reader(connection)
    channel.consume(stream, arguments={"x-unknown": 1})
    text = (
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{stream}' in vhost '{vhost}' "
        "of queue type rabbit_stream_queue"
    )
    channel.refused(406, text, "basic.consume", queue=stream, arguments={argument: value})


@pytest.mark.holds("stream: a bad x-stream-offset -> 406")
@pytest.mark.parametrize("offset", ["12", "1X"])
def test_bad_offsets(connection: Connection, stream: str, vhost: str, offset: str) -> None:
    """Strings that are neither a name nor an age."""
    cause = f'{{invalid_stream_offset_arg,{{longstr,<<"{offset}">>}}}}'
    text = invalid_argument("x-stream-offset", stream, vhost, cause)
    reader(connection).refused(406, text, "basic.consume", queue=stream, arguments={"x-stream-offset": offset})


@ours_only
@pytest.mark.holds("stream: a bad x-stream-offset -> 406")
@pytest.mark.parametrize("offset", ["foo", True, None, {"a": 1}, [1], Decimal("1.5")], ids=str)
def test_offsets_that_rabbitmq_breaks_at(connection: Connection, stream: str, offset: object) -> None:
    """It ends the connection with 541."""
    channel = reader(connection)
    channel.send("basic.consume", queue=stream, arguments={"x-stream-offset": offset})
    text = channel.expect_close(406, by="basic.consume")
    assert text.startswith(f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}'")


# -- where it begins


@pytest.mark.holds("stream: x-stream-offset is first, last, next, an offset, a time or an age")
@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0), ("next", None), (0, 0), (2, 2), (5, None), (1000, None),
        (Typed("b", 3), 3), (Typed("s", 3), 3), (Typed("l", 3), 3),
        (Typed("T", 1_000_000_000), 0), (Typed("T", 4_000_000_000), None), ("1h", 0), ("1Y", 0),
    ],
    ids=str,
)  # fmt: skip
def test_offsets(connection: Connection, stream: str, offset: object, first: int | None) -> None:
    """What is beyond the end is what comes next."""
    connection.fill(stream, b"0", b"1", b"2", b"3", b"4")
    channel = reader(connection)
    consume(channel, stream, offset)
    connection.fill(stream, b"new")
    expected = [b"0", b"1", b"2", b"3", b"4"][first:] if first is not None else []
    channel.expect_deliveries(*expected, b"new")


@pytest.mark.holds("stream: x-stream-offset is first, last, next, an offset, a time or an age")
def test_the_last_chunk(connection: Connection, stream: str) -> None:
    """What was published last, and together."""
    connection.fill(stream, b"0", b"1")
    connection.fill(stream, b"2")
    assert [message.body for message in read(connection, stream, 1, "last")] == [b"2"]


@ours_only
@pytest.mark.holds("stream: an offset below 0 counts from the end")
@pytest.mark.parametrize(("offset", "first"), [(-1, 2), (-3, 0), (-100, 0)])
def test_offsets_from_the_end(connection: Connection, stream: str, offset: int, first: int) -> None:
    """To RabbitMQ they are the first one."""
    connection.fill(stream, b"0", b"1", b"2")
    found = read(connection, stream, 3 - first, offset)
    assert [offset_of(message) for message in found] == list(range(first, 3))


@pytest.mark.holds("stream: without x-stream-offset a consumer gets what is published from now on")
def test_no_offset(connection: Connection, stream: str) -> None:
    """As with `next`."""
    connection.fill(stream, b"before")
    channel = reader(connection)
    channel.consume(stream)
    connection.fill(stream, b"after")
    assert offset_of(channel.expect_delivery()) == 1


# -- what comes


@pytest.mark.holds("stream: deliveries have x-stream-offset, exchange and routing key as published, and no redelivered")
def test_a_delivery(connection: Connection, channel: Channel, stream: str, named: Named) -> None:
    """Everything else is as published."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="topic")
    channel.call("queue.bind", queue=stream, exchange=exchange, routing_key="a.#")
    channel.call("confirm.select")
    properties: dict[str, Any] = {
        "content_type": "text/plain", "headers": {"h": "x", "n": 5}, "delivery_mode": 1, "priority": 3,
        "correlation_id": "c", "reply_to": "r", "message_id": "m", "timestamp": 1_600_000_000, "type": "t",
        "app_id": "a",
    }  # fmt: skip
    channel.publish(exchange, "a.b", b"body", **properties)
    channel.publish(exchange, "a.b", b"bare")
    channel.publish(exchange, "a.b", b"")
    channel.expect_confirms(3)
    first, bare, empty = read(connection, stream, 3)
    assert (first.exchange, first.routing_key, first.redelivered, first.body) == (exchange, "a.b", False, b"body")
    found = first.properties
    assert found.pop("headers") == {"x-stream-offset": 0, "h": "x", "n": 5}
    expected = {key: value for key, value in properties.items() if key != "headers"}
    assert {key: found[key] for key in expected} == expected
    assert (bare.body, bare.headers) == (b"bare", {"x-stream-offset": 1})
    assert (empty.body, offset_of(empty)) == (b"", 2)


@ours_only
@pytest.mark.holds("stream: all headers stay, and a publisher's own x-stream-offset is replaced")
def test_headers(connection: Connection, stream: str) -> None:
    """RabbitMQ loses tables and arrays, and ends the connection at a decimal."""
    headers = {"t": {"a": 1}, "a": [1, "x"], "d": Decimal("1.5"), "x-stream-offset": 99, "v": None}
    connection.fill(stream, b"m", headers=headers, cluster_id="c")
    (message,) = read(connection, stream, 1)
    assert message.headers == {**headers, "x-stream-offset": 0}
    assert message.properties["cluster_id"] == "c"


@pytest.mark.holds("stream: bodies of any size")
@pytest.mark.octets_too_slow
def test_bodies(connection: Connection, stream: str) -> None:
    """Below and above what is one frame."""
    bodies = [bytes([number]) * size for number, size in enumerate((1, 16_383, 16_384, 131_064, 131_065, 1_000_000))]
    connection.fill(stream, *bodies)
    assert [message.body for message in read(connection, stream, len(bodies))] == bodies


@pytest.mark.holds("stream: many read it, each from the offset of its own")
def test_many_readers(connection: Connection, stream: str) -> None:
    """Nobody takes anything from others."""
    connection.fill(stream, b"0", b"1", b"2")
    first, second = reader(connection), reader(connection)
    consume(first, stream)
    consume(second, stream, 1)
    first.expect_deliveries(b"0", b"1", b"2")
    second.expect_deliveries(b"1", b"2")
    connection.fill(stream, b"3")
    for channel in (first, second):
        channel.expect_deliveries(b"3")


@ours_only
@pytest.mark.holds("stream: x-stream-filter gives what has one of these values, and nothing else")
def test_filters(connection: Connection, stream: str) -> None:
    """RabbitMQ knows them from 3.13 on, and passes on whole chunks."""
    channel = connection.channel()
    channel.call("confirm.select")
    for body, value in ((b"a1", "a"), (b"b1", "b"), (b"n1", None), (b"a2", "a"), (b"c1", "c")):
        headers = {"x-stream-filter-value": value} if value is not None else {}
        channel.publish("", stream, body, headers=headers)
    channel.expect_confirms(5)
    for asked, bodies in (
        ({"x_stream_filter": "a"}, [b"a1", b"a2"]),
        ({"x_stream_filter": ["b", "c"]}, [b"b1", b"c1"]),
        ({"x_stream_filter": "b", "x_stream_match_unfiltered": True}, [b"b1", b"n1"]),
        ({"x_stream_filter": "d"}, []),
    ):
        found = read(connection, stream, len(bodies), **asked)
        assert [message.body for message in found] == bodies


@ours_only
@pytest.mark.holds("stream: x-stream-filter gives what has one of these values, and nothing else")
def test_a_bad_filter(connection: Connection, stream: str) -> None:
    """Anything but strings."""
    channel = reader(connection)
    channel.send("basic.consume", queue=stream, arguments={"x-stream-filter": 5})
    assert "invalid arg 'x-stream-filter'" in channel.expect_close(406, by="basic.consume")


# -- credit


@ours_only
@pytest.mark.holds("stream: never more than the prefetch is out; each ack is credit for one more, in any order")
def test_the_prefetch_is_exact(connection: Connection, stream: str) -> None:
    """RabbitMQ 3.10 sends whole chunks."""
    connection.fill(stream, *[b"%d" % number for number in range(20)])
    channel = reader(connection, 3)
    consume(channel, stream)
    tags = [message.delivery_tag for message in channel.expect_deliveries(b"0", b"1", b"2")]
    channel.expect_silence(stream)
    channel.send("basic.ack", delivery_tag=tags[2])
    tags += [message.delivery_tag for message in channel.expect_deliveries(b"3")]
    channel.expect_silence(stream)
    channel.send("basic.ack", delivery_tag=tags[3], multiple=True)
    channel.expect_deliveries(b"4", b"5", b"6")
    channel.expect_silence(stream)


@ours_only
@pytest.mark.holds("stream: nack, reject and recover are credit, and bring nothing again")
@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject", "basic.recover"])
def test_what_is_not_taken_does_not_come_again(
    connection: Connection, stream: str, name: str, requeue: bool
) -> None:
    """As in RabbitMQ 3.13; before, the first two end the connection with 540."""
    connection.fill(stream, b"0", b"1", b"2")
    channel = reader(connection, 1)
    consume(channel, stream)
    for body in (b"0", b"1"):
        message = channel.expect_delivery()
        assert (message.body, message.redelivered) == (body, False)
        if name == "basic.recover":
            channel.call(name, requeue=True)
        else:
            channel.send(name, delivery_tag=message.delivery_tag, requeue=requeue)
    assert channel.expect_delivery().body == b"2"


@pytest.mark.holds("stream: an acknowledged tag again -> 406")
def test_a_tag_twice(connection: Connection, stream: str) -> None:
    """As everywhere."""
    connection.fill(stream, b"0")
    channel = reader(connection)
    consume(channel, stream)
    tag = channel.expect_delivery().delivery_tag
    channel.send("basic.ack", delivery_tag=tag)
    channel.send("basic.ack", delivery_tag=tag)
    channel.expect_close(406, unknown_delivery_tag(tag), by="basic.ack")


@pytest.mark.holds("stream: after cancel nothing comes")
def test_cancel(connection: Connection, stream: str) -> None:
    """What is out may still be acknowledged."""
    connection.fill(stream, b"0")
    channel = reader(connection)
    tag = consume(channel, stream)
    delivered = channel.expect_delivery()
    channel.call("basic.cancel", consumer_tag=tag)
    connection.fill(stream, b"1")
    channel.expect_silence(stream)
    channel.send("basic.ack", delivery_tag=delivered.delivery_tag)
    consume(channel, stream, 1)
    assert channel.expect_delivery().body == b"1"


@pytest.mark.holds("stream: `exclusive` of a consumer has no effect")
def test_exclusive(connection: Connection, stream: str) -> None:
    """Nobody can keep others from reading."""
    channel = reader(connection)
    for _ in range(2):
        channel.consume(stream, exclusive=True)


# -- publishing


@pytest.mark.holds("stream: mandatory, transactions and dead letters as to any queue")
def test_a_transaction(connection: Connection, stream: str) -> None:
    """Nothing of it before the commit."""
    channel = connection.channel()
    channel.call("tx.select")
    channel.publish("", stream, b"in", mandatory=True)
    assert connection.channel().counts(stream)[0] == 0
    channel.call("tx.commit")
    assert [message.body for message in read(connection, stream, 1)] == [b"in"]


@ours_only
@pytest.mark.holds("stream: mandatory, transactions and dead letters as to any queue")
def test_dead_letters(connection: Connection, stream: str, named: Named) -> None:
    """With x-death; in RabbitMQ 3.10 they vanish."""
    channel = connection.channel()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    for queue, more in (
        (named("classic"), {}),
        (named("quorum"), {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-most-once"}),
        (
            named("careful"),
            {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
        ),
    ):
        channel.declare(queue, durable=True, arguments={**arguments, **more})
        connection.fill(queue, b"dead")
        message = channel.get(queue, no_ack=False)
        assert message is not None
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=False)
    follower = reader(connection)
    consume(follower, stream)
    for _ in range(3):
        letter = follower.expect_delivery()
        assert letter.body == b"dead"
        assert letter.headers["x-death"][0]["reason"] == "rejected"


@pytest.mark.holds("stream: x-stream-offset is first, last, next, an offset, a time or an age")
@pytest.mark.octets_too_slow
def test_a_time_between_two_messages(connection: Connection, stream: str) -> None:
    """Chunks have times; a reader may begin a little earlier."""
    connection.fill(stream, b"0")
    begin = int(time.time())
    connection.let_pass(2000)
    connection.fill(stream, b"1")
    assert [message.body for message in read(connection, stream, 1, Typed("T", begin + 1))] == [b"1"]


@ours_only
@pytest.mark.holds("stream: what has the x-producer-id and x-producer-sequence of an earlier one is confirmed, once")
def test_producers(connection: Connection, stream: str) -> None:
    """As in quorum queues: after a lost connection all may be sent again."""
    for _ in range(2):
        channel = connection.channel()
        channel.call("confirm.select")
        for number in range(3):
            headers = {"x-producer-id": "p", "x-producer-sequence": number}
            channel.publish("", stream, b"%d" % number, headers=headers)
        channel.expect_confirms(3)
    assert [message.body for message in read(connection, stream, 3)] == [b"0", b"1", b"2"]
