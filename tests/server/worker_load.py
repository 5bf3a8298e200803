"""Load on a node of several processes: publishers that go on whatever dies, and a reader of what they were told is
safe."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aiormq.exceptions import AMQPError

from amqp_broker.system_client import SystemClient

PATIENCE_S = 120.0
LOOK_S = 0.05
#: Between two messages of a publisher: what is looked at is how the broker gets on, and it shares the processors.
REST_S = 0.03
#: Confirms by which is seen that a publisher gets on.
MORE = 10
CLASSIC = ("c0", "c1", "c2", "c3")
LASTING = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}
LOST = (AMQPError, ConnectionError, asyncio.TimeoutError, aio_pika.exceptions.AMQPException, RuntimeError)


def process_of(data_dir: Path, worker: int) -> int:
    """The number of a worker's process, which has its folder."""
    folder = data_dir / "workers" / str(worker) if worker else data_dir
    return int((folder / "LOCK").read_text())


def is_another(data_dir: Path, worker: int, before: int) -> bool:
    """Whether a worker is another process than before, which has its folder; between the two nobody may have it."""
    with contextlib.suppress(OSError, ValueError):
        return process_of(data_dir, worker) != before
    return False


async def look_again(changed: asyncio.Event | None = None) -> None:
    """Wait for what changes something, if that can say so; other processes are looked at now and then."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for((changed or asyncio.Event()).wait(), LOOK_S)
    if changed is not None:
        changed.clear()


async def rest() -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), REST_S)


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        await look_again()


def is_alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def homes_of(url: str) -> dict[str, str]:
    """Where queues live, as whatever worker is asked says."""
    with SystemClient(url) as client:
        return dict(client.request("objects.page", kind="queues", vhost="/", columns=["name", "node"])["rows"])


class Publisher:
    """Publishes to one queue, over connection after connection. confirmed: what the broker has taken."""

    def __init__(self, url: str, queue: str) -> None:
        self.url = url
        self.queue = queue
        self.confirmed: list[bytes] = []
        self._is_over = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        bodies = (f"{self.queue} {number}".encode() for number in count())
        while not self._is_over:
            with contextlib.suppress(*LOST):
                async with await aio_pika.connect(self.url, timeout=5) as connection:
                    channel = await connection.channel()
                    while not self._is_over:
                        message = aio_pika.Message(next(bodies), delivery_mode=2)
                        if await channel.default_exchange.publish(message, self.queue, timeout=5):
                            self.confirmed.append(message.body)
                        await rest()
            if (task := asyncio.current_task()) is not None and task.cancelling():
                return  # the client library has made an error of it
            await look_again()

    async def gets_on(self, why: str, more: int = MORE) -> None:
        """It gets so many more confirms."""
        wanted = len(self.confirmed) + more
        await until(lambda: len(self.confirmed) >= wanted, f"{self.queue}: no confirms {why}")

    async def stop(self) -> None:
        """It may be just connecting, and what cancels that may be lost on the way."""
        self._is_over = True
        await asyncio.wait([self._task])


async def all_get_on(publishers: Iterable[Publisher], why: str, more: int = MORE) -> None:
    """Each gets so many more confirms. They are waited for together: whoever waits for one after the other has all of
    them publish meanwhile, and takes the processors from those that are to get on."""
    await asyncio.gather(*(each.gets_on(why, more) for each in publishers))


async def stop_all(publishers: Iterable[Publisher]) -> None:
    """None of them begins anything new while another is waited for."""
    await asyncio.gather(*(each.stop() for each in publishers))


async def declare(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        for name in CLASSIC:
            await channel.declare_queue(name, durable=True)
        await channel.declare_queue("lasting", durable=True, arguments=LASTING)
        await channel.declare_queue("stream", durable=True, arguments=STREAM)


async def declare_lasting(url: str, arguments: dict[str, str], count: int = 4) -> list[str]:
    """Queues or streams, in as many groups as there are."""
    names = [f"{arguments['x-queue-type']}{number}" for number in range(count)]
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        for name in names:
            placed = {**arguments, "x-queue-leader-locator": "balanced"}
            await channel.declare_queue(name, durable=True, arguments=placed)
    return names


async def drain(url: str, name: str, confirmed: set[bytes]) -> None:
    """Read a queue until everything that was confirmed has come."""
    arguments = {"x-stream-offset": "first"} if name.startswith("stream") else None
    deadline, found, came = time.monotonic() + PATIENCE_S, set[bytes](), asyncio.Event()
    while not confirmed <= found:
        assert time.monotonic() < deadline, f"{name}: {len(confirmed - found)} of {len(confirmed)} are lost"
        with contextlib.suppress(*LOST):
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel()
                await channel.set_qos(100)
                queue = await channel.get_queue(name, ensure=False)

                async def take(message: AbstractIncomingMessage) -> None:
                    found.add(message.body)
                    came.set()
                    await message.ack()

                await queue.consume(take, arguments=arguments)
                idle_from, seen = time.monotonic(), -1
                while not confirmed <= found and time.monotonic() - idle_from < 5:
                    if len(found) != seen:
                        idle_from, seen = time.monotonic(), len(found)
                    await look_again(came)
