"""Streams with stock clients: pika and aio-pika publish and read by offset, filter, and read again after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import aio_pika
import pika  # type: ignore[import-untyped]
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]

from interop_tests.broker_under_test import Restartable

Named = Callable[[str], str]
STREAM = {"x-queue-type": "stream"}
PATIENCE_S = 90


@pytest.fixture
async def channel(url: str) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(url) as connection:
        opened = await connection.channel()
        await opened.set_qos(prefetch_count=100)
        yield opened


async def _publish(channel: AbstractChannel, queue: str, *bodies: bytes, **headers: Any) -> None:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body, headers=named), queue)


async def _read(queue: AbstractQueue, count: int, **arguments: Any) -> list[AbstractIncomingMessage]:
    """So many, each acknowledged."""
    found = []
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    async with asyncio.timeout(PATIENCE_S), queue.iterator(arguments=table) as messages:
        async for message in messages:
            found.append(message)
            await message.ack()
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize(
    ("offset", "first"),
    [("first", 0), (3, 3), (datetime(2020, 1, 1, tzinfo=UTC), 0), ("1h", 0)],
    ids=str,
)
async def test_aio_pika_reads_from_an_offset(
    channel: AbstractChannel, named: Named, offset: Any, first: int
) -> None:
    """What is read stays: everybody reads all of it."""
    queue = await channel.declare_queue(named("stream"), durable=True, arguments=STREAM)
    await _publish(channel, queue.name, *[b"%d" % number for number in range(10)])
    for _ in range(2):
        found = await _read(queue, 10 - first, x_stream_offset=offset)
        assert [message.body for message in found] == [b"%d" % number for number in range(first, 10)]
        assert [message.headers["x-stream-offset"] for message in found] == list(range(first, 10))
    await queue.delete()


@pytest.mark.ours_only("its streams have no filters")
async def test_aio_pika_filters(channel: AbstractChannel, named: Named) -> None:
    """By the header that publishers set."""
    queue = await channel.declare_queue(named("stream"), durable=True, arguments=STREAM)
    for country in ("dk", "se", "no"):
        await _publish(channel, queue.name, b"%s 1" % country.encode(), x_stream_filter_value=country)
    await _publish(channel, queue.name, b"from nowhere")
    await _publish(channel, queue.name, b"se 2", x_stream_filter_value="se")
    found = await _read(queue, 2, x_stream_offset="first", x_stream_filter="se")
    assert [message.body for message in found] == [b"se 1", b"se 2"]
    found = await _read(queue, 2, x_stream_offset="first", x_stream_filter="dk", x_stream_match_unfiltered=True)
    assert [message.body for message in found] == [b"dk 1", b"from nowhere"]
    await queue.delete()


async def test_aio_pika_follows_what_is_published(channel: AbstractChannel, named: Named) -> None:
    """Bound to an exchange, read as it comes; a message that is rejected does not come again."""
    queue = await channel.declare_queue(named("stream"), durable=True, arguments=STREAM)
    exchange = await channel.declare_exchange(named("exchange"), aio_pika.ExchangeType.TOPIC, auto_delete=True)
    await queue.bind(exchange, "price.#")
    got: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    tag = await queue.consume(got.put, arguments={"x-stream-offset": "next"})
    async with asyncio.timeout(PATIENCE_S):
        for number in range(200):
            await exchange.publish(aio_pika.Message(b"%d" % number), f"price.{number}")
            message = await got.get()
            assert (message.body, message.routing_key) == (b"%d" % number, f"price.{number}")
            await message.ack()
    await queue.cancel(tag)
    await queue.delete()


@pytest.mark.ours_only("its streams send whole chunks")
def test_pika_is_sent_no_more_than_its_prefetch(url: str, named: Named) -> None:
    """Each acknowledgement brings one more."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = named("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=4)
    got: list[tuple[int, bytes]] = []

    def receive(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        got.append((method.delivery_tag, body))

    channel.basic_consume(queue, receive, arguments={"x-stream-offset": "first"})
    for rounds in range(1, 5):
        while len(got) < 4 * rounds:
            connection.process_data_events(time_limit=1)
        for _ in range(3):  # nothing else is on its way
            channel.queue_declare(queue, passive=True)
            connection.process_data_events(time_limit=0)
        assert [body for _, body in got] == [b"%d" % number for number in range(4 * rounds)]
        channel.basic_ack(got[-1][0], multiple=True)
    channel.queue_delete(queue)
    connection.close()


def test_pika_is_told_what_it_forgot(url: str, named: Named) -> None:
    """A prefetch."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = named("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    with pytest.raises(ChannelClosedByBroker, match="consumer prefetch count is not set"):
        channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    connection.close()


def test_pika_reads_again_after_a_restart(restartable: Restartable, named: Named) -> None:
    """Each message has the offset that it had."""
    queue = named("stream")

    def connected() -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(restartable.url))

    def read(connection: pika.BlockingConnection, count: int, offset: Any) -> list[tuple[int, bytes]]:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        found = []
        for method, properties, body in channel.consume(queue, arguments={"x-stream-offset": offset}):
            found.append((properties.headers["x-stream-offset"], body))
            channel.basic_ack(method.delivery_tag)
            if len(found) == count:
                return found
        return found

    connection = connected()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number)
    before = read(connection, 50, "first")
    assert before == [(number, b"%d" % number) for number in range(50)]
    connection.close()
    restartable.stop()
    restartable.start()
    connection = connected()
    assert read(connection, 50, "first") == before
    assert read(connection, 10, 40) == before[40:]
    connection.channel().queue_delete(queue)
    connection.close()
