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

PATIENCE_S = 60
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
    near_url: str

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


    async def until(self, queue: AbstractQueue, messages: int) -> None:
        """Wait until so many messages are ready: nobody is told when what was acknowledged or requeued is so."""
        async with asyncio.timeout(PATIENCE_S):
            found = -1
            while found != messages:
                found, _ = await self.count(queue)


@pytest.fixture(params=[(kind, way) for kind in KINDS for way in WAYS], ids=lambda each: f"{each[0]}-{each[1]}")
async def spot(request: pytest.FixtureRequest, cluster: RunningCluster) -> AsyncIterator[Spot]:
    kind, (near, far) = request.param
    connections = [await aio_pika.connect(cluster.urls[index]) for index in (near, far, 0)]
    channels = [await each.channel(on_return_raises=True) for each in connections]
    yield Spot(kind, *channels, cluster.urls[near])
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
    await spot.until(queue, 0)


async def test_what_a_lost_channel_held_comes_again(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, *numbers(3))
    inbox, _ = await consume(queue)
    assert len(await inbox.take(3)) == 3
    await spot.far.close()
    for body in numbers(3):
        message = None
        async with asyncio.timeout(PATIENCE_S):  # another node hears of it a little after the client does
            while message is None:
                message = await (await spot.near.get_queue(queue.name)).get(fail=False)
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
    inbox, _ = await consume(queue)
    await queue.consume(inbox.messages.put)
    held = await inbox.take(4)
    assert await inbox.is_quiet()
    await held[0].ack()
    await inbox.take(1)
    assert await inbox.is_quiet()


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
    await spot.until(queue, 2)


async def test_purge_and_delete(spot: Spot) -> None:
    queue = await spot.declare()
    await spot.publish(queue, *numbers(5))
    held = await queue.get()
    purged = await (await spot.near.declare_queue(queue.name, passive=True)).purge()
    assert purged.message_count == 4, "what is held stays"
    await held.nack(requeue=True)
    await spot.until(queue, 1)
    with pytest.raises(ChannelPreconditionFailed):
        await spot.near.queue_delete(queue.name, if_empty=True)
    deleted = await queue.delete(if_unused=False, if_empty=False)
    assert deleted.message_count == 1


async def test_messages_expire_and_go_where_dead_letters_go(spot: Spot) -> None:
    dead = await spot.declare()
    queue = await spot.declare(
        message_ttl=300, dead_letter_exchange="", dead_letter_routing_key=dead.name
    )
    await spot.publish(queue, b"by the queue")
    await spot.publish(queue, b"by itself", expiration=0.1)
    inbox, _ = await consume(dead)
    found = await inbox.take(2)
    assert sorted(message.body for message in found) == [b"by itself", b"by the queue"]
    for message in found:
        [death] = message.headers["x-death"]  # type: ignore[misc,union-attr]
        assert (death["reason"], death["queue"], death["count"]) == ("expired", queue.name, 1)  # type: ignore[index,call-overload]
        assert message.expiration is None
    assert await spot.count(queue) == (0, 0)


async def test_what_is_rejected_goes_where_dead_letters_go(spot: Spot) -> None:
    """Through an exchange, and round again: the count rises."""
    exchange = await spot.home.declare_exchange(f"dead-{uuid.uuid4().hex}", "fanout", durable=True)
    dead = await spot.declare()
    await dead.bind(exchange.name)
    queue = await spot.declare(dead_letter_exchange=exchange.name)
    inbox, _ = await consume(queue)
    box, _ = await consume(dead)
    headers: Any = {"kept": "so"}
    for count in (1, 2):
        await spot.publish(queue, b"refused", headers=headers)
        [message] = await inbox.take()
        await message.reject(requeue=False)
        [letter] = await box.take()
        await letter.ack()
        headers = letter.headers
        assert letter.headers["kept"] == "so"
        assert letter.headers["x-first-death-queue"] == queue.name
        [death] = letter.headers["x-death"]  # type: ignore[misc]
        assert (death["reason"], death["count"]) == ("rejected", count)  # type: ignore[index,call-overload]


async def test_limits_of_length(spot: Spot) -> None:
    queue = await spot.declare(max_length=3)
    await spot.publish(queue, *numbers(5))
    inbox, _ = await consume(queue)
    assert await inbox.bodies(3) == [b"2", b"3", b"4"]
    full = await spot.declare(max_length=2, overflow="reject-publish")
    await spot.publish(full, *numbers(2))
    with pytest.raises(DeliveryError):
        await spot.publish(full, b"too many")
    assert (await spot.count(full))[0] == 2


async def test_priorities(spot: Spot) -> None:
    queue = await spot.declare(max_priority=5)
    for priority in (1, 5, 3, 5, 0):
        await spot.publish(queue, b"%d" % priority, priority=priority)
    inbox, _ = await consume(queue)
    assert await inbox.bodies(5) == [b"5", b"5", b"3", b"1", b"0"]


