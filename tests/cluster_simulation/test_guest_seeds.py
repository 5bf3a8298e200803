"""Runs of clusters whose groups are on some of the nodes. More of them:
`make simulate CLUSTER=3 ARGS='--weather guests'`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation import broken_guest_rules as rules
from tests.cluster_simulation.bites import Rule, check_noticed
from tests.cluster_simulation.seeds import failures_of

SEEDS = 5
MANY_SEEDS = 300
SECONDS = 0.5

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather guests --trace"


def test_no_seed_finds_a_violation_and_there_are_guests() -> None:
    counts: Counter[str] = Counter()
    happens = ("guests", "feeds", "queues.grow", "queues.shrink", "queues.rebalance", "racks", "acknowledged")
    assert not failures_of("guests", range(1, SEEDS + 1), 3, SECONDS, counts, happens), _REPLAY
    for what in happens:
        assert counts[what] > 0, what


@pytest.mark.parametrize(
    ("weather", "happens"),
    [
        ("leases-guests", ("guests", "lease.claim ok", "lease.ack ok", "committed", "groups released")),
        ("streams-guests", ("confirmed", "read at guests", "read in groups at guests", "cursor acks", "copied")),
    ],
)
def test_leases_streams_and_queues_over_streams_are_used_at_guests(weather: str, happens: tuple[str, ...]) -> None:
    counts: Counter[str] = Counter()
    assert not failures_of(weather, range(1, 3), 3, SECONDS, counts, happens), _REPLAY.replace("guests", weather)
    for what in happens:
        assert counts[what] > 0, what


@pytest.mark.parametrize(
    ("rule", "seed"),
    [
        # Few seeds notice; a test of one guest does: test_a_session_that_is_over_is_no_end_of_it.
        pytest.param(rules.a_reader_goes_on_behind_what_a_member_was_asked, 32, marks=pytest.mark.long),
        (rules.a_reader_at_a_guest_does_not_see_that_it_begins_anew, 1),
    ],
)
def test_a_broken_rule_of_readers_at_guests_is_noticed(rule: Rule, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, "streams-guests", seed, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("weather", ["leases-guests", "streams-guests"])
def test_no_seed_of_many_with_leases_and_streams(weather: str) -> None:
    assert not failures_of(weather, range(1, MANY_SEEDS // 3 + 1), 3, 2 * SECONDS), _REPLAY.replace("guests", weather)


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("guests", range(1, MANY_SEEDS + 1), 3, 4 * SECONDS, counts), _REPLAY
    assert counts["resumed"] > 0


@pytest.mark.parametrize(
    ("weather", "seed", "seconds"),
    [
        pytest.param("guests", 11, 1.0, id="what was left behind the checkpoint of a group was looked for"),
        pytest.param("streams-guests", 7, SECONDS, id="who left while it was asked said that the stream is empty"),
    ],
)
def test_a_seed_that_has_found_something(weather: str, seed: int, seconds: float) -> None:
    assert not failures_of(weather, range(seed, seed + 1), 3, seconds), _REPLAY.replace("guests", weather)
