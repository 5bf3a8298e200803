"""Links between nodes over loopback, all of them in one loop."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from amqp_broker.links.peer_frames import FRAME_OVERHEAD, PING
from amqp_broker.server.peers import FIRST_DELAY_S, LONGEST_DELAY_S, Backoff
from amqp_broker.server.sockets import bind_all
from amqp_broker.settings.kinds import Address, MemberAddress
from tests.example_counts import seeds
from tests.links.link_pair import frames_of
from tests.server.peer_cluster import HandPeer, Place, linked, listeners, places, rest_of, running

KIB = 1024
#: Limits small enough to be reached.
SMALL: dict[str, Any] = {"cluster_frame_max_bytes": 256 * KIB, "peer_buffer_limit_bytes": 1024 * KIB}


def socket_of(place: Place, name: str) -> Any:
    link = place.links.members[name].link
    assert link is not None
    return link._socket


def ends(place: Place, name: str) -> set[Any]:
    """Both addresses of a link: the same, seen from either end."""
    connection = socket_of(place, name).socket
    return {connection.getsockname(), connection.getpeername()}


# -- connecting --------------------------------------------------------------------------------------------------------


async def test_three_nodes_link_and_talk() -> None:
    nodes = places("n1", "n2", "n3")
    async with running(*nodes):
        await linked(*nodes)
        payloads = [b"first", b"x" * 200_000, *(b"%d" % number for number in range(500))]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    assert node.links.send(other.name, payloads[:2])
                    assert node.links.send(other.name, payloads[2:])
        for node in nodes:
            for other in nodes:
                if other is not node:
                    await node.hears(b"499", other.name)
                    assert node.frames(other.name) == payloads
                    assert node.turns(other.name)[-1] == "connected"
                    assert ends(node, other.name) == ends(other, node.name)
                    assert socket_of(node, other.name).socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_whoever_starts_later_is_found() -> None:
    first, second = places("n1", "n2")
    second.listener.listen(1)
    second.listener.close()  # nobody is there yet
    async with running(first):
        address = second.config.cluster_listen[0]
        second.listener = bind_all(second.config.cluster_listen, "--cluster-listen")[0]
        assert second.listener.getsockname() == (address.host, address.port)
        async with running(second):
            await linked(first, second)


@pytest.mark.parametrize("seed", seeds(range(20)))
async def test_nodes_that_dial_each_other_at_once_agree_on_one_link(seed: int) -> None:
    """Whatever came when, both ends have the same link in the end, and it works."""
    first, second = places("n1", "n2")
    await asyncio.gather(first.start(seed), second.start(seed))  # the same delays: they dial in step
    try:
        await linked(first, second)
        first.links.send("n2", [b"over"])
        second.links.send("n1", [b"and out"])
        await first.until(lambda: b"and out" in first.frames("n2") or not first.links.is_connected("n2"))
        await linked(first, second)
        assert ends(first, "n2") == ends(second, "n1")
        for node, other in ((first, "n2"), (second, "n1")):
            turns = node.turns(other)
            assert turns == ["connected", "disconnected"] * (len(turns) // 2) + ["connected"]
    finally:
        await first.links.close()
        await second.links.close()


# -- losing ------------------------------------------------------------------------------------------------------------


async def test_a_link_that_was_cut_is_made_again() -> None:
    nodes = first, second, third = places("n1", "n2", "n3")
    async with running(*nodes):
        await linked(*nodes)
        counts = {node.name: node.heard.count(("connected", "n2")) for node in (first, third)}
        socket_of(first, "n2").abort()
        await first.hears("disconnected", "n2", 1)
        await second.hears("disconnected", "n1", 1)
        await first.hears("connected", "n2", counts["n1"] + 1)
        await second.until(lambda: second.links.is_connected("n1"))
        assert first.links.send("n2", [b"again"])
        await second.hears(b"again", "n1")
        assert third.heard.count(("connected", "n2")) == counts["n3"]


async def test_a_node_that_starts_again_is_linked_again() -> None:
    first, second = places("n1", "n2")
    async with running(first):
        await second.start()
        await linked(first, second)
        await second.links.close()
        heard = list(second.heard)
        await first.hears("disconnected", "n2")
        assert not first.links.send("n2", [b"to nobody"])
        second.listener = bind_all(second.config.cluster_listen, "--cluster-listen")[0]
        async with running(second):
            await first.until(lambda: first.links.is_connected("n2"))
            await linked(first, second)
            assert second.heard[: len(heard)] == heard


async def test_a_node_that_was_dialled_starts_again() -> None:
    """What is left of the connections that it had accepted does not keep its port."""
    first, second = places("n1", "n2")
    (deaf,) = listeners(1)  # nobody listens there, so that this node does not dial
    members = (MemberAddress("n1", Address(*deaf.getsockname())), second.config.cluster[1])
    second.config = replace(second.config, cluster=members)
    async with running(first):
        await second.start()
        await linked(first, second)
        await second.links.close()
        second.listener = bind_all(second.config.cluster_listen, "--cluster-listen")[0]
        async with running(second):
            await linked(first, second)
    deaf.close()


async def test_a_newer_link_takes_the_place_of_the_older() -> None:
    """The peer has lost the link without this node's knowing. What comes late on the old one is dropped."""
    place, _ = places("n1", "n2")
    async with running(place):
        old = await HandPeer(place, "n2").open()
        old.send(b"old")
        await place.hears(b"old", "n2")
        older = place.links.members["n2"].link
        assert older is not None
        new = await HandPeer(place, "n2").open()
        assert new.protocol.epoch > old.protocol.epoch
        older.data_received(b"".join(frames_of(old.protocol).encode([b"late"])))
        new.send(b"new")
        await place.hears(b"new", "n2")
        assert place.heard == [
            ("connected", "n2"), (b"old", "n2"), ("disconnected", "n2"), ("connected", "n2"), (b"new", "n2"),
        ]  # fmt: skip
        await old.closed()
        new.abort()


