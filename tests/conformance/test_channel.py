"""AMQP class channel: opening, numbers, flow, both close handshakes, and what is dropped while one runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import EXPECTED_CHANNEL_OPEN, cut, no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import FRAME_BODY, FRAME_HEADER, encode_content_header, encode_properties

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.mark.holds("channel.open: a second one -> 504")
def test_a_second_open_is_a_504(channel: Channel) -> None:
    """The whole connection ends: channels are the client's own book-keeping."""
    channel.call("basic.qos")
    channel.send("channel.open")
    channel.connection.expect_close(504, "CHANNEL_ERROR - second 'channel.open' seen", by="channel.open")


@pytest.mark.holds("channel: any method on a channel that is not open -> 504")
@pytest.mark.parametrize("name", ["queue.declare", "basic.qos", "channel.close", "channel.close-ok", "tx.select"])
def test_a_method_on_an_unopened_channel_is_a_504(connection: Connection, name: str) -> None:
    """Blames the method that came too early."""
    connection.unopened_channel(7).send(name)
    connection.expect_close(504, EXPECTED_CHANNEL_OPEN, by=name)


@pytest.mark.holds("channel: a content on a channel that is not open -> 504")
def test_a_publish_on_an_unopened_channel_is_a_504(connection: Connection) -> None:
    """Content is no different from the other methods."""
    connection.unopened_channel(7).publish("", "anywhere", b"abc")
    connection.expect_close(504, EXPECTED_CHANNEL_OPEN, by="basic.publish")


@pytest.mark.holds("channel.open: above channel_max -> 530")
def test_a_channel_too_many_is_a_530(connect: Connect) -> None:
    """channel_max counts open channels."""
    connection = connect(channel_max=2)
    connection.channel().call("basic.qos")
    connection.channel().call("basic.qos")
    connection.channel()
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    connection.expect_close(530, text)


@pytest.mark.holds("channel.open: channel_max limits how many are open, not their numbers")
def test_channel_numbers_may_exceed_channel_max(connect: Connect) -> None:
    """A client that closes a channel may open another, whatever its number."""
    connection = connect(channel_max=1)
    for number in (1, 5, 60000):
        channel = connection.channel(number)
        channel.call("basic.qos")
        channel.call("channel.close", reply_code=200)


@pytest.mark.holds("channel.flow: active=true -> flow-ok")
def test_flow_on_is_answered(channel: Channel) -> None:
    """Asking for what is already so."""
    assert channel.call("channel.flow", active=True).active is True


