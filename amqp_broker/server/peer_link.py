"""PeerLink: one connection to another node: a PeerSocket, TLS where it is configured, PeerProtocol and PeerFrames.

It says to its owner what happens and asks it whether the link is wanted; which links there are is the owner's.

Invariants:
1. `lost` is told to the owner once, and never from within `send` or `drop`.
2. After `drop` nothing that comes is handled: late frames of a link that was replaced go nowhere.
3. A link that is not open when its time is up is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Container
from typing import Protocol

from amqp_broker.links.peer_frames import PING, PeerFrames
from amqp_broker.links.peer_handshake import NONCE_BYTES, LinkIdentity, PeerLinkError
from amqp_broker.links.peer_protocol import LinkOpened, PeerProtocol, PeerProved
from amqp_broker.server.peer_socket import PeerSocket
from amqp_broker.server.peer_tls import TlsChannel, TlsCredentials
from amqp_broker.settings.cluster_config import ClusterConfig
from amqp_broker.settings.workers import worker_number

log = logging.getLogger("amqp_broker.cluster")

#: Pieces that are together no longer than this are joined before they are written, octets.
_JOIN_BYTES = 64 * 1024


def _address_of(connected: socket.socket) -> str:
    """The other end's address as a log has it. Raises OSError if it is gone."""
    remote = connected.getpeername()
    host, port = remote[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class LinkCallbacks(Protocol):
    """Who hears what comes. What it raises stops the link it is raised on, and is told to the loop."""

    def on_frame(self, node_id: str, payload: bytes) -> None:
        """A frame of the link that stands."""

    def input_is_over(self, octets: int) -> None:
        """All frames that a read of so many octets has brought have been handed over."""


class LinkOwner(Protocol):
    """What a link needs of the node."""

    config: ClusterConfig
    identity: LinkIdentity
    credentials: TlsCredentials | None
    entropy: Callable[[int], bytes]
    #: Room for what is read; what is in it is handled before the next read.
    room: bytearray

    #: Nobody is dialled any more, and a link that does not come to stand is no news.
    calls_nobody: bool

    @property
    def callbacks(self) -> LinkCallbacks:
        """Whom frames are handed to, without a detour."""

    @property
    def expected(self) -> Container[str]:
        """Whoever is listened to: the members, and who is to be told that it is none."""

    def is_connected(self, node_id: str) -> bool:
        """Whether there is an open link to this member."""

    def link_proved(self, link: PeerLink, proved: PeerProved) -> None:
        """The peer is who it says: `link.admit`, or `link.drop`."""

    def link_opened(self, link: PeerLink, opened: LinkOpened) -> None:
        """The link is open; its frames follow unless it is dropped."""

    def heard_first(self, link: PeerLink, payload: bytes) -> None:
        """The first frame of a link that is a candidate."""

    def link_lost(self, link: PeerLink) -> None:
        """The link is gone."""


class PeerLink:
    """See the module's docstring. `dialled` names the node that was dialled; None: the link was accepted."""

    def __init__(self, owner: LinkOwner, loop: asyncio.AbstractEventLoop, dialled: str | None) -> None:
        self.dialled = dialled
        self.is_lost = False
        self.is_open = False
        self.is_admitted = False
        #: Its first frame says whether it takes the place of another one.
        self.is_candidate = False
        self.silent_ticks = 0
        self.has_sent = False
        #: Done when the link is open or lost.
        self.settled: asyncio.Future[None] = loop.create_future()
        self._owner = owner
        self._callbacks = owner.callbacks
        self._loop = loop
        self._buffer_limit = owner.config.peer_buffer_limit_bytes
        self._socket: PeerSocket | None = None
        self._address = "an unknown address"
        self._tls: TlsChannel | None = None
        self._protocol: PeerProtocol | None = None
        self._peer = ""
        self._frames: PeerFrames | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._has_heard = False

    def stand_as_candidate(self) -> None:
        """Its first frame says whether it takes the place of another one."""
        self.is_candidate = True

    def take_place(self) -> None:
        """It is the link to its node."""
        self.is_candidate = False

    @property
    def name(self) -> str | None:
        """The peer's name, once it is known."""
        return self._protocol.peer_name if self._protocol is not None else self.dialled

    @property
    def epoch(self) -> int:
        """The number of the link, once it is open."""
        return self._protocol.epoch if self._protocol is not None else 0

    # -- from the loop -----------------------------------------------------------------------------------------------

    def connected(self, connection: socket.socket, octets: bytes = b"") -> None:
        """There is a connection, of which somebody has read these octets: it is the link's now. Raises OSError if it is
        gone already."""
        if self.is_lost:  # dropped while it was being dialled
            connection.close()
            return
        try:
            self._address = _address_of(connection)
            self._socket = PeerSocket(self, self._loop, connection, self._owner.room)
        except OSError:
            connection.close()
            raise
        timeout_ms = self._owner.config.peer_handshake_timeout_ms
        self._deadline = self._loop.call_later(timeout_ms / 1000.0, self._be_late, timeout_ms)
        if self._owner.credentials is None:
            self._begin(None)
        else:
            self._tls = TlsChannel(self._owner.credentials, self.dialled)
            self._handle(b"")
        if octets:
            self.data_received(octets)

    def data_received(self, data: bytes) -> None:
        """Octets have come."""
        if self.is_lost:
            return
        self.silent_ticks = 0
        self._has_heard = True
        self._handle(data)

    def _handle(self, data: bytes) -> None:
        try:
            self._receive(data)
        except PeerLinkError as error:
            self.drop(str(error))
        except Exception as error:
            self.drop(f"defect while its octets were handled: {type(error).__name__}: {error}", logging.CRITICAL)
            raise

    def eof_received(self) -> None:
        """Nothing comes any more."""
        if not self.is_lost and not self.is_open:
            is_probe = self.dialled is None and not self._has_heard
            is_linked = self.name is not None and self._owner.is_connected(self.name)
            # A worker that is not there has a supervisor all the same, which says so in its own log.
            is_worker = self.dialled is not None and worker_number(self.dialled) > 0
            is_news = not (is_probe or is_linked or is_worker or self._owner.calls_nobody)
            level = logging.WARNING if is_news else logging.DEBUG
            self.drop("it has closed the link before it was open: its log says why", level)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.is_open = False
        if not self.is_lost:
            log.info("the link with %s is gone%s", self._who(), f": {error}" if error else "")
            self.is_lost = True
        self._settle()
        self._owner.link_lost(self)

    def _be_late(self, timeout_ms: int) -> None:
        level = logging.DEBUG if self._owner.calls_nobody else logging.WARNING
        self.drop(f"it was not open after {timeout_ms} ms", level)

    # -- what comes --------------------------------------------------------------------------------------------------

    def _begin(self, tls: TlsChannel | None) -> None:
        owner = self._owner
        self._protocol = PeerProtocol(
            owner.identity,
            owner.expected,
            owner.entropy(NONCE_BYTES),
            dialled=self.dialled,
            tls=None if tls is None else tls.facts(),
        )
        self._write_handshake(self._protocol)

    def _receive(self, data: bytes) -> None:
        if self._tls is not None:
            data = self._receive_tls(self._tls, data)
        frames = self._frames
        if frames is None:
            if not data or self._protocol is None:
                return
            self._shake_hands(self._protocol, data)
            frames = self._frames
            if frames is None:
                return
            data = self._protocol.take_rest()
        payloads = frames.receive(data)
        for payload in payloads:
            if self.is_lost:
                return
            if self.is_candidate:
                self._owner.heard_first(self, payload)
            else:
                self._callbacks.on_frame(self._peer, payload)
        if payloads:
            self._callbacks.input_is_over(len(data))

    def _receive_tls(self, tls: TlsChannel, data: bytes) -> bytes:
        """What TLS makes of it; the link's own handshake begins when that of TLS is over."""
        try:
            data = tls.receive(data)
        finally:
            self._write(tls.take_output())
        if self._protocol is None and tls.is_established:
            self._begin(tls)
        return data

    def _shake_hands(self, protocol: PeerProtocol, data: bytes) -> None:
        event = protocol.receive_handshake(data)
        self._write_handshake(protocol)
        if isinstance(event, PeerProved):
            self._owner.link_proved(self, event)
        elif isinstance(event, LinkOpened):
            self._opened(protocol, event)

    def _write_handshake(self, protocol: PeerProtocol) -> None:
        if output := protocol.take_output():
            self._write(output if self._tls is None else self._tls.encrypt(output))

    def _write(self, octets: bytes) -> None:
        if octets:
            assert self._socket is not None
            self._socket.write([octets])

    def _opened(self, protocol: PeerProtocol, opened: LinkOpened) -> None:
        self._settle()
        self._peer = opened.name
        self._frames = protocol.frames
        self.is_open = not self.is_lost
        self._owner.link_opened(self, opened)

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if not self.settled.done():
            self.settled.set_result(None)

    # -- for the owner -----------------------------------------------------------------------------------------------

    def admit(self, epoch: int) -> None:
        """The link is wanted; the senior of the two gives it its number, and for the junior `epoch` is 0."""
        assert self._protocol is not None
        self.is_admitted = True
        opened = self._protocol.admit(epoch)
        self._write_handshake(self._protocol)
        if opened is not None:
            self._opened(self._protocol, opened)

    def send(self, payloads: list[bytes]) -> None:
        """Write frames, at once or when the socket has room. Beyond the limit the link is dropped."""
        if not self.is_open:
            return
        link, frames = self._socket, self._frames
        assert link is not None
        assert frames is not None
        self.has_sent = True
        pieces = frames.encode(payloads)
        size = 0
        for piece in pieces:
            size += len(piece)
        if self._tls is not None:
            pieces = [self._tls.encrypt(b"".join(pieces))]
        elif size <= _JOIN_BYTES:
            pieces = [b"".join(pieces)]
        link.write(pieces)
        unsent, limit = link.unsent_bytes, self._buffer_limit
        if unsent > limit:
            self.drop(f"{unsent} octets are waiting to be sent, more than peer_buffer_limit, {limit}: it does not read")

    def tick(self) -> None:
        """One peer_ping has passed: drop a link that is silent, and say something on one where nothing was said."""
        if not self.is_open:
            return
        config = self._owner.config
        self.silent_ticks += 1
        if (self.silent_ticks - 1) * config.peer_ping_ms >= config.peer_timeout_ms:
            self.drop(f"nothing has come for {config.peer_timeout_ms} ms")
            return
        if not self.has_sent:
            self.send([PING])
        self.has_sent = False

    def drop(self, reason: str, level: int = logging.WARNING) -> None:
        """Close at once, and log why. The owner hears that it is lost in a moment."""
        if self.is_lost:
            return
        was_open = self.is_open
        self.is_lost = True
        self.is_open = False
        log.log(level, "the link with %s is closed: %s", self._who(), reason)
        self._settle()
        if self._socket is None:
            return
        if was_open:
            self._socket.abort()
        else:
            self._socket.close()  # an alert of TLS still goes out

    def part(self, payloads: list[bytes]) -> None:
        """Say a last word, and close when it is written."""
        self.send(payloads)
        if not self.is_lost:
            self.is_lost = True
            self.is_open = False
            assert self._socket is not None
            self._socket.close()

    def _who(self) -> str:
        if self.dialled is not None:
            return f"{self.dialled} at {self._address}"
        name = self.name
        return f"{name}, from {self._address}" if name is not None else f"a stranger at {self._address}"
