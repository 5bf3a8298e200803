"""Who is no peer gets a closed connection and a line in the log; who is one does not notice."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
from typing import Any

import pytest
import uvloop

from tests.example_counts import seeds
from tests.links.link_pair import frames_of
from tests.server.peer_cluster import HandPeer, LogWatch, Place, connect, linked, places, rest_of, running

#: What strangers say, and what the log says of it.
GARBAGE = {
    "nothing that makes sense": (bytes(range(255, 0, -1)) * 16, "before the login"),
    "http": (b"GET / HTTP/1.1\r\n\r\n", "before the login"),
    "amqp": (b"AMQP\0\0\x09\1", "before the login"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it looks like TLS"),
    "a long message": (struct.pack(">I", 1 << 30) + b"x" * 100_000, "a message of 1073741824 octets"),
    "an empty message": (struct.pack(">I", 0), "a message of 0 octets"),
    "a pickle": (struct.pack(">I", 20) + b"\x80\x04\x95cos\nsystem\n(tR.xxxx", "does not begin as a node"),
}


def lines_of(caplog: pytest.LogCaptureFixture, writer: asyncio.StreamWriter) -> list[str]:
    """What the log says of the node at this end of a connection."""
    host, port = writer.get_extra_info("sockname")
    return [line for line in caplog.text.splitlines() if f"{host}:{port} is closed" in line]


@pytest.mark.parametrize(("words", "reason"), GARBAGE.values(), ids=GARBAGE)
async def test_garbage_gets_a_close_and_one_line(words: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    nodes = first, second = places("n1", "n2")
    async with running(*nodes):
        await linked(*nodes)
        turns = first.turns("n2")
        reader, writer = await connect(first)
        writer.write(words)
        assert await rest_of(reader) == b""
        (line,) = lines_of(caplog, writer)
        assert "a stranger at" in line
        assert reason in line
        writer.close()
        assert first.links.send("n2", [b"goes on"])
        await second.hears(b"goes on", "n1")
        assert first.turns("n2") == turns


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("n9", {}, "calls itself 'n9', which is no other member"),
        ("n1", {}, "calls itself 'n1', which is no other member"),
        ("n2", {"secret": b"the secret of somebody else's cluster"}, "'n2' but has not the cluster's secret"),
        ("n2", {"cluster_name": "theirs"}, "belongs to the cluster 'theirs'"),
    ],
    ids=["unknown", "this node", "wrong secret", "other cluster"],
)
async def test_a_wrong_peer_gets_a_close_and_one_line(
    name: str, changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, _ = places("n1", "n2")
    async with running(place):
        peer = HandPeer(place, name, **changes)
        await peer.connect()
        peer.writer.write(peer.protocol.take_output())
        assert await peer.closed() == b""
        (line,) = lines_of(caplog, peer.writer)
        assert reason in line
        assert place.heard == []
        peer.abort()


async def test_a_changed_frame_ends_the_link(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2")
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        good, bad = (b"".join(frames_of(peer.protocol).encode([word])) for word in (b"good", b"bad"))
        peer.writer.write(good)
        await place.hears(b"good", "n2")
        peer.writer.write(bad[:-1] + bytes((bad[-1] ^ 1,)))
        await place.hears("disconnected", "n2")
        assert place.frames("n2") == [b"good"]
        peer.abort()
    assert "a frame of 'n2' was changed on its way" in caplog.text


@pytest.mark.parametrize("seed", seeds(range(12)))
async def test_octets_of_chance_on_an_open_link_end_it(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """In place of a frame, behind one, cut anywhere; a beginning of what was sent before is heard, and nothing else."""
    chance = random.Random(seed)
    place, _ = places("n1", "n2", cluster_frame_max_bytes=1024 * 1024)
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        whole = [b"whole %d" % number for number in range(chance.randrange(4))]
        peer.send(*whole)
        length = chance.choice([0, 23, 24, 60, 1 << 20, (1 << 20) + 25, (1 << 32) - 1])
        octets = struct.pack(">I", length) + chance.randbytes((1 << 20) + 100)
        start = 0
        while start < len(octets) and not peer.writer.is_closing():
            stop = start + chance.choice([1, 3, 4, 11, 1000, 1 << 20])
            peer.writer.write(octets[start:stop])
            start = stop
        await place.hears("disconnected", "n2")
        assert place.frames("n2") == whole[: len(place.frames("n2"))]
        peer.abort()
    assert "0 to 1048576 are allowed" in caplog.text or "its MAC is wrong" in caplog.text


async def test_who_says_nothing_is_dropped_when_its_time_is_up(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2", peer_handshake_timeout_ms=50)
    async with running(place):
        reader, writer = await connect(place)
        assert await rest_of(reader) == b""
        (line,) = lines_of(caplog, writer)
        assert "it was not open after 50 ms" in line
        writer.close()


async def test_what_does_not_open_is_no_news_when_all_stop(caplog: pytest.LogCaptureFixture) -> None:
    """Half a link that the other end leaves, and one that says nothing until its time is up."""
    place, other = places("n1", "n2", peer_handshake_timeout_ms=50)
    async with running(place):
        place.links.call_nobody()
        caplog.set_level(logging.DEBUG)
        reader, writer = await connect(place)
        writer.write(b"\0")
        writer.write_eof()
        silent, second = await connect(place)
        assert await rest_of(reader) + await rest_of(silent) == b""
        of_one, of_other = lines_of(caplog, writer), lines_of(caplog, second)
        writer.close()
        second.close()
    other.listener.close()
    assert "before it was open" in of_one[0]
    assert "it was not open after 50 ms" in of_other[0]
    assert [each.levelname for each in caplog.records if each.levelno >= logging.INFO] == []


async def test_who_accepts_and_says_nothing_is_given_up_and_dialled_again(caplog: pytest.LogCaptureFixture) -> None:
    """And the real node, which is somewhere else by now, comes in by itself."""
    first, second = places("n1", "n2", peer_handshake_timeout_ms=100)
    dialled: asyncio.Queue[bytes] = asyncio.Queue()

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.put_nowait(await rest_of(reader))
        writer.close()

    silent = await asyncio.start_server(be_silent, sock=second.listener)
    async with running(first):
        for _ in range(2):
            hello = await dialled.get()
            assert hello[4:12] == b"AMQPLINK"
        assert first.heard == []
        peer = await HandPeer(first, "n2").open()
        await first.hears("connected", "n2")
        peer.abort()
    silent.close()
    assert "the link with n2 at 127." in caplog.text
    assert "it was not open after 100 ms" in caplog.text


async def test_who_closes_is_dialled_again_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A node whose list of members lacks this one, say."""
    first, second = places("n1", "n2")
    visits = asyncio.Semaphore(0)

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()
        visits.release()

    rude = await asyncio.start_server(close, sock=second.listener)
    async with running(first):
        async with asyncio.timeout(10):
            for _ in range(3):
                await visits.acquire()
    rude.close()
    assert "it has closed the link before it was open: its log says why" in caplog.text


