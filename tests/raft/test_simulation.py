"""Simulated clusters of three and five members: no seed finds a violation, and a seed gives the same run again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.raft.hard_weather import RestingStorm
from tests.raft.simulation_faults import Storm

SEEDS = range(1, 5)
MANY_SEEDS = range(1, 501)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_finds_a_violation(seed: int, size: int) -> None:
    Storm(seed, size).run()


@pytest.mark.parametrize(("seed", "size"), [(1, 3), (2, 3), (2, 5)])
def test_entries_that_rest_are_lost_by_no_seed(seed: int, size: int) -> None:
    storm = RestingStorm(seed, size)
    storm.run()
    assert storm.rested > 10


@pytest.mark.long
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("seed", MANY_SEEDS)
def test_no_seed_of_many_finds_a_violation(seed: int, size: int) -> None:
    Storm(seed, size).run()


@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_gives_the_same_run_in_every_process(seed: int) -> None:
    """Nothing depends on the order of a set, on an address or on a clock."""
    outputs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.raft.simulate", "--seed", str(seed), "--seconds", "4", "--trace"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert f"seed {seed}, size 5: " in outputs[0]


def test_runs_see_everything_that_they_are_for() -> None:
    """A simulation that never installs or never tears a write would prove nothing."""
    counts: Counter[str] = Counter()
    for seed in range(114, 121):
        storm = Storm(seed, 3)
        storm.run(6)
        counts.update(storm.counts)
    for what in (
        "crashes", "crashes in a write", "partitions", "one-way partitions", "pauses", "clock jumps", "stalls",
        "transfers", "failed syncs", "membership changes", "installs", "aborted installs", "retired segments",
    ):  # fmt: skip
        assert counts[what] > 0, what
    assert counts["acknowledged"] > 1000
    assert counts["terms"] > 20
