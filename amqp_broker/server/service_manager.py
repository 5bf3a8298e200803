"""ServiceManager: what systemd is told of a service of Type=notify (sd_notify): ready, what it waits for, that the loop
still turns, and the end.

The pings of the watchdog come from the loop itself: a loop that stands still is missed, whatever else of the process
goes on. Without a service manager nothing is said.

Invariants:
1. Nobody started from here believes that it was told: the variables are taken out of the environment.
2. Nothing waits for the service manager, and nothing fails because it does not listen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping

log = logging.getLogger("amqp_broker.server")

#: So many pings in the time after which the watchdog gives a service up.
_PINGS = 3


class ServiceManager:
    """environment: with NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, if somebody is to be told. ping_s: between
    two pings for its watchdog, seconds; 0.0: it wants none."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        # One that begins with @ is of the abstract name space.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit_us, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_watched = limit_us.isdigit() and process in ("", str(os.getpid()))
        self.ping_s = int(limit_us) / 1e6 / _PINGS if is_watched else 0.0
        self._ping_at = 0.0
        self._socket: socket.socket | None = None

    def tell_ready(self) -> None:
        """Clients are let in; who says this calls `ping_if_due` from now on."""
        self._tell("READY=1\nSTATUS=serving clients")

    def ping_if_due(self, now_s: float) -> None:
        """The loop of who has no asyncio turns."""
        if self.ping_s and now_s >= self._ping_at:
            self._ping_at = now_s + self.ping_s
            self._tell("WATCHDOG=1")

    def ready(self, loop: asyncio.AbstractEventLoop) -> None:
        """Clients are let in; from now on the watchdog counts."""
        self.tell_ready()
        if self.ping_s:
            self._ping(loop)

    def waits(self, what: str) -> None:
        """It is not ready yet, because of this."""
        self._tell(f"STATUS={what}")

    def stops(self) -> None:
        """The end begins."""
        self._tell("STOPPING=1\nSTATUS=stopping")

    def _ping(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tell("WATCHDOG=1")
        loop.call_later(self.ping_s, self._ping, loop)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._socket.setblocking(False)
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("the service manager at %r does not hear: %s", self._address, error.strerror)
