"""DeliveryTimes: when a channel's deliveries were made, by their tags, without a time in any of them.

Tags count up, so a few of them with a time each say of all others between which times they were made. Only what a
channel holds matters: the marks below its first outstanding tag are given up, but for the last of them.

Invariants:
1. `tags` and `times` go up, and belong to each other.
2. A mark has its own tag's time exactly; another tag was made no longer than `STEP_MS` behind the mark below it, or a
   hundredth part of what the oldest delivery had been held for then, if that is more. So marks are few, however long
   one delivery is held while others come and go.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

#: How exact it is of what is held for a short time, milliseconds.
STEP_MS = 100
_PART = 100


class DeliveryTimes:
    """Of one channel. Times are milliseconds since the epoch."""

    __slots__ = ("tags", "times")

    def __init__(self) -> None:
        self.tags = array("Q")
        self.times = array("q")

    def note(self, tag: int, now: int, first: int) -> int:
        """A delivery is made now, and `first` is the channel's first that is outstanding, maybe this one. Returns when
        the next is to be noted."""
        known = bisect_right(self.tags, first) - 1
        if known > 0:
            del self.tags[:known], self.times[:known]
        self.tags.append(tag)
        self.times.append(now)
        return now + max(STEP_MS, (now - self.since(first)) // _PART)

    def since(self, tag: int) -> int:
        """When a delivery was made that is outstanding."""
        return self.times[bisect_right(self.tags, tag) - 1]
