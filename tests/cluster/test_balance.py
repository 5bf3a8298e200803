"""The plan that spreads leaders: even, no longer than it has to be, and within who can lead."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.cluster.balance import Move, plan_moves

NAMES = ["n1", "n2", "n3", "n4"]
ALL = dict.fromkeys(range(9), NAMES)


def after(leaders: dict[int, str | None], moves: list[Move]) -> dict[int, str | None]:
    """Who leads once the moves have happened; each has to start where its group is then."""
    found = dict(leaders)
    for move in moves:
        assert found[move.group_id] == move.source
        found[move.group_id] = move.target
    return found


def test_one_who_leads_all_keeps_a_third() -> None:
    leaders: dict[int, str | None] = dict.fromkeys(range(9), "n2")
    moves = plan_moves(leaders, ALL, NAMES[:3])
    assert len(moves) == 6
    assert Counter(after(leaders, moves).values()) == {"n1": 3, "n2": 3, "n3": 3}


def test_what_is_even_stays() -> None:
    leaders: dict[int, str | None] = {0: "n1", 1: "n2", 2: "n3", 3: "n1"}
    assert plan_moves(leaders, ALL, NAMES[:3]) == []


def test_nobody_leads_who_is_away_or_has_no_vote() -> None:
    leaders: dict[int, str | None] = dict.fromkeys(range(4), "n1")
    assert {move.target for move in plan_moves(leaders, ALL, ["n1", "n3"])} == {"n3"}
    assert plan_moves(leaders, {group_id: ["n1"] for group_id in range(4)}, NAMES) == []
    assert plan_moves({0: "n9", 1: None}, ALL, NAMES) == [], "who leads there is not known, or not linked"


def test_where_two_have_no_group_in_common_others_pass_some_on() -> None:
    leaders: dict[int, str | None] = {1: "n1", 2: "n1", 3: "n1", 4: "n2", 5: "n2", 6: "n3"}
    voters = {1: ["n1", "n2"], 2: ["n1", "n2"], 3: ["n1", "n2"], 4: ["n2", "n3"], 5: ["n2", "n3"], 6: ["n2", "n3"]}
    moves = plan_moves(leaders, voters, NAMES[:3])
    assert len(moves) == 2
    assert all(move.target in voters[move.group_id] for move in moves)
    assert Counter(after(leaders, moves).values()) == {"n1": 2, "n2": 2, "n3": 2}


@given(st.data())
def test_groups_on_some_of_the_nodes_are_led_by_these_and_evenly_so(data: st.DataObject) -> None:
    voters = data.draw(st.dictionaries(st.integers(1, 12), st.lists(st.sampled_from(NAMES), unique=True, min_size=1)))
    leaders: dict[int, str | None] = {
        group_id: data.draw(st.sampled_from(members)) for group_id, members in voters.items()
    }
    moves = plan_moves(leaders, voters, NAMES)
    then = after(leaders, moves)
    assert all(then[group_id] in members for group_id, members in voters.items())
    assert len({move.group_id for move in moves}) == len(moves)
    assert plan_moves(then, voters, NAMES) == []


@given(
    st.dictionaries(st.integers(0, 30), st.sampled_from([*NAMES, None]), max_size=20),
    st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
)
def test_any_plan_is_even_and_shortest(leaders: dict[int, str | None], usable: list[str]) -> None:
    moves = plan_moves(leaders, dict.fromkeys(leaders, NAMES), usable)
    counts = Counter(dict.fromkeys(usable, 0))
    counts.update(leader for leader in after(leaders, moves).values() if leader in usable)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len({move.group_id for move in moves}) == len(moves), "none is moved twice"
    before = Counter(leader for leader in leaders.values() if leader in usable)
    assert len(moves) == sum(max(0, before[name] - counts[name]) for name in usable)
