"""Rules of a cluster and of its Raft groups that can be turned off, each with a run that notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apart import apart
from tests.cluster_simulation import broken_cluster_rules as cluster
from tests.cluster_simulation import broken_guest_rules as guests
from tests.cluster_simulation import broken_lease_rules as leases
from tests.cluster_simulation.weather_kinds import KINDS
from tests.raft import broken_rules as group
from tests.simulation.state import Violation

Rule = Callable[[pytest.MonkeyPatch], None]

#: Of virtual time; jobs that use leases and clients of streams do as much in half of it.
SECONDS, HALF = 2.0, ("leases", "streams", "compaction")
#: What is turned off; in which weather; the seed of three nodes.
CLUSTER_CASES: list[tuple[Rule, str, int]] = [
    (cluster.a_sync_that_is_none, "power", 1),
    (cluster.confirm_before_the_sync, "power", 7),
    (cluster.streams_are_not_deduplicated, "session", 10),
    (cluster.sessions_are_not_fenced, "session", 1),
    (cluster.a_closed_session_keeps_what_it_holds, "session", 4),
    (cluster.declarations_are_answered_at_once, "link", 1),
    (cluster.a_checkpoint_does_not_hear_of_changes, "power", 1),
    (cluster.a_checkpoint_is_as_of_its_end, "power", 1),
    (cluster.letters_are_not_numbered, "election", 49),
    (cluster.nobody_is_held_to_what_others_have_seen, "amnesia", 10),
    (guests.a_guest_confirms_what_it_has_sent, "guests", 1),
    (guests.a_member_forgets_before_it_is_let_go, "guests", 1),
    (leases.owners_are_not_fenced, "leases-dense", 1),
    (leases.a_claim_adds_to_what_is_held, "leases-dense", 17),
    (leases.epochs_are_forgotten, "leases-dense", 1),
    (leases.published_messages_are_not_numbered, "leases-power", 17),
    (leases.aborts_are_only_answered, "leases-dense", 25),
    (leases.a_reader_may_be_behind, "leases-link", 1),
]
#: The same of Raft's rules.
GROUP_CASES: list[tuple[Rule, str, int]] = [
    (group.reply_before_the_sync, "power", 1),
    (group.votes_are_not_stored, "election", 3),
    (group.votes_are_given_twice, "election", 9),
    (group.everybody_gets_a_vote, "election", 11),
    (group.half_is_a_majority, "election", 1),
    (group.leaders_of_an_earlier_term_count, "link", 31),
    (group.the_log_is_cut_without_a_conflict, "link", 23),
    (group.segments_are_not_left, "power", 1),
]
#: A seed that has noticed need not do so again when the broker has changed: these come after it.
MORE_SEEDS = 60


@apart
def run(weather: str, seed: int) -> None:
    """Raises Violation."""
    KINDS[weather](seed, 3).run(SECONDS / 2 if weather.startswith(HALF) else SECONDS)


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
