"""amqpstorm at work: its own channel objects, confirms, returns, recovery and a threaded consumer."""

# mypy: disable-error-code="no-untyped-call,attr-defined"
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import amqpstorm
import pytest

Named = Callable[[str], str]
PATIENCE_S = 90


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    with amqpstorm.UriConnection(url.replace("/%2F", "/") + "?heartbeat=30&timeout=15") as opened:
        yield opened


@pytest.fixture
def channel(connection: Any) -> Iterator[Any]:
    with connection.channel() as opened:
        yield opened


def test_publish_get_and_acknowledge(channel: Any, named: Named) -> None:
    """Every publish is awaited; the queue then has them in order."""
    queue = named("queue")
    channel.queue.declare(queue, durable=True)
    channel.confirm_deliveries()
    for index in range(200):
        properties = {"delivery_mode": 2, "headers": {"n": index}, "content_type": "text/plain"}
        assert channel.basic.publish(str(index), queue, properties=properties) is True
    messages = [channel.basic.get(queue) for _ in range(200)]
    assert [message.body for message in messages] == [str(index) for index in range(200)]
    assert [message.properties["headers"]["n"] for message in messages] == list(range(200))
    for message in messages:
        message.ack()
    assert channel.basic.get(queue) is None
    assert channel.queue.delete(queue)["message_count"] == 0


def test_an_unroutable_message_is_an_error(channel: Any) -> None:
    """Mandatory with confirms: the return is raised."""
    channel.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPMessageError, match="not delivered"):
        channel.basic.publish("lost", "no-such-queue", mandatory=True)


def test_a_nack_is_false(channel: Any, named: Named) -> None:
    """A full queue with reject-publish."""
    queue = named("queue")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue.declare(queue, exclusive=True, arguments=arguments)
    channel.confirm_deliveries()
    assert channel.basic.publish("1", queue) is True
    assert channel.basic.publish("2", queue) is False


def test_consuming_with_callbacks(channel: Any, named: Named) -> None:
    """start_consuming, a prefetch, and a callback that stops it."""
    queue = named("queue")
    channel.queue.declare(queue, auto_delete=True)
    for index in range(100):
        channel.basic.publish(str(index), queue)
    received: list[str] = []

    def on_message(message: Any) -> None:
        received.append(message.body)
        message.ack()
        if len(received) == 100:
            channel.stop_consuming()

    channel.basic.qos(prefetch_count=20)
    channel.basic.consume(on_message, queue)
    channel.start_consuming()
    assert received == [str(index) for index in range(100)]


def test_competing_consumers_in_threads(connection: Any, named: Named) -> None:
    """One connection, four channels in four threads; every message once."""
    queue = named("queue")
    with connection.channel() as publisher:
        publisher.queue.declare(queue)
        for index in range(200):
            publisher.basic.publish(str(index), queue)
    received: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        with connection.channel() as channel:
            channel.basic.qos(prefetch_count=5)
            while (message := channel.basic.get(queue)) is not None:
                with lock:
                    received.append(message.body)
                message.ack()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(received, key=int) == [str(index) for index in range(200)]
    with connection.channel() as channel:
        channel.queue.delete(queue)


def test_exchanges_and_bindings(channel: Any, named: Named) -> None:
    """Exchange to exchange to queue, unbound again."""
    source, destination, queue = named("source"), named("destination"), named("queue")
    channel.exchange.declare(source, "topic", auto_delete=True)
    channel.exchange.declare(destination, "fanout", auto_delete=True)
    channel.queue.declare(queue, exclusive=True)
    channel.exchange.bind(destination, source, "a.#")
    channel.queue.bind(queue, destination)
    channel.basic.publish("through", "a.b", source)
    assert channel.basic.get(queue, no_ack=True).body == "through"
    channel.queue.unbind(queue, destination)


def test_a_channel_error_carries_its_code(connection: Any, named: Named) -> None:
    """404 on one channel, the next one works."""
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        connection.channel().queue.declare(named("missing"), passive=True)
    assert caught.value.error_code == 404
    with connection.channel() as channel:
        assert channel.queue.declare(exclusive=True)["queue"].startswith("amq.gen-")


def test_transactions(channel: Any, named: Named) -> None:
    """Committed on leaving the block, rolled back on an exception."""
    queue = named("queue")
    channel.queue.declare(queue, exclusive=True)
    with channel.tx:
        channel.basic.publish("kept", queue)
    channel.tx.select()
    channel.basic.publish("forgotten", queue)
    channel.tx.rollback()
    assert channel.basic.get(queue, no_ack=True).body == "kept"
    assert channel.basic.get(queue, no_ack=True) is None


def test_a_large_body(channel: Any, named: Named) -> None:
    """Three megabytes of octets."""
    queue = named("queue")
    channel.queue.declare(queue, exclusive=True)
    body = bytes(range(256)) * 12_000
    channel.confirm_deliveries()
    assert channel.basic.publish(body, queue) is True
    message = channel.basic.get(queue, no_ack=True, auto_decode=False)
    assert message.body == body
