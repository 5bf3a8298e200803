"""Histogram: how often values were up to each of some bounds, and all of them together.

Counted once for a turn, a timer or a sync, never for a message.
"""

from __future__ import annotations

from typing import Final

#: How late timers were, milliseconds.
DELAYS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
#: How long turns took, and syncs of the journal, seconds.
TURNS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1, 0.5)
SYNCS_S: Final = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)


class Histogram:
    """bounds: rising. counts: of values up to each bound and above the one before, and of what was above the last. sum:
    of all."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """One more."""
        place = 0
        for bound in self.bounds:
            if value <= bound:
                break
            place += 1
        self.counts[place] += 1
        self.sum += value
