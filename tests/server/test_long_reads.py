"""The node hears of a read that took as much as one may: there is more of that client, which is read soon."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amqp_broker.node import Node
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.server.driver import Driver
from amqp_broker.server.listener import Listener
from amqp_broker.settings.config import Config
from storage.disk import FileDisk


@pytest.mark.parametrize(("read_bytes", "is_expected"), [(16 * 1024, True), (64 * 1024, False)])
async def test_more_is_expected_behind_a_read_of_as_much_as_one_may(
    tmp_path: Path, read_bytes: int, is_expected: bool
) -> None:
    loop = asyncio.get_running_loop()
    config = Config()
    node = Node(config, FileDisk(tmp_path), int(time.time() * 1000), os.urandom)
    node.recover(int(time.time() * 1000))
    driver = Driver(node, config, loop)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    Listener(driver, loop, listening, 10)
    node.input_goes_on(not is_expected, driver.now() + 60_000)
    ended = asyncio.Event()
    driver.after_turn = ended.set

    async def turns_until(happens: Callable[[], object]) -> None:
        for _ in range(100):
            if happens():
                return
            await asyncio.wait_for(ended.wait(), 10)
            ended.clear()
        raise AssertionError("it does not happen")

    with socket.create_connection(listening.getsockname()) as client:
        connections = node.clients.connections
        await turns_until(lambda: connections)
        next(iter(connections.values())).transport.read_bytes = read_bytes
        client.sendall(PROTOCOL_HEADER + bytes(20 * 1024))  # whatever it is, it has to be read
        await turns_until(lambda: (node.groups.input_until > 0) == is_expected)
    assert (node.groups.input_until > 0) == is_expected
    driver.stop_threads()
    listening.close()
