"""ConsumerRound: consumers of other nodes that are looked at again after a time, a few in a slice.

Invariants:
1. A round has those who were there when its time came; who is added meanwhile belongs to the next one.
2. Nobody is in it twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.queue_types.remote.home_session import RemoteConsumer
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Jobs
    from queues.timers import Timers

#: So many are looked at in a slice: each may be sent as much as its window has room for.
AT_ONCE = 16


class ConsumerRound:
    """after_ms: how long the first of a round waits. look(consumer, now): may add it again."""

    def __init__(
        self,
        timers: Timers,
        clock: TurnClock,
        background: Jobs,
        after_ms: int,
        look: Callable[[RemoteConsumer, int], None],
    ) -> None:
        self._timers = timers
        self._clock = clock
        self._background = background
        self._after_ms = after_ms
        self._look = look
        self._waiting: dict[RemoteConsumer, None] = {}
        self._begins_at = 0
        self._due = 0

    def add(self, consumer: RemoteConsumer) -> None:
        """It is in the next round."""
        self._waiting[consumer] = None
        if self._begins_at <= self._clock.now:
            self._begins_at = self._clock.now + self._after_ms
            self._timers.at(self._begins_at, self._begin)

    def _begin(self, now: int) -> None:
        if self._waiting and not self._due:
            self._background.add(self._look_at_some)
        self._due = len(self._waiting)

    def _look_at_some(self, now: int) -> bool:
        for _ in range(min(self._due, AT_ONCE)):
            self._due -= 1
            consumer = next(iter(self._waiting))
            del self._waiting[consumer]
            self._look(consumer, now)
        return self._due > 0
