"""Connections of stock clients move to the worker of their queue, and nothing that was confirmed is lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import time
from itertools import count
from pathlib import Path

import aio_pika
import pika
import pytest
import trustme
from aio_pika.abc import AbstractIncomingMessage

import amqp_broker
from amqp_broker.system_client import SystemClient
from tests.server.worker_load import LASTING, LOST, PATIENCE_S, drain, homes_of, is_alive, look_again, process_of, until

QUEUES = [f"q{number}" for number in range(8)]
#: So many times all queues are flooded, until a connection moves on the way.
MOST_FLOODS = 5
#: Messages of a flood.
FLOOD = 1500


async def connect(url: str, name: str, **settings: object) -> aio_pika.abc.AbstractConnection:
    return await aio_pika.connect(url, client_properties={"connection_name": name}, **settings)  # type: ignore[arg-type]


async def declare(url: str, arguments: dict[str, str] | None = None) -> dict[str, str]:
    """The queues, and where each lives, or is led."""
    async with await connect(url, "declares") as connection:
        channel = await connection.channel()
        for name in QUEUES:
            await channel.declare_queue(name, durable=True, arguments=arguments)
    homes = homes_of(url)
    assert len({homes[name] for name in QUEUES}) == 2, homes
    return homes


def places_of(url: str) -> dict[str, str]:
    """The workers that have connections, by the names of these."""
    with SystemClient(url) as client:
        rows = client.request("objects.page", kind="connections", columns=["user_provided_name", "node"])["rows"]
        return dict(rows)


def moves_of(url: str) -> int:
    """So far, of all workers: totals, which are of up to five seconds ago, would not know of the last ones."""
    with SystemClient(url) as client:
        return sum(int(each["connection_moves"]) for each in client.request("statistics")["workers"])


async def go_home(url: str, arguments: dict[str, str] | None) -> None:
    await declare(url, arguments)
    consumers = {name: await connect(url, f"consumes {name}") for name in QUEUES}
    publishers = {name: await connect(url, f"publishes {name}") for name in QUEUES}
    heard: dict[str, list[bytes]] = {name: [] for name in QUEUES}
    came = asyncio.Event()
    for name, connection in consumers.items():
        channel = await connection.channel()
        await channel.set_qos(10)
        queue = await channel.get_queue(name, ensure=False)

        async def take(message: aio_pika.abc.AbstractIncomingMessage, name: str = name) -> None:
            heard[name].append(message.body)
            came.set()
            await message.ack()

        await queue.consume(take)
    bodies = [b"%d" % number for number in range(120)]
    channels = {
        name: await connection.channel(publisher_confirms=number % 2 == 0)
        for number, (name, connection) in enumerate(publishers.items())
    }
    deadline = time.monotonic() + PATIENCE_S
    rounds, away = 0, list(QUEUES)
    while away:  # one that is busy stays until it is used again, and groups may be led by others meanwhile
        assert time.monotonic() < deadline, f"{away} are not where their queues are"
        rounds += 1
        for number, (name, channel) in enumerate(channels.items()):
            for body in bodies:
                assert await channel.default_exchange.publish(aio_pika.Message(body), name) or number % 2
        wanted = rounds * len(bodies)
        await until(lambda wanted=wanted: all(len(each) == wanted for each in heard.values()), "messages are lost")  # type: ignore[misc]
        assert all(each == rounds * bodies for each in heard.values())
        places, homes = places_of(url), homes_of(url)
        kinds = ("consumes", "publishes")
        away = [name for name in QUEUES for kind in kinds if places[f"{kind} {name}"] != homes[name]]
    for connection in (*consumers.values(), *publishers.values()):
        await connection.close()


@pytest.mark.parametrize("arguments", [None, LASTING], ids=["classic", "quorum"])
def test_consumers_and_publishers_end_up_where_their_queues_are(arguments: dict[str, str] | None) -> None:
    with amqp_broker.running(workers=2, spread_groups=True) as broker:
        asyncio.run(go_home(broker.url, arguments))
        assert moves_of(broker.url) > 0
        assert "goes on at" in broker.logs


def test_nobody_moves_where_steering_is_off() -> None:
    async def settle(message: AbstractIncomingMessage) -> None:
        await message.ack()

    async def stay(url: str) -> None:
        homes = await declare(url)
        connections = [await connect(url, f"{number}") for number in range(6)]
        before = places_of(url)
        for connection in connections:
            channel = await connection.channel()
            for name in homes:
                await (await channel.get_queue(name, ensure=False)).consume(settle)
        after = places_of(url)
        assert {name: after[name] for name in map(str, range(6))} == {name: before[name] for name in map(str, range(6))}
        for connection in connections:
            await connection.close()

    with amqp_broker.running(workers=2, steering="off") as broker:
        asyncio.run(stay(broker.url))
        assert moves_of(broker.url) == 0


CROWD = 1200


async def arrive_at_once(url: str) -> None:
    """As after an outage: all consume from the same queue at the same moment."""
    async with await connect(url, "declares") as connection:
        await (await connection.channel()).declare_queue("popular", durable=True)
    crowd: list[aio_pika.abc.AbstractConnection] = []
    while len(crowd) < CROWD:
        crowd += await asyncio.gather(*(aio_pika.connect(url, timeout=PATIENCE_S) for _ in range(50)))
    lost: list[object] = []
    channels = [await connection.channel() for connection in crowd]
    queues = [await channel.get_queue("popular", ensure=False) for channel in channels]

    async def settle(message: AbstractIncomingMessage) -> None:
        await message.ack()

    for connection in crowd:
        connection.close_callbacks.add(lambda *said: lost.append(said))
    outcomes = await asyncio.gather(*(queue.consume(settle) for queue in queues), return_exceptions=True)
    assert [each for each in outcomes if isinstance(each, BaseException)] == []
    async with await connect(url, "looks") as connection:
        found = await (await connection.channel()).declare_queue("popular", passive=True)
    assert (len(lost), found.declaration_result.consumer_count) == (0, CROWD)
    for connection in crowd:
        connection.close_callbacks.clear()
    await asyncio.gather(*(connection.close() for connection in crowd), return_exceptions=True)


def test_of_a_crowd_that_consumes_from_one_queue_at_once_nobody_is_lost() -> None:
    with amqp_broker.running(workers=4) as broker:
        asyncio.run(arrive_at_once(broker.url))
        moved = moves_of(broker.url)
        assert moved > CROWD // 2, "most come to the queue"
        assert "is lost" not in broker.logs


def flood(url: str, queue: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for number in range(FLOOD):
            channel.basic_publish("", queue, b"%d " % number + bytes(number * 7919 % 9000))


def hear_a_flood(url: str, queue: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        came = channel.consume(queue, auto_ack=True, inactivity_timeout=60)
        numbers = [int(body.split()[0]) for _, (_, _, body) in zip(range(FLOOD), came, strict=False)]
        assert numbers == list(range(FLOOD))


def test_a_flood_without_confirms_keeps_its_order() -> None:
    """What is under way when a connection moves: much, of all sizes, in all stages. A connection is held for some
    milliseconds, in which a busy machine may not get to what it waits for: it stays then, and others are to move."""
    with amqp_broker.running(workers=2) as broker:
        homes = asyncio.run(declare(broker.url))
        for _ in range(MOST_FLOODS):
            moved_before = moves_of(broker.url)
            for name in homes:
                flood(broker.url, name)
            has_moved = moves_of(broker.url) > moved_before
            for name in homes:
                hear_a_flood(broker.url, name)
            if has_moved:
                return
        pytest.fail(f"no connection of {MOST_FLOODS * len(homes)} has moved")


class Restless:
    """Publishes a few messages with confirms over one connection after another, each of which moves if it has to."""

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
                    for _ in range(45):
                        message = aio_pika.Message(next(bodies), delivery_mode=2)
                        if await channel.default_exchange.publish(message, self.queue, timeout=5):
                            self.confirmed.append(message.body)
                        if self._is_over:
                            break
            await look_again()

    async def gets_on(self, more: int = 60) -> None:
        wanted = len(self.confirmed) + more
        await until(lambda: len(self.confirmed) >= wanted, f"{self.queue}: no confirms")

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.wait([self._task])


async def die_while_moving(data_dir: Path, arguments: dict[str, str] | None) -> None:
    with amqp_broker.running(data_dir, workers=2, spread_groups=True) as broker:
        await declare(broker.url, arguments)
        publishers = [Restless(broker.url, name) for name in QUEUES[:4]]
        for worker in (1, 0, 1):
            await asyncio.gather(*(each.gets_on() for each in publishers))
            before = process_of(data_dir, worker)
            os.kill(before, signal.SIGKILL)
            await until(lambda before=before: not is_alive(before), "it does not die")  # type: ignore[misc]
        await asyncio.gather(*(each.gets_on() for each in publishers))
        await asyncio.gather(*(each.stop() for each in publishers))
        assert "goes on at" in broker.logs
        for each in publishers:
            await drain(broker.url, each.queue, set(each.confirmed))


@pytest.mark.parametrize("arguments", [None, LASTING], ids=["classic", "quorum"])
def test_what_was_confirmed_outlives_workers_that_die_while_connections_move(
    tmp_path: Path, arguments: dict[str, str] | None
) -> None:
    asyncio.run(die_while_moving(tmp_path / "data", arguments))


def test_over_tls_connections_stay_and_are_served(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    leaf.private_key_and_cert_chain_pem.write_to_path(tmp_path / "leaf.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    async def use(url: str) -> None:
        homes = await declare(url)
        secure = url.replace("amqp://", "amqps://").rpartition(":")[0] + f":{port}/"
        for name in homes:
            async with await connect(secure, f"secure {name}", ssl_context=context) as connection:
                before = places_of(url)[f"secure {name}"]
                channel = await connection.channel()
                queue = await channel.get_queue(name, ensure=False)
                assert await channel.default_exchange.publish(aio_pika.Message(b"secret"), name)
                taken = asyncio.Event()

                async def take(message: aio_pika.abc.AbstractIncomingMessage, taken: asyncio.Event = taken) -> None:
                    await message.ack()
                    taken.set()

                await queue.consume(take)
                await asyncio.wait_for(taken.wait(), 60)
                assert places_of(url)[f"secure {name}"] == before

    with amqp_broker.running(
        workers=2, tls_listen=f"127.0.0.1:{port}", tls_certificate=tmp_path / "leaf.pem", tls_key=tmp_path / "leaf.pem"
    ) as broker:
        asyncio.run(use(broker.url))
