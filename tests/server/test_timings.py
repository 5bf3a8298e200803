"""Timings of the stations of a message, where the setting asks for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aio_pika
import pytest

import amqp_broker
from amqp_broker.system_client import SystemClient
from amqp_broker.turn.timings import KEPT, STATIONS, Timings

MESSAGES = 50


def test_percentiles_are_of_the_newest_values_and_counts_of_all() -> None:
    now = 5.0
    timings = Timings(lambda: now)
    for number in range(KEPT + 100):
        timings.record("sync", 9.0 if number == 0 else 0.001 * (number % 100))
    timings.since("turn", 4.5)
    assert timings.statistics() == {
        "turn": {"count": 1, "p50_ms": 500.0, "p99_ms": 500.0, "longest_ms": 500.0},
        "sync": {"count": KEPT + 100, "p50_ms": 50.0, "p99_ms": 99.0, "longest_ms": 9000.0},
    }


async def publish(url: str, queue: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
        for number in range(MESSAGES):
            await channel.default_exchange.publish(aio_pika.Message(bytes([number]), delivery_mode=2), queue)


def timings_of(url: str) -> dict[str, Any]:
    with SystemClient(url) as client:
        return dict(client.request("statistics")["statistics"]["timings"])


def test_each_node_of_a_cluster_tells_its_stations_whoever_publishes(tmp_path: Path) -> None:
    with amqp_broker.running_cluster(3, tmp_path / "nodes", timings=True) as cluster:
        for node in cluster.nodes:  # one of them leads, the others send what is published to it
            asyncio.run(publish(node.url, "timed"))
        found = [timings_of(node.url) for node in cluster.nodes]
    assert set().union(*found) <= set(STATIONS)
    for each in found:
        assert {"turn", "sync", "append", "timer"} <= set(each)
        for station in each.values():
            assert 0 <= station["p50_ms"] <= station["p99_ms"] <= station["longest_ms"] < 60_000
    assert sum(each.get("commit", {"count": 0})["count"] for each in found) >= 3 * MESSAGES


@pytest.mark.parametrize("is_on", [False, True])
def test_nothing_is_measured_unless_it_is_asked_for(is_on: bool) -> None:
    with amqp_broker.running(timings=is_on) as broker:
        asyncio.run(publish(broker.url, "alone"))
        found = timings_of(broker.url)
    assert bool(found) == is_on
