"""The client against a real broker, whose URL is in RABBITMQ_URL or (one of ours) AMQP_BROKER_URL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from amqp_broker.client import (
    Channel,
    ChannelClosed,
    ConnectFailed,
    Connection,
    ConsumerCancelled,
    Unroutable,
)
from amqp_broker.client.address import parse_url
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table

URL = os.environ.get("RABBITMQ_URL") or os.environ.get("AMQP_BROKER_URL") or ""
pytestmark = pytest.mark.skipif(not URL, reason="needs a broker: set RABBITMQ_URL or AMQP_BROKER_URL")


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Connection.open(URL, name="client tests") as opened:
        yield opened


@pytest.fixture
def channel(connection: Connection) -> Iterator[Channel]:
    with connection.channel() as opened:
        yield opened


def test_publish_confirm_get_and_consume(channel: Channel) -> None:
    queue = channel.call(m.QueueDeclare(exclusive=True)).queue
    channel.confirm_select()
    bodies = [b"", b"x", bytes(range(256)) * 2000]
    for body in bodies:
        channel.publish("", queue, body, {"headers": {"n": len(body)}, "delivery_mode": 1})
    assert channel.wait_for_confirms() == []
    first = channel.get(queue)
    assert first is not None
    assert (first.body, first.message_count, first.properties.headers) == (b"", 2, {"n": 0})
    channel.nack(first)
    with channel.consume(queue, prefetch_count=1) as consumer:
        for body in bodies:
            delivery = consumer.next(10)
            assert delivery is not None
            assert delivery.body == body
            assert delivery.redelivered == (body == b"")
            channel.ack(delivery)
    assert channel.get(queue) is None


def test_every_kind_of_argument_arrives(channel: Channel) -> None:
    queue = channel.call(m.QueueDeclare(exclusive=True, arguments=Table({"x-max-length": 10}))).queue
    assert channel.call(m.QueueDeclare(queue=queue, passive=True)).message_count == 0
    channel.call(m.ExchangeDeclare(exchange="client-tests", type="topic", auto_delete=True))
    channel.call(m.QueueBind(queue=queue, exchange="client-tests", routing_key="a.*"))
    channel.publish("client-tests", "a.b", b"routed")
    channel.publish("client-tests", "b.a", b"lost", mandatory=True)
    delivery = channel.get(queue, no_ack=True)
    assert delivery is not None
    assert (delivery.routing_key, delivery.body) == ("a.b", b"routed")
    assert [returned.body for returned in channel.take_returned()] == [b"lost"]
    channel.call(m.QueueUnbind(queue=queue, exchange="client-tests", routing_key="a.*"))
    channel.call(m.ExchangeDelete(exchange="client-tests"))


def test_a_missing_queue_closes_the_channel_alone(connection: Connection) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelClosed, match="404 NOT_FOUND - no queue 'client-tests-missing' in vhost"):
        channel.call(m.QueueDeclare(queue="client-tests-missing", passive=True))
    assert connection.channel().call(m.QueueDeclare(exclusive=True)).message_count == 0


def test_a_deleted_queue_cancels_its_consumer(channel: Channel) -> None:
    queue = channel.call(m.QueueDeclare(exclusive=True)).queue
    consumer = channel.consume(queue)
    channel.call(m.QueueDelete(queue=queue))
    with pytest.raises(ConsumerCancelled):
        consumer.next(10)


def test_requests_by_direct_reply_to(channel: Channel) -> None:
    queue = channel.call(m.QueueDeclare(queue="client-tests-requests", auto_delete=True)).queue
    with Connection.open(URL) as other, other.channel() as server:
        requests = server.consume(queue, no_ack=True)

        def serve() -> None:
            for _ in range(2):
                request = requests.next(10)
                assert request is not None
                asked = request.properties
                assert asked.reply_to is not None
                reply = {"correlation_id": asked.correlation_id}
                server.publish("", asked.reply_to, request.body.upper(), reply)

        with pytest.raises(Unroutable):
            channel.request("", "client-tests-nobody", b"")
        thread = threading.Thread(target=serve)
        thread.start()
        assert channel.request("", queue, b"first").body == b"FIRST"
        assert channel.request("", queue, b"second", {"type": "t"}).body == b"SECOND"
        thread.join()
        with pytest.raises(TimeoutError):
            channel.request("", queue, b"third", timeout=0.1)


def test_a_wrong_password_is_refused_with_its_code() -> None:
    address = parse_url(URL)
    with pytest.raises(ConnectFailed, match="ACCESS_REFUSED") as caught:
        Connection.open(f"amqp://{address.user}:wrong@{address.host}:{address.port}")
    assert caught.value.reply_code == 403
