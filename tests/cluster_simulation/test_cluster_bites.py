"""The simulation of a cluster notices when a rule is broken: each case turns one off, and its seed has to fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation

Rule = Callable[[pytest.MonkeyPatch], None]

SECONDS = 2.0
#: What is turned off; in which weather; the seed of three nodes.
CASES: list[tuple[Rule, str, int]] = []


@pytest.mark.parametrize(("rule", "weather", "seed"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        rule(patch)
        with pytest.raises(Violation):
            KINDS[weather](seed, 3).run(SECONDS)


@pytest.mark.parametrize(("weather", "seed"), sorted({(weather, seed) for _, weather, seed in CASES}))
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    KINDS[weather](seed, 3).run(SECONDS)
