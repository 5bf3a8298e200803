"""Timers: one heap for everything of a node that happens at a time: expiry, heartbeats, delayed messages, deadlines.

Invariants:
1. A timer that was cancelled or has run keeps nothing alive: it has let go of its callback.
2. Cancelled timers are at most half of the heap, and `SPARE` more: so many come and go with connections and queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: So many cancelled timers may lie in the heap whatever its length.
SPARE = 64
_SPARE = SPARE


class Timer:
    """Something that will happen. `Timers.at` makes it."""

    def __init__(self, timers: Timers, callback: Callable[[int], None]) -> None:
        self._timers: Timers | None = timers
        self._callback: Callable[[int], None] | None = callback

    def cancel(self) -> None:
        """It does not happen; nothing, if it has happened."""
        timers, self._timers = self._timers, None
        self._callback = None
        if timers is not None:
            timers.drop_cancelled()

    def take(self) -> Callable[[int], None] | None:
        """Its time has come: what is to be called, None if it was cancelled."""
        callback, self._callback = self._callback, None
        self._timers = None
        return callback

    @property
    def is_set(self) -> bool:
        """Whether it is still to happen."""
        return self._callback is not None


class Timers:
    """Callbacks by time (milliseconds since the epoch). A callback gets the present time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def at(self, when: int, callback: Callable[[int], None]) -> Timer:
        """Call `callback(now)` in the first `run` at or after `when`, unless the timer is cancelled."""
        self._count += 1
        timer = Timer(self, callback)
        heapq.heappush(self._heap, (when, self._count, timer))
        return timer

    def drop_cancelled(self) -> None:
        """One more timer was cancelled."""
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + _SPARE:
            self._heap = [item for item in self._heap if item[2].is_set]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> int | None:
        """When `run` is wanted next, or None."""
        heap = self._heap
        while heap and not heap[0][2].is_set:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def run(self, now: int) -> None:
        """Call everything that is due, in order of time."""
        while self._heap and self._heap[0][0] <= now:
            callback = heapq.heappop(self._heap)[2].take()
            if callback is None:
                self._cancelled -= 1
            else:
                callback(now)

    def heap_length(self) -> int:
        """How many timers take room, those included that were cancelled."""
        return len(self._heap)

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled
