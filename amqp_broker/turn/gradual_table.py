"""GradualDict: a dictionary that grows, and goes, bit by bit. GradualTable: one that keeps the order of its keys.

A dictionary of ten thousand takes half a megabyte at a time when it grows, and moves all that it has. This one lies in
small parts; as keys come, one part after the other is split in two (linear hashing: W. Litwin, VLDB 1980).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

#: So many keys a part has, on the average; of those that are still to be split there are twice as many in some.
_KEYS = 32
#: So many keys stand in one piece of the order.
_PIECE = 128

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GradualDict(Generic[K, V]):
    """As a dictionary, in no order. It does not become smaller again until it is let go of."""

    __slots__ = ("_count", "_parts", "_round", "_split")

    def __init__(self) -> None:
        self._parts: list[dict[K, V]] = [{}]
        self._round = 1  # so many parts there were when the first of them was split last
        self._split = 0  # the part that is split next
        self._count = 0

    def _part(self, key: K) -> dict[K, V]:
        value = hash(key)
        number = value % self._round
        return self._parts[value % (2 * self._round) if number < self._split else number]

    def __setitem__(self, key: K, value: V) -> None:
        part = self._part(key)
        had = len(part)
        part[key] = value
        if len(part) != had:
            self._count += 1
            if self._count > _KEYS * len(self._parts):
                self._grow()

    def _grow(self) -> None:
        """Split one part in two."""
        held, many = self._parts[self._split], 2 * self._round
        there = self._split + self._round
        self._parts[self._split] = {key: value for key, value in held.items() if hash(key) % many != there}
        self._parts.append({key: value for key, value in held.items() if hash(key) % many == there})
        self._split += 1
        if self._split == self._round:
            self._round, self._split = many, 0

    def __getitem__(self, key: K) -> V:
        return self._part(key)[key]

    def get(self, key: K) -> V | None:
        """None where there is none."""
        return self._part(key).get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._part(key)

    def pop(self, key: K) -> V:
        """Take a key out. Raises KeyError."""
        value = self._part(key).pop(key)
        self._count -= 1
        return value

    def __len__(self) -> int:
        return self._count

    def values(self) -> Iterator[V]:
        """Each of them, while no key comes or goes."""
        for part in self._parts:
            yield from part.values()

    def let_go(self) -> Iterator[None]:
        """Give back what it has, bit by bit: it is not used any more."""
        self._count = 0
        while self._parts:
            self._parts.pop()
            yield None


class GradualTable(GradualDict[K, V]):
    """As a dictionary, in the order in which keys came, without taking any away."""

    __slots__ = ("_order",)

    def __init__(self) -> None:
        super().__init__()
        self._order: list[list[K]] = []

    def __setitem__(self, key: K, value: V) -> None:
        had = self._count
        super().__setitem__(key, value)
        if self._count != had:
            if had % _PIECE == 0:
                self._order.append([])
            self._order[-1].append(key)

    def __iter__(self) -> Iterator[K]:
        for piece in self._order:
            yield from piece

    def items(self) -> Iterator[tuple[K, V]]:
        """Each key with its value."""
        for key in self:
            yield key, self[key]

    def let_go(self) -> Iterator[None]:
        yield from super().let_go()
        while self._order:
            self._order.pop()
            yield None
