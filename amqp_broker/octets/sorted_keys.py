"""SortedKeys: names or numbers in their order, from which a list can be begun anywhere.

Whoever shows many things a page at a time begins each page behind the last thing of the one before: with a dictionary
that would be to pass over all that was shown before. Keys stand in blocks; to add one, to take one out and to find
where a page begins cost about the same whatever their number.

Invariant: `_last[i]` is the greatest key of `_blocks[i]`, which is in order, not empty and below the block behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", int, str)

#: A block that has grown to this is cut in two.
_MOST = 1024


class SortedKeys(Generic[Key]):
    """Each key once."""

    def __init__(self) -> None:
        self._blocks: list[list[Key]] = []
        self._last: list[Key] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: Key) -> None:
        """One more; nothing happens if it is there."""
        last = self._last
        if not last:
            self._blocks.append([key])
            last.append(key)
            self._count = 1
            return
        number = min(bisect_left(last, key), len(last) - 1)
        block = self._blocks[number]
        at = bisect_left(block, key)
        if at < len(block) and block[at] == key:
            return
        block.insert(at, key)
        self._count += 1
        if len(block) >= _MOST:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            last[number : number + 1] = [block[half - 1], block[-1]]
        else:
            last[number] = block[-1]

    def discard(self, key: Key) -> None:
        """One less; nothing happens if it is not there."""
        number = bisect_left(self._last, key)
        if number == len(self._last):
            return
        block = self._blocks[number]
        at = bisect_left(block, key)
        if block[at] != key:
            return
        del block[at]
        self._count -= 1
        if block:
            self._last[number] = block[-1]
        else:
            del self._blocks[number], self._last[number]

    def after(self, key: Key | None, most: int) -> list[Key]:
        """The first keys behind this one, which need not be there; from the beginning where it is None."""
        if key is None:
            number = at = 0
        else:
            number = bisect_right(self._last, key)
            at = bisect_right(self._blocks[number], key) if number < len(self._last) else 0
        found: list[Key] = []
        while number < len(self._blocks) and len(found) < most:
            found += self._blocks[number][at : at + most - len(found)]
            number, at = number + 1, 0
        return found

    def in_slices(self, most: int) -> Iterator[list[Key]]:
        """All of them, at most so many at a time, each slice as it is when it is come to."""
        last = None
        while found := self.after(last, most):
            yield found
            last = found[-1]
