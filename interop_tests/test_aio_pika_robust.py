"""aio-pika's robust connections: over a broker that restarts, and over a line that is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection

from interop_tests.broker_under_test import Restartable
from interop_tests.cut_line import CutLine

Named = Callable[[str], str]
PATIENCE_S = 60


class _Inbox:
    """Collects bodies; duplicates are kept, as at-least-once delivery may bring them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._changed = asyncio.Event()

    async def handle(self, message: AbstractIncomingMessage) -> None:
        # a message that was delivered before the connection broke cannot be acknowledged any more: it comes
        # again
        async with message.process(ignore_processed=True):
            self.bodies.append(message.body)
            self._changed.set()

    async def until(self, wanted: set[bytes]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not wanted <= set(self.bodies):
                self._changed.clear()
                await self._changed.wait()


def _reconnections(connection: AbstractRobustConnection) -> asyncio.Event:
    """An event that is set at the next successful reconnect."""
    happened = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: happened.set())
    return happened


async def test_a_consumer_and_a_publisher_survive_a_restart(restartable: Restartable, named: Named) -> None:
    """The queue is durable, the messages persistent: what was confirmed before is delivered after, and new
    ones flow.
    """
    consumer = await aio_pika.connect_robust(restartable.url, reconnect_interval=0.2)
    publisher = await aio_pika.connect_robust(restartable.url, reconnect_interval=0.2)
    inbox = _Inbox()
    queue = await (await consumer.channel()).declare_queue(named("queue"), durable=True)
    channel = await publisher.channel()

    async def publish(*bodies: bytes) -> None:
        for body in bodies:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, queue.name)

    tag = await queue.consume(inbox.handle)
    await publish(b"1", b"2")
    await inbox.until({b"1", b"2"})
    await queue.cancel(tag)
    await publish(b"3", b"4")
    back = [_reconnections(consumer), _reconnections(publisher)]
    await asyncio.to_thread(restartable.stop)
    await asyncio.to_thread(restartable.start)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(event.wait() for event in back))
        await asyncio.gather(consumer.ready(), publisher.ready())
    await queue.consume(inbox.handle)
    await publish(b"5")
    await inbox.until({b"1", b"2", b"3", b"4", b"5"})
    await queue.delete(if_unused=False, if_empty=False)
    for connection in (consumer, publisher):
        await connection.close()


async def test_consumers_and_declarations_come_back_by_themselves(restartable: Restartable, named: Named) -> None:
    """Transient exchanges, queues, bindings and consumers are all gone with the broker; the client restores
    them.
    """
    connection = await aio_pika.connect_robust(restartable.url, reconnect_interval=0.2)
    channel = await connection.channel()
    exchange = await channel.declare_exchange(named("exchange"), "topic", auto_delete=True)
    queue = await channel.declare_queue(named("queue"), auto_delete=True)
    await queue.bind(exchange, "a.#")
    inbox = _Inbox()
    await queue.consume(inbox.handle)
    await exchange.publish(aio_pika.Message(b"before"), "a.b")
    await inbox.until({b"before"})
    back = _reconnections(connection)
    await asyncio.to_thread(restartable.stop)
    await asyncio.to_thread(restartable.start)
    async with asyncio.timeout(PATIENCE_S):
        await back.wait()
        await connection.ready()
    await exchange.publish(aio_pika.Message(b"after"), "a.c")
    await inbox.until({b"after"})
    await connection.close()


async def test_a_worker_survives_cut_lines(line: CutLine, url: str, named: Named) -> None:
    """Three cuts while tasks flow: all of them are done at least once, and none is left."""
    publisher = await aio_pika.connect(url)
    channel = await publisher.channel()
    worker = await aio_pika.connect_robust(line.url, reconnect_interval=0.1)
    own = await worker.channel()
    await own.set_qos(prefetch_count=5)
    queue = await own.declare_queue(named("tasks"), durable=True)
    inbox = _Inbox()
    await queue.consume(inbox.handle)
    wanted: set[bytes] = set()
    for round_number in range(3):
        for index in range(30):
            body = b"%d-%d" % (round_number, index)
            wanted.add(body)
            await channel.default_exchange.publish(aio_pika.Message(body, delivery_mode=2), queue.name)
            if index == 15:
                back = _reconnections(worker)
                assert line.cut() >= 1
        async with asyncio.timeout(PATIENCE_S):
            await back.wait()
        await inbox.until(wanted)
    state = await channel.declare_queue(queue.name, passive=True)
    assert state.declaration_result.message_count == 0
    await worker.close()
    await channel.queue_delete(queue.name)
    await publisher.close()


async def test_an_exclusive_queue_can_be_declared_again_after_a_cut(line: CutLine, named: Named) -> None:
    """The broker must let go of the name when it notices the loss, or the client is locked out of its own
    queue.
    """
    connection = await aio_pika.connect_robust(line.url, reconnect_interval=0.1)
    channel = await connection.channel()
    queue = await channel.declare_queue(named("exclusive"), exclusive=True)
    inbox = _Inbox()
    await queue.consume(inbox.handle)
    for round_number in range(3):
        back = _reconnections(connection)
        line.cut()
        async with asyncio.timeout(PATIENCE_S):
            await back.wait()
            await connection.ready()
        body = b"after cut %d" % round_number
        await channel.default_exchange.publish(aio_pika.Message(body), queue.name)
        await inbox.until({body})
    await connection.close()