async def test_a_stranger_does_not_take_the_place_of_a_member() -> None:
    """It has the member's name and the secret, and is of another cluster."""
    place, _ = places("n1", "n2")
    place.refused = [b"stranger"]
    async with running(place):
        member = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        for _ in range(3):
            stranger = await HandPeer(place, "n2").open()
            stranger.send(b"stranger", b"more")
            octets = await stranger.closed()
            assert [payload for payload in frames_of(stranger.protocol).receive(octets) if payload] == [b"not you"]
        member.send(b"still here")
        await place.hears(b"still here", "n2")
        assert place.turns("n2") == ["connected"]
        again = await HandPeer(place, "n2").open()
        again.send(b"greeting")
        await place.hears(b"greeting", "n2")
        assert place.turns("n2") == ["connected", "disconnected", "connected"]
        await member.closed()
        again.abort()


async def test_who_waits_to_be_looked_at_stands_when_the_other_link_is_lost() -> None:
    place, _ = places("n1", "n2")
    place.refused = [b"stranger"]
    async with running(place):
        member = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        candidate = await HandPeer(place, "n2").open()
        member.abort()
        await place.hears("connected", "n2", 2)
        candidate.send(b"here")
        await place.hears(b"here", "n2")
        candidate.abort()


async def test_who_says_nothing_stands_after_a_while() -> None:
    """A version that does not greet waits for somebody to speak."""
    place, _ = places("n1", "n2", peer_handshake_timeout_ms=200)
    place.refused = [b"stranger"]
    async with running(place):
        member = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        silent = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2", 2)
        await member.closed()
        silent.abort()


