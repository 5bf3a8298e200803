"""Crowds that come, leave or are lost at once: each turn has little time for them, and who has been there for long does
not wait for them."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from amqp_broker.flow.peer import Peer
from amqp_broker.node import Node
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.server.driver import Driver
from amqp_broker.server.listener import TlsListener
from amqp_broker.server.readiness import Watched
from amqp_broker.server.tcp import TcpTransport
from amqp_broker.settings.config import Config
from storage.disk import FileDisk

#: So many, that all of them are far more than a turn has time for.
CROWD = 400
#: So many, that not all of them are watched while they wait.
LARGE_CROWD = 700
#: So often somebody has asked for something who is no newcomer.
OFTEN = 30
PEER = Peer("127.0.0.1", 1, "127.0.0.1", 2, is_loopback=True)
LOGIN = methods.ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US")
GET = encode_method_frame(1, methods.BasicGet(0, "own", True))
GOOD_BYE = encode_method_frame(0, methods.ConnectionClose(200, "done", 0, 0))


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
async def driver(tmp_path: Path, config: Config) -> AsyncIterator[Driver]:
    node = Node(config, FileDisk(tmp_path), int(time.time() * 1000), os.urandom)
    node.recover(int(time.time() * 1000))
    driver = Driver(node, config, asyncio.get_running_loop())
    driver.wants_turn()
    await rounds(lambda: node.is_ready)
    yield driver
    for each in node.clients.all():
        each.transport.abort()
    await asyncio.sleep(0)
    driver.stop_threads()


async def rounds(is_over: Callable[[], bool]) -> None:
    """Let the loop go round until then."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def look() -> None:
        if is_over():
            over.set_result(None)
        else:
            loop.call_soon(look)

    look()
    await over


class Socket:
    """The client's end of a connection."""

    def __init__(self, driver: Driver) -> None:
        self._loop = asyncio.get_running_loop()
        self.end, ours = socket.socketpair()
        self.end.setblocking(False)
        ours.setblocking(False)
        TcpTransport(driver, self._loop, ours, PEER)

    async def ask(self, octets: bytes) -> bytes:
        """Say something, and take the answer."""
        self.end.send(octets)
        return await self.hear()

    async def hear(self) -> bytes:
        """What comes next."""
        return await self._loop.sock_recv(self.end, 1 << 16)

    def has_heard(self) -> bool:
        """Whether something has come."""
        try:
            return bool(self.end.recv(1 << 16))
        except BlockingIOError:
            return False


async def opened(driver: Driver) -> Socket:
    """With a channel, logged in."""
    client = Socket(driver)
    for octets in (
        PROTOCOL_HEADER,
        encode_method_frame(0, LOGIN),
        encode_method_frame(0, methods.ConnectionTuneOk(2047, 131072, 0))
        + encode_method_frame(0, methods.ConnectionOpen("/")),
        encode_method_frame(1, methods.ChannelOpen()),
    ):
        assert await client.ask(octets)
    return client


async def old(driver: Driver) -> Socket:
    """One that has a queue and has asked it for something many times."""
    client = await opened(driver)
    declare = methods.QueueDeclare(queue="own", exclusive=True)
    assert await client.ask(encode_method_frame(1, declare))
    for _ in range(OFTEN):
        assert await client.ask(GET)
    return client


async def test_who_is_there_does_not_wait_for_a_crowd_that_closes(driver: Driver) -> None:
    crowd = [await opened(driver) for _ in range(CROWD)]
    asking = await old(driver)
    clients = driver.node.clients
    before = clients.open_count
    gone: list[int] = []

    def look() -> None:
        if not gone and asking.has_heard():
            gone.append(before - clients.open_count)

    driver.after_turn = look
    for each in crowd:
        each.end.send(GOOD_BYE)
    asking.end.send(GET)
    await rounds(lambda: clients.open_count == 1)
    assert gone
    assert gone[0] < CROWD // 2


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_crowd_that_is_lost_goes_a_few_at_a_time(driver: Driver, is_old: bool) -> None:
    crowd = [await opened(driver) for _ in range(CROWD)]
    for each in crowd if is_old else ():
        for _ in range(OFTEN):
            assert await each.ask(encode_method_frame(1, methods.ChannelFlow(True)))
    connections = driver.node.clients.connections
    left = [len(connections)]
    driver.after_turn = lambda: left.append(len(connections))
    for each in crowd:
        each.end.close()
    await rounds(lambda: not connections)
    assert max(before - after for before, after in itertools.pairwise(left)) < CROWD // 2


async def test_who_waits_is_read(driver: Driver) -> None:
    crowd = [await opened(driver) for _ in range(LARGE_CROWD)]
    for octets in (GOOD_BYE, b"what nobody reads"):
        for each in crowd:
            each.end.send(octets)
    for each in crowd:
        assert await each.hear()
        each.end.close()
    await rounds(lambda: not driver.node.clients.connections)


async def test_of_a_large_crowd_not_all_are_watched_while_they_wait(driver: Driver) -> None:
    """libuv tells of what is ready and not read again and again, before it lets anything else happen."""
    transport = TcpTransport(driver, asyncio.get_running_loop(), socket.socketpair()[0], PEER)
    watched = [driver.read_later(transport) for _ in range(2000)]
    assert 0 < watched.count(True) < 1024
    assert watched == sorted(watched, reverse=True)


async def test_whose_socket_the_system_does_not_watch_is_lost_and_the_log_says_why(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """As where fs.epoll.max_user_watches is reached; here somebody else is told of the same socket."""
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    driver.readiness.watch(number, Watched())
    TcpTransport(driver, asyncio.get_running_loop(), ours, PEER)
    await rounds(lambda: not driver.node.clients.connections)
    assert theirs.recv(1) == b""
    assert "its socket cannot be watched" in caplog.text
    theirs.close()


@pytest.mark.parametrize("config", [Config(max_pending_handshakes=3)])
async def test_of_a_crowd_that_comes_at_once_all_but_a_few_make_room(driver: Driver, config: Config) -> None:
    """Those that are to go have not begun their TLS handshake yet."""
    few, crowd, loop = config.max_pending_handshakes, 50, asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = [socket.create_connection(server.getsockname()) for _ in range(crowd)]
        listener = TlsListener(driver, loop, server, crowd, ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
        gone = silent[:-few]
        async with asyncio.timeout(20):
            for each in gone:
                each.setblocking(False)
                assert await loop.sock_recv(each, 1) == b""
        assert driver.room.taken == few
        for each in silent[-few:]:
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1)
        listener.close()
        await rounds(lambda: not driver.room.taken)
        for each in silent:
            each.close()
