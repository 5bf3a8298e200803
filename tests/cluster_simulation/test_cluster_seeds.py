"""Runs of a cluster, each another world; and that a run can be replayed.

The campaigns are `make simulate CLUSTER=3` (or 5) for any seeds, and two thousand of them with `-m long`.

A seed replays what it found as long as the workload draws the same numbers. So whatever a seed has found is also told
here, with its cause.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import pytest

from tests.cluster_simulation.seeds import failures_of

SEEDS = 40
MANY_SEEDS = 2000
SECONDS = 2.0
#: In dense weather, as in its campaigns.
DENSE_SECONDS = 1.0
#: Of those that run in every test, and of some more, in dense weather.
SHORT_SECONDS = 0.5
#: So many of them see most of what there is.
SEEING = 12
#: What is seldom, a handover and a change of members, is in these.
SELDOM = (13, 40)
_CHUNK = 10

_REPLAY = "replay one with: python -m tests.simulation --cluster SIZE --seed N --seconds S --weather W --trace"


def test_no_seed_finds_a_violation_and_runs_see_everything_that_they_are_for() -> None:
    """A simulation that never installs or never loses a link would prove nothing."""
    counts: Counter[str] = Counter()
    happens = (
        "crashes", "partitions", "one-way partitions", "pauses", "clock jumps", "stalls", "transfers", "failed syncs",
        "cluster.add", "stops", "resets", "timeouts", "installs", "sessions closed", "covered acks", "letters",
        "published again", "returns", "nack", "lost", "digests",
    )  # fmt: skip
    assert not failures_of("dense", (*range(1, SEEING + 1), *SELDOM), 3, SHORT_SECONDS, counts, happens), _REPLAY
    for what in happens:
        assert counts[what] > 0, what
    assert counts["kept"] > 1000
    assert counts["acknowledged"] > 1000


@pytest.mark.long
@pytest.mark.parametrize(
    "first", range(SEEING + 1, SEEDS + 1, _CHUNK), ids=lambda first: f"{first} to {first + _CHUNK - 1}"
)
def test_no_seed_of_three_nodes_finds_a_violation(first: int) -> None:
    assert not failures_of("dense", range(first, first + _CHUNK), 3, SHORT_SECONDS), _REPLAY


def test_no_seed_of_five_nodes_finds_a_violation() -> None:
    assert not failures_of("dense", range(1, 4), 5, SHORT_SECONDS), _REPLAY


_GONE_TOO_EARLY = "the pages of a deleted quorum queue were removed while a checkpoint named them"
_RISEN = "a quorum queue was deleted while the command that opens it was on its way, and stayed in the log for ever"
_NOT_DELETED = "the log dropped a queue whose deletion was not committed, and it came back empty"
_NO_HOME = "a queue was declared on a member that was being removed: its home was gone for ever"
_STRANGER = "a member came while another one was away, and led: without a link the latter never heard of it"
_UNSEEN = "a leader that was not ready yet had no eye for a deletion, and the log kept the queue for ever"
_DELETING = "nobody settles what is in a queue that a client is deleting: an error of the model"
_AHEAD = "a member that is ahead knows already that the queue was deleted: an error of the model"
_LONG_ENOUGH = "a clock jumped ahead, so the node had waited long enough for the others: an error of the model"
_AHEAD_OF_TIME = "what is held back waits until clocks have come to where that of a leader was: an error of the model"
_NOT_READY_THEN = "a node got ready after the links had come, and never told them who is a member"
_AT_THE_END = "what waited until the end of a turn is handled in that turn, not in the next: an error of the model"
_NO_NEWS = "a member was heard of, forgotten before the driver looked, and heard of again: that was no news"
_FOUND = {
    _GONE_TOO_EARLY: ("any", (12, 14, 20, 35, 66)),
    _RISEN: ("any", (54, 64, 80)),
    _NOT_DELETED: ("election", (206, 225)),
    _NO_HOME: ("membership", (302,)),
    _STRANGER: ("any", (277,)),
    _UNSEEN: ("any", (301,)),
    _DELETING: ("any", (136,)),
    _AHEAD: ("any", (517,)),
    _LONG_ENOUGH: ("dense", (763,)),
    _AHEAD_OF_TIME: ("dense", (1422,)),
    _NOT_READY_THEN: ("dense", (3274,)),
    _AT_THE_END: ("dense", (2948,)),
    _NO_NEWS: ("any", (544,)),
}


@pytest.mark.parametrize(
    ("weather", "seed"),
    [
        pytest.param(weather, seed, id=f"{seed}: {cause}", marks=marks)
        for cause, (weather, seeds) in _FOUND.items()
        for seed in seeds
        for marks in [[pytest.mark.long] if seed != seeds[0] or cause.endswith("of the model") else []]
    ],
)
def test_a_seed_that_has_found_something(weather: str, seed: int) -> None:
    assert not failures_of(weather, range(seed, seed + 1), 3, DENSE_SECONDS if weather == "dense" else SECONDS)


def test_a_seed_of_five_nodes_that_has_found_something() -> None:
    """A removed node that had started again led a group: it knew nothing of that, and nobody could take the group."""
    assert not failures_of("dense", range(201, 202), 5, DENSE_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize(("size", "seeds"), [(3, MANY_SEEDS), (5, 200)])
def test_no_seed_of_many_finds_a_violation(size: int, seeds: int) -> None:
    chunks = [range(first, first + _CHUNK) for first in range(1, seeds + 1, _CHUNK)]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = pool.map(failures_of, repeat("any"), chunks, repeat(size), repeat(4.0))
        assert not [each for failures in found for each in failures], _REPLAY


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    """Nothing depends on the order of a set, on an address or on a clock."""
    outputs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation", "--cluster", "3", "--seed", "5", "--weather", "dense"]
        command += ["--seconds", str(SHORT_SECONDS)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert "seed 5: " in outputs[0]
