"""Timers: one heap for everything of a node that happens at a time: expiry, heartbeats, delayed messages, deadlines.

No timer is ever cancelled: its callback looks whether there is still something to do and asks for another.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timers:
    """Callbacks by time (milliseconds since the epoch). A callback gets the present time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0

    def at(self, when: int, callback: Callable[[int], None]) -> None:
        """Call `callback(now)` in the first `run` at or after `when`."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, callback))

    def next_deadline(self) -> int | None:
        """When `run` is wanted next, or None."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: int) -> None:
        """Call everything that is due, in order of time."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2](now)

    def __len__(self) -> int:
        return len(self._heap)
