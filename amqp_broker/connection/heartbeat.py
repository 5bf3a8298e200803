"""Heartbeats (AMQP 0-9-1 §4.2.7): said when nothing else was, and expected from the client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.connection.connection import Connection
from amqp_broker.protocol.constants import HEARTBEAT_FRAME

if TYPE_CHECKING:
    from amqp_broker.node import Node

log = logging.getLogger("amqp_broker")


def watch_heartbeat(node: Node, connection: Connection) -> None:
    """Send a heartbeat when nothing was said for half the interval; end a connection that was silent for two."""
    interval = connection.session.heartbeat_ms
    if not interval:
        return

    def beat(now: int) -> None:
        if connection.is_paused:
            connection.last_received = now
        if now - connection.last_received > 2 * interval + 1000:
            log.warning("connection %s: no heartbeat for %d ms", connection.peer, now - connection.last_received)
            node.control.release(connection)
            node.control.abandon(connection)
            return
        if now - connection.last_sent >= interval // 2:
            connection.output.put_raw(HEARTBEAT_FRAME)
            connection.touch()
        connection.timer = node.timers.at(now + interval // 2, beat)

    connection.timer = node.timers.at(node.now + interval // 2, beat)
