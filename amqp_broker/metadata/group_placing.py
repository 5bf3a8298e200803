"""Which nodes a group of queues is on: plans that spread groups evenly, with one member a rack, and one a host, where
that is possible.

Pure: the same input gives the same plan on every node. places: of each node, where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Where a node is. rack: "" for none, which is nobody else's."""

    rack: str
    host: str


Lists = Mapping[int, Sequence[str]]
Places = Mapping[str, Place]


def host_of(address: str) -> str:
    """Of a node's address, HOST:PORT; nodes without one are all on a host of the name ""."""
    return address.rpartition(":")[0]


def loads(lists: Lists, nodes: Iterable[str]) -> dict[str, int]:
    """In how many groups each node is."""
    counts = dict.fromkeys(sorted(nodes), 0)
    for members in lists.values():
        for name in members:
            if name in counts:
                counts[name] += 1
    return counts


def fill(present: Sequence[str], places: Places, size: int, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Members until there are `size`, if there are so many nodes: in racks that have the fewest yet, there on hosts
    that have the fewest, of those in the fewest groups."""
    chosen = [name for name in present if name in places]
    while len(chosen) < size and len(chosen) < len(places):
        racks = Counter(places[name].rack for name in chosen if places[name].rack)
        hosts = Counter(places[name].host for name in chosen)

        def rank(name: str, racks: Counter[str] = racks, hosts: Counter[str] = hosts) -> tuple[int, int, int, str]:
            place = places[name]
            return racks[place.rack], hosts[place.host], counts.get(name, 0), name

        chosen.append(min((name for name in places if name not in chosen), key=rank))
    return tuple(sorted(chosen))


def place_groups(groups: Iterable[int], lists: Lists, places: Places, size: int) -> dict[int, tuple[str, ...]]:
    """Lists for these groups. lists: of the others."""
    found: dict[int, tuple[str, ...]] = {}
    for group_id in groups:
        found[group_id] = fill((), places, size, loads({**lists, **found}, places))
    return found


def spread(lists: Lists, places: Places) -> dict[int, tuple[str, ...]]:
    """The lists that are to be others, so that no rack has two members of a group without need, then no host, and no
    node is in two groups more than another could be. Each keeps its size; no more is moved than has to be."""
    now = {group_id: tuple(sorted(members)) for group_id, members in lists.items()}
    for _ in range(len(now) * max(1, len(places)) * 2):
        swap = _next_swap(now, places)
        if swap is None:
            break
        group_id, leaves, comes = swap
        now[group_id] = tuple(sorted({*now[group_id], comes} - {leaves}))
    return {group_id: members for group_id, members in now.items() if members != tuple(sorted(lists[group_id]))}


#: What a swap gains: pairs of members in one rack that are parted, the same of hosts, and how much fewer groups the one
#: that comes is in.
_Gain = tuple[int, int, int]


def _next_swap(lists: Mapping[int, tuple[str, ...]], places: Places) -> tuple[int, str, str] | None:
    counts = loads(lists, places)
    best: tuple[_Gain, tuple[int, str, str]] | None = None
    for group_id in sorted(lists):
        members = lists[group_id]
        in_racks, on_hosts = _pairs(members, places)
        for leaves in members:
            for comes in counts:
                if comes in members:
                    continue
                racks, hosts = _pairs([*(each for each in members if each != leaves), comes], places)
                gain = (in_racks - racks, on_hosts - hosts, counts.get(leaves, 0) - counts[comes])
                is_worth_it = gain[:2] > (0, 0) or (gain[:2] == (0, 0) and gain[2] >= 2)
                if is_worth_it and (best is None or gain > best[0]):
                    best = gain, (group_id, leaves, comes)
    return best[1] if best is not None else None


def _pairs(members: Collection[str], places: Places) -> tuple[int, int]:
    """How many pairs of members are in one rack, and on one host."""
    known = [places.get(name, Place("", name)) for name in members]
    racks = Counter(place.rack for place in known if place.rack)
    hosts = Counter(place.host for place in known)
    return _pairs_of(racks.values()), _pairs_of(hosts.values())


def _pairs_of(counts: Iterable[int]) -> int:
    return sum(count * (count - 1) // 2 for count in counts)
