"""TlsLayer: one client's TLS records, between the octets of its socket and those of its connection.

OpenSSL works on memory here, and the transport has the socket, as it has without TLS: so the ends are the same too.

Invariants:
1. What is said is turned into records in order, and the close_notify is the last of them.
2. `has_more` is set while there is something to be read that the socket does not announce.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any


class TlsLayer:
    """The server's side of one TLS connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._records = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_said_all = False
        self.has_more = False

    # -- the handshake -----------------------------------------------------------------------------------------------

    def shake_hands(self, octets: bytes) -> bool:
        """Go on with what the client has sent. Returns whether the handshake is done; either way there may be an answer
        to be taken. Raises ssl.SSLError: it has failed."""
        self._incoming.write(octets)
        try:
            self._records.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.has_more = True  # the client may have sent something behind its handshake
        return True

    def common_name(self) -> str | None:
        """The last common name of the client's certificate, if it has shown one that was verified."""
        certificate: dict[str, Any] = self._records.getpeercert() or {}  # untyped: as ssl has it
        name = None
        for part in certificate.get("subject", ()):
            for key, value in part:
                if key == "commonName":
                    name = value
        return name

    # -- when it is done -----------------------------------------------------------------------------------------------

    def receive(self, client: socket.socket, target: memoryview) -> int:
        """Put what has come into `target`, with one recv(2) at most. Returns how many octets; 0 at the client's end,
        as often as it is called then.

        Raises BlockingIOError where nothing is whole yet, and OSError (ssl.SSLError is one).
        """
        self.has_more = False
        taken = 0
        has_received = False
        while taken < len(target):
            try:
                nbytes = self._records.read(len(target) - taken, target[taken:])
            except ssl.SSLWantReadError:
                if taken or has_received:
                    break
                has_received = True
                if octets := client.recv(len(target)):
                    self._incoming.write(octets)
                else:
                    self._incoming.write_eof()
                continue
            except ssl.SSLError:
                self.has_more = True  # the next read says it again
                if not taken:
                    raise
                return taken
            if not nbytes:
                self.has_more = True
                return taken
            taken += int(nbytes)
        if not taken:
            raise BlockingIOError
        self.has_more = taken == len(target)
        return taken

    def seal(self, chunks: list[bytes]) -> None:
        """Make records of these; who has said all says nothing more. Raises ssl.SSLError."""
        if self._has_said_all or not chunks:
            return
        left = memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        while left:
            left = left[self._records.write(left) :]

    def end(self) -> None:
        """Say the close_notify, once."""
        if self._has_said_all:
            return
        self._has_said_all = True
        with suppress(ssl.SSLError):  # the client's has not come yet, or never will
            self._records.unwrap()

    def take(self) -> list[bytes]:
        """What is to be sent."""
        return [self._outgoing.read()] if self._outgoing.pending else []
