"""Nodes that are nothing but their links, all in one loop; and a peer that is driven by hand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from amqp_broker.links.peer_handshake import LinkIdentity
from amqp_broker.links.peer_protocol import LinkOpened, PeerProtocol, PeerProved
from amqp_broker.server.peer_tls import TlsCredentials
from amqp_broker.server.peers import PeerLinks
from amqp_broker.settings.cluster_config import ClusterConfig
from amqp_broker.settings.kinds import Address, MemberAddress
from tests.links.link_pair import frames_of

SECRET = b"a secret that nobody could ever guess"
PATIENCE_S = 60.0
#: Files that are never read: the secret and the credentials are given as they are.
NOWHERE = Path("nowhere")


class Place:
    """One node: its links, and what it has heard of them, as (what, who) or (b"frame", who)."""

    def __init__(self, name: str, cluster: tuple[MemberAddress, ...], listener: socket.socket, **settings: Any) -> None:
        self.name = name
        self.listener = listener
        self.credentials: TlsCredentials | None = settings.pop("credentials", None)
        self.secret: bytes = settings.pop("secret", SECRET)
        address = next(member.address for member in cluster if member.name == name)
        self.config = ClusterConfig(
            node_name=name, cluster=cluster, cluster_listen=(address,), cluster_secret_file=NOWHERE, **settings
        )
        self.heard: list[tuple[str | bytes, str]] = []
        #: What those are told that are no members.
        self.farewells: dict[str, list[bytes]] = {}
        #: First frames that are not let in.
        self.refused: list[bytes] = []
        self.links: PeerLinks = None  # type: ignore[assignment]  # made when the loop runs
        self._changed = asyncio.Event()

    async def start(self, seed: int = 1) -> Self:
        self.links = PeerLinks(
            self.config,
            self.secret,
            self,
            credentials=self.credentials,
            random_source=random.Random(seed),
            entropy=secrets.token_bytes,
        )
        await self.links.start([self.listener])
        return self

    # -- what the links say --------------------------------------------------------------------------------------------

    def on_connected(self, node_id: str) -> None:
        self._hear(("connected", node_id))

    def on_disconnected(self, node_id: str) -> None:
        self._hear(("disconnected", node_id))

    def on_frame(self, node_id: str, payload: bytes) -> None:
        self._hear((payload, node_id))

    def farewell(self, node_id: str) -> list[bytes]:
        return self.farewells.get(node_id, [])

    def counts(self, node_id: str) -> bool:
        return bool(self.refused)

    def refusal(self, node_id: str, payload: bytes) -> list[bytes]:
        return [b"not you"] if payload in self.refused else []

    def input_is_over(self, octets: int) -> None:
        """A driver would end its turn."""

    def _hear(self, what: tuple[str | bytes, str]) -> None:
        self.heard.append(what)
        self._changed.set()

    # -- what tests ask ------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, looking whenever something was heard."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def hears(self, what: str | bytes, who: str, times: int = 1) -> None:
        """Wait until it was heard so many times in all."""
        await self.until(lambda: self.heard.count((what, who)) >= times)

    def frames(self, who: str) -> list[bytes]:
        return [what for what, name in self.heard if name == who and isinstance(what, bytes)]

    def turns(self, who: str) -> list[str]:
        """What was heard of the link, without the frames."""
        return [what for what, name in self.heard if name == who and isinstance(what, str)]


def listeners(count: int) -> list[socket.socket]:
    """Bound to free ports of an address that is this process's own: a node that starts again finds its port free, and
    not taken by another process's connection. As the server's, so that what is left of connections that it accepted
    does not keep the port."""
    sockets = []
    for _ in range(count):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((f"127.{1 + os.getpid() // 250 % 250}.0.{1 + os.getpid() % 250}", 0))
        sockets.append(listener)
    return sockets


def places(*names: str, **settings: Any) -> list[Place]:
    """Nodes that know each other, not yet started."""
    sockets = listeners(len(names))
    cluster = tuple(
        MemberAddress(name, Address(*listener.getsockname()))
        for name, listener in zip(names, sockets, strict=True)
    )
    return [Place(name, cluster, listener, **settings) for name, listener in zip(names, sockets, strict=True)]


@contextlib.asynccontextmanager
async def running(*nodes: Place) -> AsyncIterator[None]:
    """The nodes, started at the same time."""
    await asyncio.gather(*(node.start(seed) for seed, node in enumerate(nodes)))
    try:
        yield
    finally:
        for node in nodes:
            await node.links.close()


async def linked(*nodes: Place) -> None:
    """Wait until each has a link to every other."""
    for node in nodes:
        others = [other.name for other in nodes if other is not node]
        await node.until(lambda node=node, others=others: all(map(node.links.is_connected, others)))  # type: ignore[misc]


class LogWatch(logging.Handler):
    """What the links log from its making on; `close` ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._changed = asyncio.Event()
        logging.getLogger("amqp_broker.cluster").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"
        self._changed.set()

    async def has(self, *texts: str) -> None:
        """Wait until it has them all."""
        async with asyncio.timeout(PATIENCE_S):
            while not all(text in self.text for text in texts):
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        logging.getLogger("amqp_broker.cluster").removeHandler(self)
        super().close()


class HandPeer:
    """A peer of the test's, with the real protocol and no rules: it dials `place` in the name of another member."""

    def __init__(self, place: Place, name: str, **changes: Any) -> None:
        self.place = place
        identity = LinkIdentity(name, place.config.cluster_name, SECRET, place.config.cluster_frame_max_bytes)
        self.protocol = PeerProtocol(
            replace(identity, **changes), (place.name,), secrets.token_bytes(32), dialled=place.name
        )
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self) -> Self:
        self.reader, self.writer = await connect(self.place)
        return self

    async def open(self, epoch: int = 0) -> Self:
        """Dial, and run the handshake to its end. `epoch` is the link's number if this peer is the senior."""
        await self.connect()
        self.writer.write(self.protocol.take_output())
        while not self.protocol.is_open:
            async with asyncio.timeout(PATIENCE_S):
                data = await self.reader.read(1000)
            if not data:
                raise ConnectionError("closed during the handshake")
            event = self.protocol.receive_handshake(data)
            if isinstance(event, PeerProved):
                self.protocol.admit(epoch)
                self.writer.write(self.protocol.take_output())
            else:
                assert isinstance(event, LinkOpened)
        return self

    def send(self, *payloads: bytes) -> None:
        self.writer.write(b"".join(frames_of(self.protocol).encode(list(payloads))))

    async def closed(self) -> bytes:
        """What comes until the other side closes."""
        return await rest_of(self.reader)

    def abort(self) -> None:
        self.writer.transport.abort()


async def connect(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stranger's connection to a node."""
    return await asyncio.open_connection(*place.listener.getsockname())


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side closes."""
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while data := await reader.read(65536):
                received += data
        except ConnectionError:  # it closed with octets of ours unread
            return received
    return received
