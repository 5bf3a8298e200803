"""The proxies between the nodes: what passes, what waits, and what ends a link."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from amqp_broker.links.peer_handshake import Hello, encode_hello
from tests.chaos.links import Network
from tests.chaos.timing import now, until

HOST = "127.0.0.1"
PATIENCE_S = 60.0
SHORT_S = 0.2


@dataclass
class Link:
    """A link that n1 has dialled to n2, seen from both ends."""

    n1_reader: asyncio.StreamReader
    n1_writer: asyncio.StreamWriter
    n2_reader: asyncio.StreamReader
    n2_writer: asyncio.StreamWriter


class Pair:
    """n2 listens behind a proxy; `dial` is what n1 does."""

    def __init__(self) -> None:
        self.network = Network(Random(1))
        self.accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.accepted.put((reader, writer))

        self._server = await asyncio.start_server(accept, HOST, 0)
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = probe.getsockname()[1]
        await self.network.add("n1", HOST, 0, 0)
        await self.network.add("n2", HOST, self.port, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.network.close()

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """n1's end, and the first message that it has sent."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        hello = encode_hello(Hello(False, bytes(32), "cluster", "n1", "n2"), bytes(32), b"")
        first = len(hello).to_bytes(4, "big") + hello
        writer.write(first)
        return reader, writer, first

    async def link(self) -> Link:
        reader, writer, first = await self.dial()
        far_reader, far_writer = await asyncio.wait_for(self.accepted.get(), PATIENCE_S)
        assert await far_reader.readexactly(len(first)) == first
        return Link(reader, writer, far_reader, far_writer)


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    await made.start()
    yield made
    await made.stop()


async def silent(reader: asyncio.StreamReader) -> bool:
    """Whether nothing comes for a while."""
    try:
        await asyncio.wait_for(reader.read(1), SHORT_S)
    except TimeoutError:
        return True
    return False


async def has_ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), PATIENCE_S) == b""
    except ConnectionError:
        return True


async def test_everything_passes_in_order(pair: Pair) -> None:
    link = await pair.link()
    pair.network.direction("n1", "n2").delay_s = (0.0, 0.01)
    sent = Random(2).randbytes(1 << 20)
    link.n1_writer.write(sent)
    link.n2_writer.write(b"back")
    assert await asyncio.wait_for(link.n2_reader.readexactly(len(sent)), PATIENCE_S) == sent
    assert await asyncio.wait_for(link.n1_reader.readexactly(4), PATIENCE_S) == b"back"


async def test_a_cut_way_holds_what_is_said_and_the_other_way_passes(pair: Pair) -> None:
    link = await pair.link()
    pair.network.cut([("n1", "n2")])
    link.n1_writer.write(b"held")
    link.n2_writer.write(b"back")
    assert await asyncio.wait_for(link.n1_reader.readexactly(4), PATIENCE_S) == b"back"
    assert await silent(link.n2_reader)
    pair.network.heal()
    assert await asyncio.wait_for(link.n2_reader.readexactly(4), PATIENCE_S) == b"held"


async def test_what_a_cut_way_holds_back_is_bounded(pair: Pair) -> None:
    link = await pair.link()
    pair.network.cut([("n1", "n2")])
    link.n1_writer.write(bytes(64 << 20))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(link.n1_writer.drain(), SHORT_S)


async def test_a_new_link_does_not_come_up_on_a_cut_way(pair: Pair) -> None:
    pair.network.cut([("n1", "n2")])
    await pair.dial()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pair.accepted.get(), SHORT_S)
    pair.network.heal()
    await asyncio.wait_for(pair.accepted.get(), PATIENCE_S)


async def test_the_end_of_a_link_is_not_told_on_a_cut_way(pair: Pair) -> None:
    link = await pair.link()
    pair.network.cut([("n2", "n1")])
    link.n2_writer.close()
    assert await silent(link.n1_reader)
    pair.network.heal()
    assert await has_ended(link.n1_reader)


@pytest.mark.parametrize("way", [("n1", "n2"), ("n2", "n1")])
async def test_refusing_resets_links_and_lets_none_come_up(pair: Pair, way: tuple[str, str]) -> None:
    link = await pair.link()
    pair.network.refuse([way])
    assert await has_ended(link.n1_reader)
    assert await has_ended(link.n2_reader)
    reader, _, _ = await pair.dial()
    assert await has_ended(reader)
    assert pair.accepted.empty()
    pair.network.heal()
    await pair.link()


async def test_a_lost_piece_resets_both_ends(pair: Pair) -> None:
    link = await pair.link()
    direction = pair.network.direction("n1", "n2")
    direction.reset_chance = 1.0
    link.n1_writer.write(b"lost")
    assert await has_ended(link.n1_reader)
    assert await has_ended(link.n2_reader)
    assert direction.resets == 1


async def test_delay_and_speed(pair: Pair) -> None:
    link = await pair.link()
    direction = pair.network.direction("n1", "n2")
    direction.delay_s = (SHORT_S, SHORT_S)
    began = now()
    link.n1_writer.write(b"late")
    await asyncio.wait_for(link.n2_reader.readexactly(4), PATIENCE_S)
    assert now() - began >= SHORT_S * 0.9
    direction.delay_s, direction.octets_s = (0.0, 0.0), 100_000
    began = now()
    link.n1_writer.write(bytes(20_000))
    await asyncio.wait_for(link.n2_reader.readexactly(20_000), PATIENCE_S)
    assert now() - began >= 0.18


async def test_who_dials_without_a_hello_is_closed(pair: Pair) -> None:
    reader, writer = await asyncio.open_connection(HOST, pair.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await has_ended(reader)
    assert await until(pair.accepted.empty, PATIENCE_S)
