"""Readiness: who is watched is told as long as there is something to be read, and nobody else is."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from amqp_broker.server.readiness import Readiness, Watched


class Reader(Watched):
    """What it is told, with what it does then."""

    def __init__(self, readiness: Readiness) -> None:
        self.peer, self.socket = socket.socketpair()
        self.socket.setblocking(False)
        self.told = 0
        self.then: Callable[[], None] = self.read
        readiness.watch(self.socket.fileno(), self)

    def on_readable(self) -> None:
        self.told += 1
        self.then()

    def read(self) -> None:
        self.socket.recv(1)


async def rounds(count: int = 3) -> None:
    """Let the loop look so often."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def readiness() -> AsyncIterator[Readiness]:
    made = Readiness(asyncio.get_running_loop())
    yield made
    made.close()


async def test_who_is_not_read_to_the_end_is_told_again(readiness: Readiness) -> None:
    reader = Reader(readiness)
    await rounds()
    assert reader.told == 0
    reader.peer.send(b"123")
    await rounds(10)
    assert reader.told == 3


async def test_who_is_not_watched_is_not_told(readiness: Readiness) -> None:
    reader = Reader(readiness)
    number = reader.socket.fileno()
    readiness.unwatch(number)
    reader.peer.send(b"1")
    await rounds()
    assert reader.told == 0
    readiness.watch(number, reader)
    await rounds()
    assert reader.told == 1


async def test_one_that_another_has_closed_meanwhile_is_not_told(readiness: Readiness) -> None:
    readers = [Reader(readiness), Reader(readiness)]

    def close_the_other(index: int) -> Callable[[], None]:
        def close() -> None:
            readers[index].read()
            other = readers[1 - index]
            readiness.unwatch(other.socket.fileno())
            other.socket.close()

        return close

    for index, reader in enumerate(readers):
        reader.then = close_the_other(index)
        reader.peer.send(b"1")
    await rounds()
    assert sorted(reader.told for reader in readers) == [0, 1]


async def test_a_defect_of_one_keeps_nobody_else_from_being_told(readiness: Readiness) -> None:
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
    readers = [Reader(readiness) for _ in range(5)]

    def fail() -> None:
        readers[0].read()
        raise ValueError("a defect")

    readers[0].then = fail
    for reader in readers:
        reader.peer.send(b"1")
    await rounds()
    assert [reader.told for reader in readers] == [1] * 5
    assert [str(each) for each in said] == ["a defect"]


async def test_an_error_is_told_until_it_was_read(readiness: Readiness) -> None:
    """What came before it is read first, in two reads here."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ours, _ = listener.accept()
    listener.close()
    ours.setblocking(False)
    said: list[str] = []
    reader = Reader(readiness)

    def read() -> None:
        try:
            said.append("octets" if ours.recv(1) else "end")
        except OSError as error:
            said.append(type(error).__name__)
            readiness.unwatch(ours.fileno())

    reader.then = read
    readiness.watch(ours.fileno(), reader)
    client.send(b"1")
    await rounds()
    assert said == ["octets"]
    client.close()
    await rounds()
    assert said == ["octets", "ConnectionResetError"]
    ours.close()


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_who_is_told_knows_whether_others_were_ready(readiness: Readiness, count: int) -> None:
    readers = [Reader(readiness) for _ in range(count)]
    found: list[bool] = []
    for reader in readers:
        reader.then = lambda reader=reader: (found.append(readiness.has_more), reader.read())  # type: ignore[misc]
        reader.peer.send(b"1")
    await rounds()
    assert found == [count > 1] * count
    assert not readiness.has_more
