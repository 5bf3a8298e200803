"""Runs, each another world; and that a run can be replayed. The campaign is `make simulate`, of twice the length.

A seed replays what it found as long as the workload draws the same numbers. So whatever a seed has found is also a case
of its own in tests/node/test_found_by_simulation.py, with its cause.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.example_counts import seeds
from tests.simulation.state import Violation
from tests.simulation.world import World

SEEDS = 100
STEPS = 800
#: Of the many of which half run in every test.
SHORT_STEPS = 400
_CHUNK = 10


@pytest.mark.parametrize(
    "first", seeds(range(1, SEEDS + 1, _CHUNK)), ids=lambda first: f"{first} to {first + _CHUNK - 1}"
)
def test_no_seed_finds_a_violation(first: int) -> None:
    failures = []
    for seed in range(first, first + _CHUNK):
        try:
            World(seed).run(SHORT_STEPS)
        except Violation as error:
            failures.append(str(error))
    assert not failures, "replay one with: python -m tests.simulation.run --seed N --steps 400 --trace"


_NAMED_UNSYNCED = "a full disk: one queue's pages were named and not synced, because another's found no room"
_JOURNAL_AT_REST = "a full disk: the journal stayed long until the next write"
_HALF_DELETED = "a head was dropped, its queue deleted, the deletion undone: the message was there and a dead letter"
_FOUND = {
    _NAMED_UNSYNCED: (898, 1647, 3137, 3318, 3621, 3898, 4334, 4388),
    _JOURNAL_AT_REST: (697, 958, 2379, 2626),
    _HALF_DELETED: (949, 3657),
}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, id=f"{seed}: {cause}", marks=() if seed == found[0] else pytest.mark.long)
        for cause, found in _FOUND.items()
        for seed in found
    ],
)
def test_a_seed_that_has_found_an_error_of_the_broker(seed: int) -> None:
    """Their causes are cases in tests/node/test_found_by_simulation.py and tests/queues/test_recovery.py."""
    World(seed).run(STEPS)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(319, id="a channel's end and a purge in the turn of a delivery: the model knows which came first"),
        pytest.param(3112, id="two purges, and a channel's end between them: the second finds what the first spared"),
        pytest.param(2890, id="a client got a message, was lost, and the node went down, in one turn"),
        pytest.param(1192, id="the disk goes down in a checkpoint of a group, while the node recovers"),
    ],
)
def test_a_seed_that_has_shown_an_error_of_the_model(seed: int) -> None:
    """Its cause is a case of its own in test_model.py, or, of the last two, in what the driver does in a crash."""
    World(seed).run(STEPS)


@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_gives_the_same_run_in_every_process(seed: int) -> None:
    """Nothing depends on the order of a set, on an address or on a clock."""
    outputs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation.run", "--seed", str(seed), "--steps", str(STEPS)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert f"seed {seed}: " in outputs[0]


def test_runs_see_everything_that_they_are_for() -> None:
    """A simulation that never pages or never crashes would prove nothing."""
    counts: dict[str, int] = {}
    for seed in range(1, 21):
        world = World(seed)
        world.run(STEPS)
        for what, number in [*world.counts.items(), *world.observer.statistics.items()]:
            counts[what] = counts.get(what, 0) + number
    for what in ("crashes", "crashes in recovery", "failed syncs", "full disk", "pages", "retired"):
        assert counts.get(what, 0) > 0, what
    for what in ("deliveries", "confirms", "nacks", "letters", "answers"):
        assert counts[what] > 50, what
