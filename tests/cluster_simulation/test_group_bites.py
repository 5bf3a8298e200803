"""The simulation of a cluster notices when a rule of Raft is broken.

Without the compiled modules only: the classes of those cannot be changed (conftest.py leaves this file out).
"""

from __future__ import annotations

import pytest

from tests.cluster_simulation.test_cluster_bites import Rule, check_noticed, run
from tests.raft import broken_rules as group

#: What is turned off; in which weather; the seed of three nodes.
CASES: list[tuple[Rule, str, int]] = [
    (group.reply_before_the_sync, "power", 1),
    (group.votes_are_not_stored, "election", 2),
    (group.votes_are_given_twice, "election", 1),
    (group.everybody_gets_a_vote, "election", 9),
    (group.half_is_a_majority, "election", 1),
    (group.leaders_of_an_earlier_term_count, "link", 19),
    (group.the_log_is_cut_without_a_conflict, "link", 6),
    (group.segments_are_not_left, "power", 1),
]


@pytest.mark.parametrize(("rule", "weather", "seed"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.parametrize(("weather", "seed"), sorted({(weather, seed) for _, weather, seed in CASES}))
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    run(weather, seed)
