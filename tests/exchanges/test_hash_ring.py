"""HashRing against a plain list of its points."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from random import Random

import pytest

from exchanges.bindings import QUEUE, Destination
from exchanges.hash_ring import ARCS, POINT_OCTETS, HashRing

OWNERS = [Destination(QUEUE, f"q{number}") for number in range(5)]


class PlainRing:
    """What a ring should say."""

    def __init__(self) -> None:
        self.points: dict[bytes, Destination] = {}

    def owners_at(self, places: Iterable[bytes]) -> list[Destination | None]:
        points = sorted(self.points)
        return [self.points[points[bisect_left(points, place) % len(points)]] if points else None for place in places]


@pytest.mark.parametrize("seed", range(8))
def test_it_says_what_a_list_of_all_points_says(seed: int) -> None:
    chance = Random(seed)
    ring, plain = HashRing(), PlainRing()
    # Few leading octets, so that most arcs are empty; or all of them.
    ends = chance.choice([1, 3, ARCS])

    def place() -> bytes:
        return bytes([chance.randrange(ends)]) + chance.randbytes(POINT_OCTETS - 1)

    for _ in range(60):
        who = chance.choice(OWNERS)
        mine = [point for point, other in plain.points.items() if other == who]
        kind = chance.random()
        if kind < 0.5:
            new = [place() for _ in range(chance.choice([1, 20, 2000]))]
            ring.add(who, iter(new))
            plain.points |= dict.fromkeys(new, who)
        elif kind < 0.75:
            gone = set(chance.sample(mine, len(mine) // 2))
            ring.remove(iter(gone))
            plain.points = {point: other for point, other in plain.points.items() if point not in gone}
        else:
            ring.remove_owner(who)
            plain.points = {point: other for point, other in plain.points.items() if other != who}
        assert len(ring) == len(plain.points)
        asked = (place(), bytes(POINT_OCTETS), b"\xff" * POINT_OCTETS, *list(plain.points)[:3])
        assert list(map(ring.owner_at, asked)) == plain.owners_at(asked)
