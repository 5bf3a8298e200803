"""Runs in which messages are leased besides, with crashes: each is ready, held, leased or settled, one of these only.

The other runs draw what they have always drawn, so that their seeds go on to mean what they mean.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.lease_world import LeaseWorld
from tests.simulation.state import Violation

SEEDS = 60
STEPS = 400
_CHUNK = 20


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=() if first == 1 else pytest.mark.long) for first in range(1, SEEDS + 1, _CHUNK)],
    ids=lambda first: f"{first} to {first + _CHUNK - 1}",
)
def test_no_seed_finds_a_violation(first: int) -> None:
    failures = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + _CHUNK):
        world = LeaseWorld(seed)
        try:
            world.run(STEPS)
        except Violation as error:
            failures.append(str(error))
        counts.update(world.leases.counts)
    assert failures == []
    for what in ("claimed", "acked", "released"):
        assert counts[what] > 3, what


@pytest.mark.parametrize(
    "seed",
    [pytest.param(158, id="158: the sequence of a leased transient message was given again after a restart")],
)
def test_a_seed_that_has_found_an_error_of_the_broker(seed: int) -> None:
    """Its cause is a case in tests/queues/test_leases.py."""
    LeaseWorld(seed).run(STEPS)


def test_a_crash_keeps_the_model_and_the_groups_together() -> None:
    """A group that has lost a message is noticed at the next restart."""
    with pytest.raises(Violation, match="holds"):
        run_until_one_is_missed()


def run_until_one_is_missed() -> None:
    """Seeds whose restarts leave out the first message of each group."""
    for seed in range(1, 100):
        world = LeaseWorld(seed)
        recover = world.leases.recover
        world.leases.recover = lambda found, recover=recover: recover(_without_one(found))  # type: ignore[method-assign]
        world.run(STEPS)


def _without_one(found: dict) -> dict:  # type: ignore[type-arg]
    changed = {}
    for queue, groups in found.items():
        changed[queue] = {name: (*facts[:3], facts[3][1:]) for name, facts in groups.items()}
    return changed
