"""Hashing: new passwords on their way to their hash, one at a time and not here: scrypt takes tens of milliseconds.

    `hash` -> `take` (end of turn) -> PasswordHash.run, in a thread of the driver -> `done` -> whoever waits for it

Invariant: at most one is handed out, so that of the driver's thread a login has every second place.
"""

from __future__ import annotations

from collections import deque

from amqp_broker.auth.passwords import NewPassword
from amqp_broker.turn.completion import Completion


class PasswordHash(Completion[str]):
    """One of them. Only `run` may be called in another thread."""

    def __init__(self, password: NewPassword) -> None:
        super().__init__()
        self._password = password

    def run(self) -> None:
        """Compute."""
        self._password.run()

    def finish(self) -> None:
        """It has run."""
        self.complete(self._password.stored)


class Hashing:
    """Those of a node that wait. has_waiting: ask `take` at the end of the turn."""

    def __init__(self) -> None:
        self.has_waiting = False
        self._waiting: deque[PasswordHash] = deque()
        self._running: PasswordHash | None = None

    def hash(self, password: NewPassword) -> PasswordHash:
        """Have it computed in its turn."""
        wanted = PasswordHash(password)
        self._waiting.append(wanted)
        self.has_waiting = True
        return wanted

    def take(self) -> list[PasswordHash]:
        """What is to be run now."""
        self.has_waiting = False
        if self._running is not None or not self._waiting:
            return []
        self._running = self._waiting.popleft()
        return [self._running]

    def done(self, wanted: PasswordHash) -> None:
        """It has run."""
        self._running = None
        self.has_waiting = bool(self._waiting)
        wanted.finish()
