"""Seeds of a weather, one after the other: what goes wrong in them, and what they see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from tests.apart import apart
from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation

#: What none of the seeds sees, whose runs change with the broker, one of so many times as many may still see.
_MORE = 3


def failures_of(
    weather: str,
    seeds: Sequence[int],
    size: int,
    seconds: float,
    counts: Counter[str] | None = None,
    sees: Sequence[str] = (),
) -> list[str]:
    """What goes wrong; what is seen is counted. It goes on behind these seeds until all of `sees` was seen."""
    failures, seen = _run(weather, seeds, size, seconds, sees)
    if counts is not None:
        counts.update(seen)
    return failures


@apart
def _run(
    weather: str, seeds: Sequence[int], size: int, seconds: float, sees: Sequence[str]
) -> tuple[list[str], Counter[str]]:
    failures: list[str] = []
    counts: Counter[str] = Counter()
    behind = range(seeds[-1] + 1, seeds[-1] + 1 + _MORE * len(seeds))
    for number, seed in enumerate(chain(seeds, behind)):
        if number >= len(seeds) and all(counts[what] > 0 for what in sees):
            break
        world = KINDS[weather](seed, size)
        try:
            world.run(seconds)
        except Violation as error:
            failures.append(str(error))
        counts.update(world.counts + world.clients.counts + world.log.counts + world.network.counts)
    return failures, counts
