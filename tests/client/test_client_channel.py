"""The client's channels against a scripted broker: calls, contents, confirms, consumers, requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from amqp_broker.client import (
    Channel,
    ChannelClosed,
    ClientTimeout,
    Connection,
    ConnectionClosed,
    ConsumerCancelled,
    Delivery,
    ReturnedMessage,
    Unroutable,
)
from amqp_broker.client.channel import REPLY_QUEUE
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import encode_frame
from amqp_broker.protocol.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
    read_property,
)
from tests.client.scripted_server import Peer, scripted


@contextmanager
def channel_with(
    script: Callable[[Peer], None], frame_max: int = 131072, timeout: float = 10.0
) -> Iterator[Channel]:
    """An open channel whose other end `script` plays, once handshake and channel.open are done."""

    def whole(peer: Peer) -> None:
        peer.shake_hands(frame_max)
        peer.open_channel()
        script(peer)
        peer.close()

    with scripted(whole) as url, Connection.open(url, timeout) as connection:
        yield connection.channel()


def test_a_call_returns_its_reply() -> None:
    def script(peer: Peer) -> None:
        declare = peer.expect(m.QueueDeclare, 1)
        assert declare == m.QueueDeclare(queue="q", durable=True)
        peer.send(1, m.QueueDeclareOk("q", 3, 1))
        peer.close_channel()

    with channel_with(script) as channel, channel:
        reply = channel.call(m.QueueDeclare(queue="q", durable=True))
        assert reply == m.QueueDeclareOk("q", 3, 1)


def test_what_has_no_reply_cannot_be_called() -> None:
    with channel_with(lambda peer: None) as channel:
        for method in (m.BasicAck(1), m.QueueDeclare(queue="q", nowait=True)):
            with pytest.raises(ValueError, match="is not replied to: use send"):
                channel.call(method)


def test_a_refused_call_closes_the_channel_and_not_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel(2)
        peer.expect(m.QueueDeclare, 1)
        peer.send(1, m.ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10))
        peer.expect(m.ChannelCloseOk, 1)
        peer.expect(m.BasicGet, 2)
        peer.send(2, m.BasicGetEmpty())
        peer.open_channel(1)

    with channel_with(script) as channel:
        other = channel._connection.channel()
        with pytest.raises(ChannelClosed, match="404 NOT_FOUND - no queue 'q'") as caught:
            channel.call(m.QueueDeclare(queue="q", passive=True))
        assert (caught.value.reply_code, caught.value.reply_text[:9]) == (404, "NOT_FOUND")
        assert not channel.is_open
        with pytest.raises(ChannelClosed, match="404"):
            channel.publish("", "q", b"")
        channel.close()
        assert other.get("q") is None
        assert channel._connection.channel().number == 1


def test_an_unanswered_call_gives_the_channel_up() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.QueueDeclare, 1)

    with channel_with(script) as channel:
        with pytest.raises(ClientTimeout, match=r"the reply to queue\.declare"):
            channel.call(m.QueueDeclare(queue="q"), timeout=0.05)
        with pytest.raises(ChannelClosed, match=r"given up: timed out .* open another one"):
            channel.get("q")


def test_a_reply_to_something_else_gives_the_channel_up() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.QueueDeclare, 1)
        peer.send(1, m.QueuePurgeOk(5))

    with channel_with(script) as channel:
        with pytest.raises(ChannelClosed, match=r"queue\.declare was answered by queue\.purge-ok"):
            channel.call(m.QueueDeclare(queue="q"))
        assert not channel.is_open


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 10_000])
def test_a_message_is_published_in_frames_that_fit(size: int) -> None:
    body = bytes(range(256)) * 40
    body = body[:size]

    def script(peer: Peer) -> None:
        assert peer.expect(m.BasicPublish, 1) == m.BasicPublish(0, "e", "k", mandatory=True)
        properties, bodies = peer.expect_content(1)
        assert decode_properties(properties) == Properties(delivery_mode=2, type="t")
        assert b"".join(bodies) == body
        assert all(0 < len(part) <= 4088 for part in bodies)

    with channel_with(script, frame_max=4096) as channel:
        assert channel.publish("e", "k", body, {"delivery_mode": 2, "type": "t"}, mandatory=True) == 0


def test_properties_may_be_given_in_three_ways() -> None:
    expected = encode_properties({"priority": 3})

    def script(peer: Peer) -> None:
        for properties in (expected, expected, expected, NO_PROPERTIES):
            peer.expect(m.BasicPublish, 1)
            assert peer.expect_content(1)[0] == properties

    with channel_with(script) as channel:
        for given in (Properties(priority=3), {"priority": 3}, expected, None):
            channel.publish("", "q", b"", given)


def test_confirms_single_multiple_and_refused() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.ConfirmSelect, 1)
        peer.send(1, m.ConfirmSelectOk())
        for _ in range(8):
            peer.expect(m.BasicPublish, 1)
            peer.expect_content(1)
        peer.send(1, m.BasicAck(2))
        peer.send(1, m.BasicNack(5))
        peer.send(1, m.BasicAck(3, multiple=True))
        peer.send(1, m.BasicNack(6, multiple=True))
        peer.send(1, m.BasicAck(0, multiple=True))
        peer.expect(m.BasicPublish, 1)
        peer.expect_content(1)
        peer.send(1, m.BasicAck(9))

    with channel_with(script) as channel:
        channel.confirm_select()
        assert [channel.publish("", "q", b"x") for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert channel.wait_for_confirms() == [5, 4, 6]
        assert channel.publish("", "q", b"x") == 9
        assert channel.wait_for_confirms() == []


def test_confirms_that_do_not_come_are_a_timeout_and_may_be_asked_for_again() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.ConfirmSelect, 1)
        peer.send(1, m.ConfirmSelectOk())
        peer.expect(m.BasicPublish, 1)
        peer.expect_content(1)
        peer.expect(m.BasicGet, 1)
        peer.send(1, m.BasicAck(1))
        peer.send(1, m.BasicGetEmpty())

    with channel_with(script) as channel:
        channel.confirm_select()
        channel.publish("", "q", b"x")
        with pytest.raises(ClientTimeout, match="1 confirms"):
            channel.wait_for_confirms(timeout=0.05)
        assert channel.get("q") is None
        assert channel.wait_for_confirms() == []


def test_returned_messages_are_kept() -> None:
    properties = encode_properties({"message_id": "m1"})

    def script(peer: Peer) -> None:
        peer.expect(m.BasicPublish, 1)
        peer.expect_content(1)
        peer.send_message(1, m.BasicReturn(312, "NO_ROUTE", "e", "k"), b"body", properties)
        peer.expect(m.BasicGet, 1)
        peer.send(1, m.BasicGetEmpty())

    with channel_with(script) as channel:
        channel.publish("e", "k", b"body", properties, mandatory=True)
        channel.get("q")
        returned = channel.take_returned()
        assert returned == [ReturnedMessage(312, "NO_ROUTE", "e", "k", b"body", properties)]
        assert returned[0].properties.message_id == "m1"
        assert channel.take_returned() == []


def test_get() -> None:
    body = bytes(10_000)

    def script(peer: Peer) -> None:
        assert peer.expect(m.BasicGet, 1) == m.BasicGet(0, "q", no_ack=True)
        properties = encode_properties({"headers": {"a": 1}})
        peer.send_message(1, m.BasicGetOk(7, True, "e", "k", 2), body, properties, frame_max=4096)
        peer.expect(m.BasicGet, 1)
        peer.send_message(1, m.BasicGetOk(8, False, "e", "k", 1), b"")
        peer.expect(m.BasicGet, 1)
        peer.send(1, m.BasicGetEmpty())

    with channel_with(script) as channel:
        delivery = channel.get("q", no_ack=True)
        assert delivery is not None
        assert (delivery.delivery_tag, delivery.redelivered, delivery.message_count) == (7, True, 2)
        assert (delivery.exchange, delivery.routing_key, delivery.body) == ("e", "k", body)
        assert delivery.properties.headers == {"a": 1}
        empty = channel.get("q")
        assert empty is not None
        assert empty.body == b""
        assert channel.get("q") is None


def test_deliveries_that_come_with_consume_ok_reach_the_consumer() -> None:
    def script(peer: Peer) -> None:
        assert peer.expect(m.BasicQos, 1) == m.BasicQos(0, 10)
        peer.send(1, m.BasicQosOk())
        consume = peer.expect(m.BasicConsume, 1)
        assert (consume.queue, consume.no_ack, consume.arguments) == ("q", False, {"x-priority": 5})
        peer.send(1, m.BasicConsumeOk("ctag"))
        for tag in (1, 2, 3):
            peer.send_message(1, m.BasicDeliver("ctag", tag, False, "", "q"), b"%d" % tag)
        assert peer.expect(m.BasicAck, 1) == m.BasicAck(1)
        assert peer.expect(m.BasicNack, 1) == m.BasicNack(2, multiple=False, requeue=False)
        assert peer.expect(m.BasicNack, 1) == m.BasicNack(3, multiple=False, requeue=True)
        assert peer.expect(m.BasicCancel, 1) == m.BasicCancel("ctag")
        peer.send_message(1, m.BasicDeliver("ctag", 4, False, "", "q"), b"4")
        peer.send(1, m.BasicCancelOk("ctag"))

    with channel_with(script) as channel:
        consumer = channel.consume("q", prefetch_count=10, arguments={"x-priority": 5})
        assert consumer.consumer_tag == "ctag"
        deliveries = [consumer.next() for _ in range(3)]
        assert [delivery.body for delivery in deliveries if delivery] == [b"1", b"2", b"3"]
        first, second, third = deliveries
        assert isinstance(first, Delivery)
        assert isinstance(second, Delivery)
        assert isinstance(third, Delivery)
        channel.ack(first)
        channel.nack(second, requeue=False)
        channel.nack(third.delivery_tag)
        consumer.cancel()
        consumer.cancel()
        assert [delivery.body for delivery in consumer] == [b"4"]


def test_iteration_ends_when_nothing_comes() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.BasicConsume, 1)
        peer.send(1, m.BasicConsumeOk("a"))
        peer.send_message(1, m.BasicDeliver("a", 1, False, "", "q"), b"1")
        peer.expect(m.BasicCancel, 1)
        peer.send(1, m.BasicCancelOk("a"))
        assert peer.expect(m.BasicConsume, 1).consumer_tag == "a"
        peer.send(1, m.BasicConsumeOk("a"))
        peer.send_message(1, m.BasicDeliver("a", 2, False, "", "q"), b"2")

    with channel_with(script) as channel:
        with channel.consume("q", no_ack=True, idle_timeout=0.5) as consumer:
            assert [delivery.body for delivery in consumer] == [b"1"]
        again = channel.consume("q", consumer_tag="a").next()
        assert again is not None
        assert again.body == b"2"


def test_two_consumers_have_their_own_deliveries() -> None:
    def script(peer: Peer) -> None:
        for tag in ("a", "b"):
            assert peer.expect(m.BasicConsume, 1).consumer_tag == tag
            peer.send(1, m.BasicConsumeOk(tag))
        peer.send_message(1, m.BasicDeliver("b", 1, False, "", "q"), b"for b")
        peer.send_message(1, m.BasicDeliver("a", 2, False, "", "q"), b"for a")

    with channel_with(script) as channel:
        a, b = channel.consume("q", consumer_tag="a"), channel.consume("q", consumer_tag="b")
        first, second = a.next(), b.next()
        assert first is not None
        assert second is not None
        assert (first.body, second.body) == (b"for a", b"for b")
        assert a.next(timeout=0.01) is None


@pytest.mark.parametrize("nowait", [True, False])
def test_the_broker_cancels_a_consumer(nowait: bool) -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.BasicConsume, 1)
        peer.send(1, m.BasicConsumeOk("a"))
        peer.send_message(1, m.BasicDeliver("a", 1, False, "", "q"), b"1")
        peer.send(1, m.BasicCancel("a", nowait))
        if not nowait:
            assert peer.expect(m.BasicCancelOk, 1) == m.BasicCancelOk("a")

    with channel_with(script) as channel:
        consumer = channel.consume("q")
        last = consumer.next()
        assert last is not None
        assert last.body == b"1"
        with pytest.raises(ConsumerCancelled, match="cancelled consumer 'a': was its queue deleted"):
            consumer.next()


def test_a_closed_channel_ends_iteration_with_its_error() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.BasicConsume, 1)
        peer.send(1, m.BasicConsumeOk("a"))
        peer.send(1, m.ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 9"))
        peer.expect(m.ChannelCloseOk, 1)

    with channel_with(script) as channel:
        with pytest.raises(ChannelClosed, match="406 PRECONDITION_FAILED"):
            list(channel.consume("q"))
        assert channel._connection.is_open


def test_channel_flow_holds_publishing_back() -> None:
    def script(peer: Peer) -> None:
        peer.expect(m.BasicGet, 1)
        peer.send(1, m.ChannelFlow(active=False))
        peer.send(1, m.BasicGetEmpty())
        assert peer.expect(m.ChannelFlowOk, 1) == m.ChannelFlowOk(active=False)
        peer.send(1, m.ChannelFlow(active=True))
        assert peer.expect(m.ChannelFlowOk, 1) == m.ChannelFlowOk(active=True)
        peer.expect(m.BasicPublish, 1)
        peer.expect_content(1)

    with channel_with(script) as channel:
        channel.get("q")
        channel.publish("", "q", b"x")


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (encode_frame(c.FRAME_BODY, 1, b"x"), "frame of type 3 on channel 1 without a method before it"),
        (
            encode_frame(c.FRAME_METHOD, 1, m.encode_method(m.BasicDeliver("a", 1, False, "", "q"))) * 2,
            r"frame of type 1 inside the content of basic\.deliver",
        ),
        (
            encode_frame(c.FRAME_METHOD, 1, m.encode_method(m.BasicDeliver("a", 1, False, "", "q")))
            + encode_frame(c.FRAME_HEADER, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\1\0\0")
            + encode_frame(c.FRAME_BODY, 1, b"xx"),
            r"2 octets of body, 1 announced",
        ),
        (
            encode_frame(c.FRAME_METHOD, 1, m.encode_method(m.BasicPublish(0, "", "q")))
            + encode_frame(c.FRAME_HEADER, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0"),
            r"a client is not sent basic\.publish",
        ),
    ],
)
def test_contents_that_are_out_of_order_end_the_connection(frames: bytes, message: str) -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.socket.sendall(frames)
        peer.expect(m.BasicGet, 1)
        peer.expect_end()

    with scripted(script) as url, Connection.open(url) as connection:
        channel = connection.channel()
        with pytest.raises(ConnectionClosed, match=message):
            channel.get("q")


def answer(peer: Peer, replies: list[tuple[str, bytes]]) -> None:
    """Takes one request and sends these replies: correlation id (empty: the request's own) and body."""
    publish = peer.expect(m.BasicPublish, 1)
    assert publish.mandatory
    properties, bodies = peer.expect_content(1)
    assert read_property(properties, "reply_to") == REPLY_QUEUE
    own = str(read_property(properties, "correlation_id"))
    for correlation_id, body in replies:
        section = encode_properties({"correlation_id": correlation_id or own})
        peer.send_message(1, m.BasicDeliver("r", 1, False, "", "k"), body + b"".join(bodies), section)


def expect_reply_consumer(peer: Peer) -> None:
    consume = peer.expect(m.BasicConsume, 1)
    assert (consume.queue, consume.no_ack) == (REPLY_QUEUE, True)
    peer.send(1, m.BasicConsumeOk("r"))


def test_requests_get_their_own_replies() -> None:
    def script(peer: Peer) -> None:
        expect_reply_consumer(peer)
        answer(peer, [("", b"re: ")])
        answer(peer, [("1", b"late: "), ("", b"re: ")])

    with channel_with(script) as channel:
        assert channel.request("", "rpc", b"one").body == b"re: one"
        assert channel.request("", "rpc", b"two", {"type": "t"}).body == b"re: two"


def test_a_reply_comes_with_its_properties() -> None:
    def script(peer: Peer) -> None:
        expect_reply_consumer(peer)
        peer.expect(m.BasicPublish, 1)
        properties, _ = peer.expect_content(1)
        own = str(read_property(properties, "correlation_id"))
        section = encode_properties({"correlation_id": own, "content_type": "a/b", "headers": {"x-end": 7}})
        peer.send_message(1, m.BasicDeliver("r", 1, False, "", "k"), b"body", section)

    with channel_with(script) as channel:
        reply = channel.request("", "rpc", b"")
        assert (reply.body, reply.properties.content_type) == (b"body", "a/b")
        assert dict(reply.properties.headers or {}) == {"x-end": 7}


def test_a_request_that_reaches_no_queue() -> None:
    def script(peer: Peer) -> None:
        expect_reply_consumer(peer)
        peer.expect(m.BasicPublish, 1)
        properties, _ = peer.expect_content(1)
        other = encode_properties({"correlation_id": "other"})
        peer.send_message(1, m.BasicReturn(312, "NO_ROUTE", "", "x"), b"", other)
        peer.send_message(1, m.BasicReturn(312, "NO_ROUTE", "", "rpc"), b"", properties)

    with channel_with(script) as channel:
        with pytest.raises(Unroutable, match=r"no queue takes requests to .*'rpc': 312 NO_ROUTE") as caught:
            channel.request("", "rpc", b"")
        assert caught.value.reply_code == 312
        assert [returned.routing_key for returned in channel.take_returned()] == ["x"]


def test_a_request_that_nobody_answers() -> None:
    def script(peer: Peer) -> None:
        expect_reply_consumer(peer)
        answer(peer, [])
        answer(peer, [("1", b"late"), ("", b"")])

    with channel_with(script) as channel:
        with pytest.raises(ClientTimeout, match="the reply to a request"):
            channel.request("", "rpc", b"one", timeout=0.05)
        assert channel.request("", "rpc", b"two").body == b"two"
