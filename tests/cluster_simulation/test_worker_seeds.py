"""Runs of hosts of several workers. More of them: `make simulate CLUSTER=3 ARGS='--weather workers'`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation import broken_worker_rules as rules
from tests.cluster_simulation.bites import Rule, check_noticed
from tests.cluster_simulation.test_cluster_seeds import failures_of

SEEDS = 12
MANY_SEEDS = 300
SECONDS = 0.5

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather workers --trace"


def test_no_seed_finds_a_violation_and_connections_and_queues_move() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("workers", range(1, SEEDS + 1), 3, SECONDS, counts), _REPLAY
    for what in ("connections moved", "moves begun", "crashes", "acknowledged"):
        assert counts[what] > 0, what


def test_no_seed_finds_a_violation_where_queues_move_all_the_time() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("workers-moving", range(5, 8), 3, 2 * SECONDS, counts), _REPLAY
    assert counts["queues moved"] > 0


@pytest.mark.parametrize(
    ("rule", "weather", "seed"),
    [
        (rules.a_worker_is_not_told_what_it_has_missed, "workers", 3),
        (rules.a_connection_moves_while_much_is_under_way, "workers", 1),
    ],
)
def test_a_broken_rule_of_workers_is_noticed(
    rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("workers", range(1, MANY_SEEDS + 1), 3, 4 * SECONDS, counts), _REPLAY
    for what in ("connections kept", "connections lost on their way"):
        assert counts[what] > 0, what
