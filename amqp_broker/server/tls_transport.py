"""TlsTransport: one client's transport where there is TLS, between asyncio, which does the TLS, and the node."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from amqp_broker.connection.connection import ENDING
from amqp_broker.connection.peer import Peer
from amqp_broker.server.tcp import GATED_READ_BYTES, LOOPBACK, READ_BYTES
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.connection.connection import Connection
    from amqp_broker.server.driver import Driver

log = logging.getLogger("amqp_broker.server")



def _peer_of(transport: asyncio.BaseTransport) -> Peer:
    # A client that has gone meanwhile has no address any more.
    remote = transport.get_extra_info("peername") or ("", 0)
    local = transport.get_extra_info("sockname") or ("", 0)
    certificate = transport.get_extra_info("peercert")
    name = None
    if certificate:
        for part in certificate.get("subject", ()):
            for key, value in part:
                if key == "commonName":
                    name = value
    host = str(remote[0])
    return Peer(
        host,
        int(remote[1]),
        str(local[0]),
        int(local[1]),
        True,
        name,
        host.startswith(LOOPBACK),
    )


class TlsTransport(asyncio.BufferedProtocol):
    """Feeds what arrives to the node, and tells it when the transport is full."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._transport: Any = None
        self._room = READ_BYTES
        self.was_made = False  # its handshake is done
        self.connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        driver = self._driver
        self._transport = transport
        self.was_made = True
        self._transport.set_write_buffer_limits(high=driver.config.output_limit_bytes)
        self.connection = driver.node.open_connection(_peer_of(transport), driver.now())
        self.connection.transport = self
        driver.wants_turn()

    def get_buffer(self, sizehint: int) -> memoryview:
        connection = self.connection
        assert connection is not None
        pending = connection.pending
        driver = self._driver
        count = len(pending)
        if count:
            if count + READ_BYTES > len(driver.receive_buffer):
                driver.grow_receive_buffer(count)
            driver.receive_buffer[:count] = pending
        self._room = GATED_READ_BYTES if driver.node.readers.is_shut else READ_BYTES
        return driver.receive_view[count : count + self._room]

    def buffer_updated(self, nbytes: int) -> None:
        connection = self.connection
        assert connection is not None
        if connection.state >= ENDING:
            connection.pending = b""
            return
        driver = self._driver
        length = len(connection.pending) + nbytes
        now = driver.now()
        driver.node.set_time(now)
        try:
            connection.receive_buffer(driver.receive_buffer, length, now)
        except (OSError, StorageError) as error:
            log.critical("the disk has failed: %s. The node stops; nothing unsynced was confirmed", error)
            driver.fail(error)
            return
        if nbytes == self._room and not connection.is_paused:
            # asyncio's loops read on as long as a read fills its buffer, and nobody else would be served.
            self._transport.pause_reading()
            driver.resting.append(self)
        driver.wants_turn()

    def read_on(self) -> None:
        """The turn is over: read again, unless the node says otherwise."""
        if self.connection is not None and not self.connection.is_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self.connection is not None:
            self._driver.node.unwritable(self.connection)

    def resume_writing(self) -> None:
        if self.connection is not None:
            self._driver.writable(self.connection)

    def connection_lost(self, error: Exception | None) -> None:
        if self.connection is not None:
            self._driver.lost(self.connection)
            self.connection.transport = None
            self.connection = None
        self._transport = None

    # -- for the driver ----------------------------------------------------------------------------------------------

    def write(self, chunks: list[bytes]) -> None:
        """Write what the node had to say."""
        if self._transport.is_closing():
            return
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            self._transport.writelines(chunks)
        connection = self.connection
        if connection is None or connection.is_writable:
            return
        connection.unsent_bytes = self._transport.get_write_buffer_size()
        if not connection.is_choked and connection.unsent_bytes > self._driver.config.output_pause_bytes:
            self._driver.node.choke(connection)
            self._driver.wants_turn()

    def set_paused(self, is_paused: bool) -> None:
        """Stop or start reading."""
        if self._transport.is_closing():
            return
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close when everything is written."""
        if not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
