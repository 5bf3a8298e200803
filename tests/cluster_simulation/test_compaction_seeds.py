"""Runs of a cluster whose nodes compact streams, each for itself; and that they notice broken rules.

The campaign is `-m long`, five hundred seeds of four times the length.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation import broken_compaction_rules as rules
from tests.cluster_simulation.bites import MORE_SEEDS, Rule
from tests.cluster_simulation.seeds import failures_of

SEEDS = (2, 4, 10)
MANY_SEEDS = 500
SECONDS = 0.5

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather compaction --trace"


def test_no_seed_finds_a_violation_and_runs_see_what_they_are_for() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("compaction", SEEDS, 3, SECONDS, counts), _REPLAY
    assert counts["records taken"] > 3_000
    assert counts["tombstones taken"] > 10
    assert counts["packed pages seen"] > 100
    assert counts["crashes"] > 3
    assert counts["read"] > 500


@pytest.mark.parametrize(
    ("rule", "seed"),
    [
        (rules.the_newest_goes, 2),
        (rules.tombstones_go_alone, 3),
        (rules.what_is_left_gets_another_offset, 1),
        (rules.new_files_are_not_synced, 13),
        (rules.old_files_go_at_once, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_rule_is_noticed(rule: Rule, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch)
    noticed = (failures_of("compaction", [number], 3, SECONDS) for number in range(seed, seed + MORE_SEEDS))
    assert next(filter(None, noticed), "")


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    counts: Counter[str] = Counter()
    found = failures_of("compaction", range(1, MANY_SEEDS + 1), 3, 2.0, counts)
    assert not found, _REPLAY
