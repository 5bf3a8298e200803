"""`queues.grow`, `queues.shrink` and `queues.rebalance`: what they ask for, and when they are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amqp_broker.management.request import Request
from amqp_broker.management.verbs.groups import GroupVerbs
from amqp_broker.metadata.group_placing import Place, host_of
from amqp_broker.metadata.stream import Proposal


class World:
    """A cluster as one node sees it. lists: of the metadata. voters, learners: of the groups as this node knows them,
    nobody where it is a guest."""

    def __init__(self, nodes: int = 4, **lists: list[str]) -> None:
        self.nodes = {f"n{number}": f"10.0.0.{number}:7000" for number in range(1, nodes + 1)}
        self.lists = {int(name[1:]): tuple(members) for name, members in lists.items()}
        self.level = 2
        self.linked = dict.fromkeys(self.nodes)
        self.rafts = {
            group_id: SimpleNamespace(members=self.wanted(group_id), learners=(), is_leader=False)
            for group_id in self.lists or (1,)
        }
        types = enumerate({"q": "quorum", "c": "classic"}.items())
        self.queues = {name: SimpleNamespace(type=its, queue_id=number) for number, (name, its) in types}
        self.proposed: list[Proposal] = []

    def wanted(self, group_id: int) -> tuple[str, ...]:
        return self.lists.get(group_id) or tuple(self.nodes)

    def _propose(self, command: Any) -> Proposal:
        self.proposed.append(Proposal(len(self.proposed) + 1, command, None))
        return self.proposed[-1]

    def ask(self, verb: str, **fields: Any) -> Any:
        groups = {group_id: SimpleNamespace(raft=raft, group_id=group_id) for group_id, raft in self.rafts.items()}
        verbs = GroupVerbs(
            SimpleNamespace(
                members=lambda: self.nodes, level=self.level, group_lists=lambda: self.lists,
                member_places=lambda: {name: Place("", host_of(text)) for name, text in self.nodes.items()},
                group_members=lambda group_id: self.lists.get(group_id, ()),
                queue=lambda vhost, name: self.queues.get(name),
            ),  # type: ignore[arg-type]
            SimpleNamespace(propose=self._propose),  # type: ignore[arg-type]
            SimpleNamespace(is_linked=self.linked.__contains__, wanted=self.wanted),  # type: ignore[arg-type]
            SimpleNamespace(all=groups, of=lambda queue_id: groups[queue_id + 1]),  # type: ignore[arg-type]
        )  # fmt: skip
        answer, _ = verbs.verbs[verb](Request(fields))
        return answer

    def refusal(self, verb: str, **fields: Any) -> str:
        try:
            self.ask(verb, **fields)
        except ValueError as error:
            assert not self.proposed
            return str(error)
        raise AssertionError(f"{verb} {fields} was not refused")


def members_of(answer: Any) -> dict[int, list[str]]:
    return {row["group"]: row["members"] for row in answer["groups"]}


# -- growing -----------------------------------------------------------------------------------------------------------


def test_a_node_comes_into_the_groups_in_which_it_is_not() -> None:
    world = World(g1=["n1", "n2"], g2=["n1", "n4"])
    assert members_of(world.ask("queues.grow", node="n4")) == {1: ["n1", "n2", "n4"]}
    assert [each.command["expected"] for each in world.proposed] == [["n1", "n2"]]


def test_a_group_that_is_on_its_way_holds_up_only_who_is_not_in_it() -> None:
    world = World(g1=["n1", "n2"], g2=["n1", "n4"])
    world.rafts[2].learners = ("n4",)
    assert members_of(world.ask("queues.grow", node="n4")) == {1: ["n1", "n2", "n4"]}
    world.proposed.clear()
    told = world.refusal("queues.grow", node="n3")
    assert told.startswith("group 2 is on its way to the members n1, n4: ask again")
    assert "queue shrink" in told


def test_only_the_group_of_a_queue() -> None:
    world = World(g1=["n1"], g2=["n2"])
    assert members_of(world.ask("queues.grow", node="n3", queue="q")) == {1: ["n1", "n3"]}


def test_growing_by_who_is_not_there_is_refused() -> None:
    world = World(g1=["n1", "n2"])
    del world.linked["n3"]
    assert world.refusal("queues.grow", node="n3").startswith("node n3 is not linked")
    assert world.refusal("queues.grow", node="n9") == "no member 'n9'; there are n1, n2, n3, n4"
    assert world.refusal("queues.grow", node="n4", queue="x") == "no queue 'x' in vhost '/'"
    assert "is a classic queue: it is on one node only" in world.refusal("queues.grow", node="n4", queue="c")
    world.level = 1
    assert world.refusal("queues.grow", node="n4").startswith("the cluster is at level 1")


# -- shrinking ---------------------------------------------------------------------------------------------------------


def test_a_node_leaves_the_groups_in_which_it_is() -> None:
    world = World(g1=["n1", "n2", "n3"], g2=["n1", "n2", "n4"])
    assert members_of(world.ask("queues.shrink", node="n3")) == {1: ["n1", "n2"]}


def test_a_group_on_all_nodes_has_a_list_of_the_others_then() -> None:
    world = World(3)
    assert members_of(world.ask("queues.shrink", node="n3")) == {1: ["n1", "n2"]}


def test_the_last_member_stays() -> None:
    told = World(g1=["n2"]).refusal("queues.shrink", node="n2")
    assert told.startswith("n2 is the only member of group 1")
    assert "grow it by another node first" in told


def test_who_is_needed_for_the_majority_stays() -> None:
    world = World(g1=["n1", "n2", "n3"])
    del world.linked["n1"]
    told = world.refusal("queues.shrink", node="n3")
    assert told.startswith("without n3 group 1 would have no majority: 1 of its 2 other members are linked (missing")
    assert members_of(world.ask("queues.shrink", node="n1")) == {1: ["n2", "n3"]}


def test_one_change_after_the_other() -> None:
    world = World(g1=["n1", "n2", "n4"])
    world.rafts[1].members, world.rafts[1].learners = ("n1", "n2", "n3"), ("n4",)
    assert world.refusal("queues.shrink", node="n1").startswith("group 1 is on its way to the members n1, n2, n4")


def test_who_does_not_vote_yet_goes_at_any_time() -> None:
    world = World(g1=["n1", "n2", "n4"])
    world.rafts[1].members, world.rafts[1].learners = ("n1", "n2"), ("n4",)
    del world.linked["n2"], world.linked["n4"]
    # Who does not lead the group may hear later than others that somebody votes.
    assert "would have no majority" in world.refusal("queues.shrink", node="n4")
    world.rafts[1].is_leader = True
    assert members_of(world.ask("queues.shrink", node="n4")) == {1: ["n1", "n2"]}


def test_a_list_is_never_empty() -> None:
    world = World(g1=["n4"])
    world.rafts[1].members, world.rafts[1].learners = ("n1",), ("n4",)
    assert world.refusal("queues.shrink", node="n4").startswith("n4 is the only member of group 1")


def test_a_guest_goes_by_the_lists() -> None:
    world = World(g1=["n1", "n2"])
    world.rafts[1].members = ()
    assert members_of(world.ask("queues.shrink", node="n2")) == {1: ["n1"]}
    del world.linked["n1"]
    world.proposed.clear()
    assert world.refusal("queues.shrink", node="n2").startswith("without n2 group 1 would have no majority")


# -- spreading, and answers --------------------------------------------------------------------------------------------


def test_rebalancing_wants_all_nodes_and_settled_groups() -> None:
    world = World(g1=["n1", "n2"], g2=["n1", "n2"])
    assert sorted(members_of(world.ask("queues.rebalance"))) in ([1], [2], [1, 2])
    world.proposed.clear()
    world.rafts[2].learners = ("n4",)
    assert world.refusal("queues.rebalance").startswith("group 2 is on its way")
    del world.linked["n3"]
    assert world.refusal("queues.rebalance").startswith("n3 would have to take or give groups")


@pytest.mark.parametrize("fails", [0, 1])
def test_whose_list_was_replaced_meanwhile_hears_of_it(fails: int) -> None:
    """Whichever of the groups it was."""
    world = World(g1=["n1"], g2=["n2"])
    answer = world.ask("queues.grow", node="n3")
    for number, proposal in enumerate(world.proposed):
        proposal.is_done, proposal.result = True, number != fails
        for then in proposal.then:
            then(proposal.result)
    assert answer["ok"] is False
    assert answer["error"] == "queues.grow: somebody else has changed the members; ask again"
