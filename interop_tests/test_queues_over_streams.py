"""Queues over streams with stock clients: Celery's workers share a stream; aio-pika consumes from three nodes of which
one is killed, and others get what its clients have not acknowledged."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika  # type: ignore[import-untyped]
import pytest
from aio_pika.abc import AbstractIncomingMessage

from amqp_broker import RunningCluster, running_cluster
from interop_tests.celery_app import make_app
from interop_tests.celery_worker import CeleryWorker

PATIENCE_S = 120
STREAM = {"x-queue-type": "stream"}
MESSAGES = 600


def over(stream: str) -> dict[str, str]:
    return {"x-queue-type": "quorum", "x-stream-source": stream, "x-stream-offset": "first"}


@pytest.mark.ours_only("it has no queues over streams")
def test_celery_workers_share_a_stream(url: str, tmp_path: Path) -> None:
    """Two applications, each with a queue of its own over one stream: each runs every task, once."""
    stream = f"tasks-{uuid.uuid4().hex[:8]}"
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().queue_declare(stream, durable=True, arguments=STREAM)
    names = [f"{stream}-{name}" for name in ("one", "two")]
    apps = [make_app(url, name, "quorum", stream=stream) for name in names]
    workers = [
        CeleryWorker(app, url, name, tmp_path, name.rpartition("-")[2], queue_type="quorum", stream=stream)
        for app, name in zip(apps, names, strict=True)
    ]
    try:
        for worker in workers:
            worker.start()
        path = tmp_path / "written"
        tasks = apps[0].tasks
        for number in range(50):
            tasks["interop.append"].delay(str(path), str(number))
        assert tasks["interop.add"].delay(1, 2).get(timeout=PATIENCE_S) == 3
        deadline = time.monotonic() + PATIENCE_S
        while _written(path).total() < 100 and time.monotonic() < deadline:
            assert apps[1].control.inspect([workers[1].name], timeout=PATIENCE_S).active() is not None
        assert _written(path) == {str(number): 2 for number in range(50)}
    finally:
        for worker in workers:
            worker.kill()
        for app in apps:
            app.close()


def _written(path: Path) -> Counter[str]:
    return Counter(path.read_text().split()) if path.exists() else Counter()


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(3) as made:
        yield made


async def test_whoever_is_killed_the_others_get_all(cluster: RunningCluster) -> None:
    """Consumers at all nodes; one node goes with what its client held."""
    acknowledged: Counter[bytes] = Counter()
    everything = asyncio.Event()

    async def take(message: AbstractIncomingMessage) -> None:
        await asyncio.sleep(0)
        await message.ack()
        acknowledged[message.body] += 1
        if len(acknowledged) == MESSAGES:
            everything.set()

    urls = cluster.urls
    async with await aio_pika.connect(urls[0], timeout=PATIENCE_S) as publisher:
        channel = await publisher.channel()
        await channel.declare_queue("log", durable=True, arguments=STREAM)
        await channel.declare_queue("work", durable=True, arguments=over("log"))
        others = [await aio_pika.connect(url, timeout=PATIENCE_S) for url in urls[1:]]
        for connection in others:
            await _consume(connection, take)
        silent = await _consume(others[1], _nothing)
        for number in range(MESSAGES):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "log")
            if number == MESSAGES // 2:
                assert silent is not None
                cluster.node("n3").kill()
        await asyncio.wait_for(everything.wait(), PATIENCE_S)
        await others[0].close()
    assert set(acknowledged) == {b"%d" % number for number in range(MESSAGES)}


async def _nothing(message: AbstractIncomingMessage) -> None:
    """It holds what it was given."""


async def _consume(connection: Any, take: Any) -> Any:
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=20)
    queue = await channel.get_queue("work", ensure=False)
    return await queue.consume(take)
