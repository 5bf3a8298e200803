"""ComingPages: pages of streams that are on their way from the disk, and for which an entry of a group's log waits.

    the machine says Coming -> the page is there -> the group goes on, to the next one of them or behind the entry

The thread that reads cannot tell the loop, so that it is looked at every millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.queue_types.quorum.group import QueueGroup
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timers

_LOOK_EVERY_MS = 1


class ComingPages:
    """Of one group."""

    def __init__(self, group: QueueGroup, timers: Timers, clock: TurnClock) -> None:
        self._group = group
        self._timers = timers
        self._clock = clock
        self._is_waiting = False

    def look(self) -> None:
        """See to what waits now."""
        if not self._is_waiting:
            self._is_waiting = True
            self._later(self._clock.now)

    def _later(self, now: int) -> None:
        self._timers.at(now + _LOOK_EVERY_MS, self._look_again)

    def _look_again(self, now: int) -> None:
        group = self._group
        coming = group.machine.entry_comes
        if coming is not None and not coming.read.done():
            self._later(now)
            return
        self._is_waiting = False
        group.goes_on = True
        group.touch()
