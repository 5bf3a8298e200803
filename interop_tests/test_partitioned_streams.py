"""Streams with partitions and stock clients: keys, members at three nodes that share them, one of which is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aio_pika
import pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from amqp_broker import RunningCluster, running_cluster

PATIENCE_S = 90
PARTITIONS = 6
STREAM = {"x-queue-type": "stream", "x-stream-partitions": PARTITIONS}
MESSAGES = 600
KEYS = 30


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(3) as made:
        yield made


class Seen:
    """What all members have got: by partition and offset, the key and the number in it, in the order in which they
    came; whether what came again was marked."""

    def __init__(self) -> None:
        self.marks: dict[tuple[int, int], list[bool]] = {}
        self.by_key: dict[str, list[int]] = {}
        self.changed = asyncio.Event()

    def add(self, message: AbstractIncomingMessage) -> None:
        place = message.headers["x-stream-partition"], message.headers["x-stream-offset"]
        assert isinstance(place[0], int)
        assert isinstance(place[1], int)
        key, number = message.body.decode().split(":")
        if place not in self.marks:
            self.by_key.setdefault(key, []).append(int(number))
        self.marks.setdefault((place[0], place[1]), []).append(bool(message.redelivered))
        self.changed.set()

    async def reaches(self, count: int) -> None:
        """Wait until so many have come."""
        while len(self.marks) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE_S)


class Member:
    """Of the group `jobs`, at one node. partitions: of what came to it."""

    def __init__(self, url: str, seen: Seen) -> None:
        self.partitions: set[int] = set()
        self._url = url
        self._seen = seen
        self._connection: Any = None

    async def start(self) -> None:
        self._connection = await aio_pika.connect(self._url, timeout=PATIENCE_S)
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=20)
        queue = await channel.get_queue("log", ensure=False)
        await queue.consume(self._take, arguments={"x-stream-group": "jobs", "x-stream-offset": "first"})

    async def _take(self, message: AbstractIncomingMessage) -> None:
        partition = message.headers["x-stream-partition"]
        assert isinstance(partition, int)
        self.partitions.add(partition)
        self._seen.add(message)
        await message.ack()

    async def stop(self) -> None:
        await self._connection.close()


async def _publish(url: str, first: int, behind: int) -> None:
    async with await aio_pika.connect(url, timeout=PATIENCE_S) as connection:
        channel = await connection.channel()
        exchange = await channel.get_exchange("amq.topic")
        for number in range(first, behind):
            key = f"key-{number % KEYS}"
            await exchange.publish(aio_pika.Message(f"{key}:{number}".encode()), key, timeout=PATIENCE_S)


async def test_members_at_three_nodes_share_the_partitions(cluster: RunningCluster) -> None:
    async with await aio_pika.connect(cluster.urls[0], timeout=PATIENCE_S) as connection:
        queue = await (await connection.channel()).declare_queue("log", durable=True, arguments=STREAM)
        await queue.bind("amq.topic", "#")
    seen = Seen()
    members = [Member(url, seen) for url in cluster.urls]
    for member in members:
        await member.start()
    await _publish(cluster.urls[1], 0, MESSAGES)
    await seen.reaches(MESSAGES)
    assert [len(member.partitions) for member in members] == [2, 2, 2], "two each"
    assert all(len(marks) == 1 for marks in seen.marks.values())

    for member in members:
        member.partitions.clear()
    cluster.node("n2").kill()
    publisher = asyncio.create_task(_publish(cluster.urls[2], MESSAGES, 2 * MESSAGES))
    await seen.reaches(2 * MESSAGES)
    await publisher
    assert sorted(len(member.partitions) for member in (members[0], members[2])) == [3, 3]
    again = [marks for marks in seen.marks.values() if len(marks) > 1]
    assert all(marks[-1] for marks in again), "what comes again is marked"
    assert sorted(number for numbers in seen.by_key.values() for number in numbers) == list(range(2 * MESSAGES))
    assert all(numbers == sorted(numbers) for numbers in seen.by_key.values()), "each key in its order"
    for member in (members[0], members[2]):
        await member.stop()


def test_with_pika(cluster: RunningCluster) -> None:
    """Declared at one node, published to at another by the header's key, read at a third, each partition alone too."""
    connections = [pika.BlockingConnection(pika.URLParameters(url)) for url in cluster.urls]
    channels = [connection.channel() for connection in connections]
    channels[0].queue_declare("orders", durable=True, arguments=STREAM)
    channels[1].confirm_delivery()
    for number in range(60):
        properties = pika.BasicProperties(headers={"x-stream-key": f"customer {number % 7}"})
        channels[1].basic_publish("", "orders", b"%d" % number, properties, mandatory=True)
    channels[2].basic_qos(prefetch_count=100)
    places: dict[int, tuple[int, int]] = {}
    arguments = {"x-stream-group": "billing", "x-stream-offset": "first"}
    for method, found, body in channels[2].consume("orders", arguments=arguments, inactivity_timeout=PATIENCE_S):
        assert method is not None, "nothing came"
        places[int(body)] = found.headers["x-stream-partition"], found.headers["x-stream-offset"]
        channels[2].basic_ack(method.delivery_tag)
        if len(places) == 60:
            break
    channels[2].cancel()
    for customer in range(7):
        assert len({places[number][0] for number in range(customer, 60, 7)}) == 1
    partition, _ = places[0]
    count = sum(place[0] == partition for place in places.values())
    alone = []
    for method, _, body in channels[2].consume(
        f"orders-{partition}", arguments={"x-stream-offset": "first"}, inactivity_timeout=PATIENCE_S
    ):
        assert method is not None, "nothing came"
        alone.append(int(body))
        if len(alone) == count:
            break
    assert alone == sorted(number for number, place in places.items() if place[0] == partition)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is a partition of 'orders'"):
        channels[0].queue_delete(f"orders-{partition}")
    connections[0].channel().queue_delete("orders")
    for connection in connections:
        connection.close()
