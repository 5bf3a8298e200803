"""Input that comes alone is handled before it is taken from the kernel: none is lost, and none is handled twice."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.node import Node
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.server.driver import IMMEDIATE_TURN_BYTES, Driver
from amqp_broker.server.listener import Listener
from amqp_broker.settings.config import Config
from storage.disk import FileDisk
from tests.fuzz.harness import on_channel
from tests.robustness.broker import Broker, frames_of

PROPERTIES = b"\x00\x00"
#: Longer than what the driver takes for calm, seconds.
PAUSE_S = 0.002


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("lone"), "--closing-timeout=500ms") as running:
        yield running


def pause() -> None:
    """Let the driver be calm: nothing tells when it is, but the clock."""
    until = time.monotonic() + PAUSE_S
    while time.monotonic() < until:
        pass


def publish(queue: str, body: bytes) -> bytes:
    return on_channel(1, (m.BasicPublish(0, "", queue), PROPERTIES, body))


def bodies(broker: Broker, queue: str) -> list[bytes]:
    """All that is in a queue, in order."""
    found = []
    with broker.connect() as client:
        channel = client.channel()
        while (message := channel.get(queue)) is not None:
            found.append(message.body)
    return found


def opened(broker: Broker, queue: str) -> socket.socket:
    """A transport with a channel and a queue, whose replies were read."""
    transport = broker.raw()
    transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport.sendall(on_channel(1, m.ChannelOpen(), m.QueueDeclare(queue=queue)))
    frames_of(transport, until=5)
    return transport


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_reads_about_as_long_as_what_counts_as_lone(broker: Broker, pieces: int) -> None:
    queue = f"lengths-{pieces}"
    transport = opened(broker, queue)
    around = len(publish(queue, b""))
    sent = []
    most = IMMEDIATE_TURN_BYTES
    for length in [*range(most - 3, most + 4), 2 * most, 2 * most + 1]:
        body = struct.pack(">L", length) + b"x" * (length - around - 12)
        octets = publish(queue, body)
        sent.append(body)
        step = -(-len(octets) // pieces)
        for start in range(0, len(octets), step):
            transport.sendall(octets[start : start + step])
            pause()
    transport.close()
    assert bodies(broker, queue) == sent


def test_octets_one_by_one(broker: Broker) -> None:
    transport = opened(broker, "crumbs")
    for octet in publish("crumbs", b"one") + publish("crumbs", b"two"):
        transport.sendall(bytes([octet]))
        pause()
    transport.close()
    assert bodies(broker, "crumbs") == [b"one", b"two"]


def test_who_resets_the_connection_at_once_has_said_it_once_or_never(broker: Broker) -> None:
    rounds = 50
    for number in range(rounds):
        transport = opened(broker, "reset")
        pause()
        transport.sendall(publish("reset", b"%d" % number))
        transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.close()
    with broker.connect() as client:
        client.channel().publish("", "reset", b"last")
    found = bodies(broker, "reset")
    assert found[-1] == b"last"
    assert found == sorted(set(found), key=lambda body: rounds if body == b"last" else int(body))


def test_the_end_of_a_connection_that_comes_alone(broker: Broker) -> None:
    transport = opened(broker, "closed")
    pause()
    transport.sendall(publish("closed", b"before") + on_channel(0, m.ConnectionClose(200, "", 0, 0)) + b"behind it")
    frames = frames_of(transport)
    assert [payload[:4] for _, payload in frames] == [b"\x00\x0a\x00\x33"]  # close-ok, and no reset
    assert transport.recv(1) == b""
    assert bodies(broker, "closed") == [b"before"]


class Failing:
    """A node's control whose disk fails at the first octets of a connection."""

    def __init__(self, control: Any) -> None:
        self.control = control
        self.handled = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.control, name)

    def on_protocol_header(self, *_: Any) -> None:
        self.handled += 1
        raise OSError(errno.EIO, "the disk")


async def test_input_of_several_that_are_ready_at_once_has_one_turn(driver: Driver) -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    Listener(driver, asyncio.get_running_loop(), listening, 10)
    clients = [socket.create_connection(listening.getsockname(), 5) for _ in range(4)]
    for _ in range(100):  # they are accepted, and their first turn ends
        await asyncio.sleep(0)
    pause()
    assert driver.is_calm()
    turns: list[int] = []
    driver.after_turn = lambda: turns.append(1)
    for client in clients:
        client.sendall(PROTOCOL_HEADER)
    for _ in range(20):
        await asyncio.sleep(0)
    assert [client.recv(7)[:1] for client in clients] == [b"\x01"] * 4
    assert turns == [1]
    for client in clients:
        client.close()
    listening.close()


async def test_what_a_failing_disk_did_not_take_is_not_handled_again(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    config = Config()
    node = Node(config, FileDisk(tmp_path), int(time.time() * 1000), os.urandom)
    node.recover(int(time.time() * 1000))
    node.control = failing = Failing(node.control)
    driver = Driver(node, config, loop)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    Listener(driver, loop, listening, 10)
    with socket.create_connection(listening.getsockname()) as client:
        for _ in range(100):  # it is accepted, and its first turn ends
            await asyncio.sleep(0)
        pause()
        assert driver.is_calm()
        client.sendall(PROTOCOL_HEADER)
        await asyncio.wait([driver.failed], timeout=20)
        turns: list[int] = []
        driver.after_turn = lambda: turns.append(1)
        for _ in range(100):
            await asyncio.sleep(0)
    assert failing.handled == 1
    assert len(turns) <= 1, "what was handled is still there to be read"
    assert isinstance(driver.failed.exception(), OSError)
    driver.stop_threads()
    listening.close()
