"""Clients: the connections of a node, and what is to be told of them at the end of the turn.

Invariants:
1. A connection is in `dirty` exactly while it has something to say that the driver has not taken.
2. `users` has those that are open, and `pending_handshakes` those that are not open yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client, OpenConnection


class Clients:
    """connections: all, by their numbers. closing: those whose end is awaited, the oldest first. users: the open ones
    of each user that has any. starved: deliveries to them have stopped. dropped: the driver is to close them.
    max_connections, max_transports: what the settings allow, or less if the driver has less to give."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self.max_transports = 1 << 62
        self.connections: dict[int, OpenConnection] = {}
        self.pending_handshakes: dict[int, OpenConnection] = {}
        self.closing: dict[int, OpenConnection] = {}
        self.users: dict[str, dict[OpenConnection, None]] = {}
        self.open_count = 0
        self.dirty: list[OpenConnection] = []
        self.dropped: list[OpenConnection] = []
        self.starved: dict[OpenConnection, None] = {}

    def allow(self, connections: int, transports: int) -> None:
        """The driver has no room for more."""
        self.max_connections = connections
        self.max_transports = transports

    def take_dirty(self) -> list[OpenConnection]:
        """Those that have something to say."""
        dirty, self.dirty = self.dirty, []
        return dirty

    def take_dropped(self) -> list[OpenConnection]:
        """Those that are to be closed."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def enter(self, client: Client) -> None:
        """The connection is open."""
        self.pending_handshakes.pop(client.number, None)
        self.open_count += 1
        self.users.setdefault(client.session.user, {})[client] = None

    def leave(self, client: Client) -> None:
        """The connection is not open any more."""
        self.open_count -= 1
        user = client.session.user
        del self.users[user][client]
        if not self.users[user]:
            del self.users[user]

    def forget(self, client: Client) -> None:
        """Its transport is gone."""
        self.starved.pop(client, None)
        for group in (self.connections, self.pending_handshakes, self.closing):
            group.pop(client.number, None)

    def count_channels(self, user: str) -> int:
        """Open channels of all connections of a user."""
        return sum(len(client.channels) for client in self.users[user])
