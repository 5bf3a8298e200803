"""TlsPipe: carries octets between a TLS transport and a socket of this process, whose other end a hot loop has.

The loops read and write descriptors. So TLS is done beside them, in a thread for each connection, and its cost is in
what is measured, as that of any client's TLS is.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress

#: What is carried at once, octets.
_AT_ONCE = 256 * 1024


class TlsPipe:
    """Both directions of one connection. It ends when either side does, and closes both. Whoever has `client_end`
    finds that it has ended; `failure` says why, if anything was wrong."""

    def __init__(self, transport: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Shake hands with the broker `host` over its transport, which belongs to the pipe then. Raises OSError
        (ssl.SSLError is one)."""
        timeout = transport.gettimeout()
        self._records = context.wrap_socket(transport, server_hostname=host)
        self._clear, self.client_end = socket.socketpair()
        self.client_end.settimeout(timeout)
        self.failure: OSError | None = None
        self._to_broker = memoryview(b"")
        self._to_client = memoryview(b"")
        threading.Thread(target=self._run, name="tls pipe", daemon=True).start()

    def _run(self) -> None:
        """Carry until one side ends."""
        records, clear = self._records, self._clear
        records.setblocking(False)
        clear.setblocking(False)
        poll = select.poll()
        with records, clear:
            try:
                while self._carry():
                    # Nothing is read that the other side does not take.
                    poll.register(records, _events(not self._to_client, bool(self._to_broker)))
                    poll.register(clear, _events(not self._to_broker, bool(self._to_client)))
                    poll.poll()
            except OSError as error:
                self.failure = error
            with suppress(OSError):
                records.unwrap()

    def _carry(self) -> bool:
        """What can be carried now. Returns whether both sides are still there. Raises OSError: the broker is not."""
        is_moving = True
        while is_moving:
            is_moving = False
            with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                if not self._to_client:
                    octets = self._records.recv(_AT_ONCE)
                    if not octets:
                        return False
                    self._to_client = memoryview(octets)
                self._to_client = self._to_client[self._clear.send(self._to_client) :]
                is_moving = True
            with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                if not self._to_broker:
                    octets = self._clear.recv(_AT_ONCE)
                    if not octets:
                        return False
                    self._to_broker = memoryview(octets)
                self._to_broker = self._to_broker[self._records.send(self._to_broker) :]
                is_moving = True
        return True


def _events(reads: bool, writes: bool) -> int:
    return (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0)