async def test_a_link_of_a_lower_number_does_not_replace_one_of_a_higher() -> None:
    """It was dialled before the other, and comes late."""
    _, place = places("n1", "n2")
    async with running(place):
        standing = await HandPeer(place, "n1").open(epoch=10)
        late = HandPeer(place, "n1")
        with pytest.raises(ConnectionError):
            await late.open(epoch=9)
        standing.send(b"still here")
        await place.hears(b"still here", "n1")
        assert place.turns("n1") == ["connected"]
        await HandPeer(place, "n1").open(epoch=11)
        await place.hears("connected", "n1", 2)
        assert place.turns("n1") == ["connected", "disconnected", "connected"]


async def test_a_peer_that_goes_silent_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2", peer_ping_ms=20, peer_timeout_ms=100)
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        await place.hears("disconnected", "n2")
        pings = await peer.closed()
        assert frames_of(peer.protocol).receive(pings) == []
        assert len(pings) >= 28 * 3
    assert "n2, from 127.0.0.1:" in caplog.text
    assert "nothing has come for 100 ms" in caplog.text


async def test_pings_keep_an_idle_link() -> None:
    """For four times as long as silence may last."""
    place, _ = places("n1", "n2", peer_ping_ms=20, peer_timeout_ms=100)
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        for _ in range(20):
            await peer.reader.readexactly(FRAME_OVERHEAD)
            peer.send(PING)
        assert place.heard == [("connected", "n2")]
        peer.abort()


async def test_a_peer_that_does_not_read_is_dropped_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2", **SMALL)
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        accepted = 0
        while place.links.send("n2", [b"x" * 200 * KIB]):
            assert place.turns("n2") == ["connected"], "never from within send"
            accepted += 1
            assert accepted < 1000, "what is kept for a peer that does not read has no bound"
            await asyncio.sleep(0)
        assert accepted >= 5
        await place.hears("disconnected", "n2")
        peer.abort()
    assert "more than peer_buffer_limit, 1048576: it does not read" in caplog.text


# -- the owner's wishes ------------------------------------------------------------------------------------------------


async def test_a_link_whose_frames_make_no_sense_can_be_dropped(caplog: pytest.LogCaptureFixture) -> None:
    nodes = first, second = places("n1", "n2")
    async with running(*nodes):
        await linked(*nodes)
        first.links.drop("n2", "its frame is no frame")
        assert not first.links.is_connected("n2")
        assert first.heard[-1] == ("connected", "n2")
        await first.hears("disconnected", "n2")
        await linked(*nodes)
        first.links.drop("n9", "nobody")
        assert not second.links.send("n9", [b"to nobody"])
    assert "is closed: its frame is no frame" in caplog.text


async def test_a_frame_above_the_limit_is_the_senders_defect() -> None:
    nodes = first, _ = places("n1", "n2", **SMALL)
    async with running(*nodes):
        await linked(*nodes)
        with pytest.raises(ValueError, match="at most 262144 are allowed"):
            first.links.send("n2", [b"x" * 300 * KIB])


async def test_members_come_and_go() -> None:
    nodes = first, second, third = places("n1", "n2", "n3")
    async with running(*nodes):
        await linked(*nodes)
        heard = list(first.heard)
        first.links.set_members({"n2": second.config.cluster_listen[0]})
        assert not first.links.is_connected("n3")
        await third.hears("disconnected", "n1")
        stranger = HandPeer(first, "n3")
        with pytest.raises(ConnectionError):
            await stranger.open()
        assert first.heard == heard, "no word of who was left out"
        first.links.set_members(first.config.others)
        await linked(*nodes)
        assert first.links.send("n2", [b"was never cut"])
        await second.hears(b"was never cut", "n1")


