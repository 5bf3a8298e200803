"""Heartbeats (AMQP 0-9-1 §4.2.7): said when nothing else was, and expected from the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.protocol.constants import HEARTBEAT_FRAME

if TYPE_CHECKING:
    from amqp_broker.connection.connection import Connection
    from queues.timers import Timers

#: A client that is found silent is looked at once more after so long, milliseconds: what it said may have come while
#: the broker itself was held up.
_SECOND_LOOK_MS = 500


class Heartbeat:
    """Sends a heartbeat when nothing was said for half the interval, and ends a connection that was silent for two
    intervals. It lives as long as the connection's timer."""

    def __init__(self, connection: Connection, interval_ms: int, timers: Timers, now: int) -> None:
        self._timers = timers
        self._connection = connection
        self._interval_ms = interval_ms
        self._was_silent = False
        self._wait(now, self._interval_ms // 2)

    def _wait(self, now: int, milliseconds: int) -> None:
        self._connection.timer = self._timers.at(now + milliseconds, self._beat)

    def _beat(self, now: int) -> None:
        connection, half = self._connection, self._interval_ms // 2
        if connection.is_paused:
            connection.last_received = now
        silent_ms = now - connection.last_received
        left_ms = 2 * self._interval_ms - silent_ms
        if left_ms <= 0 and self._was_silent:
            connection.control.end_silent(connection, silent_ms)
            return
        self._was_silent = left_ms <= 0
        if now - connection.last_sent >= half:
            connection.output.put_raw(HEARTBEAT_FRAME)
            connection.touch()
        self._wait(now, min(half, _SECOND_LOOK_MS if left_ms <= 0 else left_ms))


def watch_heartbeat(connection: Connection, interval_ms: int, timers: Timers, now: int) -> None:
    """Begin, if the client wants heartbeats at all."""
    if interval_ms:
        Heartbeat(connection, interval_ms, timers, now)
