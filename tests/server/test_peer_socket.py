"""The socket of a link between nodes: what it does not take at once, and its end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from tests.links.link_pair import frames_of
from tests.server.peer_cluster import HandPeer, Place, places, running

KIB = 1024
#: More than the kernel keeps for a peer that does not read, in frames of some size.
MANY = [bytes([number % 256]) * (40 * KIB + number) for number in range(400)]
FEW = [b"a" * (12 * KIB * KIB), b"b", b"c" * (3 * KIB * KIB)]


def socket_of(place: Place) -> Any:
    """The socket of the link with n2."""
    link = place.links.members["n2"].link
    assert link is not None
    return link._socket


@asynccontextmanager
async def with_a_peer() -> AsyncIterator[tuple[Place, HandPeer]]:
    """A node, and a peer whose link with it is open."""
    place, _ = places("n1", "n2")
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        try:
            yield place, peer
        finally:
            peer.abort()


async def heard_by(peer: HandPeer, count: int) -> list[bytes]:
    """The next frames that the peer hears."""
    heard: list[bytes] = []
    async with asyncio.timeout(60):
        while len(heard) < count:
            data = await peer.reader.read(1024 * KIB)
            assert data, "closed"
            heard += frames_of(peer.protocol).receive(data)
    return heard


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("payloads", [MANY, FEW], ids=["many", "few"])
def test_what_does_not_fit_is_written_when_there_is_room(
    runner: Callable[[Coroutine[Any, Any, None]], None], payloads: list[bytes]
) -> None:
    """All of it, in order, and with what was said meanwhile behind it."""

    async def check() -> None:
        async with with_a_peer() as (place, peer):
            link = socket_of(place)
            for start in range(0, len(payloads), 50):
                assert place.links.send("n2", payloads[start : start + 50])
            assert link.unsent_bytes > 0
            assert place.links.send("n2", [b"meanwhile"])
            assert await heard_by(peer, len(payloads) + 1) == [*payloads, b"meanwhile"]
            assert link.unsent_bytes == 0
            assert place.links.send("n2", [b"at once"])
            assert link.unsent_bytes == 0
            assert await heard_by(peer, 1) == [b"at once"]

    runner(check())


async def test_what_was_said_before_the_end_is_heard() -> None:
    """`close` writes the rest; after it nothing more is taken."""
    async with with_a_peer() as (place, peer):
        assert place.links.send("n2", MANY)
        link = socket_of(place)
        assert link.unsent_bytes > 0
        link.close()
        link.write([b"too late"])
        assert await heard_by(peer, len(MANY)) == MANY
        assert await peer.closed() == b""
        await place.hears("disconnected", "n2")


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_peer_that_resets_is_lost_once_and_not_within_a_write(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def check() -> None:
        async with with_a_peer() as (place, peer):
            connection = peer.writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.abort()
            await asyncio.sleep(0)  # the close is the peer's loop's, which is ours
            while place.links.send("n2", [b"x" * 100 * KIB]) and not socket_of(place).is_closing:
                assert place.turns("n2") == ["connected"]
            assert place.turns("n2") == ["connected"]
            await place.hears("disconnected", "n2")
            assert place.turns("n2") == ["connected", "disconnected"]

    runner(check())


async def test_much_at_once_is_read_in_large_pieces() -> None:
    """And nothing of it is lost where a frame ends with a read, or does not."""
    async with with_a_peer() as (place, peer):
        for size in (16 * KIB - 28, 16 * KIB - 27, 16 * KIB - 29, 256 * KIB, 1024 * KIB):
            peer.send(b"x" * size, b"end of %d" % size)
            await place.hears(b"end of %d" % size, "n2")
        sizes = [len(frame) for frame in place.frames("n2") if not frame.startswith(b"end")]
        assert sizes == [16 * KIB - 28, 16 * KIB - 27, 16 * KIB - 29, 256 * KIB, 1024 * KIB]
