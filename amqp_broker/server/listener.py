"""Listener: accepts clients on one socket, as many as there is room for; TlsListener, those with TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from amqp_broker.server.descriptors import EXHAUSTED
from amqp_broker.server.tcp import TcpTransport, tcp_peer
from amqp_broker.server.tls_layer import TlsLayer

if TYPE_CHECKING:
    from amqp_broker.flow.peer import Peer
    from amqp_broker.server.driver import Driver

log = logging.getLogger("amqp_broker.server")

#: Clients are accepted for so long at a time, seconds, so that those who are connected are served too.
_ACCEPTING_S = 0.001
#: What is read at once of a TLS handshake, octets.
_HANDSHAKE_BYTES = 16 * 1024
#: How long nobody is accepted after the process or the machine has run out of something, seconds.
_REST_S = 1.0


class Listener:
    """Accepts until it is closed."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop, listener: socket.socket, backlog: int) -> None:
        self._take_part(driver, loop)
        self._socket = listener
        self._is_closed = False
        listener.setblocking(False)
        listener.listen(backlog)
        self._listen()

    def _take_part(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        """Whose clients they are."""
        self._driver = driver
        self._config = driver.config
        self._room = driver.room
        self._loop = loop

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _rest(self) -> None:
        self._loop.remove_reader(self._socket.fileno())

    def _accept(self) -> None:
        room = self._room
        until = monotonic() + _ACCEPTING_S
        has_room = True
        while has_room:
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                log.error("cannot accept a client: %s; trying again in %g s: raise `ulimit -n`", error, _REST_S)
                self._rest()
                self._loop.call_later(_REST_S, self._listen)
                return
            has_room = room.take()
            self._open(client)
            if monotonic() > until:
                break
        if not has_room:
            self._rest()
            room.wait(self._listen)

    def _open(self, client: socket.socket) -> None:
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = tcp_peer(client)
        except OSError:
            client.close()  # gone already
            self._room.give()
            return
        TcpTransport(self._driver, self._loop, client, peer)

    def close(self) -> None:
        """Accept nobody any more."""
        self._is_closed = True
        self._rest()
        self._socket.close()


class TlsListener(Listener):
    """Those with TLS, whose handshake comes first, within its time; the slowest makes room when there are too many."""

    def __init__(
        self,
        driver: Driver,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        backlog: int,
        context: ssl.SSLContext | None,
    ) -> None:
        self._context = context
        self._handshakes: dict[asyncio.Task[tuple[TlsLayer, Peer]], None] = {}
        super().__init__(driver, loop, listener, backlog)

    def use(self, context: ssl.SSLContext) -> None:
        """For handshakes that begin from now on."""
        self._context = context

    def _open(self, client: socket.socket) -> None:
        task = self._loop.create_task(self._shake_hands(client))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._shaken, client))
        if len(self._handshakes) > self._config.max_pending_handshakes:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()  # it may not have begun: then nothing of it is ever run

    async def _shake_hands(self, client: socket.socket) -> tuple[TlsLayer, Peer]:
        """Raises OSError."""
        assert self._context is not None
        tls = TlsLayer(self._context)
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(self._config.tls_handshake_timeout_ms / 1000):
            await self._exchange(tls, client)
        return tls, tcp_peer(client, tls)

    def _shaken(self, client: socket.socket, task: asyncio.Task[tuple[TlsLayer, Peer]]) -> None:
        """A handshake is over, one way or another."""
        self._handshakes.pop(task, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            tls, peer = task.result()
            TcpTransport(self._driver, self._loop, client, peer, tls)
            return
        client.close()
        self._room.give()
        if isinstance(error, OSError | asyncio.CancelledError):
            log.info("TLS handshake of a client failed: %s", str(error) or type(error).__name__)
        else:
            log.error("defect in a TLS handshake: the client is closed; report it", exc_info=error)

    async def _exchange(self, tls: TlsLayer, client: socket.socket) -> None:
        """Raises OSError (ssl.SSLError is one), of which the client is told as far as TLS does."""
        is_done = False
        octets = b""
        while not is_done:
            try:
                is_done = tls.shake_hands(octets)
            finally:
                for records in tls.take():
                    await self._loop.sock_sendall(client, records)
            if not is_done:
                octets = await self._loop.sock_recv(client, _HANDSHAKE_BYTES)
                if not octets:
                    raise ConnectionResetError("the client has closed")

    def close(self) -> None:
        """Accept nobody any more."""
        super().close()
        self.end_handshakes()

    def end_handshakes(self) -> None:
        """Those that go on are given up."""
        for task in self._handshakes:
            task.cancel()
