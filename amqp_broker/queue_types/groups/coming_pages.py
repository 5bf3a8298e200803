"""ComingPages: pages of streams that are on their way from the disk, and for which an entry of a group's log waits.

    the machine says Coming -> the page is there -> the group goes on, to the next one of them or behind the entry

One is waited for at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.turn.awaited_read import AwaitedRead

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.turn.clock import TurnClock
    from queues.stream.coming import Coming
    from queues.timers import Timers


class ComingPages:
    """Of one group."""

    def __init__(self, group: QueueGroup, timers: Timers, clock: TurnClock) -> None:
        self._group = group
        self._timers = timers
        self._clock = clock
        self._is_waiting = False

    def wait_for(self, coming: Coming) -> None:
        """The next entry waits for this."""
        if not self._is_waiting:
            self._is_waiting = True
            AwaitedRead(coming.read, self._timers, self._clock).when_done(self._go_on)

    def _go_on(self, result: object) -> None:
        """The page is there. Should the entry wait for another one by now, the group says so."""
        self._is_waiting = False
        self._group.go_on()
