"""SortedCopies: lists in order of what stands in none, kept for the pages that follow.

What an administrator sets is not kept in order, nor are the bindings between two ends. The first page of such a list
copies the keys and sorts them, in slices; pages behind it find the copy, for a while. What has gone meanwhile is not
shown, what has come is there in the next list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from typing import TYPE_CHECKING, Any

from amqp_broker.turn.letting_go import let_go
from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.timers import Timer, Timers

#: For so long a copy is kept, milliseconds; so many of them; with so many keys together.
KEEP_MS = 30_000
MOST_COPIES = 16
MOST_KEYS = 2_000_000
#: So many keys are sorted, so many merged in one slice.
_RUN = 512
_MERGED = 64
#: So many are given in one slice: who looks for one of them may pass over all.
_PASSED = 64
#: So many are copied in one slice; so often what changes meanwhile is begun again.
_COPIED = 16
_TRIES = 8

Key = tuple[Any, ...]  # held: whatever has an order
Order = Callable[[Any], Any] | None  # held: of keys, something that has an order


class _Copy:
    """timer: after which it is dropped. readers: so many read it now: it is forgotten behind the last of them."""

    __slots__ = ("is_dropped", "keys", "readers", "timer")

    def __init__(self, keys: list[Key], timer: Timer) -> None:
        self.keys = keys
        self.timer = timer
        self.readers = 0
        self.is_dropped = False


class SortedCopies:
    """Those of a node."""

    def __init__(self, timers: Timers, clock: TurnClock, background: Background) -> None:
        self._timers = timers
        self._clock = clock
        self._background = background
        self._copies: dict[Key, _Copy] = {}

    def keys(
        self, what: Key, after: Key | None, present: Callable[[], Iterable[Key]], order: Order = None
    ) -> Iterator[Key | None]:
        """The keys of a list behind `after`, in order; None: a slice is over. present: what it has now; it may be read
        over what changes, which raises RuntimeError then, as dictionaries do: it is read again. order: what keys are
        sorted by, where it is not themselves."""
        copy = self._copies.get(what) if after is not None else None
        if copy is not None:
            yield from self._read(copy, after)
            return
        keys = yield from _sorted((yield from _collected(present)), order)
        if len(keys) <= _RUN:
            yield from _behind(keys, after)  # not kept: as quickly made again
        else:
            yield from self._read(self._keep(what, keys), after)

    def _read(self, copy: _Copy, after: Key | None) -> Iterator[Key | None]:
        copy.readers += 1
        try:
            yield from _behind(copy.keys, after)
        finally:
            copy.readers -= 1
            self._forget(copy)

    def _keep(self, what: Key, keys: list[Key]) -> _Copy:
        self._drop(what)
        while self._copies and (len(self._copies) >= MOST_COPIES or len(keys) + self._count() > MOST_KEYS):
            self._drop(next(iter(self._copies)))
        copy = _Copy(keys, self._timers.at(self._clock.now + KEEP_MS, lambda now: self._drop(what)))
        self._copies[what] = copy
        return copy

    def _count(self) -> int:
        return sum(len(copy.keys) for copy in self._copies.values())

    def _drop(self, what: Key) -> None:
        copy = self._copies.pop(what, None)
        if copy is not None:
            copy.timer.cancel()
            copy.is_dropped = True
            self._forget(copy)

    def _forget(self, copy: _Copy) -> None:
        """In slices, if nobody needs it any more."""
        if copy.is_dropped and not copy.readers and copy.keys:
            keys, copy.keys = copy.keys, []
            Task(self._background.patient(), _forgotten(keys))


def _behind(keys: list[Key], after: Key | None) -> Iterator[Key | None]:
    start = 0 if after is None else bisect_right(keys, after)
    for number in range(start, len(keys)):
        yield keys[number]
        if number % _PASSED == 0:
            yield None


def _collected(present: Callable[[], Iterable[Key]]) -> Generator[None, None, list[Key]]:
    """In slices; at once when it has changed again and again meanwhile."""
    for _ in range(_TRIES):
        found: list[Key] = []
        try:
            for key in present():
                found.append(key)
                if len(found) % _COPIED == 0:
                    yield None
        except RuntimeError:
            continue
        return found
    return list(present())


def _sorted(keys: list[Key], order: Order) -> Generator[None, None, list[Key]]:
    """Sorted, in slices; the list that is given is used up."""
    runs = []
    while len(keys) > _RUN:
        runs.append(sorted(keys[-_RUN:], key=order))
        del keys[-_RUN:]
        yield None
    keys.sort(key=order)
    if not runs:
        return keys
    found: list[Key] = []
    for key in merge(*map(_used_up, [keys, *reversed(runs)]), key=order):
        found.append(key)
        if len(found) % _MERGED == 0:
            yield None
    return found


def _used_up(keys: list[Key]) -> Iterator[Key]:
    """In their order; what was given is forgotten."""
    keys.reverse()
    while keys:
        yield keys.pop()


def _forgotten(keys: list[Key]) -> Steps:
    yield from let_go(keys)
