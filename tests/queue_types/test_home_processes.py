"""Three real nodes and a real client: a classic queue of n2 used through n1, before and after n2 is killed."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError

from amqp_broker.testing.embedded_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.once

COUNT = 1200


async def test_a_queue_of_another_node() -> None:
    cluster = running_cluster(3)
    await asyncio.to_thread(cluster.start)
    try:
        await asyncio.wait_for(use(cluster), 60)
    finally:
        await asyncio.to_thread(cluster.stop)


async def use(cluster: RunningCluster) -> None:
    home = await aio_pika.connect(cluster.node("n2").url)
    await (await home.channel()).declare_queue("q", durable=True)
    client = await aio_pika.connect(cluster.node("n1").url)
    async with client:
        channel = await client.channel()
        await publish(channel, range(COUNT))
        queue = await channel.declare_queue("q", durable=True)
        assert queue.declaration_result.message_count == COUNT
        assert await consume(channel, queue) == list(range(COUNT))
        await home.close()

        await asyncio.to_thread(cluster.node("n2").kill)
        with pytest.raises(DeliveryError):
            await until_refused(channel)
        with pytest.raises(ChannelNotFoundEntity, match="home node 'n2' of durable queue 'q'"):
            await channel.declare_queue("q", durable=True)

        await asyncio.to_thread(cluster.node("n2").start)
        channel = await client.channel()
        await until_accepted(channel)
        queue = await channel.declare_queue("q", durable=True)
        message = await queue.get(timeout=10)
        assert message is not None
        await message.ack()


async def publish(channel: aio_pika.abc.AbstractChannel, numbers: range) -> None:
    """Publish persistent messages, and wait until all are confirmed."""
    for start in range(0, len(numbers), 300):
        sent = [message(number) for number in numbers[start : start + 300]]
        await asyncio.gather(*[channel.default_exchange.publish(each, "q") for each in sent])


def message(number: int) -> aio_pika.Message:
    return aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


async def consume(channel: aio_pika.abc.AbstractChannel, queue: aio_pika.abc.AbstractQueue) -> list[int]:
    """Everything that is in the queue, acknowledged one by one."""
    await channel.set_qos(prefetch_count=50)
    found: list[int] = []
    async with queue.iterator() as messages:
        async for each in messages:
            found.append(int(each.body))
            await each.ack()
            if len(found) == COUNT:
                break
    return found


async def until_refused(channel: aio_pika.abc.AbstractChannel) -> None:
    """The first publishes may still be on their way to a node that is gone: they are refused, too."""
    while True:
        await channel.default_exchange.publish(message(0), "q")


async def until_accepted(channel: aio_pika.abc.AbstractChannel) -> None:
    """Publish until the link to the home is there again."""
    while True:
        try:
            await channel.default_exchange.publish(message(1), "q")
        except DeliveryError:
            continue
        return
