"""Moves: the sockets of connections that go from one worker of a node to another, by way of their supervisor.

    worker A -> supervisor   MOVE, u16 the number of worker B, the name of the move; with the socket
    supervisor -> worker B   MOVE, the name of the move; with the socket

What is known of the connection goes from worker to worker on their link, before (connection/steering.py).

Invariant: a socket belongs to one process. Whoever has sent it has closed its copy; who cannot, keeps it.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Final

from amqp_broker.server.tcp import TcpTransport
from amqp_broker.settings.workers import worker_number
from storage.errors import StorageError

if TYPE_CHECKING:
    import asyncio

    from amqp_broker.connection.steering import Leaving
    from amqp_broker.server.driver import Driver

log = logging.getLogger("amqp_broker.server")

MOVE: Final = b"M"
NUMBER_BYTES: Final = 2


class Moves:
    """Of one worker. control: to its supervisor."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop, control: socket.socket) -> None:
        self._driver = driver
        self._node, self._room = driver.node, driver.room
        self._loop = loop
        self._control = control
        driver.hand_over_with(self._hand_over)

    def _hand_over(self, leaving: Leaving) -> bool:
        """See Driver."""
        said = MOVE + worker_number(leaving.home).to_bytes(NUMBER_BYTES, "big") + leaving.token

        def give(client: socket.socket) -> bool:
            try:
                socket.send_fds(self._control, [said], [client.fileno()])
            except OSError as error:  # the supervisor does not read, or is gone
                log.warning("a connection does not move: %s", error.strerror)
                return False
            return True

        transport = leaving.connection.transport
        return isinstance(transport, TcpTransport) and transport.leave(give)

    def adopt(self, client: socket.socket, token: bytes) -> None:
        """A socket has come."""
        driver, now = self._driver, self._driver.now()
        found = self._node.adopt(token, now)
        if found is None:
            log.warning("a connection that was to move here is lost: its socket came too late")
            client.close()
            return
        self._room.take()
        connection, octets = found
        client.setblocking(False)
        TcpTransport(driver, self._loop, client, connection.peer, connection=connection)
        try:
            self._node.receive_data(connection, octets, now)
        except (OSError, StorageError) as error:
            log.critical("the disk has failed: %s. The node stops; nothing unsynced was confirmed", error)
            driver.fail(error)
        driver.wants_turn()

    def close(self) -> None:
        """Nobody leaves any more."""
        self._driver.hand_over_with(None)
