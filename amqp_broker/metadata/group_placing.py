"""Which nodes a group of queues is on: plans that spread groups evenly, with one member a host where that is possible.

Pure: the same input gives the same plan on every node. hosts: of each node, the host that it is on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

Lists = Mapping[int, Sequence[str]]


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


def fill(present: Sequence[str], hosts: Mapping[str, str], size: int, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Members until there are `size`, if there are so many nodes: on hosts that have none yet, of those in the fewest
    groups."""
    chosen = [name for name in present if name in hosts]
    while len(chosen) < size and len(chosen) < len(hosts):
        used = [hosts[name] for name in chosen]
        rest = [name for name in sorted(hosts) if name not in chosen]
        chosen.append(min(rest, key=lambda name: (used.count(hosts[name]), counts.get(name, 0), name)))
    return tuple(sorted(chosen))


def place_groups(
    groups: Iterable[int], lists: Lists, hosts: Mapping[str, str], size: int
) -> dict[int, tuple[str, ...]]:
    """Lists for these groups. lists: of the others."""
    found: dict[int, tuple[str, ...]] = {}
    for group_id in groups:
        found[group_id] = fill((), hosts, size, loads({**lists, **found}, hosts))
    return found


def spread(lists: Lists, hosts: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    """The lists that are to be others, so that no node is in two groups more than another could be, and no host has two
    members of a group without need. Each keeps its size; no more is moved than has to be."""
    now = {group_id: tuple(sorted(members)) for group_id, members in lists.items()}
    for _ in range(len(now) * max(1, len(hosts)) * 2):
        swap = _next_swap(now, hosts)
        if swap is None:
            break
        group_id, leaves, comes = swap
        now[group_id] = tuple(sorted({*now[group_id], comes} - {leaves}))
    return {group_id: members for group_id, members in now.items() if members != tuple(sorted(lists[group_id]))}


def _next_swap(lists: Mapping[int, tuple[str, ...]], hosts: Mapping[str, str]) -> tuple[int, str, str] | None:
    counts = loads(lists, hosts)
    best: tuple[tuple[int, int], tuple[int, str, str]] | None = None
    for group_id in sorted(lists):
        members = lists[group_id]
        for leaves in members:
            for comes in counts:
                if comes in members:
                    continue
                changed = [each for each in members if each != leaves] + [comes]
                gained = _doubles(members, hosts) - _doubles(changed, hosts)
                relief = counts.get(leaves, 0) - counts[comes]
                if (gained > 0 or (gained == 0 and relief >= 2)) and (best is None or (gained, relief) > best[0]):
                    best = (gained, relief), (group_id, leaves, comes)
    return best[1] if best is not None else None


def _doubles(members: Collection[str], hosts: Mapping[str, str]) -> int:
    """How many members are on a host that has another one."""
    used = [hosts.get(name, name) for name in members]
    return len(used) - len(set(used))
