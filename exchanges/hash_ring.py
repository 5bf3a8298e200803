"""HashRing: a circle of 128-bit numbers with points on it, each of which has an owner. A place belongs to the owner of
the first point at or behind it (consistent hashing: Karger et al., STOC 1997).

The circle is cut into ARCS of equal length, so that a point that comes or goes moves only the others of its arc,
however many there are all together.

Invariants:
1. Each arc is sorted, and has as many owners as points, in the same order.
2. Points are octets, the most significant first: they compare as the numbers do, and the first octet is their arc's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from exchanges.bindings import Destination

#: Of a point.
POINT_OCTETS = 16
ARCS = 256
#: So many points at a time come and go one by one; more of them arc by arc.
_FEW = 1024
#: Points of one owner are found by looking through the circle if they are this part of it, or more.
_LARGE_PART = 8


class _Arc:
    """points: sorted; owners: of each."""

    __slots__ = ("owners", "points")

    def __init__(self) -> None:
        self.points: list[bytes] = []
        self.owners: list[Destination] = []

    def add(self, owner: Destination, new: list[bytes]) -> None:
        """Points of one owner."""
        owners = dict(zip(self.points, self.owners, strict=True))
        self.points += new
        self.points.sort()
        self.owners = [owners.get(point, owner) for point in self.points]

    def keep(self, kept: list[int]) -> None:
        """Those with these indices, in order."""
        if len(kept) < len(self.points):
            self.points = [self.points[index] for index in kept]
            self.owners = [self.owners[index] for index in kept]


class HashRing:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._arcs = [_Arc() for _ in range(ARCS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def owner_at(self, place: bytes) -> Destination | None:
        """Whose a place is; None where there is no point at all. It goes past empty arcs one by one."""
        first = place[0]
        arc = self._arcs[first]
        index = bisect_left(arc.points, place)
        if index < len(arc.points):
            return arc.owners[index]
        for step in range(1, ARCS + 1):
            arc = self._arcs[(first + step) % ARCS]
            if arc.points:
                return arc.owners[0]
        return None

    def add(self, owner: Destination, points: Iterable[bytes]) -> None:
        """None of them is there."""
        new = list(points)
        self._count += len(new)
        if len(new) > _FEW:
            for number, some in enumerate(_by_arc(new)):
                self._arcs[number].add(owner, some)
            return
        for point in new:
            arc = self._arcs[point[0]]
            index = bisect_left(arc.points, point)
            arc.points.insert(index, point)
            arc.owners.insert(index, owner)

    def remove(self, points: Iterable[bytes]) -> None:
        """All of them are there."""
        gone = list(points)
        self._count -= len(gone)
        if len(gone) > _FEW:
            for number, some in enumerate(_by_arc(gone)):
                arc, leaving = self._arcs[number], set(some)
                arc.keep([index for index, point in enumerate(arc.points) if point not in leaving])
            return
        for point in gone:
            arc = self._arcs[point[0]]
            index = bisect_left(arc.points, point)
            del arc.points[index], arc.owners[index]

    def is_large_part(self, count: int) -> bool:
        """Whether to look through the circle (`remove_owner`) is cheaper than to find so many points one by one."""
        return count * _LARGE_PART >= self._count

    def remove_owner(self, owner: Destination) -> None:
        """All points of one owner, the object that they were added with."""
        for arc in self._arcs:
            before = len(arc.points)
            arc.keep([index for index, each in enumerate(arc.owners) if each is not owner])
            self._count -= before - len(arc.points)


def _by_arc(points: list[bytes]) -> list[list[bytes]]:
    found: list[list[bytes]] = [[] for _ in range(ARCS)]
    for point in points:
        found[point[0]].append(point)
    return found
