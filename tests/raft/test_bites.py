"""The simulation notices when a rule is broken: each case turns one off, and its seed has to fail.

Without the compiled modules only: the classes of those cannot be changed (conftest.py leaves this file out).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.raft import broken_rules as rules
from tests.raft import defects_here
from tests.raft.hard_weather import ElectionStorm, InstallStorm, MembershipStorm
from tests.raft.simulation_checks import Violation
from tests.raft.simulation_faults import Storm
from tests.raft.test_group_log import play
from tests.raft.test_paper import earlier_terms_are_counted

Rule = Callable[[pytest.MonkeyPatch], None]

CASES: list[tuple[Rule, type[Storm], int, int, int]] = [
    (rules.reply_before_the_sync, Storm, 1, 3, 12),
    (rules.leader_counts_itself_before_its_sync, ElectionStorm, 3, 3, 8),
    (rules.own_vote_counts_before_its_sync, Storm, 1, 3, 12),
    (rules.votes_are_not_stored, Storm, 4, 3, 12),
    (rules.the_vote_is_forgotten_at_a_restart, ElectionStorm, 74, 5, 8),
    (rules.the_log_is_cut_without_a_conflict, Storm, 3, 3, 12),
    (rules.leaders_of_an_earlier_term_count, ElectionStorm, 2, 3, 8),
    (rules.votes_of_an_earlier_term_count, Storm, 3, 5, 12),
    (rules.everybody_gets_a_vote, Storm, 3, 3, 12),
    (rules.votes_are_given_twice, Storm, 3, 5, 12),
    (rules.commits_what_is_not_verified, Storm, 1, 3, 12),
    (rules.half_is_a_majority, Storm, 1, 3, 12),
    (rules.membership_changes_at_will, MembershipStorm, 23, 3, 8),
    (rules.segments_are_not_left, Storm, 1, 3, 12),
    (rules.an_install_keeps_the_log, InstallStorm, 5, 3, 8),
    (rules.an_entry_is_applied_twice, Storm, 1, 3, 12),
]


@pytest.mark.parametrize(("rule", "storm", "seed", "size", "seconds"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_broken_rule_is_noticed(
    rule: Rule, storm: type[Storm], seed: int, size: int, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        rule(patch)
        with pytest.raises(Violation):
            storm(seed, size).run(seconds)


def test_a_late_reply_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No seed of some hundreds needs this rule: the scenario of S7 does."""
    rules.replies_of_an_earlier_term_count(monkeypatch)
    assert defects_here.s7() == "committed by a late reply"


def test_counting_earlier_terms_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above; the case is Figure 8 of the paper."""
    rules.entries_of_earlier_terms_are_counted(monkeypatch)
    assert earlier_terms_are_counted()


def test_a_rewritten_entry_that_cuts_the_log_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the model of the log."""
    rules.rewritten_entries_cut_the_log(monkeypatch)
    with pytest.raises(AssertionError):
        play(1202, places=False)


@pytest.mark.parametrize("storm", [ElectionStorm, MembershipStorm, InstallStorm])
@pytest.mark.parametrize("seed", [2, 8, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 11))])
def test_with_all_rules_the_same_weather_does_no_harm(storm: type[Storm], seed: int) -> None:
    for size in (3, 5):
        storm(seed, size).run(8)
