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
    moves: list[Move] = []
    while (move := _next_move(led, voters)) is not None:
        led[move.source].remove(move.group_id)
        led[move.target].append(move.group_id)
        moves.append(move)
    return moves


def _next_move(led: Mapping[str, list[int]], voters: Mapping[int, Collection[str]]) -> Move | None:
    """One from who leads the most to who leads the fewest, if that is fewer by two at least."""
    by_count = sorted(led, key=lambda name: len(led[name]))
    for source in reversed(by_count):
        for target in by_count:
            if len(led[source]) - len(led[target]) < 2:
                break
            for group_id in reversed(led[source]):
                if target in voters.get(group_id, ()):
                    return Move(group_id, source, target)
    return None
