"""Bottleneck: the worker that has all that it can do while the others have not, so that more workers would not help.

It knows no processes: whoever does says how much processor time each worker has used since its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

#: Of a core: who uses more is busy, and the others, all together, are not if they use less on average.
_BUSY: Final = 0.95
_IDLE: Final = 0.5
#: As long as it goes on it is said again after so many times the first wait.
_AGAIN: Final = 20


class Bottleneck(NamedTuple):
    """The share of a core that a worker has used, and that the others have used on average, since the last look."""

    worker: int
    share: float
    others: float


class BottleneckWatch:
    """`look` is called every second or so. after_s: it has to go on for so long until it is said, seconds."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._used: Mapping[int, float] = {}
        self._looked_at = 0.0
        self._busy = -1
        self._since = self._said_at = 0.0

    def look(self, used: Mapping[int, float], now: float) -> Bottleneck | None:
        """used: seconds of processor time, by worker. Returns what is to be said now."""
        before, passed_s = self._used, now - self._looked_at
        self._used, self._looked_at = used, now
        shares = {each: max(0.0, used[each] - before[each]) / passed_s for each in used if each in before}
        found = _busy_of(shares)
        if found is None or found.worker != self._busy:
            self._busy = -1 if found is None else found.worker
            self._since = now - passed_s
            self._said_at = 0.0
        if found is None or now - self._since < self._after_s:
            return None
        if self._said_at and now - self._said_at < _AGAIN * self._after_s:
            return None
        self._said_at = now
        return found


def _busy_of(shares: Mapping[int, float]) -> Bottleneck | None:
    if len(shares) < 2:
        return None
    busiest = max(shares, key=shares.__getitem__)
    others = (sum(shares.values()) - shares[busiest]) / (len(shares) - 1)
    return Bottleneck(busiest, shares[busiest], others) if shares[busiest] >= _BUSY and others < _IDLE else None
