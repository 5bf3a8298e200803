"""What several tests of the server begin with."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from amqp_broker.node import Node
from amqp_broker.server.driver import Driver
from amqp_broker.settings.config import Config
from storage.disk import FileDisk


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    """Of a node that has recovered, without listeners."""
    config = Config()
    node = Node(config, FileDisk(tmp_path), int(time.time() * 1000), os.urandom)
    node.recover(int(time.time() * 1000))
    driver = Driver(node, config, asyncio.get_running_loop())
    yield driver
    driver.stop_threads()
