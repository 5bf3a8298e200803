"""LoopDelays: how late timers were, because the loop or the processor was busy; counted once for each that was due."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Up to so late, milliseconds; the last count is of what was later.
BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class LoopDelays:
    """counts: of each bound, without those below it, and of what was later; late_ms: all together."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.late_ms = 0

    def add(self, late_ms: int) -> None:
        """One more timer."""
        self.counts[bisect_left(BOUNDS_MS, late_ms)] += 1
        self.late_ms += late_ms
