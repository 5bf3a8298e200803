"""Timings: how long a message is at each station of its way through this node, and what makes a turn late.

Only where the setting `timings` asks for it; the verb `statistics` has the figures. It has no clock of its own: the
driver gives one, in seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

#: Percentiles are those of so many newest values of a station.
KEPT = 10_000

#: The stations, and what is measured there.
STATIONS: Mapping[str, str] = {
    "turn": "from the end of its inputs until a turn's outputs are handed over, without a sync",
    "sync": "writing and syncing what waits for the disk, in the loop or in the thread",
    "append": "from a frame of another node until what it brought is on this disk",
    "commit": "from a proposal of this node as a leader until it is applied here",
    "timer": "how late a timer is, because the loop or the processor was busy",
    "collector": "a run of Python's collector of cycles",
}


class Timings:
    """Values of each station, seconds. `clock` never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._newest: dict[str, deque[float]] = {station: deque(maxlen=KEPT) for station in STATIONS}
        self._counts = dict.fromkeys(STATIONS, 0)
        self._longest = dict.fromkeys(STATIONS, 0.0)

    def record(self, station: str, seconds: float) -> None:
        """One more value."""
        self._newest[station].append(seconds)
        self._counts[station] += 1
        if seconds > self._longest[station]:
            self._longest[station] = seconds

    def since(self, station: str, began: float) -> None:
        """What began then is over now."""
        self.record(station, self.clock() - began)

    def statistics(self) -> dict[str, dict[str, float]]:
        """By station: how many, and of the newest the median and the 99th percentile; the longest ever. ms."""
        found = {}
        for station, newest in self._newest.items():
            values = sorted(newest)
            if values:
                found[station] = {
                    "count": self._counts[station],
                    "p50_ms": _milliseconds(values[len(values) // 2]),
                    "p99_ms": _milliseconds(values[len(values) * 99 // 100]),
                    "longest_ms": _milliseconds(self._longest[station]),
                }
        return found


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
