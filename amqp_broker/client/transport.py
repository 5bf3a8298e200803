"""One socket, plain or TLS, that sends and receives until a deadline and never blocks beyond it.

It knows octets and time, not AMQP. Deadlines are moments of `time.monotonic`; infinity means for ever.
"""

from __future__ import annotations

import math
import select
import socket
import time
from typing import TYPE_CHECKING, Final, Self

from amqp_broker.client.errors import ClientTimeout, ConnectFailed, ConnectionClosed

if TYPE_CHECKING:
    from ssl import SSLContext

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
CHUNK: Final = 262144


def deadline_in(timeout: float | None) -> float:
    """The moment `timeout` seconds from now, or infinity for None."""
    return math.inf if timeout is None else time.monotonic() + timeout


class Transport:
    """A connected socket. `peer` names it in error texts."""

    def __init__(self, connected: socket.socket, peer: str) -> None:
        self.peer = peer
        self._socket = connected
        self._wants_read: tuple[type[Exception], ...] = (BlockingIOError,)
        self._wants_write: tuple[type[Exception], ...] = (BlockingIOError,)
        connected.setblocking(False)
        self._poll = select.poll()

    @classmethod
    def connect(cls, host: str, port: int, timeout: float | None, tls: SSLContext | None, peer: str) -> Self:
        """Connects, with TLS where a context is given; ConnectFailed names the peer and the cause."""
        try:
            connected = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {peer}: {error}; is the broker running there?") from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                return cls(connected, peer)
            import ssl

            transport = cls(tls.wrap_socket(connected, server_hostname=host), peer)
            transport._wants_read += (ssl.SSLWantReadError,)
            transport._wants_write += (ssl.SSLWantWriteError,)
            return transport
        except OSError as error:
            connected.close()
            raise ConnectFailed(f"no TLS connection to {peer}: {error}") from error

    def send_some(self, data: memoryview) -> int:
        """Sends what fits without waiting; 0 when nothing does. Raises ConnectionClosed."""
        try:
            return self._socket.send(data[:CHUNK])
        except self._wants_write + self._wants_read:
            return 0
        except OSError as error:
            raise ConnectionClosed(f"connection to {self.peer} lost while sending: {error}") from error

    def receive_some(self) -> bytes | None:
        """What is there without waiting; None when nothing is. Raises ConnectionClosed, also at the end."""
        try:
            data = self._socket.recv(CHUNK)
        except self._wants_read + self._wants_write:
            return None
        except OSError as error:
            raise ConnectionClosed(f"connection to {self.peer} lost while receiving: {error}") from error
        if not data:
            raise ConnectionClosed(f"connection to {self.peer} closed by the peer without a word")
        return data

    def wait(self, events: int, deadline: float, purpose: str) -> None:
        """Waits until the socket is ready for one of `events`; ClientTimeout says what for."""
        remaining = deadline - time.monotonic()
        self._poll.register(self._socket, events)
        if remaining > 0 and self._poll.poll(None if remaining == math.inf else math.ceil(remaining * 1000)):
            return
        raise ClientTimeout(f"timed out waiting for {purpose} from {self.peer}")

    def close(self) -> None:
        self._socket.close()
