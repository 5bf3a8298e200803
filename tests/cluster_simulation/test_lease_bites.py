"""The simulation of leases and transactions notices when a rule is broken: each case turns one off, and its seed, or
one of those after it, has to fail; with all rules the seed does no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster_simulation import broken_lease_rules as rules
from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation

Rule = Callable[[pytest.MonkeyPatch], None]

SECONDS = 1.0
#: What is turned off; in which weather; the seed of three nodes.
CASES: list[tuple[Rule, str, int]] = [
    (rules.owners_are_not_fenced, "leases-dense", 1),
    (rules.a_claim_adds_to_what_is_held, "leases-dense", 4),
    (rules.epochs_are_forgotten, "leases-dense", 1),
    (rules.published_messages_are_not_numbered, "leases-power", 3),
    (rules.aborts_are_only_answered, "leases-dense", 12),
    (rules.a_reader_may_be_behind, "leases-link", 1),
]
#: A seed that has noticed need not do so again when the broker has changed: these come after it.
MORE_SEEDS = 30


@pytest.mark.parametrize(("rule", "weather", "seed"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch)
    for number in range(seed, seed + MORE_SEEDS):
        try:
            KINDS[weather](number, 3).run(SECONDS)
        except Violation as error:
            print(error)  # noqa: T201  # what was noticed, for `pytest -s`
            return
    pytest.fail(f"none of {MORE_SEEDS} seeds noticed")


@pytest.mark.parametrize(("weather", "seed"), sorted({(weather, seed) for _, weather, seed in CASES}))
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    KINDS[weather](seed, 3).run(SECONDS)
