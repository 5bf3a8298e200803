"""Listener: accepts clients without TLS on one socket."""

from __future__ import annotations

import errno
import logging
import socket
from typing import TYPE_CHECKING, Any

from amqp_broker.server.tcp import TcpTransport, tcp_peer

if TYPE_CHECKING:
    from amqp_broker.server.driver import Driver

log = logging.getLogger("amqp_broker.server")

#: Accepted for each time the loop says that somebody is there, so that those who are connected are served too.
_ACCEPTED_AT_ONCE = 64
#: How long nobody is accepted after the process or the machine has run out of something, seconds.
_REST_S = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """Accepts until it is closed."""

    def __init__(self, driver: Driver, loop: Any, listener: socket.socket, backlog: int) -> None:
        self._driver = driver
        self._loop = loop
        self._socket = listener
        self._is_closed = False
        listener.setblocking(False)
        listener.listen(backlog)
        self._listen()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.error("cannot accept a client: %s; trying again in %g s: raise `ulimit -n`", error, _REST_S)
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(_REST_S, self._listen)
                return
            self._open(client)

    def _open(self, client: socket.socket) -> None:
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = tcp_peer(client)
        except OSError:
            client.close()  # gone already
            return
        TcpTransport(self._driver, self._loop, client, peer)

    def close(self) -> None:
        """Accept nobody any more."""
        self._is_closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
