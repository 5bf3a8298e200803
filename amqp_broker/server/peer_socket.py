"""PeerSocket: the TCP socket of one link between nodes, read and written by hand, as a client's is (tcp.py).

What is written leaves at once, before the node goes on to its disk, and not when the loop comes round. It knows nothing
of what the octets mean, and has no limit of its own: `unsent_bytes` is for its owner to look at.

Invariants:
1. The loop watches for room to write exactly while `unsent` has something.
2. `connection_lost` is told once, and never from within `write`, `close` or `abort`.
3. Nothing is told but `connection_lost` after `close` or `abort`.
"""

from __future__ import annotations

import socket
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.server.system_calls import drop_sent, receive_octets, send_bytes

if TYPE_CHECKING:
    import asyncio

    from amqp_broker.server.peer_link import PeerLink

#: What is read at once, and handled before the next read, octets: the less while no more than that comes. It is short
#: enough for the interpreter's lock to be kept meanwhile (system_calls.py).
_READ_BYTES = 16 * 1024
LONG_READ_BYTES = 256 * 1024
_LONG_READ_BYTES = LONG_READ_BYTES
#: The kernel takes so many pieces in one call (Linux: IOV_MAX).
_PIECES = 1024


class PeerSocket:
    """Takes a connected socket over, and reads. `room`: LONG_READ_BYTES of it, which all links of a loop can share."""

    def __init__(
        self, link: PeerLink, loop: asyncio.AbstractEventLoop, connected: socket.socket, room: bytearray
    ) -> None:
        connected.setblocking(False)
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self.loop = loop
        self.socket = connected
        self.fd = connected.fileno()
        self.unsent: deque[bytes | bytearray | memoryview] = deque()
        self.unsent_bytes = 0
        self.is_closing = False
        self.is_lost = False
        self.room = room
        self.read_bytes = _READ_BYTES
        loop.add_reader(self.fd, self.on_readable)

    # -- from the loop -----------------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Read once, and hand it over."""
        if self.is_closing:
            return
        try:
            data = receive_octets(self.socket, self.fd, self.room, self.read_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if data:
            self.read_bytes = _READ_BYTES if len(data) < _READ_BYTES else _LONG_READ_BYTES
            self.link.data_received(data)
            return
        self.link.eof_received()
        if not self.is_closing:
            self.close()

    def on_writable(self) -> None:
        """Write what is left."""
        if self.is_lost:
            return
        try:
            while self.unsent:
                sent = self.socket.sendmsg(list(islice(self.unsent, _PIECES)))
                self.unsent_bytes -= sent
                if not drop_sent(self.unsent, sent):
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        self.loop.remove_writer(self.fd)
        if self.is_closing:
            self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        """The socket is gone, by either side."""
        if self.is_lost:
            return
        self.is_lost = self.is_closing = True
        self.loop.remove_reader(self.fd)
        if self.unsent:
            self.loop.remove_writer(self.fd)
            self.unsent.clear()
            self.unsent_bytes = 0
        self.socket.close()
        self.link.connection_lost(error)

    # -- for the link ------------------------------------------------------------------------------------------------

    def write(self, pieces: list[bytes]) -> None:
        """Write as much as the socket takes now, and the rest when it has room. None of the pieces is empty."""
        if self.is_closing:
            return
        if self.unsent:
            self.unsent.extend(pieces)
            for piece in pieces:
                self.unsent_bytes += len(piece)
            return
        try:
            if len(pieces) == 1:
                sent = send_bytes(self.socket, self.fd, pieces[0])
            else:
                sent = self.socket.sendmsg(pieces[:_PIECES])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose_soon(error)
            return
        total = 0
        for piece in pieces:
            total += len(piece)
        if sent < total:
            self.unsent.extend(pieces)
            self.unsent_bytes = total - sent
            drop_sent(self.unsent, sent)
            self.loop.add_writer(self.fd, self.on_writable)

    def close(self) -> None:
        """Read no more, and close when everything is written."""
        if self.is_closing:
            return
        if self.unsent:
            self.is_closing = True
            self.loop.remove_reader(self.fd)
        else:
            self._lose_soon(None)

    def abort(self) -> None:
        """Close at once."""
        self._lose_soon(None)

    def _lose_soon(self, error: OSError | None) -> None:
        if not self.is_lost:
            self.is_closing = True
            self.loop.remove_reader(self.fd)
            self.loop.call_soon(self._lose, error)
