"""SparePace: what readers who are far behind have of the loop's time (queues/background.py, Pace).

    nobody else has said anything for a while -> as much of a turn as any background work
    others use little of the loop's time      -> a slice of each turn: nobody waits for more than one
    others are busy                           -> a share of the loop's time, with what it takes to write their output

Whoever waits for the disk leaves the loop idle, and still loses by what is read meanwhile: the thread that syncs needs
the interpreter, and a processor. So who is busy is told by the time that others have used, and not by whether the loop
has something else to do.

Invariant: a reader that is far behind has its share of the loop's time at least, whatever others do.
"""

from __future__ import annotations

from collections.abc import Callable

#: Others are busy if they have used more than this part of the loop's time, of the last period of so many seconds. Two
#: who publish and consume as fast as they can use half of it, where each message waits for the disk.
_BUSY = 0.1
_PERIOD_S = 0.02


class SparePace:
    """is_over: their share is used up, for now. share: of the loop's time, at least. limit_s: what they have of a turn
    at most, seconds. clock: in seconds, never goes back."""

    def __init__(self, share: float, limit_s: float, clock: Callable[[], float]) -> None:
        self.is_over = False
        self._share = share
        self._limit_s = limit_s
        self._clock = clock
        self._others_spoke_at = -_PERIOD_S
        self._others_s = 0.0  # in this period
        self._own_s = 0.0  # in turns that others have not been told of yet
        self._period_began = self._began = clock()
        self._are_others_busy = False
        self._left_s = limit_s
        self._slices = 0

    def others_took(self, seconds: float) -> None:
        """A turn in which others said something took so long, with what those who are behind had of it."""
        self._others_spoke_at = self._clock()
        self._others_s += max(0.0, seconds - self._own_s)
        self._own_s = 0.0

    def start(self) -> None:
        """They may have something of a turn."""
        now = self._clock()
        self._left_s = min(self._limit_s, self._left_s + (now - self._began) * self._share)
        self._began = now
        self._slices = 0
        passed = now - self._period_began
        if passed > _PERIOD_S:
            self._are_others_busy = self._others_s > _BUSY * passed
            self._period_began, self._others_s = now, 0.0

    def goes_on(self) -> bool:
        """Whether another slice may follow in this turn."""
        now = self._clock()
        if now - self._others_spoke_at > _PERIOD_S:
            self.is_over = self._are_others_busy = False
            return now - self._began < self._limit_s
        self.is_over = self._are_others_busy and self._left_s <= 0
        self._slices += 1
        return self._slices == 1 and not self.is_over

    def end(self) -> None:
        """They have had what they may have of this turn, and it is written."""
        self._own_s = self._clock() - self._began
        self._left_s -= self._own_s
        if not self._are_others_busy:
            self._left_s = max(self._left_s, 0.0)