async def test_a_node_with_another_secret_and_this_one_refuse_each_other() -> None:
    """Neither answers, so neither learns anything to try words against but what it has said itself."""
    first, second = places("n1", "n2")
    second.secret = b"a secret that is not the cluster's own"
    with contextlib.closing(LogWatch()) as log:
        async with running(first, second):
            await log.has("'n1' but has not the cluster's secret", "'n2' but has not the cluster's secret")
            assert first.heard == second.heard == []


async def test_many_strangers_do_not_keep_a_member_out(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest goes, when there are more than may wait."""
    place, _ = places("n1", "n2", max_pending_peers=4)
    async with running(place):
        strangers = [await connect(place) for _ in range(4)]
        peer = await HandPeer(place, "n2").open()
        assert await rest_of(strangers[0][0]) == b""
        (line,) = lines_of(caplog, strangers[0][1])
        assert "too many links at once" in line
        peer.send(b"in")
        await place.hears(b"in", "n2")
        for _, writer in strangers:
            writer.close()
        peer.abort()


async def test_a_probe_that_only_connects_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2")
    async with running(place):
        _, writer = await connect(place)
        writer.close()
        await writer.wait_closed()
        peer = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        peer.abort()
    assert "stranger" not in caplog.text


def test_uvloop_refuses_garbage_too(caplog: pytest.LogCaptureFixture) -> None:
    for words, reason in GARBAGE.values():
        caplog.clear()  # ports come again
        uvloop.run(test_garbage_gets_a_close_and_one_line(words, reason, caplog))


def test_a_place_keeps_its_listener() -> None:
    """The harness itself: ports stay taken between the making of a node and its start."""
    first, second = places("n1", "n2")
    assert isinstance(first, Place)
    assert first.listener.getsockname() != second.listener.getsockname()
