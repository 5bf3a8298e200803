"""Who leads what: a plan that spreads the leaders of groups evenly over the members. Pure; nothing is asked or done.

Invariants:
1. A plan moves no more groups than it has to: none if no member leads two groups more than another could.
2. The same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Move(NamedTuple):
    """The leadership of one group goes from one member to another."""

    group_id: int
    source: str
    target: str


def plan_moves(
    leaders: Mapping[int, str | None], voters: Mapping[int, Collection[str]], usable: Collection[str]
) -> list[Move]:
    """The moves that spread the leaders evenly over the members that are `usable`.

    leaders: of each group, None if nobody knows. voters: of each group, who can lead it. Groups whose leader is not
    usable stay as they are.
    """
    led: dict[str, list[int]] = {name: [] for name in sorted(usable)}
    for group_id in sorted(leaders):
        leader = leaders[group_id]
        if leader in led:
            led[leader].append(group_id)
    moved: dict[int, str] = {}  # who has led each of them
    while (path := _next_path(led, voters)) is not None:
        for move in path:
            led[move.source].remove(move.group_id)
            led[move.target].append(move.group_id)
            moved.setdefault(move.group_id, move.source)
    now = {group_id: name for name, groups in led.items() for group_id in groups}
    return [Move(group_id, source, now[group_id]) for group_id, source in moved.items() if now[group_id] != source]


def _next_path(led: Mapping[str, list[int]], voters: Mapping[int, Collection[str]]) -> list[Move] | None:
    """From who leads the most to who leads the fewest, if that is fewer by two at least: a group, or where they have
    none in common, one of each on the shortest way from one to the other."""
    by_count = sorted(led, key=lambda name: len(led[name]))
    for source in reversed(by_count):
        for target in by_count:
            if len(led[source]) - len(led[target]) < 2:
                break
            if path := _path(source, target, led, voters):
                return path
    return None


def _path(
    source: str, target: str, led: Mapping[str, list[int]], voters: Mapping[int, Collection[str]]
) -> list[Move]:
    """The shortest one; none where there is none."""
    paths: dict[str, list[Move]] = {source: []}
    reached = [source]
    for name in reached:  # which grows meanwhile
        for group_id in reversed(led[name]):
            for other in led:
                if other not in paths and other in voters.get(group_id, ()):
                    paths[other] = [*paths[name], Move(group_id, name, other)]
                    reached.append(other)
    return paths.get(target, [])
