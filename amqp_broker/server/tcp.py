"""TcpTransport: one client's TCP socket, read and written by hand whenever the loop says that it is ready.

A stream of asyncio's would do; this one reads once for each time the socket is ready, so that a flood of one publisher
does not keep everybody else from being served, and goes from the loop to the node and back without a layer between.
Where there is TLS, `tls` turns octets into records and back.

Invariants:
1. The loop watches for room to write exactly while `unsent` has something. It is told of something to be read
   (readiness.py) while that is wanted (`is_reading`), but for those of a large crowd that wait until they are read.
2. `connection_lost` of the node is called once, and never from within a turn.
3. A socket that is closed with unread octets is reset, and the client may never see what it was told last. So what a
   connection is sent behind its end is read, and discarded, until the client closes or the node gives up. With TLS too:
   behind our close_notify the records are discarded as they are.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import cython

from amqp_broker.connection.connection import Connection
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import CLOSING, ENDING, OPEN
from amqp_broker.server.driver import IMMEDIATE_TURN_BYTES
from amqp_broker.server.readiness import Watched
from amqp_broker.server.system_calls import drop_sent, monotonic_time, receive_into, send_bytes
from storage.errors import StorageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_broker.server.driver import Driver
    from amqp_broker.server.tls_layer import TlsLayer

log = logging.getLogger("amqp_broker.server")

#: What is read at once, and handled before the next read. It fits into a processor's cache.
READ_BYTES = 256 * 1024
_READ_BYTES = READ_BYTES
#: Behind an unfinished frame of so much, bodies are large: then so much is read at once, as the beginning of a frame is
#: copied twice, and the fewer the better.
_LARGE_FRAME_BYTES = 4 * 1024
_LARGE_READ_BYTES = 768 * 1024
#: While publishers have to wait, so much is read at once: what is behind a publish that waits takes memory.
GATED_READ_BYTES = 16 * 1024
_GATED_READ_BYTES = GATED_READ_BYTES
#: Who sends so much at once may have to wait for those who send less.
_BULK_BYTES = 16 * 1024
#: A read that took longer to handle than the one is followed by one of half its size, a quicker one than the other by
#: one of twice its size; seconds.
_LONG_S = 0.002
_QUICK_S = 0.0005
_IMMEDIATE_TURN_BYTES = IMMEDIATE_TURN_BYTES
_CLOSING = CLOSING
_ENDING = ENDING
_OUTPUT = int(Reason.OUTPUT)
_OPEN = OPEN
_MSG_PEEK = int(socket.MSG_PEEK)
_MSG_TRUNC = int(socket.MSG_TRUNC)
#: The kernel takes so many pieces in one call (Linux: IOV_MAX).
_PIECES = 1024
#: The transport is full with `output_limit_bytes` unsent, and has room again below this part of it.
_LOW_WATER = 4
#: Who was read so often is no newcomer any more. They come in crowds, and many go soon.
_NEWCOMER_READS = 16
#: Addresses that only this machine has.
LOOPBACK = ("127.", "::1", "::ffff:127.")


def tcp_peer(client: socket.socket, tls: TlsLayer | None = None) -> Peer:
    """Who is at the other end of a socket, over TLS or not. Raises OSError: nobody is, any more."""
    remote, local = client.getpeername(), client.getsockname()
    host = str(remote[0])
    name = None if tls is None else tls.common_name()
    return Peer(host, int(remote[1]), str(local[0]), int(local[1]), tls is not None, name, host.startswith(LOOPBACK))


class TcpTransport(Watched):
    """Feeds what arrives to the node, writes what it says, and tells it when the socket is full."""

    def __init__(
        self,
        driver: Driver,
        loop: asyncio.AbstractEventLoop,
        client: socket.socket,
        peer: Peer,
        tls: TlsLayer | None = None,
        connection: Connection | None = None,
    ) -> None:
        """connection: that the node has already; None: it gets to know of one."""
        self.driver = driver
        self.pauses = driver.node.pauses
        self.readiness = driver.readiness
        self.tls = tls
        self.loop = loop
        self.socket = client
        self.fd = client.fileno()
        self.unsent: deque[bytes | bytearray | memoryview] = deque()
        self.unsent_bytes = 0
        self.high_water = driver.config.output_limit_bytes
        self.output_pause = driver.config.output_pause_bytes
        self.is_reading = True
        self.is_watched = False
        self.read_bytes = READ_BYTES
        self.is_bulky = True  # as all newcomers
        self.reads = 0
        self.is_late = False
        self.is_closing = False
        self.is_lost = False
        self.has_ended = False
        self.connection: Connection = (
            driver.node.open_connection(peer, driver.now()) if connection is None else connection
        )
        self.connection.set_transport(self)
        self._watch()
        if tls is not None and tls.has_more:
            loop.call_soon(self.on_readable)
        driver.wants_turn()

    # -- from the loop -----------------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Something has come. Who has just come, who is at the end, and who sends much may have to wait for others."""
        if self.is_late or not self.is_reading:  # what TLS has announced may be of before a pause
            return
        if (self.is_bulky or self.connection.state != _OPEN) and self.driver.is_late():
            self._wait()
        else:
            self._read(True)

    def _wait(self) -> None:
        self.is_late = True
        if not self.driver.read_later(self):
            self._unwatch()

    def read_now(self) -> None:
        """It has waited: read once, and handle it."""
        self.is_late = False
        if not self.is_reading:  # it was paused meanwhile, or is gone
            return
        self._read(False)
        if self.is_reading:
            self._watch()

    def _read(self, may_wait: bool) -> None:
        """Read once, and handle it. may_wait: its end, if that is what has come, is handled when there is time: of many
        clients that are gone nobody waits for an answer."""
        connection = self.connection
        if connection.state >= _ENDING:
            self._discard()
            return
        driver = self.driver
        pending = connection.pending
        count = len(pending)
        most = self.read_bytes
        if count > _LARGE_FRAME_BYTES or connection.partial_left:
            most = _LARGE_READ_BYTES
        if self.pauses.is_shut:
            most = _GATED_READ_BYTES
        is_immediate = count == 0 and self.tls is None and driver.is_calm()
        if count and cython.compiled:
            if count + most > len(driver.receive_buffer):
                driver.grow_receive_buffer(count)
            driver.receive_view[:count] = pending
        try:
            if is_immediate:
                # To take octets from the kernel may make it acknowledge them on the way, which is as long as it takes
                # to handle them. So they are looked at now, and taken when they are handled.
                nbytes = self._receive(0, _IMMEDIATE_TURN_BYTES, _MSG_PEEK)
                is_immediate = nbytes < _IMMEDIATE_TURN_BYTES
            if not is_immediate:
                nbytes = self._receive(count, most, 0)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            nbytes = 0
        if nbytes == 0:
            if may_wait and driver.is_late():
                self._wait()
            else:
                self._hear_end()
            return
        if nbytes >= _BULK_BYTES:
            self._read_bulk(count, nbytes)
            return
        self.is_bulky = self.reads < _NEWCOMER_READS
        self.reads += 1
        if is_immediate:
            # Whatever happens, they are not handled again.
            try:
                if self._handle(count + nbytes):
                    driver.lone_input_is_over()
            finally:
                self._take_seen(nbytes)
        elif self._handle(count + nbytes):
            driver.wants_turn()

    def _read_bulk(self, count: int, nbytes: int) -> None:
        """Much has come: handle it, and see to it that the next read takes neither long nor many calls."""
        self.is_bulky = True
        driver = self.driver
        began = monotonic_time()
        if self._handle(count + nbytes):
            driver.wants_turn()
        driver.node.input_goes_on(nbytes >= self.read_bytes, driver.now())
        took = monotonic_time() - began
        if took > _LONG_S:
            self.read_bytes = max(_BULK_BYTES, self.read_bytes // 2)
        elif took < _QUICK_S and nbytes >= self.read_bytes:
            self.read_bytes = min(_READ_BYTES, self.read_bytes * 2)

    def _discard(self) -> None:
        """The connection is at its end: let the kernel forget what has come (tcp(7), MSG_TRUNC)."""
        try:
            nbytes = self._receive(0, _LARGE_READ_BYTES, _MSG_TRUNC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._lose()
            return
        if not nbytes:
            self._hear_end()

    def _hear_end(self) -> None:
        """The client has said all. That is its end when the node has handled what came before, and when it has been
        told why it is closed, if it is; until then it is said again."""
        connection = self.connection
        has_to_hear = connection.state >= _CLOSING
        if connection.is_parked or (has_to_hear and connection.is_dirty):
            return
        if self.tls is not None and not self.is_closing:
            self.tls.end()
            self.write([])
        if has_to_hear and self.unsent:
            self._stop_reading()
            self.has_ended = True
        else:
            self._lose()

    def _receive(self, count: int, most: int, flags: int) -> int:
        """At most `most` octets behind `count` that are in the receive buffer. Returns how many came. Plain, a bytes
        object of their own: what is sliced off a bytearray had to be copied once more."""
        driver = self.driver
        if self.tls is not None and not self.is_closing:
            return self._receive_records(self.tls, count, most)
        if cython.compiled:
            return receive_into(self.socket, self.fd, driver.receive_buffer, count, most, flags)
        else:
            driver.received = self.socket.recv(most, flags)
            return len(driver.received)

    def _receive_records(self, tls: TlsLayer, count: int, most: int) -> int:
        """The same, out of TLS records."""
        driver = self.driver
        start = count if cython.compiled else 0
        with driver.receive_view[start : start + most] as target:
            try:
                nbytes = tls.receive(self.socket, target)
            finally:
                self.write([])  # what TLS itself has to say
                if tls.has_more:
                    self.loop.call_soon(self.on_readable)
            if not cython.compiled:
                driver.received = bytes(target[:nbytes])
        return nbytes

    def _handle(self, length: int) -> bool:
        """Have the node handle what is in the receive buffer. Returns whether its disk has taken it."""
        driver = self.driver
        now = driver.now()
        if not self.connection.trailing:  # what others say who are not far behind themselves
            driver.others_spoke = True
        driver.node.set_time(now)
        try:
            if cython.compiled:
                self.connection.receive_buffer(driver.receive_buffer, length, now)
            else:
                self.connection.receive_data(driver.received, now)
        except (OSError, StorageError) as error:
            log.critical("the disk has failed: %s. The node stops; nothing unsynced was confirmed", error)
            driver.fail(error)
            return False
        return True

    def _take_seen(self, nbytes: int) -> None:
        """Take the octets that were looked at from the kernel, without a copy (tcp(7), MSG_TRUNC)."""
        try:
            taken = self._receive(0, nbytes, _MSG_TRUNC)
        except OSError:  # the connection was reset: what it had said is handled
            self._lose()
            return
        if taken != nbytes:
            log.critical("defect: %d octets of %s are gone, of %d", taken, self.connection.peer, nbytes)
            self._lose()

    def on_writable(self) -> None:
        """Write what is left, and tell the node when there is room again."""
        if self.is_lost:
            return
        try:
            while self.unsent:
                sent = self.socket.sendmsg(list(islice(self.unsent, _PIECES)))
                self.unsent_bytes -= sent
                if not drop_sent(self.unsent, sent):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._lose()
            return
        connection = self.connection
        if not self.unsent:
            self.loop.remove_writer(self.fd)
            if self.has_ended:
                self._lose()
                return
            if self.is_closing:
                self._finish()
        if not connection.is_writable and self.unsent_bytes <= self.high_water // _LOW_WATER:
            self.driver.writable(connection)

    def _lose(self) -> None:
        """The socket is gone, by either side."""
        if self.is_lost:
            return
        self.is_lost = self.is_closing = True
        self._stop_reading()
        if self.unsent:
            self.loop.remove_writer(self.fd)
            self.unsent.clear()
            self.unsent_bytes = 0
        self.socket.close()
        self.driver.lost(self.connection)
        self.connection.set_transport(None)  # or neither of the two would go

    def _stop_reading(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self._unwatch()

    def _watch(self) -> None:
        """It is told whenever there is something to be read. A client that cannot be heard is lost."""
        if self.is_watched:
            return
        try:
            self.readiness.watch(self.fd, self)
            self.is_watched = True
        except OSError as error:  # the system's own limit
            log.error("a client is lost: its socket cannot be watched: %s; raise fs.epoll.max_user_watches", error)
            self.loop.call_soon(self._lose)

    def _unwatch(self) -> None:
        if self.is_watched:
            self.is_watched = False
            self.readiness.unwatch(self.fd)

    # -- for the driver ----------------------------------------------------------------------------------------------

    def write(self, chunks: list[bytes]) -> None:
        """Write what the node had to say, as much as the socket takes; the rest when it has room."""
        if self.is_closing:
            return
        if self.tls is not None:
            chunks = self._seal(self.tls, chunks)
            if not chunks:
                return
        if not self.unsent:
            try:
                if len(chunks) == 1:
                    sent = send_bytes(self.socket, self.fd, chunks[0])
                elif len(chunks) <= _PIECES:
                    sent = self.socket.sendmsg(chunks)
                else:
                    sent = self.socket.sendmsg(chunks[:_PIECES])
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self.is_closing = True
                self.loop.call_soon(self._lose)
                return
            total = 0
            for chunk in chunks:
                total += len(chunk)
            if sent == total:
                return
            self.unsent.extend(chunks)
            self.unsent_bytes = total - sent
            drop_sent(self.unsent, sent)
            self.loop.add_writer(self.fd, self.on_writable)
        else:
            self.unsent.extend(chunks)
            for chunk in chunks:
                self.unsent_bytes += len(chunk)
        if self.unsent_bytes > self.high_water:
            self._fill()

    def _seal(self, tls: TlsLayer, chunks: list[bytes]) -> list[bytes]:
        """The same as TLS records, with what TLS itself has to say."""
        try:
            tls.seal(chunks)
        except OSError:
            self.is_closing = True
            self.loop.call_soon(self._lose)
            return []
        return tls.take()

    def _fill(self) -> None:
        """The socket does not take what it is given."""
        connection = self.connection
        driver = self.driver
        driver.node.unwritable(connection)
        connection.leave_unsent(self.unsent_bytes)
        if not connection.paused_for & _OUTPUT and self.unsent_bytes > self.output_pause:
            self.pauses.pause_output(connection)
            driver.wants_turn()

    def set_paused(self, is_paused: bool) -> None:
        """Stop or start reading."""
        if is_paused:
            self._stop_reading()
        elif not self.is_reading and not self.is_closing:
            self.is_reading = True
            self._watch()
            if self.tls is not None and self.tls.has_more:
                self.loop.call_soon(self.on_readable)

    def close(self) -> None:
        """Close our half when everything is written, and the other when the client does or the node gives up."""
        if self.is_closing:
            return
        self.set_paused(False)
        if self.tls is not None:
            self.tls.end()
            self.write([])
        self.is_closing = True
        if not self.unsent:
            self._finish()

    def leave(self, give: Callable[[socket.socket], bool]) -> bool:
        """Let go of the socket, if everything is written and `give` has brought it to another process: this one has
        closed its copy then. False: it is here as before."""
        if self.is_closing or self.unsent or self.tls is not None or not give(self.socket):
            return False
        self.is_lost = self.is_closing = True
        self._stop_reading()
        self.socket.close()
        self.connection.set_transport(None)
        return True

    def _finish(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:  # it is gone already
            self.loop.call_soon(self._lose)

    def abort(self) -> None:
        """Close at once."""
        self.is_closing = True
        self.loop.call_soon(self._lose)
