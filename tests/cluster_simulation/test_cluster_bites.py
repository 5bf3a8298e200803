"""The simulation of a cluster notices when a rule is broken: each case turns one off, and its seed has to fail."""

from __future__ import annotations

import pytest

from tests.cluster_simulation.bites import CLUSTER_CASES, GROUP_CASES, Rule, check_noticed, run


@pytest.mark.parametrize(("rule", "weather", "seed"), CLUSTER_CASES, ids=[case[0].__name__ for case in CLUSTER_CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.parametrize(
    ("weather", "seed"), sorted({(weather, seed) for _, weather, seed in (*CLUSTER_CASES, *GROUP_CASES)})
)
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    run(weather, seed)
