"""Network: the links between the nodes go through TCP proxies of the harness, which can do to them what networks do.

Each node has one proxy, whose address is the node's address in `--cluster`. Who dials is read from the HELLO, the first
message of a link (see docs/cluster-links.md), so that every direction between two nodes has a state of its own,
whoever dialled, and whichever of their workers. Everything else is octets to it.

    Direction   is_cut      nothing passes, and nobody is told: what is sent waits, as in TCP, until it is healed or
                            one end gives the link up
                is_refused  links are reset, and new ones too, as a firewall that rejects does; for both directions
                delay_s     (least, most): every piece is late by a time between them, in order
                octets_s    so many octets a second pass, None for no limit
                reset_chance  that a piece is lost for good, which resets the link

Invariants:
1. Octets come out in the order and number in which they went in, or the link ends at both ends.
2. The end of a link is told in the same way as octets are: late, or not while the direction is cut.
3. What a cut direction holds back is bounded: HELD_PIECES pieces a link, then the sender's socket fills.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from amqp_broker.links.peer_handshake import MAX_HANDSHAKE_BYTES, PeerLinkError, decode_hello
from amqp_broker.settings.workers import node_of_worker
from tests.chaos.timing import now, pause

PIECE_BYTES = 65536
HELD_PIECES = 64
LENGTH_BYTES = 4
DIAL_ERRORS = (OSError, asyncio.IncompleteReadError, PeerLinkError, TimeoutError)

#: From the sender to the receiver.
Way = tuple[str, str]


@dataclass
class Direction:
    """What is done to octets from one node to another; see the module's docstring."""

    is_cut: bool = False
    is_refused: bool = False
    delay_s: tuple[float, float] = (0.0, 0.0)
    octets_s: float | None = None
    reset_chance: float = 0.0
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    passed: int = 0
    resets: int = 0

    def heal(self) -> None:
        self.is_cut = self.is_refused = False
        self.delay_s, self.octets_s, self.reset_chance = (0.0, 0.0), None, 0.0
        self.opened.set()

    def cut(self) -> None:
        self.is_cut = True
        self.opened.clear()

    async def wait_open(self) -> None:
        while self.is_cut:
            await self.opened.wait()


class LinkResetError(Exception):
    """A piece was lost, or the link is refused: both ends are reset."""


class Network:
    """The proxies of a cluster. `chance` decides delays and losses."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._directions: dict[Way, Direction] = {}
        self._targets: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._links: dict[asyncio.Task[None], Way] = {}

    async def add(self, node: str, host: str, proxy_port: int, cluster_port: int) -> None:
        """A node that listens at `cluster_port` for the others, who dial `proxy_port` instead."""
        for other in self._targets:
            for way in ((node, other), (other, node)):
                self._directions[way] = Direction()
                self._directions[way].opened.set()
        self._targets[node] = cluster_port

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(node, host, reader, writer)

        self._servers.append(await asyncio.start_server(accept, host, proxy_port))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def direction(self, sender: str, receiver: str) -> Direction:
        return self._directions[sender, receiver]

    @property
    def ways(self) -> list[Way]:
        return list(self._directions)

    # -- faults ------------------------------------------------------------------------------------------------------

    def cut(self, ways: Iterable[Way]) -> None:
        """Let nothing pass on these ways, silently."""
        for way in ways:
            self._directions[way].cut()

    def refuse(self, ways: Iterable[Way]) -> None:
        """Reset the links of these ways, and let none come up again."""
        refused = set(ways)
        for way in refused:
            self._directions[way].is_refused = True
        for link, (dialler, acceptor) in list(self._links.items()):
            if (dialler, acceptor) in refused or (acceptor, dialler) in refused:
                link.cancel()

    def heal(self) -> None:
        """Everything passes again."""
        for direction in self._directions.values():
            direction.heal()

    # -- links -------------------------------------------------------------------------------------------------------

    async def _accept(
        self, acceptor: str, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        opened = [writer]
        try:
            head = await reader.readexactly(LENGTH_BYTES)
            length = int.from_bytes(head, "big")
            if length > MAX_HANDSHAKE_BYTES:
                raise PeerLinkError(f"a first message of {length} octets")
            hello = await reader.readexactly(length)
            dialler = node_of_worker(decode_hello(hello).dialler)
            there, back = self._directions[dialler, acceptor], self._directions[acceptor, dialler]
            self._links[task] = (dialler, acceptor)
            if there.is_refused or back.is_refused:
                raise LinkResetError
            await there.wait_open()
            far_reader, far_writer = await asyncio.open_connection(host, self._targets[acceptor])
            opened.append(far_writer)
            far_writer.write(head + hello)
            async with asyncio.TaskGroup() as group:
                for source, sink, direction in ((reader, far_writer, there), (far_reader, writer, back)):
                    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD_PIECES)
                    group.create_task(self._take(source, pieces, direction))
                    group.create_task(self._give(sink, pieces, direction))
        except* (*DIAL_ERRORS, LinkResetError, KeyError):
            # Either end has gone, or a fault ends the link: that is said to both by the resets below.
            pass
        except* asyncio.CancelledError:
            pass  # `refuse` or `close`
        finally:
            self._links.pop(task, None)
            for each in opened:
                each.transport.abort()

    async def _take(
        self, source: asyncio.StreamReader, pieces: asyncio.Queue[tuple[float, bytes]], direction: Direction
    ) -> None:
        """Read until the end, which is an empty piece."""
        due = 0.0
        while True:
            try:
                piece = await source.read(PIECE_BYTES)
            except OSError:
                piece = b""
            due = max(due, now() + self._chance.uniform(*direction.delay_s))
            await pieces.put((due, piece))
            if not piece:
                return

    async def _give(
        self, sink: asyncio.StreamWriter, pieces: asyncio.Queue[tuple[float, bytes]], direction: Direction
    ) -> None:
        while True:
            due, piece = await pieces.get()
            if (early := due - now()) > 0:
                await pause(early)
            await direction.wait_open()
            if not piece:
                raise LinkResetError
            if direction.reset_chance and self._chance.random() < direction.reset_chance:
                direction.resets += 1
                raise LinkResetError
            if direction.octets_s is not None:
                await pause(len(piece) / direction.octets_s)
            sink.write(piece)
            await sink.drain()
            direction.passed += len(piece)
