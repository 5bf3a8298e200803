"""aio-pika at work: confirms, worker pools, RPC, exchange types, retries, transactions, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    MessageProcessError,
    QueueEmpty,
)
from aio_pika.patterns import RPC, Master
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

Named = Callable[[str], str]
PATIENCE_S = 90


@pytest.fixture
async def connection(url: str) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(url) as opened:
        yield opened


@pytest.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    return await connection.channel(on_return_raises=True)


async def _take(queue: AbstractQueue, count: int) -> list[bytes]:
    bodies = []
    async with asyncio.timeout(PATIENCE_S), queue.iterator(no_ack=True) as messages:
        async for message in messages:
            bodies.append(message.body)
            if len(bodies) == count:
                break
    return bodies


async def test_every_publish_is_confirmed(channel: AbstractChannel, named: Named) -> None:
    """A thousand persistent messages at once, each awaited; all are there, in order."""
    queue = await channel.declare_queue(named("queue"), durable=True)
    messages = [
        aio_pika.Message(b"%d" % index, delivery_mode=aio_pika.DeliveryMode.PERSISTENT) for index in range(1000)
    ]
    exchange = channel.default_exchange
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(exchange.publish(message, queue.name) for message in messages))
    state = await channel.declare_queue(queue.name, durable=True, passive=True)
    assert state.declaration_result.message_count == 1000
    assert await _take(queue, 1000) == [message.body for message in messages]
    await queue.delete()


async def test_an_unroutable_mandatory_message_raises(channel: AbstractChannel) -> None:
    """The return comes before the confirm and belongs to the publish."""
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"lost"), "no-such-queue", mandatory=True)
    await channel.default_exchange.publish(aio_pika.Message(b"lost"), "no-such-queue", mandatory=False)


async def test_a_refused_message_raises(channel: AbstractChannel, named: Named) -> None:
    """A full queue with reject-publish answers with a nack."""
    arguments: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = await channel.declare_queue(named("queue"), exclusive=True, arguments=arguments)
    await channel.default_exchange.publish(aio_pika.Message(b"1"), queue.name)
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"2"), queue.name)


async def test_a_pool_of_workers_shares_the_work(connection: AbstractConnection, url: str, named: Named) -> None:
    """Four connections with a prefetch of ten: every task is done exactly once, by more than one worker."""
    channel = await connection.channel()
    queue = await channel.declare_queue(named("tasks"), durable=True)
    done: dict[bytes, str] = {}
    everything = asyncio.Event()

    async def work(name: str) -> AbstractConnection:
        worker = await aio_pika.connect(url)
        own = await worker.channel()
        await own.set_qos(prefetch_count=10)

        async def handle(message: AbstractIncomingMessage) -> None:
            async with message.process():
                assert message.body not in done
                done[message.body] = name
                if len(done) == 2000:
                    everything.set()

        await (await own.get_queue(queue.name)).consume(handle)
        return worker

    workers = [await work(name) for name in ("a", "b", "c", "d")]
    for start in range(0, 2000, 500):
        batch = [aio_pika.Message(b"%d" % index, delivery_mode=2) for index in range(start, start + 500)]
        await asyncio.gather(*(channel.default_exchange.publish(message, queue.name) for message in batch))
    async with asyncio.timeout(PATIENCE_S):
        await everything.wait()
    for worker in workers:
        await worker.close()
    assert len(done) == 2000
    assert set(done.values()) == {"a", "b", "c", "d"}
    assert (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 0
    await queue.delete()


async def test_a_lost_worker_loses_no_work(url: str, connection: AbstractConnection, named: Named) -> None:
    """A worker closes with messages in hand; the next one gets them, marked as redelivered."""
    channel = await connection.channel()
    queue = await channel.declare_queue(named("tasks"))
    for index in range(5):
        await channel.default_exchange.publish(aio_pika.Message(b"%d" % index), queue.name)
    first = await aio_pika.connect(url)
    own = await first.channel()
    await own.set_qos(prefetch_count=3)
    held: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await (await own.get_queue(queue.name)).consume(held.put)
    async with asyncio.timeout(PATIENCE_S):
        assert [(await held.get()).body for _ in range(3)] == [b"0", b"1", b"2"]
    await first.close()
    messages = [await queue.get(no_ack=True, timeout=PATIENCE_S) for _ in range(5)]
    found = [(message.body, message.redelivered) for message in messages if message]
    assert found == [(b"0", True), (b"1", True), (b"2", True), (b"3", False), (b"4", False)]
    await queue.delete()


async def test_rpc_over_direct_reply_to(connection: AbstractConnection, url: str, named: Named) -> None:
    """A server on another connection answers a hundred questions, each to its asker."""
    async with await aio_pika.connect(url) as server_connection:
        server = await server_connection.channel()
        requests = await server.declare_queue(named("rpc"), exclusive=True)

        async def serve(message: AbstractIncomingMessage) -> None:
            async with message.process():
                answer = aio_pika.Message(message.body[::-1], correlation_id=message.correlation_id)
                assert message.reply_to is not None
                await server.default_exchange.publish(answer, message.reply_to, mandatory=False)

        await requests.consume(serve)
        channel = await connection.channel()
        replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        answers: dict[str, asyncio.Future[bytes]] = {}

        async def receive(message: AbstractIncomingMessage) -> None:
            assert message.correlation_id is not None
            answers[message.correlation_id].set_result(message.body)

        await replies.consume(receive, no_ack=True)
        for index in range(100):
            answers[str(index)] = asyncio.get_running_loop().create_future()
            question = aio_pika.Message(
                b"question %d" % index, correlation_id=str(index), reply_to="amq.rabbitmq.reply-to"
            )
            await channel.default_exchange.publish(question, requests.name)
        async with asyncio.timeout(PATIENCE_S):
            bodies = await asyncio.gather(*answers.values())
        assert bodies == [(b"question %d" % index)[::-1] for index in range(100)]


async def test_the_rpc_pattern(connection: AbstractConnection, named: Named) -> None:
    """aio-pika's own RPC: an exclusive result queue, a headers exchange for what cannot be delivered."""
    name = named("multiply")
    rpc = await RPC.create(await connection.channel())

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    await rpc.register(name, multiply, auto_delete=True)
    async with asyncio.timeout(PATIENCE_S):
        products = await asyncio.gather(*(rpc.call(name, kwargs={"x": x, "y": 3}) for x in range(50)))
    assert products == [x * 3 for x in range(50)]
    with pytest.raises(MessageProcessError, match="returned"):
        await rpc.call(named("nobody"), kwargs={})
    await rpc.close()


