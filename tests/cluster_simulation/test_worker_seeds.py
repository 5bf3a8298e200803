"""Runs of hosts of several workers. More of them: `make simulate CLUSTER=3 ARGS='--weather workers'`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation import broken_worker_rules as rules
from tests.cluster_simulation.bites import Rule, check_noticed
from tests.cluster_simulation.seeds import failures_of

SEEDS = 6
SPREAD_SEEDS = 4
MANY_SEEDS = 300
SECONDS = 0.5

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather workers --trace"


def test_no_seed_finds_a_violation_and_connections_and_queues_move() -> None:
    counts: Counter[str] = Counter()
    happens = ("connections moved", "moves begun", "crashes", "acknowledged")
    assert not failures_of("workers", range(1, SEEDS + 1), 3, SECONDS, counts, happens), _REPLAY
    for what in happens:
        assert counts[what] > 0, what


def test_no_seed_finds_a_violation_where_queues_move_all_the_time() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("workers-moving", range(5, 8), 3, 2 * SECONDS, counts, ("queues moved",)), _REPLAY
    assert counts["queues moved"] > 0


def test_no_seed_finds_a_violation_where_groups_are_at_all_workers() -> None:
    counts: Counter[str] = Counter()
    happens = ("groups led by workers", "crashes", "installs", "feeds", "connections moved")
    assert not failures_of("workers-spread", range(1, SPREAD_SEEDS + 1), 3, 2 * SECONDS, counts, happens), _REPLAY
    for what in happens:
        assert counts[what] > 0, what


@pytest.mark.parametrize("weather", ["leases-spread", "streams-spread"])
def test_no_seed_finds_a_violation_of_jobs_and_streams_where_groups_are_at_all_workers(weather: str) -> None:
    assert not failures_of(weather, range(1, 3), 3, SECONDS), _REPLAY


@pytest.mark.parametrize(
    ("rule", "weather", "seed"),
    [
        (rules.a_worker_is_not_told_what_it_has_missed, "workers", 3),
        (rules.what_is_applied_does_not_wait_for_the_state, "workers", 1),
        (rules.entries_of_the_feed_change_places, "workers", 1),
        (rules.a_connection_moves_while_much_is_under_way, "workers", 1),
        (rules.what_a_connection_had_to_do_yet_stays_behind, "workers", 7),
        (rules.each_process_of_a_host_is_its_member, "workers-spread", 2),
        (rules.workers_speak_to_groups_under_one_name, "workers-spread", 2),
    ],
)
def test_a_broken_rule_of_workers_is_noticed(
    rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.long
def test_a_seed_of_a_consumer_that_goes_on_at_another_home_with_what_it_held_of_the_first_one() -> None:
    """An error of the model: the limit of a consumer begins anew where its queue has moved (decision 0051)."""
    assert not failures_of("workers", range(20_014, 20_015), 3, 2 * SECONDS), _REPLAY


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("workers", range(1, MANY_SEEDS + 1), 3, 4 * SECONDS, counts), _REPLAY
    for what in ("connections kept", "connections lost on their way"):
        assert counts[what] > 0, what


@pytest.mark.long
@pytest.mark.parametrize("weather", ["workers-spread", "leases-spread", "streams-spread"])
def test_no_seed_of_many_finds_a_violation_where_groups_are_at_all_workers(weather: str) -> None:
    assert not failures_of(weather, range(1, MANY_SEEDS // 3 + 1), 3, 4 * SECONDS), _REPLAY
