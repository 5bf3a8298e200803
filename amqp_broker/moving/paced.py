"""Paced: what is done by a client for as long as it takes, no faster than it may, until somebody has it end."""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.client.connection import Connection

#: Messages on their way at once; with a rate, so many windows a second.
WINDOW = 128
_STEPS_PER_SECOND = 5


class Paced:
    """user: as whom the connection has logged in. rate: so many messages a second, None for no limit. clock: seconds
    that only grow; pause: waits so many."""

    def __init__(
        self,
        connection: Connection,
        user: str,
        rate: float | None,
        clock: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self._connection = connection
        self._user = user
        self._rate = rate
        self._clock = clock
        self._pause = pause
        self._began = 0.0
        self._numbers = 0
        self.wants_end = False

    def cancel(self) -> None:
        """It ends behind the window that is on its way. From any thread."""
        self.wants_end = True

    def _begin(self) -> None:
        self._began = self._clock()

    def _window(self, most: int) -> int:
        """So many messages, of at most so many, are on their way at once."""
        return most if self._rate is None else min(most, max(1, int(self._rate / _STEPS_PER_SECOND)))

    def _keep_rate(self, moved: int) -> None:
        """Wait, if so many since it began are more than there may be."""
        if self._rate is not None:
            early = moved / self._rate - (self._clock() - self._began)
            if early > 0 and not self.wants_end:
                self._pause(early)