async def test_the_master_worker_pattern(connection: AbstractConnection, named: Named) -> None:
    """aio-pika's own task queue."""
    name = named("task")
    master = Master(await connection.channel())
    seen: list[int] = []
    done = asyncio.Event()

    async def task(*, number: int) -> None:
        seen.append(number)
        if len(seen) == 20:
            done.set()

    worker = await master.create_worker(name, task, auto_delete=True)
    for number in range(20):
        await master.create_task(name, kwargs={"number": number})
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    assert sorted(seen) == list(range(20))
    await worker.close()


@pytest.mark.parametrize(
    ("kind", "binding", "arguments", "sent"),
    [
        ("direct", "a", {}, [("a", {}, True), ("b", {}, False)]),
        ("fanout", "", {}, [("a", {}, True), ("b", {}, True)]),
        ("topic", "a.*.#", {}, [("a.b", {}, True), ("a.b.c", {}, True), ("a", {}, False)]),
        ("headers", "", {"x-match": "all", "k": 1}, [("", {"k": 1}, True), ("", {"k": 2}, False)]),
    ],
)
async def test_exchange_types(
    channel: AbstractChannel,
    named: Named,
    kind: str,
    binding: str,
    arguments: dict[str, Any],
    sent: list[tuple[str, dict[str, Any], bool]],
) -> None:
    """Routed or returned, as each type says; through a second exchange as well."""
    exchange = await channel.declare_exchange(named("exchange"), kind, auto_delete=True)
    entrance = await channel.declare_exchange(named("entrance"), "fanout", auto_delete=True)
    await exchange.bind(entrance)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, binding, arguments=arguments)
    for key, headers, expected in sent:
        for way in (exchange, entrance):
            try:
                await way.publish(aio_pika.Message(b"m", headers=headers), key)
                is_routed = True
            except DeliveryError:
                is_routed = False
            assert is_routed is expected
        count = 2 if expected else 0
        assert [m.body for m in [await queue.get(no_ack=True) for _ in range(count)] if m] == [b"m"] * count


async def test_the_retry_pattern(channel: AbstractChannel, named: Named) -> None:
    """A failing task waits in a second queue by its time to live, comes back, and gives up after three
    failures.
    """
    work, wait, failed = (named(stem) for stem in ("work", "wait", "failed"))
    to = "x-dead-letter-routing-key"
    queue = await channel.declare_queue(work, arguments={"x-dead-letter-exchange": "", to: wait})
    await channel.declare_queue(wait, arguments={"x-dead-letter-exchange": "", to: work, "x-message-ttl": 20})
    graveyard = await channel.declare_queue(failed)
    attempts: list[int] = []
    gone = asyncio.Event()

    async def handle(message: AbstractIncomingMessage) -> None:
        deaths: Any = message.headers.get("x-death", [])
        count = sum(death["count"] for death in deaths if death["reason"] == "rejected")
        attempts.append(count)
        if count < 3:
            await message.reject(requeue=False)
            return
        await channel.default_exchange.publish(aio_pika.Message(message.body, headers=message.headers), failed)
        await message.ack()
        gone.set()

    await queue.consume(handle)
    await channel.default_exchange.publish(aio_pika.Message(b"poison"), work)
    async with asyncio.timeout(PATIENCE_S):
        await gone.wait()
    assert attempts == [0, 1, 2, 3]
    message = await graveyard.get(no_ack=True)
    assert message is not None
    deaths: Any = message.headers["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        (wait, "expired", 3),
        (work, "rejected", 3),
    ]
    for name in (work, wait, failed):
        await channel.queue_delete(name)


