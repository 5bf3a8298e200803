"""Readers: from which connections a node reads on.

A publisher waits while the node's disk, a queue group or a home to which it has published is behind, or while an alarm
is on at either; a connection that is parked waits for its answer; one that does not read its replies, for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp_broker.node import Node


def choose_readers(node: Node, is_behind: bool, home_backlog: Any) -> None:
    """Set `is_paused` of all connections, and tell them of alarms. is_behind: every publisher has to wait.
    home_backlog: so many octets may be on their way to a home (HomeLink.is_behind), None: no home is behind."""
    alarms = node.alarms
    alarms.has_paused = False
    all_wait = is_behind or alarms.is_on
    for connection in node.connections.values():
        is_blocked = connection.has_published and (
            all_wait
            or (home_backlog is not None and bool(connection.homes) and _waits_for_home(connection, home_backlog))
        )
        is_waiting = is_blocked or (connection.is_parked and not connection.is_sated)
        is_paused = is_waiting or connection.is_choked
        if is_waiting:
            alarms.has_paused = True
        if is_paused != connection.is_paused:
            connection.is_paused = is_paused
            node.reading.append(connection)
        alarms.tell(connection)


def _waits_for_home(connection: Any, home_backlog: int) -> bool:
    return any(link.is_behind(home_backlog) for link in connection.homes)