@pytest.mark.ours_only("540: it does not implement it")
@pytest.mark.holds("channel.flow: active=false stops deliveries, active=true resumes them")
def test_flow_stops_deliveries(connection: Connection) -> None:
    """AMQP 0-9-1 §1.5.2.3; the messages wait in the queue meanwhile."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.consume(queue, no_ack=True)
    assert channel.call("channel.flow", active=False).active is False
    connection.fill(queue, b"held back")
    assert channel.counts(queue) == (1, 1)
    assert channel.call("channel.flow", active=True).active is True
    channel.expect_deliveries(b"held back")


@pytest.mark.holds("access.request: -> access.request-ok with ticket 1")
def test_access_request_is_granted(channel: Channel) -> None:
    """A relic that old clients still send."""
    assert channel.call("access.request", realm="/data", read=True, write=True).ticket == 1


@pytest.mark.holds("channel.close: -> close-ok; the number can be opened again")
def test_a_number_is_reusable_after_close_ok(connection: Connection) -> None:
    """A reopened channel is a new one: the last declared queue is forgotten, delivery tags start at 1."""
    channel = connection.channel(3)
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"a", b"b")
    assert channel.get(queue).delivery_tag == 1  # type: ignore[union-attr]
    channel.call("channel.close", reply_code=200)
    channel.open()
    assert channel.get(queue).delivery_tag == 1  # type: ignore[union-attr]
    channel.refused(404, "NOT_FOUND - no previously declared queue", "queue.purge")


@pytest.mark.holds("channel.close: unacknowledged deliveries are requeued, in their order")
def test_closing_a_channel_requeues(connection: Connection) -> None:
    """Got and delivered ones alike come back to where they were."""
    channel, other = connection.channel(), connection.channel()
    queue = other.declare(exclusive=True)
    connection.fill(queue, b"1", b"2", b"3", b"4")
    channel.get(queue, no_ack=False)
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue, consumer_tag="ctag")
    channel.expect_deliveries(b"2", b"3")
    channel.call("channel.close", reply_code=200)
    assert other.get_bodies(queue) == [b"1", b"2", b"3", b"4"]


@pytest.mark.holds("channel.close: by the broker; everything is dropped until close-ok")
def test_after_the_brokers_close_requests_are_dropped(connection: Connection, vhost: str, named: Named) -> None:
    """What was pipelined after the mistake has no effect: no queue, no message, no answer."""
    channel, other = connection.channel(), connection.channel()
    kept, dropped = other.declare(exclusive=True), named("dropped")
    channel.send("queue.declare", queue="missing", passive=True)
    channel.send("queue.declare", queue=dropped)
    channel.publish("", kept, b"never seen")
    channel.send("queue.declare", queue="missing-too", passive=True)
    channel.expect_close(404, no_queue("missing", vhost), by="queue.declare")
    channel.open()
    channel.refused(404, no_queue(dropped, vhost), "queue.declare", queue=dropped, passive=True)
    assert other.get_bodies(kept) == []


@pytest.mark.holds("channel.close: by the broker; a content that is half sent is dropped with the rest")
def test_after_the_brokers_close_the_rest_of_a_content_is_dropped(connection: Connection, vhost: str) -> None:
    """The publish began before the client knew of the close and ends after it."""
    channel = connection.channel()
    channel.send("queue.declare", queue="missing", passive=True)
    channel.send("basic.publish", routing_key="anywhere")
    header = encode_content_header(6, encode_properties({}))
    connection.send_frame(FRAME_HEADER, channel.number, header)
    connection.send_frame(FRAME_BODY, channel.number, b"abc")
    close = channel.expect("channel.close")
    assert close.reply_code == 404
    connection.send_frame(FRAME_BODY, channel.number, b"def")
    channel.send("channel.close-ok")
    channel.open()
    channel.call("basic.qos")


@pytest.mark.holds("channel.close: a client's close that crosses the broker's is answered with close-ok")
def test_crossing_channel_closes_are_answered(connection: Connection, vhost: str) -> None:
    """Both sides said close; each gets its close-ok, and the number is free again."""
    channel = connection.channel()
    channel.send("queue.declare", queue="missing", passive=True)
    channel.send("channel.close", reply_code=200)
    assert channel.expect("channel.close").reply_code == 404
    channel.expect("channel.close-ok")
    channel.send("channel.close-ok")
    channel.open()
    channel.call("basic.qos")


@pytest.mark.ours_only("answers 504 second 'channel.open' seen")
@pytest.mark.holds("channel.open: before the client's close-ok is dropped like everything else")
def test_a_number_is_not_reusable_before_close_ok(connection: Connection) -> None:
    """Until close-ok the channel is still closing; then one channel.open gets one open-ok."""
    channel, other = connection.channel(), connection.channel()
    channel.send("queue.declare", queue="missing", passive=True)
    channel.expect("channel.close")
    channel.send("channel.open")
    other.call("basic.qos")
    channel.send("channel.close-ok")
    channel.open()
    channel.call("basic.qos")


@pytest.mark.holds("channel.close: other channels of the connection go on")
def test_a_closed_channel_leaves_its_neighbours(connection: Connection, vhost: str) -> None:
    """A soft error ends one channel only."""
    channel, other = connection.channel(), connection.channel()
    queue = other.declare(exclusive=True)
    other.consume(queue, no_ack=True)
    channel.refused(404, no_queue("missing", vhost), "queue.purge", queue="missing")
    other.publish("", queue, b"still here")
    other.expect_deliveries(b"still here")


@pytest.mark.holds("channel.close: by the broker; reply_text is cut to 255 octets, the last three of them dots")
def test_a_long_reply_text_is_cut(channel: Channel, vhost: str) -> None:
    """A short string holds no more; three dots say that something is missing."""
    queue = "q" * 250
    assert len(cut(no_queue(queue, vhost))) == 255
    channel.refused(404, cut(no_queue(queue, vhost)), "queue.purge", queue=queue)
