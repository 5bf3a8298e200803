"""Where the driver syncs: small commits in the loop while the disk is quick, all others in a thread."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.server import driver
from amqp_broker.server.driver import Driver
from storage.disk import FileDisk, Octets
from storage.errors import SyncFailed
from tests.node.node_driver import small_config


class WatchedDisk(FileDisk):
    """Notes for each sync of the journal whether the loop ran it; it takes `delay_s` of the driver's time, which stands
    still otherwise."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.time_s = time.monotonic()
        self.delay_s = 0.0
        self.fails = False
        self.in_loop: list[bool] = []

    def sync(self, path: str) -> None:
        if not path.startswith("journal"):
            return super().sync(path)
        self.in_loop.append(threading.current_thread() is threading.main_thread())
        if self.fails:
            raise SyncFailed(path, OSError(5, "Input/output error"))
        self.time_s += self.delay_s
        return super().sync(path)

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self.write(path, offset, buffers)
        self.sync(path)


class Served:
    """A node with its driver on the test's loop."""

    def __init__(self, disk: WatchedDisk, **settings: object) -> None:
        self.disk = disk
        self.disk.lock()
        config = small_config(**settings)
        loop = asyncio.get_running_loop()
        self.node = Node(config, self.disk, int(time.time() * 1000), os.urandom)
        self.driver = Driver(self.node, config, loop)
        self.node.recover(self.driver.now())
        self.driver.wants_turn()
        self._count = 0

    async def commit(self, octets: int = 10) -> list[bool]:
        """Write something of about so many octets, and wait until it is on the disk. Returns where it was synced."""
        before = len(self.disk.in_loop)
        done = asyncio.get_running_loop().create_future()
        self._count += 1
        user = commands.put_user(f"user-{self._count}", "x" * octets, [])
        self.node.broker.propose(user, lambda result: done.set_result(None))
        self.driver.lone_input_is_over()  # whose turn is not counted from an earlier moment of the real clock
        await asyncio.wait([done, self.driver.failed], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        return self.disk.in_loop[before:]


@pytest.fixture
async def served(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    disk = WatchedDisk(tmp_path / "data")
    monkeypatch.setattr(driver, "monotonic", lambda: disk.time_s)
    made = Served(disk, **getattr(request, "param", {}))
    await made.commit()
    await made.commit()
    yield made
    made.driver.stop_threads()


async def test_a_small_commit_is_synced_in_the_loop(served: Served) -> None:
    assert await served.commit() == [True]


async def test_a_large_commit_is_synced_in_the_thread(served: Served) -> None:
    assert await served.commit(100_000) == [False]
    assert await served.commit() == [True]


@pytest.mark.parametrize("served", [{"inline_sync_bytes": 0}], indirect=True)
async def test_nothing_is_synced_in_the_loop_where_that_is_off(served: Served) -> None:
    assert await served.commit() == [False]


async def test_a_slow_disk_is_left_to_the_thread_longer_and_longer(served: Served) -> None:
    disk = served.disk
    disk.delay_s = 0.03
    assert await served.commit() == [True]
    assert await served.commit() == [False]
    disk.time_s += 0.12
    assert await served.commit() == [True]
    disk.time_s += 0.12
    assert await served.commit() == [False]  # this rest takes 0.2 s
    disk.delay_s = 0.0
    disk.time_s += 0.1
    assert await served.commit() == [True]
    assert await served.commit() == [True]


async def test_a_sync_that_fails_in_the_loop_stops_the_node(served: Served) -> None:
    served.disk.fails = True
    assert await served.commit() == [True]
    assert isinstance(served.driver.failed.exception(), SyncFailed)


async def test_what_syncs_bring_keeps_nobody_waiting(served: Served) -> None:
    """What was committed takes long, and brings something to be committed, each time: from the first on the thread
    syncs that, and the sockets are looked at meanwhile."""
    before = len(served.disk.in_loop)
    done = asyncio.get_running_loop().create_future()

    def commit(left: int) -> None:
        served.disk.time_s += 0.01
        if not left:
            done.set_result(None)
            return
        user = commands.put_user(f"user of {left}", "x", [])
        served.node.broker.propose(user, lambda result: commit(left - 1))

    commit(4)
    served.driver.lone_input_is_over()
    await asyncio.wait([done, served.driver.failed], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    assert served.disk.in_loop[before:] == [True, False, False, False]


async def test_when_the_threads_have_ended_no_turn_is_run(served: Served) -> None:
    """The loop calls what it was given before, and connections are lost late: nothing of that is a defect."""
    before = len(served.disk.in_loop)
    user = commands.put_user("late", "x" * 100_000, [])
    served.node.broker.propose(user, lambda result: None)
    served.driver.wants_turn()
    served.driver.stop_threads()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not served.driver.failed.done()
    assert len(served.disk.in_loop) == before
