"""Which classic queues have to move so that all homes have about as much, and no more of them than that takes. None
moves to a home that is far busier than another one.

A plan, made of what was counted: nobody is asked, and nothing is moved here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

#: What a queue counts that holds nothing, and a message besides its body, octets.
EMPTY_BYTES: Final = 4096
MESSAGE_BYTES: Final = 256
#: Homes that differ by less than such a part of what all have on average are even, hundredths.
EVEN_PERCENT: Final = 10
#: Who is busier than the calmest home by so much is far busier, thousandths of a core.
FAR_BUSIER: Final = 500


class Weighed(NamedTuple):
    """A queue: where it lives, how many messages it has, and the octets of their bodies."""

    vhost: str
    name: str
    home: str
    messages: int
    octets: int

    @property
    def weight(self) -> int:
        """What it counts, octets."""
        return EMPTY_BYTES + self.messages * MESSAGE_BYTES + self.octets


class Change(NamedTuple):
    """A queue that is to move there."""

    queue: Weighed
    home: str


def spread(queues: Sequence[Weighed], homes: Sequence[str], busy: Mapping[str, int] | None = None) -> list[Change]:
    """Each queue moves once at most. Those of a home that is not among `homes` (it is to be emptied) all move. busy:
    thousandths of a core that homes use, as far as it is known."""
    calm = _calm(homes, {home: share for home, share in (busy or {}).items() if home in homes})
    load = dict.fromkeys(homes, 0)
    living: dict[str, list[Weighed]] = {home: [] for home in homes}
    changes: list[Change] = []
    homeless = sorted((each for each in queues if each.home not in load), key=lambda each: -each.weight)
    for queue in queues:
        if queue.home in load:
            load[queue.home] += queue.weight
            living[queue.home].append(queue)
    for queue in homeless:
        home = min(calm, key=load.__getitem__)
        changes.append(Change(queue, home))
        load[home] += queue.weight
    even = max(EMPTY_BYTES, sum(load.values()) * EVEN_PERCENT // (100 * len(load))) if load else 0
    while load:
        fullest, emptiest = max(homes, key=load.__getitem__), min(calm, key=load.__getitem__)
        gap = load[fullest] - load[emptiest]
        # The one that leaves the two most alike; one as large as the gap would only change places with it.
        fitting = [each for each in living[fullest] if each.weight < gap]
        if gap <= even or not fitting:
            return changes
        queue = min(fitting, key=lambda each: abs(gap - 2 * each.weight))
        living[fullest].remove(queue)
        changes.append(Change(queue, emptiest))
        load[fullest] -= queue.weight
        load[emptiest] += queue.weight
    return changes


def _calm(homes: Sequence[str], busy: Mapping[str, int]) -> list[str]:
    """Those that may be given queues. Of whom nothing is known may be."""
    limit = min(busy.values(), default=0) + FAR_BUSIER
    return [home for home in homes if busy.get(home, 0) < limit]
