"""A defect in what a thread of the driver does is in the log, with its traceback, and stops the node."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from amqp_broker.auth.passwords import NewPassword
from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.resources.page_check import PageCheck
from amqp_broker.server.driver import Driver
from queues.page import Page
from storage.disk import FileDisk, Octets
from storage.page_store import PageStore
from tests.node.node_driver import small_config

PATIENCE_S = 20
QUEUE = 7


class DefectiveDisk(FileDisk):
    """has_defect: from now on reads and syncs raise what no disk raises."""

    has_defect = False

    def read(self, path: str, offset: int, length: int) -> bytes:
        self._check()
        return super().read(path, offset, length)

    def sync(self, path: str) -> None:
        self._check()
        super().sync(path)

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self._check()
        super().write_and_sync(path, offset, buffers)

    def _check(self) -> None:
        if self.has_defect:
            raise KeyError("defect")


class Served:
    """A node with its driver on the test's loop."""

    def __init__(self, folder: Path) -> None:
        self.disk = DefectiveDisk(folder)
        self.disk.lock()
        config = small_config(inline_sync_bytes=0)
        self.node = Node(config, self.disk, int(time.time() * 1000), os.urandom)
        self.driver = Driver(self.node, config, asyncio.get_running_loop())
        self.node.recover(self.driver.now())


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path / "data")
    await made.driver.flush()
    yield made
    made.driver.stop_threads()


async def stopped(served: Served, caplog: pytest.LogCaptureFixture) -> str:
    """Until the node is to stop. Returns what the log says of it; it has the traceback."""
    await asyncio.wait([served.driver.failed], timeout=PATIENCE_S)
    assert served.driver.has_failed
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is served.driver.failed.exception()
    return record.getMessage()


async def test_of_the_check_of_stored_pages(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    page_store = PageStore(served.disk)
    page = Page(None, 1, 0, 0, 1)
    page.location = page_store.append(QUEUE, b"x")
    served.disk.has_defect = True
    served.driver.verify(deque([PageCheck(page_store, QUEUE, page)]))
    assert "the check of stored pages" in await stopped(served, caplog)


async def test_of_a_sync(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.disk.has_defect = True
    served.node.broker.propose(commands.put_user("user", "", []))
    served.driver.wants_turn()
    assert "a sync" in await stopped(served, caplog)


async def test_of_a_login(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.node.broker.hashing.hash(NewPassword("secret", os.urandom, "no hash"))
    served.driver.wants_turn()
    assert "a login" in await stopped(served, caplog)
