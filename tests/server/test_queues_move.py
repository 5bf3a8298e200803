"""Classic queues move between the workers of a real node, while clients use them and workers are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from click.testing import CliRunner

import amqp_broker
from amqp_broker.cli.admin.queues import queue as queue_command
from amqp_broker.client.errors import ClientError
from amqp_broker.server.workers_file import read_workers
from amqp_broker.system_client import SystemClient, SystemRequestError
from tests.server.worker_load import (
    CLASSIC,
    LOST,
    Publisher,
    all_get_on,
    declare,
    drain,
    homes_of,
    is_alive,
    process_of,
    stop_all,
    until,
)

WORKERS = ("n1", "n1/1")


def workers_of(url: str) -> list[str]:
    with SystemClient(url) as client:
        return list(client.request("queue.homes")["homes"])


def move(url: str, name: str, home: str) -> str:
    """What came of it."""
    try:
        with SystemClient(url) as client:
            client.request("queue.rehome", vhost="/", name=name, home=home)
    except (SystemRequestError, ClientError, OSError) as error:
        return str(error)
    return ""


async def move_under_load(data_dir: Path) -> None:
    with amqp_broker.running(data_dir, workers=2) as broker:
        await declare(broker.url)
        first, second = workers_of(broker.url)
        publishers = [Publisher(broker.url, name) for name in CLASSIC]
        await all_get_on(publishers, "at the start")
        seen: list[bytes] = []
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            await channel.set_qos(50)
            queue = await channel.get_queue(CLASSIC[0], ensure=False)

            async def take(message: AbstractIncomingMessage) -> None:
                seen.append(message.body)
                with contextlib.suppress(*LOST):
                    await message.ack()

            await queue.consume(take)
            for _ in range(3):
                for name in CLASSIC:
                    home = homes_of(broker.url)[name]
                    said = await asyncio.to_thread(move, broker.url, name, second if home == first else first)
                    assert not said, (name, said)
                await all_get_on(publishers, "since the queues have moved")
            await stop_all(publishers)
            confirmed = set(publishers[0].confirmed)
            await until(lambda: confirmed <= set(seen), "the consumer does not get what was confirmed")
        for each in publishers[1:]:
            await drain(broker.url, each.queue, set(each.confirmed))


def test_queues_move_under_load(tmp_path: Path) -> None:
    asyncio.run(move_under_load(tmp_path / "data"))


async def kill_while_they_move(data_dir: Path, seed: int) -> None:
    chance = random.Random(seed)
    with amqp_broker.running(data_dir, workers=2) as broker:
        await declare(broker.url)
        first, second = workers_of(broker.url)
        publishers = [Publisher(broker.url, name) for name in CLASSIC]
        await all_get_on(publishers, "at the start", 200)
        for number in range(4):
            name = CLASSIC[number % len(CLASSIC)]
            home = homes_of(broker.url)[name]
            moving = asyncio.create_task(
                asyncio.to_thread(move, broker.url, name, second if home == first else first)
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(moving), chance.uniform(0, 0.15))
            worker = number % 2
            before = process_of(data_dir, worker)
            os.kill(before, signal.SIGKILL)
            await until(lambda before=before: not is_alive(before), "it does not die")  # type: ignore[misc]
            await moving
            await all_get_on(publishers, f"since worker {worker} was killed")
        await stop_all(publishers)
        for each in publishers:
            await drain(broker.url, each.queue, set(each.confirmed))


def test_what_was_confirmed_outlives_who_is_killed_in_a_move(tmp_path: Path) -> None:
    asyncio.run(kill_while_they_move(tmp_path / "data", 1))


async def empty_one(data_dir: Path) -> None:
    with amqp_broker.running(data_dir, workers=2, spread_groups=False) as broker:
        await declare(broker.url)
        publishers = [Publisher(broker.url, name) for name in CLASSIC]
        await all_get_on(publishers, "at the start", 50)
        await stop_all(publishers)
        first, second = workers_of(broker.url)
        for name in CLASSIC:
            if homes_of(broker.url)[name] == first:
                assert not await asyncio.to_thread(move, broker.url, name, second)
        done = await asyncio.to_thread(
            CliRunner().invoke, queue_command, ["rebalance", "--classic", "--url", broker.url]
        )
        assert done.exit_code == 0, done.output
        homes = [homes_of(broker.url)[name] for name in CLASSIC]
        assert sorted(homes.count(home) for home in (first, second)) == [2, 2], (homes, done.output)
    assert read_workers(data_dir) == [1]
    with amqp_broker.running(data_dir, workers=1) as broker:
        done = await asyncio.to_thread(
            CliRunner().invoke, queue_command, ["rebalance", "--classic", "--url", broker.url]
        )
        assert done.exit_code == 0, done.output
        await until(lambda: not read_workers(data_dir), "the worker that holds nothing stays")
        assert {homes_of(broker.url)[name] for name in CLASSIC} == {first}
        for each in publishers:
            await drain(broker.url, each.queue, set(each.confirmed))


def test_queues_are_spread_and_a_worker_is_emptied(tmp_path: Path) -> None:
    asyncio.run(empty_one(tmp_path / "data"))
