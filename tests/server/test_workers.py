"""One node of several processes: what it confirms outlives each of them, and the clients see one node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.resources.load_page import LoadPage
from amqp_broker.server.management_process import ManagementProcess
from amqp_broker.server.worker import Seat, WorkerSide
from amqp_broker.server.workers_file import StoredWorkers, read_stored, read_workers, write_workers
from amqp_broker.settings.config import Config
from amqp_broker.system_client import SystemClient
from storage.disk import FileDisk
from storage.errors import StorageError
from tests.server.worker_load import (
    CLASSIC,
    LASTING,
    LOST,
    PATIENCE_S,
    STREAM,
    Publisher,
    all_get_on,
    declare,
    declare_lasting,
    drain,
    homes_of,
    is_alive,
    is_another,
    process_of,
    stop_all,
    until,
)

#: A worker at rest wakes so many times a second at most: it has something to say and to look at.
MOST_WAKES = 8


class Reader:
    """Reads a stream from its first message on, on a connection of its own, and acknowledges. offsets: by partition."""

    def __init__(self, connection: AbstractConnection, queue: str, group: str) -> None:
        self.connection = connection
        self.bodies: list[bytes] = []
        self.offsets: dict[object, list[object]] = {}
        self.is_lost = False
        connection.close_callbacks.add(self._lose)
        self._queue = queue
        self._arguments = {"x-stream-offset": "first", **({"x-stream-group": group} if group else {})}

    @classmethod
    async def begin(cls, url: str, queue: str, group: str = "") -> Reader:
        made = cls(await aio_pika.connect(url), queue, group)
        channel = await made.connection.channel()
        await channel.set_qos(20)
        found = await channel.get_queue(queue, ensure=False)
        await found.consume(made._take, arguments=made._arguments)
        return made

    def _lose(self, *_: object) -> None:
        self.is_lost = True

    async def _take(self, message: AbstractIncomingMessage) -> None:
        self.bodies.append(message.body)
        partition = message.headers.get("x-stream-partition")
        self.offsets.setdefault(partition, []).append(message.headers["x-stream-offset"])
        with contextlib.suppress(*LOST):
            await message.ack()

    def check(self) -> None:
        """Nothing has been left out, nor has come twice."""
        for partition, offsets in self.offsets.items():
            assert offsets == list(range(len(offsets))), (self._queue, partition)


async def read_at_every_worker(data_dir: Path) -> None:
    """Some of the connections are at worker 0, which has half of the streams, and is killed; the others go on."""
    with amqp_broker.running(data_dir, workers=2, spread_groups=True, steering="off") as broker:
        await declare(broker.url)
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            await channel.declare_queue("parts", durable=True, arguments={**STREAM, "x-stream-partitions": 4})
        publishers = [Publisher(broker.url, name) for name in ("stream", "parts")]
        await all_get_on(publishers, "at the start", 50)
        plain = [await Reader.begin(broker.url, "stream") for _ in range(6)]
        grouped = [await Reader.begin(broker.url, "parts", "g") for _ in range(4)]
        confirmed = [set(each.confirmed) for each in publishers]
        await until(lambda: all(confirmed[0] <= set(each.bodies) for each in plain), "a reader does not get all of it")
        await until(
            lambda: confirmed[1] <= {body for each in grouped for body in each.bodies}, "members do not get all of it"
        )
        await until(lambda: all(each.offsets for each in grouped), "of four partitions each of four members has one")
        before = process_of(data_dir, 0)
        os.kill(before, signal.SIGKILL)
        await until(lambda: not is_alive(before), "it does not die")
        await all_get_on(publishers, "since worker 0 was killed", 50)
        left = [each for each in plain if not each.is_lost]
        assert 0 < len(left) < len(plain), "of six connections some are at each worker"
        await stop_all(publishers)
        await until(
            lambda: all(set(publishers[0].confirmed) <= set(each.bodies) for each in left), "a reader has stopped"
        )
        await until(
            lambda: set(publishers[1].confirmed) <= {body for each in grouped for body in each.bodies},
            "the members that are left do not get all of it",
        )
        for each in plain:
            each.check()
        for each in (*plain, *grouped):
            with contextlib.suppress(*LOST):
                await each.connection.close()


def test_streams_are_read_at_every_worker(tmp_path: Path) -> None:
    asyncio.run(read_at_every_worker(tmp_path / "data"))


def look_after_streams(url: str) -> set[str]:
    """The verbs about streams, over some connections. Returns the workers that were asked."""
    asked: set[str] = set()
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.confirm_select()
        for name in ("stream", "parts"):
            for number in range(20):
                channel.publish("", name, b"%d" % number)
        channel.wait_for_confirms()
    for number in range(1, 9):
        with SystemClient(url) as client:
            asked.add(client.request("statistics")["statistics"]["node"])
            whole, parts = (client.request("stream.stat", vhost="/", name=name) for name in ("stream", "parts"))
            assert (whole["next_offset"], parts["messages"]) == (20, 20 - 4 * min(number - 1, 5))
            assert client.request("stream.find", vhost="/", name="stream", time=1)["offset"] == number - 1
            assert client.request("stream.trim", vhost="/", name="stream", before=number)["first_offset"] == number
            trimmed = client.request("stream.trim", vhost="/", name="parts", before=number)["partitions"]
            assert [part["first_offset"] for part in trimmed] == [min(number, 5)] * 4
            for name in ("stream", "parts"):
                of = {"vhost": "/", "name": name, "group": "g"}
                client.request("stream.seek", **of, offset=number)
                assert [each["name"] for each in client.request("stream.stat", vhost="/", name=name)["groups"]] == ["g"]
                client.request("stream.forget", **of)
            assert client.request("stream.producer", stream="stream", producer="p")["sequence"] is None
            assert client.request("queue.peek", vhost="/", name="stream")["messages"][0]["position"] == number
    return asked


def test_streams_are_looked_after_at_every_worker() -> None:
    with amqp_broker.running(workers=2) as broker:
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            for name, more in (("stream", {}), ("parts", {"x-stream-partitions": 4})):
                arguments = Table({**STREAM, **more})
                channel.call(QueueDeclare(0, name, False, True, False, False, False, arguments))
        assert len(look_after_streams(broker.url)) == 2, "of eight connections some are at each worker"


async def die_and_lose_nothing(data_dir: Path) -> None:
    """Worker 1, worker 0 and the supervisor are killed under load; then there is one worker, and one to be emptied."""
    with amqp_broker.running(data_dir, workers=2, spread_groups=False) as broker:
        await declare(broker.url)
        publishers = [Publisher(broker.url, name) for name in (*CLASSIC, "lasting", "stream")]
        await all_get_on(publishers, "at the start")
        for worker in (1, 0):
            before = process_of(data_dir, worker)
            os.kill(before, signal.SIGKILL)
            await until(lambda before=before: not is_alive(before), "it does not die")  # type: ignore[misc]
            await all_get_on(publishers, f"since worker {worker} was killed")
            assert process_of(data_dir, worker) != before
        workers = [process_of(data_dir, worker) for worker in (0, 1)]
        os.kill(broker.process.pid, signal.SIGKILL)
        await until(lambda: not any(map(is_alive, workers)), "the workers outlive the supervisor")
        await stop_all(publishers)
    assert read_workers(data_dir) == [1]
    with amqp_broker.running(data_dir, workers=1) as broker:
        for each in publishers:
            await drain(broker.url, each.queue, set(each.confirmed))
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            for name in CLASSIC:
                await channel.queue_delete(name)
        await until(lambda: not read_workers(data_dir), "the folder that holds nothing stays")
        await until(lambda: not (data_dir / "workers" / "1").exists(), "the folder that holds nothing stays")
    with amqp_broker.running(data_dir, workers=1) as broker:
        await drain(broker.url, "stream", set(publishers[-1].confirmed))


async def be_fewer(data_dir: Path) -> None:
    settings = {"peer_handshake_timeout": "100ms", "spread_groups": False}
    with amqp_broker.running(data_dir, workers=3, **settings) as broker:
        pass
    with amqp_broker.running(data_dir, workers=2, **settings) as broker:
        await until(lambda: read_workers(data_dir) == [1], "the folder that holds nothing stays")
        before = process_of(data_dir, 0)
        os.kill(before, signal.SIGKILL)
        await until(lambda: is_another(data_dir, 0, before), "worker 0 does not come again")
        await until(lambda: "worker 0 is ready" in broker.logs, "worker 0 does not come again")
        since = len(broker.logs)
        with contextlib.suppress(TimeoutError):  # whoever is called in vain is called every two seconds
            await asyncio.wait_for(asyncio.Event().wait(), 3)
        lines = broker.logs[since:]
        known = []
        for _ in range(8):  # whichever worker is asked
            with SystemClient(broker.url) as client:
                known.append([each["worker"] for each in client.request("statistics")["workers"]])
    assert "/2" not in lines
    assert known == [[0, 1]] * 8


def test_a_worker_that_has_gone_is_called_by_nobody(tmp_path: Path) -> None:
    asyncio.run(be_fewer(tmp_path / "data"))


def test_what_was_confirmed_outlives_each_process(tmp_path: Path) -> None:
    asyncio.run(die_and_lose_nothing(tmp_path / "data"))


async def groups_lose_nothing(data_dir: Path) -> None:
    """Groups of both workers, each of which is killed under load; then there is one worker, and then three."""
    with amqp_broker.running(data_dir, workers=2, spread_groups=True, queue_groups=4) as broker:
        names = [*await declare_lasting(broker.url, LASTING), *await declare_lasting(broker.url, STREAM)]
        with SystemClient(broker.url) as client:
            rows = client.request("cluster.status")["groups"]
        assert [row["worker"] for row in rows if row["group"]] == [1, 0, 1, 0]
        assert all(row["queues"] for row in rows if row["group"]), "of eight queues some are in each group"
        publishers = [Publisher(broker.url, name) for name in names]
        await all_get_on(publishers, "at the start")
        for worker in (1, 0):
            before = process_of(data_dir, worker)
            os.kill(before, signal.SIGKILL)
            await until(lambda before=before: not is_alive(before), "it does not die")  # type: ignore[misc]
            await all_get_on(publishers, f"since worker {worker} was killed")
        workers = [process_of(data_dir, worker) for worker in (0, 1)]
        os.kill(broker.process.pid, signal.SIGKILL)
        await until(lambda: not any(map(is_alive, workers)), "the workers outlive the supervisor")
        await stop_all(publishers)
    for count in (1, 3):
        with amqp_broker.running(data_dir, workers=count, queue_groups=4) as broker:
            for each in publishers:
                if count == 1 or each.queue.startswith("stream"):
                    await drain(broker.url, each.queue, set(each.confirmed))
        assert read_stored(data_dir).groups == {1: 1, 3: 1}, "a log stays where it is"


def test_what_groups_of_each_worker_have_confirmed_outlives_each_process(tmp_path: Path) -> None:
    asyncio.run(groups_lose_nothing(tmp_path / "data"))


def test_an_old_folder_keeps_its_groups_at_worker_0(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, spread_groups=False):
        pass
    with amqp_broker.running(tmp_path, workers=2, spread_groups=True) as broker, SystemClient(broker.url) as client:
        assert {row["worker"] for row in client.request("cluster.status")["groups"]} == {0}
    assert read_stored(tmp_path).groups == {}


def test_a_worker_0_that_starts_again_has_the_groups_that_its_folder_says(tmp_path: Path) -> None:
    """Before it was ready once, when its supervisor has not heard of them: in a cluster that may take long."""
    settings = {"workers": 2, "worker_processes": 2, "spread_groups": True, "queue_groups": 3}
    config = Config(data_dir=tmp_path, node_name="n1", **settings)  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket() as link:
        seat = Seat(config, theirs, link, {}, b"", ManagementProcess(config), (), LoadPage(2, time.monotonic))
        for _ in range(2):
            disk = FileDisk(tmp_path)
            disk.lock()
            assert WorkerSide(seat).settle(disk).group_workers == (1, 0, 1)
            disk.close()
    assert read_stored(tmp_path).groups == {1: 1, 3: 1}


async def use_as_one(url: str) -> None:
    connections = [await aio_pika.connect(url) for _ in range(6)]
    channels = [await connection.channel() for connection in connections]
    own = [await channel.declare_queue(exclusive=True) for channel in channels]
    shared = [await channels[0].declare_queue(f"shared{number}", durable=True) for number in range(20)]
    bodies = [b"%d" % number for number in range(len(channels))]
    exchange = await channels[1].declare_exchange("all", aio_pika.ExchangeType.FANOUT)
    for queue, channel in zip(own, channels, strict=True):
        await queue.bind("all")
        for each in shared:
            found = await channel.declare_queue(each.name, passive=True)
            assert found.declaration_result.message_count == 0
    for number in range(len(channels)):
        everywhere = await channels[number].get_exchange(exchange.name)
        assert await everywhere.publish(aio_pika.Message(b"%d" % number), "")
        for each in shared:
            assert await channels[number].default_exchange.publish(aio_pika.Message(b"%d" % number), each.name)
    for queue in own:
        assert [(await queue.get(no_ack=True, timeout=5)).body for _ in channels] == bodies
    for each in shared:
        there = await channels[-1].get_queue(each.name)
        assert [(await there.get(no_ack=True, timeout=5)).body for _ in channels] == bodies
    homes = homes_of(url)
    assert len({homes[each.name] for each in shared}) == 2, "of twenty queues some live on each worker"
    assert len({homes[each.name] for each in own}) == 2, "of six connections some are at each worker"
    for connection in connections:
        await connection.close()


def test_clients_of_both_workers_use_the_same_queues() -> None:
    with amqp_broker.running(workers=2) as broker:
        asyncio.run(use_as_one(broker.url))
        assert broker.process.poll() is None


def test_a_worker_that_hangs_is_killed_and_comes_again(tmp_path: Path) -> None:
    async def hang() -> None:
        with amqp_broker.running(tmp_path, workers=2, worker_timeout="1s") as broker:
            before = process_of(tmp_path, 1)
            os.kill(before, signal.SIGSTOP)
            await until(lambda: not is_alive(before), "nobody kills it")
            await until(lambda: "worker 1 is ready" in broker.logs, "it does not come again")

    asyncio.run(hang())


def test_the_others_part_with_a_worker_that_hangs_though_nothing_is_said_on_their_links(tmp_path: Path) -> None:
    async def hang() -> None:
        settings = {"peer_timeout": "1s", "peer_ping": "500ms"}
        with amqp_broker.running(tmp_path, workers=3, **settings) as broker:
            await until(lambda: broker.logs.count("linked with") >= 6, "each with both of the others")
            hung = process_of(tmp_path, 1)
            os.kill(hung, signal.SIGSTOP)
            await until(lambda: broker.logs.count("it has said nothing for 1000 ms") >= 2, "they wait for it for ever")
            before = broker.logs.count("linked with")
            os.kill(hung, signal.SIGCONT)
            await until(lambda: broker.logs.count("linked with") >= before + 2, "they do not take it again")
            assert process_of(tmp_path, 1) == hung

    asyncio.run(hang())


def wakes_of(process: int) -> int:
    """How often the main thread of a process has waited for something so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_workers_at_rest_wake_a_few_times_a_second_however_many_they_are(tmp_path: Path) -> None:
    """What each does for nobody's sake, of many workers all cost."""

    async def rest() -> None:
        with amqp_broker.running(tmp_path, workers=6) as broker:
            processes = [process_of(tmp_path, number) for number in range(6)]
            deadline, most = time.monotonic() + PATIENCE_S, 1000.0
            while most > MOST_WAKES:
                assert time.monotonic() < deadline, f"one wakes {most:.0f} times a second"
                before, began = [wakes_of(each) for each in processes], time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 3)
                seconds = time.monotonic() - began
                most = max(wakes_of(each) - was for each, was in zip(processes, before, strict=True)) / seconds
            assert broker.is_running

    asyncio.run(rest())


