"""Runs of a cluster with streaming jobs: leases and transactions, each in another world.

The campaign is `-m long`, five hundred seeds of ten times the length.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation

SEEDS = 18
MANY_SEEDS = 500
SECONDS = 0.2

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather leases --trace"


def test_no_seed_finds_a_violation_and_runs_see_what_they_are_for() -> None:
    failures = []
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        world = KINDS["leases"](seed, 3)
        try:
            world.run(SECONDS)
        except Violation as error:
            failures.append(str(error))
        counts.update(world.counts)
    assert not failures, _REPLAY
    for what in (
        "busy", "claimed again", "committed again", "crashes", "drivers that died", "fenced", "groups released",
        "read again", "stages of what is committed", "tasks that died", "txn.abort ok", "zombies",
    ):  # fmt: skip
        assert counts[what] > 0, what
    assert counts["in an epoch"] > 500
    assert counts["published in order"] > 500


def test_a_seed_of_blobs_that_nobody_recognises() -> None:
    """They were published elsewhere before the one before had left the journal's tail."""
    KINDS["leases"](20, 3).run(1.5)


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    failures = []
    for seed in range(1, MANY_SEEDS + 1):
        try:
            KINDS["leases"](seed, 3).run(2.0)
        except Violation as error:
            failures.append(str(error))
    assert not failures, _REPLAY
