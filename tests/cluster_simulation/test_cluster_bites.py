"""The simulation of a cluster notices when a rule is broken: each case turns one off, and its seed has to fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster_simulation import broken_cluster_rules as cluster
from tests.cluster_simulation import broken_lease_rules as leases
from tests.cluster_simulation.weather_kinds import KINDS
from tests.simulation.state import Violation

Rule = Callable[[pytest.MonkeyPatch], None]

#: Of virtual time; jobs that use leases do as much in half of it.
SECONDS, LEASE_SECONDS = 2.0, 1.0
#: What is turned off; in which weather; the seed of three nodes.
CASES: list[tuple[Rule, str, int]] = [
    (cluster.a_sync_that_is_none, "power", 1),
    (cluster.confirm_before_the_sync, "power", 182),
    (cluster.streams_are_not_deduplicated, "session", 7),
    (cluster.sessions_are_not_fenced, "session", 1),
    (cluster.a_closed_session_keeps_what_it_holds, "session", 3),
    (cluster.declarations_are_answered_at_once, "link", 1),
    (cluster.letters_are_not_numbered, "election", 4),
    (cluster.nobody_is_held_to_what_others_have_seen, "amnesia", 11),
    (leases.owners_are_not_fenced, "leases-dense", 1),
    (leases.a_claim_adds_to_what_is_held, "leases-dense", 4),
    (leases.epochs_are_forgotten, "leases-dense", 1),
    (leases.published_messages_are_not_numbered, "leases-power", 3),
    (leases.aborts_are_only_answered, "leases-dense", 12),
    (leases.a_reader_may_be_behind, "leases-link", 1),
]
#: A seed that has noticed need not do so again when the broker has changed: these come after it.
MORE_SEEDS = 60


def run(weather: str, seed: int) -> None:
    KINDS[weather](seed, 3).run(LEASE_SECONDS if weather.startswith("leases") else SECONDS)


def check_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed from `seed` on fails with the rule turned off."""
    rule(monkeypatch)
    for number in range(seed, seed + MORE_SEEDS):
        try:
            run(weather, number)
        except Violation as error:
            print(error)  # noqa: T201  # what was noticed, for `pytest -s`
            return
    pytest.fail(f"none of {MORE_SEEDS} seeds noticed")


@pytest.mark.parametrize(("rule", "weather", "seed"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.parametrize(("weather", "seed"), sorted({(weather, seed) for _, weather, seed in CASES}))
def test_with_all_rules_the_same_weather_does_no_harm(weather: str, seed: int) -> None:
    run(weather, seed)
