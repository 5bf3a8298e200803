"""AwaitedRead: a read of the disk in the background, for steps that wait for it (turn/task.py).

The thread that reads cannot tell the loop, so that it is looked at every millisecond; the steps have no slices then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timers
    from storage.disk import Pending

_LOOK_EVERY_MS = 1


class AwaitedRead:
    """An Awaited. Its result is nothing: who waits has the read."""

    def __init__(self, read: Pending, timers: Timers, clock: TurnClock) -> None:
        self._read = read
        self._timers = timers
        self._clock = clock

    @property
    def is_done(self) -> bool:
        """Whether the octets are there."""
        return self._read.done()

    def when_done(self, then: Callable[[object], None]) -> None:
        """Call `then(None)`; at once if it is done already."""
        if self.is_done:
            then(None)
        else:
            self._timers.at(self._clock.now + _LOOK_EVERY_MS, lambda now: self.when_done(then))
