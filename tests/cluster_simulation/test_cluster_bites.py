"""The simulation of a cluster notices when a rule is broken: each case turns one off, and its seed has to fail."""

from __future__ import annotations

import pytest

from tests.cluster_simulation.bites import CLUSTER_CASES, GROUP_CASES, Rule, check_noticed, run


@pytest.mark.parametrize(("rule", "weather", "seed"), CLUSTER_CASES, ids=[case[0].__name__ for case in CLUSTER_CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


WEATHERS = sorted({(weather, seed) for _, weather, seed in (*CLUSTER_CASES, *GROUP_CASES)})
#: One seed of each weather runs in every test: that it is the rules that are noticed. The others take long.
FIRST = dict(reversed(WEATHERS))


@pytest.mark.parametrize(
    ("weather", "seed"),
    [pytest.param(*each, marks=() if FIRST[each[0]] == each[1] else pytest.mark.long) for each in WEATHERS],
)
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    run(weather, seed)
