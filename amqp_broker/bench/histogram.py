"""Histogram: counts of durations in buckets whose width grows with the duration, so that percentiles are
cheap and near.

Values below 256 have a bucket each; above, every power of two is cut into 128 buckets: no value is off by
more than 0.8 %. It knows nothing of clocks: a duration is an integer, here nanoseconds.

Invariants:
1. `total` is the sum of the counts.
2. `record` is safe without the interpreter's lock as long as one thread records; readers may see a count that
   is one behind.
"""

from __future__ import annotations

import cython

SLOTS = 7296  # slot_of(2**63 - 1) + 1


def slot_of(value: int) -> int:
    """The bucket of `value` (0 .. 2**63 - 1)."""
    shift = 0
    while value >= 256:
        value >>= 1
        shift += 1
    return (shift << 7) + value


def highest_of(slot: int) -> int:
    """The largest value that falls into bucket `slot`."""
    if slot < 256:
        return slot
    shift = (slot >> 7) - 1
    return (((slot & 127) + 129) << shift) - 1


class Histogram:
    """Counts of durations. `total`: how many; `highest`: the largest recorded, exact."""

    def __init__(self) -> None:
        if not cython.compiled:
            self.counts = [0] * SLOTS
        self.total = 0
        self.highest = 0
        self.last_value = -1
        self.last_slot = 0

    def record(self, value: int) -> None:
        """Count one duration. A negative one (stamped by the clock of another machine) is left out."""
        if value < 0:
            return
        if value != self.last_value:
            self.last_value = value
            self.last_slot = slot_of(value)
            if value > self.highest:
                self.highest = value
        self.counts[self.last_slot] += 1
        self.total += 1

    def add(self, other: Histogram) -> None:
        """Count everything that `other` has counted."""
        for slot in range(SLOTS):
            self.counts[slot] += other.counts[slot]
        self.total += other.total
        if other.highest > self.highest:
            self.highest = other.highest

    def subtract(self, earlier: Histogram) -> None:
        """Take away what an earlier state of the same counts had; `highest` stays."""
        for slot in range(SLOTS):
            self.counts[slot] -= earlier.counts[slot]
        self.total -= earlier.total

    def percentile(self, share: float) -> int:
        """The duration that `share` (0 .. 1) of those counted do not exceed; 0 when nothing was counted."""
        wanted = max(1, int(share * self.total + 0.5))
        seen = 0
        for slot in range(SLOTS):
            seen += self.counts[slot]
            if seen >= wanted:
                return min(highest_of(slot), self.highest)
        return 0
