"""SortedCopies: lists in order of what stands in none, kept for the pages that follow.

What an administrator sets is not kept in order, nor are the bindings between two ends. The first page of such a list
copies the keys and sorts them, in slices; pages behind it find the copy, for a while. What has gone meanwhile is not
shown, what has come is there in the next list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timer, Timers

#: For so long a copy is kept, milliseconds; so many of them; with so many keys together.
KEEP_MS = 30_000
MOST_COPIES = 16
MOST_KEYS = 2_000_000
#: So many keys are sorted, or merged, in one slice.
_RUN = 512

Key = tuple[Any, ...]  # whatever has an order


class SortedCopies:
    """Those of a node."""

    def __init__(self, timers: Timers, clock: TurnClock) -> None:
        self._timers = timers
        self._clock = clock
        self._copies: dict[Key, tuple[list[Key], Timer]] = {}

    def keys(self, what: Key, after: Key | None, present: Iterable[Key]) -> Iterator[Key | None]:
        """The keys of a list behind `after`, in order; None: a slice is over. present: what it has now."""
        copy = self._copies.get(what) if after is not None else None
        if copy is not None:
            keys = copy[0]
        else:
            keys = yield from _sorted(list(present))
            self._keep(what, keys)
        start = 0 if after is None else bisect_right(keys, after)
        for number in range(start, len(keys)):
            yield keys[number]
            if number % _RUN == 0:
                yield None

    def _keep(self, what: Key, keys: list[Key]) -> None:
        self._drop(what)
        if len(keys) <= _RUN:
            return  # as quickly made again
        while self._copies and (len(self._copies) >= MOST_COPIES or len(keys) + self._count() > MOST_KEYS):
            self._drop(next(iter(self._copies)))
        self._copies[what] = keys, self._timers.at(self._clock.now + KEEP_MS, lambda now: self._drop(what))

    def _count(self) -> int:
        return sum(len(keys) for keys, _ in self._copies.values())

    def _drop(self, what: Key) -> None:
        copy = self._copies.pop(what, None)
        if copy is not None:
            copy[1].cancel()


def _sorted(keys: list[Key]) -> Generator[None, None, list[Key]]:
    """Sorted, in slices."""
    runs = []
    for start in range(0, len(keys), _RUN):
        runs.append(sorted(keys[start : start + _RUN]))
        if len(keys) > _RUN:
            yield None
    if len(runs) < 2:
        return runs[0] if runs else []
    found: list[Key] = []
    for key in merge(*runs):
        found.append(key)
        if len(found) % _RUN == 0:
            yield None
    return found
