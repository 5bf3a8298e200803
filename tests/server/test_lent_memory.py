"""Memory of messages goes to the worker that needs it, before that pages, and comes back; the sum is the node's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import aio_pika
from pamqp.common import FieldTable

import amqp_broker
from amqp_broker.client.errors import ClientError
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.settings.workers import worker_number
from amqp_broker.system_client import SystemClient
from queues.pager import TIGHT_PERCENT
from tests.server.worker_load import homes_of, process_of, until

MIB = 1 << 20
BUDGET = 64 * MIB
EVEN = BUDGET // 2
#: So many MiB fit into that, and nearly no more.
NEARLY_ALL = EVEN * 95 // 100 * TIGHT_PERCENT // 100 // MIB + 1
HERE: FieldTable = {"x-queue-master-locator": "client-local"}


def workers_of(url: str) -> list[JsonObject]:
    """What each counts, as one after the other says: never more than the node has."""
    with SystemClient(url) as client:
        found = client.request("statistics")["workers"]
        facts = client.request("node")
    assert facts["mem_limit"] == BUDGET
    return list(found)


def budgets_of(url: str) -> list[int]:
    return [each.get("memory_budget", 0) for each in workers_of(url)]


def are_even(url: str) -> bool:
    with contextlib.suppress(ClientError, OSError):  # who is asked may just have died
        return min(budgets_of(url)) > 0.97 * EVEN
    return False


async def publish(channel: aio_pika.abc.AbstractChannel, queue: str, mib: int) -> None:
    for _ in range(mib):
        await channel.default_exchange.publish(aio_pika.Message(bytes(MIB)), queue)


async def fill_one(url: str) -> None:
    await until(lambda: are_even(url), "what nobody needs is not divided evenly")
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("full", durable=True, arguments=HERE)
        own = worker_number(homes_of(url)["full"])
        await publish(channel, "full", NEARLY_ALL)
        await until(lambda: budgets_of(url)[own] > 1.2 * EVEN, "it has no more than the others")
        await publish(channel, "full", 4)
        counted = workers_of(url)
        assert counted[own]["memory_used"] > EVEN * TIGHT_PERCENT // 100 + 2 * MIB
        assert counted[own]["pages_stored"] == 0, "it pages though there is memory"
        assert counted[1 - own]["memory_budget"] >= BUDGET // 4
        assert sum(each["memory_budget"] for each in counted) <= BUDGET
        # What it cannot have goes to the disk.
        await publish(channel, "full", 40)
        await until(lambda: workers_of(url)[own]["pages_stored"] > 0, "it takes more than there is")
        queue = await channel.get_queue("full")
        await queue.purge()
        await until(lambda: are_even(url), "it does not come back")


def test_one_worker_has_more_than_its_part_while_the_others_are_empty(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, node_name="n1", memory_budget="64MiB", steering="off") as broker:
        asyncio.run(fill_one(broker.url))


async def kill_who_has_it(data_dir: Path, url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("full", durable=True, arguments=HERE)
        own = worker_number(homes_of(url)["full"])
        await publish(channel, "full", NEARLY_ALL)
        await until(lambda: budgets_of(url)[own] > 1.2 * EVEN, "it has no more than the others")
        before = process_of(data_dir, own)
        os.kill(before, signal.SIGKILL)
    await until(lambda: are_even(url), "its memory is lost with it")
    assert process_of(data_dir, own) != before


def test_what_a_worker_had_that_died_is_lent_again(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, node_name="n1", memory_budget="64MiB", steering="off") as broker:
        asyncio.run(kill_who_has_it(tmp_path, broker.url))