async def test_transactions(connection: AbstractConnection, named: Named) -> None:
    """Committed publishes arrive together, rolled back ones never."""
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(named("queue"), exclusive=True)
    exchange = channel.default_exchange
    async with channel.transaction():
        for index in range(10):
            await exchange.publish(aio_pika.Message(b"%d" % index), queue.name)
        assert (await queue.get(no_ack=True, fail=False)) is None
    transaction = channel.transaction()
    await transaction.select()
    await exchange.publish(aio_pika.Message(b"rolled back"), queue.name)
    await transaction.rollback()
    assert await _take(queue, 10) == [b"%d" % index for index in range(10)]
    assert (await queue.get(no_ack=True, fail=False)) is None


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_000, 8_000_000])
async def test_bodies_of_any_size(channel: AbstractChannel, named: Named, size: int) -> None:
    """Octet by octet what was sent, with persistent delivery on a durable queue."""
    queue = await channel.declare_queue(named("queue"), durable=True)
    body = bytes(range(256)) * (size // 256 + 1)
    message = aio_pika.Message(body[:size], delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, queue.name)
    received = await queue.get(no_ack=True, timeout=PATIENCE_S)
    assert received is not None
    assert received.body == body[:size]
    await queue.delete()


async def test_headers_and_properties_round_trip(channel: AbstractChannel, named: Named) -> None:
    """Every type that aio-pika can send, and every property."""
    queue = await channel.declare_queue(named("queue"), exclusive=True)
    when = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)
    headers: dict[str, Any] = {
        "bool": True, "int": 7, "negative": -7, "long": 2**40, "float": 0.5, "text": "Grüße",
        "octets": bytearray(b"\x00\xff"), "none": None, "list": [1, "two", [3]],
        "table": {"deep": {"deeper": True}}, "decimal": Decimal("1.5"), "time": when,
    }  # fmt: skip
    message = aio_pika.Message(
        b"m", headers=headers, content_type="text/plain", content_encoding="utf-8", delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration=60, message_id="i", timestamp=when,
        type="t", user_id="guest", app_id="a",
    )  # fmt: skip
    await channel.default_exchange.publish(message, queue.name)
    received = await queue.get(no_ack=True)
    assert received is not None
    assert dict(received.headers) == headers
    for name in (
        "content_type",
        "content_encoding",
        "delivery_mode",
        "priority",
        "correlation_id",
        "reply_to",
    ):
        assert getattr(received, name) == getattr(message, name)
    for name in ("expiration", "message_id", "type", "user_id", "app_id"):
        assert getattr(received, name) == getattr(message, name)
    assert received.timestamp == when


async def test_errors_have_their_own_exceptions(connection: AbstractConnection, url: str, named: Named) -> None:
    """404, 405, 406 and 403, each on a fresh channel; the connection goes on."""
    name = named("queue")
    channel = await connection.channel()
    await channel.declare_queue(name, exclusive=True)
    with pytest.raises(ChannelNotFoundEntity):
        await (await connection.channel()).declare_queue(named("missing"), passive=True)
    with pytest.raises(ChannelPreconditionFailed):
        await (await connection.channel()).declare_queue(name, exclusive=True, auto_delete=True)
    with pytest.raises(ChannelAccessRefused):
        await (await connection.channel()).declare_exchange("amq.mine", "direct")
    async with await aio_pika.connect(url) as stranger:
        with pytest.raises(ChannelLockedResource):
            await (await stranger.channel()).get_queue(name)
    queue = await channel.get_queue(name)
    with pytest.raises(QueueEmpty):
        await queue.get()


async def test_fifty_channels_at_once(connection: AbstractConnection) -> None:
    """Each declares, publishes and consumes on its own; nothing mixes."""

    async def converse(number: int) -> list[bytes]:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        bodies = [b"%d-%d" % (number, index) for index in range(40)]
        for body in bodies:
            await channel.default_exchange.publish(aio_pika.Message(body), queue.name)
        received = await _take(queue, 40)
        await channel.close()
        assert received == bodies
        return received

    async with asyncio.timeout(2 * PATIENCE_S):
        conversations = await asyncio.gather(*(converse(number) for number in range(50)))
    assert len(conversations) == 50


async def test_purge_and_delete(channel: AbstractChannel, named: Named) -> None:
    """Counts come back; a used queue is not deleted by if_unused, a filled one not by if_empty."""
    queue = await channel.declare_queue(named("queue"))
    for _ in range(3):
        await channel.default_exchange.publish(aio_pika.Message(b"m"), queue.name)
    assert (await queue.purge()).message_count == 3
    await channel.default_exchange.publish(aio_pika.Message(b"m"), queue.name)
    with pytest.raises(ChannelPreconditionFailed):
        await queue.delete(if_unused=False, if_empty=True)


async def test_the_secret_can_be_updated(connection: AbstractConnection) -> None:
    """connection.update-secret is answered, and the connection goes on."""
    await connection.update_secret("another", reason="rotation")
    channel = await connection.channel()
    assert (await channel.declare_queue(exclusive=True)).name.startswith("amq.gen-")