def test_a_node_is_drained_with_all_of_its_workers() -> None:
    def is_closed(client: Connection) -> bool:
        try:
            client.poll()
        except ClientError:
            return True
        return False

    async def drain_all() -> None:
        with amqp_broker.running(workers=2) as broker:
            clients = [Connection.open(broker.url) for _ in range(4)]
            with SystemClient(broker.url) as asked:
                assert asked.request("node.drain")["is_draining"]
            await until(lambda: all(map(is_closed, clients)), "a worker was not told")
            for client in clients:
                client.abort()

    asyncio.run(drain_all())


def definitions_of(count: int, **arguments: str) -> dict[str, list[dict[str, object]]]:
    about = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    return {"queues": [{"name": f"q{number}", **about} for number in range(count)]}


def test_queues_of_definitions_live_at_all_workers(tmp_path: Path) -> None:
    """Also those that are there from the start, when not all workers are."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(definitions_of(40)))
    with amqp_broker.running(workers=2, load_definitions=str(file)) as broker:
        homes = Counter(homes_of(broker.url).values())
        assert (len(homes), homes.total()) == (2, 40)
        assert min(homes.values()) >= 10
        with SystemClient(broker.url) as client:
            client.request("definitions.import", definitions=definitions_of(80))
        homes = Counter(homes_of(broker.url).values())
        assert (len(homes), homes.total()) == (2, 80)
        assert min(homes.values()) >= 25


def test_queues_of_definitions_that_are_to_be_local_live_at_the_worker_that_is_asked() -> None:
    with amqp_broker.running(workers=2) as broker, SystemClient(broker.url) as client:
        local = {"x-queue-master-locator": "client-local"}
        client.request("definitions.import", definitions=definitions_of(20, **local))
        assert {*homes_of(broker.url).values()} == {client.request("statistics")["statistics"]["node"]}


def test_a_worker_that_stops_calls_nobody_who_has_gone(tmp_path: Path) -> None:
    """One has a client who does not leave, and the others are gone before it: that is no news."""
    settings = {"peer_handshake_timeout": "100ms", "shutdown_timeout": "1s"}
    with amqp_broker.running(tmp_path, workers=3, **settings) as broker:
        client = Connection.open(broker.url)
        asyncio.run(until(lambda: broker.logs.count("linked with") >= 6, "each with both of the others"))
        before = len(broker.logs)
        broker.end()
        lines = broker.logs[before:].splitlines()
        client.abort()
    assert any("is closed" in line for line in lines), "the others have gone before"
    assert [line for line in lines if " WARNING amqp_broker.cluster" in line] == []


def test_a_worker_that_cannot_start_ends_the_node(tmp_path: Path) -> None:
    async def die() -> None:
        with amqp_broker.running(tmp_path, workers=2) as broker:
            (tmp_path / "workers" / "1" / "FORMAT").write_text("another's")
            os.kill(process_of(tmp_path, 1), signal.SIGKILL)
            await until(lambda: not broker.is_running, "it goes on for ever")
            assert broker.process.poll() == 1
            assert f"its folder is {tmp_path / 'workers' / '1'}" in broker.logs

    asyncio.run(die())


@pytest.mark.parametrize(
    "text",
    ["{", '{"version": 3, "workers": [1]}', '{"version": 1}', '{"version": 2, "workers": [1], "groups": {"1": 2}}',
     '{"version": 2, "workers": [1], "groups": 3}'],
)  # fmt: skip
def test_a_file_of_workers_that_cannot_be_read_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "WORKERS").write_text(text)
    with pytest.raises(StorageError, match="WORKERS: "):
        read_workers(tmp_path)


def test_the_file_of_workers_says_who_has_the_logs_of_groups(tmp_path: Path) -> None:
    write_workers(tmp_path, [1, 2], [2], {1: 1, 3: 2})
    assert read_stored(tmp_path) == StoredWorkers([1, 2], [2], {1: 1, 3: 2})
    write_workers(tmp_path, [3, 1, 2])
    assert read_stored(tmp_path) == StoredWorkers([1, 2, 3], [2], {1: 1, 3: 2})
    assert json.loads((tmp_path / "WORKERS").read_text())["version"] == 2
    with pytest.raises(StorageError, match="group 3 is said to be worker 2's"):
        write_workers(tmp_path, [1, 3])
    assert read_stored(tmp_path).numbers == [1, 2, 3]


def test_the_file_of_workers_is_as_the_version_before_knows_it_without_groups(tmp_path: Path) -> None:
    write_workers(tmp_path, [1, 2])
    assert json.loads((tmp_path / "WORKERS").read_text()) == {"version": 1, "workers": [1, 2], "begun": []}


def test_the_file_of_workers_is_there_while_there_are_some(tmp_path: Path) -> None:
    write_workers(tmp_path, [2, 1])
    assert read_workers(tmp_path) == [1, 2]
    write_workers(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
