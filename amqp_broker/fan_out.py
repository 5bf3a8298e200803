"""FanOut: how many copies of messages a turn makes before everybody else has a turn.

What goes to very many queues is a few octets to read and much to do: one read of a publisher may hold millions of
copies. So a connection that has used up the turn's copies is parked, as one that waits for an answer is: nothing more
is read from it, and what is there is handled a little later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.connection.connection import Connection
    from amqp_broker.node import Node

#: Messages for fewer queues than this are not counted: they cost what others cost.
WIDE = 16
#: A parked connection goes on after so long, milliseconds.
_REST_MS = 1


class FanOut:
    """copies: of this turn, so far; the node sets it back. most: of a turn."""

    def __init__(self, node: Node, most: int) -> None:
        self.copies = 0
        self._node = node
        self._most = most

    def note(self, connection: Connection, copies: int) -> None:
        """A message of a connection went to so many queues."""
        self.copies += copies
        if self.copies < self._most or connection.is_parked:
            return
        node = self._node
        node.readers.park(connection)
        node.timers.at(node.now + _REST_MS, lambda now: self._go_on(connection, now))

    def _go_on(self, connection: Connection, now: int) -> None:
        self._node.readers.unpark(connection)
        connection.receive_data(b"", now)  # of one that is closed nothing is handled