async def test_a_consumer_of_higher_priority_is_served_first(spot: Spot) -> None:
    queue = await spot.declare()
    low, _ = await consume(queue)
    high, _ = await consume(await spot.near.declare_queue(queue.name, passive=True), arguments={"x-priority": 5})
    await spot.publish(queue, *numbers(5))
    assert await high.bodies(5) == numbers(5)
    assert await low.is_quiet()


async def test_one_active_consumer(spot: Spot) -> None:
    queue = await spot.declare(single_active_consumer=True)
    there = await spot.near.declare_queue(queue.name, passive=True)
    first, tag = await consume(queue)
    second, _ = await consume(there)
    await spot.publish(queue, b"1", b"2")
    assert await first.bodies(2) == [b"1", b"2"]
    await queue.cancel(tag)
    await spot.publish(queue, b"3")
    assert await second.bodies(1) == [b"3"]
    assert await first.is_quiet()


async def test_a_limit_of_deliveries(spot: Spot) -> None:
    dead = await spot.declare()
    queue = await spot.declare(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=dead.name)
    await spot.publish(queue, b"poison")
    inbox, _ = await consume(queue)
    counts = []
    for _ in range(3):
        [message] = await inbox.take()
        counts.append(message.headers.get("x-delivery-count"))
        await message.reject(requeue=True)
    assert counts == [None, 1, 2]
    box, _ = await consume(dead)
    [letter] = await box.take()
    [death] = letter.headers["x-death"]  # type: ignore[misc]
    assert death["reason"] == "delivery_limit"  # type: ignore[index,call-overload]


async def test_delayed_messages(spot: Spot) -> None:
    """In the order in which they are due; also for who is connected elsewhere."""
    queue = await spot.declare()
    exchange = await spot.home.declare_exchange(
        f"later-{uuid.uuid4().hex}", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    await queue.bind(exchange.name, queue.name)
    inbox, _ = await consume(queue)
    began = time.monotonic()
    for delay in (700, 400):
        await spot.publish(queue, b"%d" % delay, exchange=exchange.name, headers={"x-delay": delay})
    assert await inbox.bodies(2) == [b"400", b"700"]
    assert time.monotonic() - began > 0.69


async def test_who_consumes_hears_of_the_end_of_the_queue(spot: Spot) -> None:
    queue = await spot.declare()
    gone = asyncio.Event()
    underlay = await spot.far.get_underlay_channel()
    underlay.on_consumer_cancel_callbacks.add(lambda _: gone.set())
    await consume(queue)
    await spot.near.queue_delete(queue.name)
    async with asyncio.timeout(PATIENCE_S):
        await gone.wait()


async def test_a_transaction(spot: Spot) -> None:
    """Publishes and acknowledgements take effect with the commit."""
    queue = await spot.declare()
    await spot.publish(queue, b"old")
    connection = await aio_pika.connect(spot.near_url)
    async with connection, await connection.channel(publisher_confirms=False) as channel:
        there = await channel.declare_queue(queue.name, passive=True)
        transaction = channel.transaction()
        await transaction.select()
        old = await there.get()
        await old.ack()
        await channel.default_exchange.publish(aio_pika.Message(b"new", delivery_mode=2), queue.name)
        assert await spot.count(queue) == (0, 0)
        await transaction.commit()
    assert (await queue.get(timeout=PATIENCE_S)).body == b"new"


async def test_an_exclusive_queue_is_its_connections_only(spot: Spot) -> None:
    mine = await spot.near.declare_queue(exclusive=True)
    await spot.near.default_exchange.publish(aio_pika.Message(b"to me"), mine.name)
    assert (await mine.get(timeout=PATIENCE_S)).body == b"to me"
    with pytest.raises(ChannelLockedResource):
        await spot.far.declare_queue(mine.name, passive=True)


async def test_what_a_quorum_queue_knows_already_is_not_there_twice(cluster: RunningCluster) -> None:
    """By message id, and by the number that its producer gave it, whichever node it comes through."""
    name = f"once-{uuid.uuid4().hex[:12]}"
    for url in cluster.urls:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(
                name, durable=True, arguments={"x-queue-type": "quorum", "x-message-deduplication": True}
            )
            for headers, message_id in (({}, "the same"), ({"x-producer-id": "p", "x-producer-sequence": 7}, None)):
                message = aio_pika.Message(b"", delivery_mode=2, message_id=message_id, headers=dict(headers))
                await channel.default_exchange.publish(message, name, timeout=PATIENCE_S)
            assert (await channel.declare_queue(name, passive=True)).declaration_result.message_count == 2
            assert queue.name == name
