"""What a worker says of its load: once a second, of the second before."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aio_pika

import amqp_broker
from amqp_broker.resources.load_page import LoadPage
from amqp_broker.server.load_report import LoadReport
from tests.server.worker_load import PATIENCE_S, homes_of


def test_it_is_written_once_a_second_and_of_that_second() -> None:
    now, used = 10.0, 5.0
    memory = SimpleNamespace(held_bytes=5117, used_bytes=117, budget_bytes=1000)
    page = LoadPage(2, lambda: now)
    report = LoadReport(page, 1, cast("Any", memory), lambda: 3, lambda: now, lambda: used)
    numbers = []
    for _ in range(20):  # five words a second
        now, used = now + 0.2, used + 0.05
        report.write_if_due()
        found = page.read(1)
        numbers.append(0 if found is None else found.number)
    assert numbers[-1] == 4
    assert found is not None
    assert found[2:] == (250, 5117, 117, 1000, 3)


async def spread_by_load(url: str) -> None:
    """As long as both have as much to do, or it is not said yet, queues are with one and the other in turn."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        heavy = await channel.declare_queue("heavy", arguments={"x-queue-master-locator": "client-local"}, durable=True)
        for _ in range(40):
            message = aio_pika.Message(bytes(1 << 20), delivery_mode=2)
            await channel.default_exchange.publish(message, heavy.name)
        home, elsewhere, deadline = homes_of(url)[heavy.name], 0, time.monotonic() + PATIENCE_S
        while elsewhere < 10:
            assert time.monotonic() < deadline, "queues go to the worker that has more to do"
            name = f"q{len(homes_of(url))}"
            await channel.declare_queue(name, durable=True)
            elsewhere = 0 if homes_of(url)[name] == home else elsewhere + 1


def test_queues_go_to_the_worker_that_has_less_to_do(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, node_name="n1", steering="off") as broker:
        asyncio.run(spread_by_load(broker.url))


def test_a_thousand_queues_of_one_connection_are_spread(tmp_path: Path) -> None:
    async def declare(url: str) -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            for number in range(300):
                await channel.declare_queue(f"q{number}", durable=True)

    with amqp_broker.running(tmp_path, workers=2, node_name="n1") as broker:
        asyncio.run(declare(broker.url))
        homes = list(homes_of(broker.url).values())
    assert min(homes.count("n1"), homes.count("n1/1")) > 75