async def test_who_comes_while_nobody_can_be_accepted_is_accepted_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place, _ = places("n1", "n2")
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept
    failures = [OSError(errno.EMFILE, "Too many open files"), ConnectionAbortedError()]

    async def fail(listener: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", fail)
    async with running(place):
        peer = await HandPeer(place, "n2").open()
        await place.hears("connected", "n2")
        peer.abort()
    assert not failures
    assert "cannot accept a link: [Errno 24] Too many open files; trying again in 1 s: raise `ulimit -n`" in caplog.text


async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a name that stands for one of IPv6, where nobody listens, and one of IPv4."""
    place, other = places("n1", "n2")
    refused, served = other.config.cluster_listen[0], place.config.cluster_listen[0]
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", tuple(address)) for address in (refused, served)]

    async def look_up(*_: Any, **__: Any) -> list[Any]:
        return answer

    async with running(place):
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        name = Address("a-name", served.port)
        with await place.links._connected(name) as found:
            assert found.getpeername() == tuple(served)
        del answer[1:]
        with pytest.raises(ConnectionRefusedError):
            await place.links._connected(name)
        answer.clear()
        with pytest.raises(OSError, match="'a-name' stands for no address"):
            await place.links._connected(name)
    other.listener.close()


async def test_a_new_address_leaves_the_link_alone() -> None:
    nodes = first, _ = places("n1", "n2")
    async with running(*nodes):
        await linked(*nodes)
        link = first.links.members["n2"].link
        first.links.set_members({"n2": Address("127.0.0.1", 1)})
        assert first.links.members["n2"].link is link
        assert first.links.is_connected("n2")


async def test_nothing_is_heard_after_the_end() -> None:
    nodes = first, second = places("n1", "n2")
    async with running(*nodes):
        await linked(*nodes)
        heard = list(first.heard)
        await first.links.close()
        await second.hears("disconnected", "n1")
        assert first.heard == heard
        assert not first.links.send("n2", [b"x"])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*first.config.cluster_listen[0])


async def test_a_defect_in_the_callback_is_told_to_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    place, _ = places("n1", "n2")
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with running(place):
        peer = await HandPeer(place, "n2").open()

        def fail(node_id: str, payload: bytes) -> None:
            raise RuntimeError("a defect")

        place.on_frame = fail  # type: ignore[method-assign]
        peer.send(b"x")
        await rest_of(peer.reader)
        await place.hears("disconnected", "n2")
    assert any(isinstance(context.get("exception"), RuntimeError) for context in told)
    assert "defect while its octets were handled: RuntimeError: a defect" in caplog.text


@pytest.mark.parametrize(
    "scenario",
    [
        test_three_nodes_link_and_talk,
        test_a_link_that_was_cut_is_made_again,
        test_a_node_that_starts_again_is_linked_again,
        test_a_node_that_was_dialled_starts_again,
        test_a_newer_link_takes_the_place_of_the_older,
        test_a_stranger_does_not_take_the_place_of_a_member,
        test_pings_keep_an_idle_link,
        test_members_come_and_go,
        test_nothing_is_heard_after_the_end,
    ],
)
def test_uvloop_does_the_same(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(scenario())


@pytest.mark.parametrize(
    "scenario",
    [test_a_peer_that_does_not_read_is_dropped_at_the_limit, test_a_defect_in_the_callback_is_told_to_the_loop],
)
def test_uvloop_does_the_same_and_logs_it(
    scenario: Callable[[pytest.LogCaptureFixture], Coroutine[Any, Any, None]], caplog: pytest.LogCaptureFixture
) -> None:
    uvloop.run(scenario(caplog))


# -- small parts -------------------------------------------------------------------------------------------------------


def test_delays_double_to_their_bound_and_begin_anew() -> None:
    backoff = Backoff(random.Random(5))
    for _ in range(2):
        longest = FIRST_DELAY_S
        for _ in range(12):
            assert longest / 2 <= backoff.next_delay() <= longest
            longest = min(2 * longest, LONGEST_DELAY_S)
        assert longest == LONGEST_DELAY_S
        backoff.reset()


def test_a_port_that_is_taken_is_named() -> None:
    place = places("n1", "n2")[0]
    place.listener.listen(1)
    with pytest.raises(OSError, match="choose another address with --cluster-listen") as error:
        bind_all(place.config.cluster_listen, "--cluster-listen")
    assert error.value.filename == str(place.config.cluster_listen[0])
