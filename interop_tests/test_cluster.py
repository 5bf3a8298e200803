"""Stock clients on a cluster of three nodes: what a client of one node says of a queue holds for clients of the others,
whether it is a quorum queue or a classic one that lives on the first of them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue, Arguments
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, QueueEmpty
from aiormq.exceptions import ChannelLockedResource

from amqp_broker import RunningCluster, running_cluster

PATIENCE_S = 30
#: Long enough for what should not come.
QUIET_S = 0.4
KINDS = ("classic", "quorum")
#: Where it is declared and published, and where it is consumed: the home (or a leader), another node, two others.
WAYS = ((0, 0), (0, 1), (1, 0), (1, 2))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(3) as made:
        yield made


@dataclass
class Spot:
    """A queue of one kind, to be made with `declare`; a channel for who publishes, one on another node for who
    consumes."""

    kind: str
    near: AbstractChannel
    far: AbstractChannel
    home: AbstractChannel

    async def declare(self, **arguments: Any) -> AbstractQueue:
        """A durable queue; what this returns belongs to who consumes."""
        name = f"{self.kind}-{uuid.uuid4().hex[:12]}"
        found: Arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        await self.home.declare_queue(name, durable=True, arguments={**found, "x-queue-type": self.kind})
        return await self.far.declare_queue(name, passive=True)

    async def publish(self, queue: AbstractQueue, *bodies: bytes, exchange: str = "", **properties: Any) -> None:
        """Confirmed, one after the other."""
        to = await self.near.get_exchange(exchange, ensure=False) if exchange else self.near.default_exchange
        for body in bodies:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **properties)
            await to.publish(message, queue.name, timeout=PATIENCE_S)

    async def count(self, queue: AbstractQueue) -> tuple[int, int]:
        """Messages and consumers, as who publishes is told."""
        found = (await self.near.declare_queue(queue.name, passive=True)).declaration_result
        return found.message_count or 0, found.consumer_count or 0


@pytest.fixture(params=[(kind, way) for kind in KINDS for way in WAYS], ids=lambda each: f"{each[0]}-{each[1]}")
async def spot(request: pytest.FixtureRequest, cluster: RunningCluster) -> AsyncIterator[Spot]:
    kind, (near, far) = request.param
    connections = [await aio_pika.connect(cluster.urls[index]) for index in (near, far, 0)]
    channels = [await each.channel(on_return_raises=True) for each in connections]
    yield Spot(kind, *channels)
    for each in connections:
        await each.close()


class Inbox:
    """What a consumer has got, in order."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    async def take(self, count: int = 1) -> list[AbstractIncomingMessage]:
        async with asyncio.timeout(PATIENCE_S):
            return [await self.messages.get() for _ in range(count)]

    async def bodies(self, count: int) -> list[bytes]:
        """Of the next messages, which are acknowledged."""
        found = await self.take(count)
        for message in found:
            if message.delivery_tag is not None:
                await message.ack()
        return [message.body for message in found]

    async def is_quiet(self) -> bool:
        """Nothing comes."""
        try:
            await asyncio.wait_for(self.messages.get(), QUIET_S)
        except TimeoutError:
            return True
        return False


async def consume(queue: AbstractQueue, **options: Any) -> tuple[Inbox, str]:
    inbox = Inbox()
    return inbox, await queue.consume(inbox.messages.put, **options)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_confirms_counts_and_order(spot: Spot) -> None:
    queue = await spot.declare()
    messages = [aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT) for body in numbers(500)]
    publish = spot.near.default_exchange.publish
    await asyncio.gather(*(publish(message, queue.name, timeout=PATIENCE_S) for message in messages))
    assert await spot.count(queue) == (500, 0)
    inbox, _ = await consume(queue)
    assert await inbox.bodies(500) == numbers(500)
    assert (await spot.count(queue))[1] == 1


async def test_what_has_nowhere_to_go_returns(spot: Spot) -> None:
    with pytest.raises(DeliveryError):
        await spot.near.default_exchange.publish(aio_pika.Message(b""), f"none-{uuid.uuid4().hex}")


async def test_what_is_requeued_comes_again(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, b"once")
    inbox, _ = await consume(queue)
    [first] = await inbox.take()
    assert not first.redelivered
    await first.nack(requeue=True)
    [again] = await inbox.take()
    assert again.redelivered
    await again.reject(requeue=False)
    assert await inbox.is_quiet()
    assert (await spot.count(queue))[0] == 0


async def test_what_a_lost_channel_held_comes_again(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, *numbers(3))
    inbox, _ = await consume(queue)
    assert len(await inbox.take(3)) == 3
    await spot.far.close()
    for body in numbers(3):
        message = await (await spot.near.get_queue(queue.name)).get(timeout=PATIENCE_S)
        assert message is not None
        assert (message.body, message.redelivered) == (body, True)
        await message.ack()


async def test_prefetch(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, *numbers(10))
    await spot.far.set_qos(prefetch_count=3)
    inbox, _ = await consume(queue)
    held = await inbox.take(3)
    assert await inbox.is_quiet()
    await held[0].ack()
    await inbox.take(1)
    assert await inbox.is_quiet()


async def test_a_prefetch_for_the_whole_channel(spot: Spot) -> None:
    """Which RabbitMQ refuses for quorum queues."""
    queue = await spot.declare()
    await spot.publish(queue, *numbers(10))
    await spot.far.set_qos(prefetch_count=4, global_=True)
    one, _ = await consume(queue)
    other, _ = await consume(queue)
    deadline = time.monotonic() + PATIENCE_S
    while one.messages.qsize() + other.messages.qsize() < 4 and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert await asyncio.wait_for(_settles_at(one, other, 4), PATIENCE_S)


async def _settles_at(one: Inbox, other: Inbox, count: int) -> bool:
    """Whether that many have come, and no more within a while."""
    try:
        async with asyncio.timeout(QUIET_S):
            while one.messages.qsize() + other.messages.qsize() <= count:
                await asyncio.sleep(0.01)
    except TimeoutError:
        return one.messages.qsize() + other.messages.qsize() == count
    return False


async def test_get(spot: Spot) -> None:
    queue = await spot.declare()
    with pytest.raises(QueueEmpty):
        await queue.get()
    await spot.publish(queue, *numbers(3))
    first = await queue.get()
    assert first.body == b"0"
    assert first.message_count == 2
    await first.nack(requeue=True)
    again = await queue.get(no_ack=True)
    assert (again.body, again.redelivered) == (b"0", True)
    assert (await spot.count(queue))[0] == 2


async def test_purge_and_delete(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, *numbers(5))
    held = await queue.get()
    purged = await (await spot.near.declare_queue(queue.name, passive=True)).purge()
    assert purged.message_count == 4, "what is held stays"
    await held.nack(requeue=True)
    deleting = await spot.near.connection.channel() if False else spot.near
    with pytest.raises(ChannelPreconditionFailed):
        await deleting.queue_delete(queue.name, if_empty=True)
    deleted = await queue.delete(if_unused=False, if_empty=False)
    assert deleted.message_count == 1
