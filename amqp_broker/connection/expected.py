"""Expected: connections of other workers that this one has said it goes on with, and whose sockets are on their way.

Each counts as one that is here where limits are checked, so many that come at once do not pass them.

Invariant: there are MOST_EXPECTED at most. So many sockets at most are between two processes, on the way to this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_broker.connection.connection_state import ConnectionState
    from queues.timers import Timer

#: So many are expected at a time; what is under way to a process takes room in a socket of its own, and descriptors.
MOST_EXPECTED: Final = 64


class Expected:
    """By the names of their moves."""

    def __init__(self) -> None:
        self._states: dict[bytes, tuple[ConnectionState, Timer]] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def has_room(self) -> bool:
        """Whether one more may come."""
        return len(self._states) < MOST_EXPECTED

    def in_vhost(self, name: str) -> int:
        """How many come to a virtual host."""
        return sum(state.vhost == name for state, _ in self._states.values())

    def of_user(self, name: str) -> int:
        """How many are a user's."""
        return sum(state.user == name for state, _ in self._states.values())

    def add(self, token: bytes, state: ConnectionState, timer: Timer) -> None:
        """One is to come. timer: ends that."""
        self._states[token] = (state, timer)

    def take(self, token: bytes) -> ConnectionState | None:
        """It has come, or does not come any more. None: nobody knows of it."""
        state, timer = self._states.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return state
