"""Runs of a cluster with streaming jobs: leases and transactions, each in another world.

The campaign is `-m long`, five hundred seeds of ten times the length.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation.seeds import failures_of

SEEDS = 18
MANY_SEEDS = 500
SECONDS = 0.2

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather leases --trace"


def test_no_seed_finds_a_violation_and_runs_see_what_they_are_for() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("leases", range(1, SEEDS + 1), 3, SECONDS, counts), _REPLAY
    for what in (
        "busy", "claimed again", "committed again", "crashes", "drivers that died", "fenced", "groups released",
        "read again", "stages of what is committed", "tasks that died", "txn.abort ok", "zombies",
    ):  # fmt: skip
        assert counts[what] > 0, what
    assert counts["in an epoch"] > 500
    assert counts["published in order"] > 500


def test_a_seed_of_blobs_that_nobody_recognises() -> None:
    """They were published elsewhere before the one before had left the journal's tail."""
    assert not failures_of("leases", range(20, 21), 3, 1.5)


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    assert not failures_of("leases", range(1, MANY_SEEDS + 1), 3, 2.0), _REPLAY
