"""Groups of readers with a stock client, over three nodes: one reads, the others go on when it is gone, whoever is
killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from amqp_broker import RunningCluster, running_cluster

PATIENCE_S = 90
STREAM = {"x-queue-type": "stream"}
MESSAGES = 600


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(3) as made:
        yield made


class Seen:
    """What all readers have got: by offset, for each time that it came, whether it was marked as redelivered."""

    def __init__(self) -> None:
        self.marks: dict[int, list[bool]] = {}
        self._changed = asyncio.Event()

    def add(self, offset: int, is_redelivered: bool) -> None:
        self.marks.setdefault(offset, []).append(is_redelivered)
        self._changed.set()

    async def reaches(self, count: int) -> None:
        """Wait until so many have come."""
        while len(self.marks) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), PATIENCE_S)


class Reader:
    """A member of the group `jobs` at one node."""

    def __init__(self, url: str, seen: Seen) -> None:
        self.heard = 0
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
        offset = message.headers["x-stream-offset"]
        assert isinstance(offset, int)
        assert message.body == b"%d" % offset
        self.heard += 1
        self._seen.add(offset, bool(message.redelivered))
        await message.ack()

    async def stop(self) -> None:
        await self._connection.close()


async def _publish(url: str, first: int, behind: int) -> None:
    async with await aio_pika.connect(url, timeout=PATIENCE_S) as connection:
        channel = await connection.channel()
        for number in range(first, behind):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "log", timeout=PATIENCE_S)


async def test_readers_on_three_nodes_take_over_from_each_other(cluster: RunningCluster) -> None:
    async with await aio_pika.connect(cluster.urls[0], timeout=PATIENCE_S) as connection:
        await (await connection.channel()).declare_queue("log", durable=True, arguments=STREAM)
    seen = Seen()
    readers = [Reader(url, seen) for url in cluster.urls]
    for reader in readers:
        await reader.start()
    await _publish(cluster.urls[1], 0, MESSAGES)
    await seen.reaches(MESSAGES)
    assert [reader.heard for reader in readers] == [MESSAGES, 0, 0], "one reads"

    await readers[0].stop()
    await _publish(cluster.urls[1], MESSAGES, 2 * MESSAGES)
    await seen.reaches(2 * MESSAGES)
    assert [reader.heard for reader in readers] == [MESSAGES, MESSAGES, 0], "nothing comes again after a clean end"

    cluster.node("n2").kill()
    publisher = asyncio.create_task(_publish(cluster.urls[2], 2 * MESSAGES, 3 * MESSAGES))
    await seen.reaches(3 * MESSAGES)
    await publisher
    assert sorted(seen.marks) == list(range(3 * MESSAGES))
    again = [offset for offset, marks in seen.marks.items() if len(marks) > 1]
    assert all(seen.marks[offset][-1] for offset in again), "what comes again is marked"
    await readers[2].stop()
