"""What operators do to a node of several workers: stop, reload, back up, have more of them or fewer, lose a folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import aio_pika
import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.server.workers_file import read_stored, read_workers, write_workers
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import BrokerStartError
from tests.server.worker_load import LASTING, PATIENCE_S, homes_of, process_of, until

QUEUES = tuple(f"q{number}" for number in range(12))
#: Quorum queues, one in each group.
LASTS = tuple(f"lasting{number}" for number in range(4))
GROUPS = {"queue_groups": len(LASTS)}
SPREAD = {"spread_groups": True, **GROUPS}
#: Which groups of a new folder of two workers are at worker 1.
OF_WORKER_1 = {1: 1, 3: 1}
WRONG_SETTING = 2


async def publish(url: str, bodies: Iterable[bytes]) -> None:
    """To all queues, which are declared if need be."""
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        for name in (*QUEUES, *LASTS):
            await channel.declare_queue(name, durable=True, arguments=LASTING if name in LASTS else None)
            for body in bodies:
                message = aio_pika.Message(body, delivery_mode=2)
                assert await channel.default_exchange.publish(message, name, timeout=30)


async def declare_one_in_each_group(url: str) -> None:
    """While not every group has a leader that the others know, those that have one get the queues: then once more."""
    deadline = time.monotonic() + PATIENCE_S
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        while True:
            for name in LASTS:
                await channel.declare_queue(name, durable=True, arguments=LASTING)
            with SystemClient(url) as client:
                groups = [row for row in client.request("cluster.status")["groups"] if row["group"]]
            if [row["queues"] for row in groups] == [1] * len(LASTS):
                return
            assert time.monotonic() < deadline, groups
            for name in LASTS:
                await channel.queue_delete(name)


async def look(url: str, bodies: list[bytes]) -> None:
    """All queues have these, and keep them."""
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        for name in (*QUEUES, *LASTS):
            queue = await channel.get_queue(name)
            got = [await queue.get(timeout=30) for _ in bodies]
            assert [each.body for each in got] == bodies, name
            assert await queue.get(fail=False) is None, name
            await got[-1].nack(multiple=True, requeue=True)


async def count(url: str, names: Iterable[str]) -> list[int]:
    """How many messages these queues have."""
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        found = [await channel.declare_queue(name, passive=True) for name in names]
        return [each.declaration_result.message_count or 0 for each in found]


def move(url: str, name: str, home: str) -> None:
    with SystemClient(url) as client:
        client.request("queue.rehome", vhost="/", name=name, home=home)


def own_name(url: str) -> str:
    """Of the node that is asked."""
    with SystemClient(url) as client:
        return str(client.request("statistics")["statistics"]["node"]).partition("/")[0]


@pytest.mark.parametrize("is_spread", [False, True], ids=["groups at worker 0", "spread groups"])
def test_more_workers_and_fewer_have_all_that_queues_had_where_they_moved(tmp_path: Path, is_spread: bool) -> None:
    """The setting counts for a new folder: what it says later changes nothing."""
    stay = [1] if is_spread else []
    with amqp_broker.running(tmp_path, workers=2, spread_groups=is_spread, **GROUPS) as broker:
        node = own_name(broker.url)
        asyncio.run(publish(broker.url, [b"1", b"2"]))
        homes = homes_of(broker.url)
        assert {homes[name] for name in QUEUES} == {node, f"{node}/1"}
        for name in QUEUES[:6]:  # to the other one
            move(broker.url, name, node if homes[name] != node else f"{node}/1")
    assert read_stored(tmp_path).groups == (OF_WORKER_1 if is_spread else {})
    with amqp_broker.running(tmp_path, workers=1, spread_groups=False, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1", b"2"]))
        left = [name for name in QUEUES if homes_of(broker.url)[name] == f"{node}/1"]
        move(broker.url, left[0], node)
    with amqp_broker.running(tmp_path, workers=3, spread_groups=True, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1", b"2"]))
        asyncio.run(publish(broker.url, [b"3"]))
        for number, name in enumerate(QUEUES):
            home = f"{node}/{number % 3}".removesuffix("/0")
            if homes_of(broker.url)[name] != home:
                move(broker.url, name, home)
    with amqp_broker.running(tmp_path, workers=1, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1", b"2", b"3"]))
        for name, home in homes_of(broker.url).items():
            if name in QUEUES and home != node:
                move(broker.url, name, node)
        asyncio.run(until(lambda: read_workers(tmp_path) == stay, "a worker that holds nothing stays"))
    assert [each.name for each in (tmp_path / "workers").iterdir()] == list(map(str, stay))
    assert read_stored(tmp_path).groups == (OF_WORKER_1 if is_spread else {})
    with amqp_broker.running(tmp_path, workers=1, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1", b"2", b"3"]))


def test_a_copy_of_the_folder_has_all_workers(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    with amqp_broker.running(data, workers=2, spread_groups=True) as broker:
        asyncio.run(publish(broker.url, [b"1", b"2"]))
    shutil.copytree(data, backup)
    with amqp_broker.running(data, workers=2) as broker:
        asyncio.run(publish(broker.url, [b"3"]))
    shutil.rmtree(data)
    backup.rename(data)
    with amqp_broker.running(data, workers=2) as broker:
        asyncio.run(look(broker.url, [b"1", b"2"]))


def test_a_worker_whose_folder_is_lost_does_not_begin_anew_by_itself(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, **SPREAD) as broker:
        asyncio.run(declare_one_in_each_group(broker.url))
        asyncio.run(publish(broker.url, [b"1"]))
    assert read_stored(tmp_path).begun == [1]
    folder = tmp_path / "workers" / "1"
    kept = folder.rename(tmp_path / "kept")
    line = f"{folder}: worker 1 was served from this folder, and it is gone"
    with pytest.raises(BrokerStartError, match=line) as said:
        amqp_broker.running(tmp_path, workers=2, **GROUPS).start()
    assert said.value.status == WRONG_SETTING
    assert said.value.log.strip().count("\n") == 0, "one line"
    kept.rename(folder)
    with amqp_broker.running(tmp_path, workers=2, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1"]))
    shutil.rmtree(folder)
    with amqp_broker.running(tmp_path, workers=2, recover=True, **GROUPS) as broker:
        assert "worker 1 has lost its folder, and what its queues held: it begins anew" in broker.logs
        asyncio.run(publish(broker.url, [b"2"]))
    with amqp_broker.running(tmp_path, workers=2, **GROUPS) as broker:
        assert read_stored(tmp_path).begun == [1]
        assert sorted(asyncio.run(count(broker.url, LASTS))) == [1, 1, 2, 2], "two of the four groups were worker 1's"


def test_another_number_of_groups_than_the_folder_has_is_refused(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, spread_groups=True, queue_groups=3) as broker:
        asyncio.run(publish(broker.url, [b"1"]))
    for queue_groups in (2, 4):
        line = "this folder has 3 groups for quorum queues, and queue_groups is .*: start it with --queue-groups 3"
        with pytest.raises(BrokerStartError, match=line) as said:
            amqp_broker.running(tmp_path, workers=2, queue_groups=queue_groups).start()
        assert said.value.status == WRONG_SETTING
        assert "Traceback" not in said.value.log
    with amqp_broker.running(tmp_path, workers=2, queue_groups=3) as broker:
        asyncio.run(look(broker.url, [b"1"]))


@pytest.mark.parametrize("left_out", ["WORKERS", "workers"])
def test_a_copy_that_is_not_whole_is_refused(tmp_path: Path, left_out: str) -> None:
    """A worker that took up its groups with empty logs would forget what they have confirmed."""
    with amqp_broker.running(tmp_path, workers=2, **SPREAD) as broker:
        asyncio.run(publish(broker.url, [b"1"]))
    (tmp_path / left_out).rename(tmp_path / "kept")
    for workers in (1, 2):
        line = "restore the whole" if left_out == "WORKERS" else "worker 1 was served from this folder, and it is gone"
        with pytest.raises(BrokerStartError, match=line) as said:
            amqp_broker.running(tmp_path, workers=workers, **GROUPS).start()
        assert said.value.status == WRONG_SETTING
        assert "Traceback" not in said.value.log
    (tmp_path / "kept").rename(tmp_path / left_out)
    with amqp_broker.running(tmp_path, workers=2, **GROUPS) as broker:
        asyncio.run(look(broker.url, [b"1"]))


def test_a_worker_whose_folder_goes_while_it_runs_ends_the_node(tmp_path: Path) -> None:
    async def lose() -> None:
        with amqp_broker.running(tmp_path, workers=2) as broker:
            process = process_of(tmp_path, 1)
            (tmp_path / "workers" / "1").rename(tmp_path / "kept")
            os.kill(process, signal.SIGKILL)
            await until(lambda: not broker.is_running, "it goes on without what it had confirmed")
            assert broker.process.poll() == 1
            assert "worker 1 was served from this folder, and it is gone" in broker.logs

    asyncio.run(lose())


def test_a_worker_that_was_never_ready_may_begin(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=1):
        pass
    write_workers(tmp_path, [1])
    with amqp_broker.running(tmp_path, workers=2) as broker:
        asyncio.run(publish(broker.url, [b"1"]))


def test_a_worker_that_starts_later_has_read_again_what_the_others_have(tmp_path: Path) -> None:
    async def reload() -> None:
        with amqp_broker.running(tmp_path, workers=2) as broker:

            def said(times: int) -> bool:
                return broker.logs.count("SIGHUP: reloaded") >= times

            os.kill(broker.process.pid, signal.SIGHUP)
            await until(lambda: said(2), "not all workers have read it")
            os.kill(process_of(tmp_path, 1), signal.SIGKILL)
            await until(lambda: said(3), "who starts again has what was read at the start of the node")
            assert "a restart is needed" not in broker.logs

    asyncio.run(reload())


def test_a_node_is_drained_when_no_worker_has_a_client_at_the_pace_of_the_node() -> None:
    def is_closed(client: Connection) -> bool:
        try:
            client.poll()
        except ClientError:
            return True
        return False

    with amqp_broker.running(workers=2) as broker:
        clients = [Connection.open(broker.url) for _ in range(24)]
        began = time.monotonic()
        words = ("node", "drain", "--pace", "8", "--wait", "40", "--url", broker.url)
        command = [sys.executable, "-m", "amqp_broker", *words]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        took_s = time.monotonic() - began
        assert (said.returncode, "has 0 connections" in said.stdout) == (0, True), said
        assert all(map(is_closed, clients))
        assert took_s > 2, "24 connections at 8 in a second"
        for client in clients:
            client.abort()


def test_ten_wrong_passwords_at_any_workers_have_an_address_wait_at_all() -> None:
    """Also whoever knows the right one, unless that was right before."""
    with amqp_broker.running(workers=2, login_backoff="1min", login_backoff_max="1min") as broker:
        with SystemClient(broker.url) as client:
            client.request("user.put", name="late", password="secret", tags=[])
            client.request("permission.put", user="late", vhost="/", configure="", write="", read="")
        for number in range(10):
            with pytest.raises(ClientError):
                Connection.open(broker.url.replace("guest:guest", f"late:wrong{number}"))
        for _ in range(6):
            with pytest.raises(ClientError):
                Connection.open(broker.url.replace("guest:guest", "late:secret"))


@pytest.mark.parametrize("killed", [(1,), (0,), (0, 1)], ids=str)
def test_a_node_stops_in_peace_while_workers_start_again(killed: tuple[int, ...], tmp_path: Path) -> None:
    async def stop() -> None:
        with amqp_broker.running(tmp_path, workers=2) as broker:
            await publish(broker.url, [b"1"])
            processes = [process_of(tmp_path, number) for number in (0, 1)]
            for number in killed:
                os.kill(processes[number], signal.SIGKILL)
            lines = [f"worker {number} was killed by signal 9; it is started again" for number in killed]
            await until(lambda: all(line in broker.logs for line in lines), "nobody starts them again")
            broker.process.terminate()
            await until(lambda: not broker.is_running, "it does not stop")
            assert broker.process.poll() == 0, broker.logs
            assert "does not stop" not in broker.logs
            assert "Traceback" not in broker.logs
        with amqp_broker.running(tmp_path, workers=2) as broker:
            await look(broker.url, [b"1"])

    asyncio.run(stop())
