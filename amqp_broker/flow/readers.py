"""Readers: from which connections a node reads on.

Nothing is read from a connection that is parked (none of its frames is handled until something has happened) or choked
(it does not read its replies). Publishers wait while the node's disk, a queue group or a home to which they have
published is behind, or while an alarm is on at either: the gate is shut. A connection is served until its next
basic.publish, and parked in front of that until the gate opens: what it acknowledges meanwhile makes room.

Invariants:
1. After `choose`, `is_paused` of each connection says whether it is parked or choked, and the driver has been told.
2. A turn looks at those only whose state has changed or that wait at the gate, however many others there are.
3. `held` has exactly the connections that are parked in front of a publish, in the order in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp_broker.node import Node


class Readers:
    """is_shut: some publishers have to wait. changed: connections that were parked, choked or the opposite of it in
    this turn. is_alarmed: publishers were told of an alarm that is on. publishers: all that have published since they
    were opened."""

    def __init__(self, node: Node) -> None:
        self.is_shut = False
        self.changed: list[Any] = []
        self.publishers: dict[Any, None] = {}
        self._node = node
        self.held: dict[Any, None] = {}
        self._all_wait = False
        self._home_backlog: int | None = None
        self.is_alarmed = False
        self._told: list[str] = []
        self._is_letting_in = False

    # -- parking ---------------------------------------------------------------------------------------------------

    def park(self, connection: Any) -> None:
        """Handle no more frames of the connection until `unpark`."""
        connection.is_parked = True
        self.changed.append(connection)

    def unpark(self, connection: Any) -> None:
        """Frames may be handled again; the caller goes on with those that wait (`receive_data` of nothing)."""
        connection.is_parked = False
        self.changed.append(connection)

    def choke(self, connection: Any, is_choked: bool) -> None:
        """It does not read what it is sent, or does again."""
        connection.is_choked = is_choked
        self.changed.append(connection)

    def forget(self, connection: Any) -> None:
        """It is at its end: nothing keeps it from being read, and it never publishes again."""
        connection.is_parked = connection.is_choked = connection.is_sated = connection.has_published = False
        self.held.pop(connection, None)
        self.publishers.pop(connection, None)
        if connection.is_paused:
            self.changed.append(connection)

    # -- the gate --------------------------------------------------------------------------------------------------

    def holds_back(self, connection: Any) -> bool:
        """It is about to publish, for the first time or while the gate is shut. Returns whether it has to wait."""
        if not connection.has_published:
            connection.has_published = True
            self.publishers[connection] = None
            self._node.alarms.tell(connection)
        if not self._has_to_wait(connection):
            return False
        self.held[connection] = None
        self.park(connection)
        return True

    def _has_to_wait(self, connection: Any) -> bool:
        backlog = self._home_backlog
        return self._all_wait or (backlog is not None and any(link.is_behind(backlog) for link in connection.homes))

    def set_gate(self, all_wait: bool, home_backlog: int | None) -> None:
        """At the end of a turn. all_wait: every publisher has to. home_backlog: so many octets may be on their way to
        a home (HomeLink.is_behind), None: no home is behind."""
        self._all_wait = all_wait
        self._home_backlog = home_backlog
        self.is_shut = all_wait or home_backlog is not None
        if all_wait or self._is_letting_in or all(map(self._has_to_wait, self.held)):
            return
        self._is_letting_in = True
        self._node.background.add(self._let_in)

    def _let_in(self, now: int) -> bool:
        """A background job: one that has waited goes on with its publish. Returns whether there are more."""
        connection = next((each for each in self.held if not self._has_to_wait(each)), None)
        if connection is not None:
            del self.held[connection]
            self.unpark(connection)
            connection.receive_data(b"", now)
            self._is_letting_in = bool(self.held)
        else:
            self._is_letting_in = False
        return self._is_letting_in

    def tell(self, blocking: list[str]) -> None:
        """blocking: what has an alarm, this node or others, by name. Publishers are told what has changed."""
        if blocking != self._told:
            self._told = blocking
            self.is_alarmed = bool(blocking)
            for connection in list(self.publishers):
                self._node.alarms.tell(connection)

    def choose(self) -> None:
        """Tell the driver from which of those that have changed it is to read."""
        changed, self.changed = self.changed, []
        for connection in changed:
            is_paused = connection.is_parked or connection.is_choked
            if is_paused != connection.is_paused:
                connection.is_paused = is_paused
                self._node.reading.append(connection)
