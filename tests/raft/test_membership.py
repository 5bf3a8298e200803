"""Changes of members: learners first, one at a time, and what is refused."""

from __future__ import annotations

import pytest

from raft.configuration import Configuration, make_configuration
from raft.membership import MembershipResult
from raft.messages import AppendReply
from tests.raft.cluster import Cluster, leading
from tests.raft.defects_here import alone, feed, lead


def test_a_learner_counts_only_when_it_has_caught_up() -> None:
    cluster = Cluster(3, joiners=1)
    leader = leading(cluster)
    for number in range(50):
        cluster.propose(b"%d" % number)
    cluster.settle()
    cluster.passes = lambda sender, receiver, frame: "n4" not in (sender, receiver)
    assert leader.group().add_member("n4") is MembershipResult.ACCEPTED
    cluster.pass_time(2000)
    assert leader.group().learners == ("n4",)
    assert leader.group().member.configuration.majority == 2
    cluster.passes = lambda sender, receiver, frame: True
    cluster.pass_time(500)
    assert all(node.group().members == ("n1", "n2", "n3", "n4") for node in cluster.up)
    assert cluster.machine("n4").data == cluster.machine("n1").data
    assert leader.group().member.configuration.majority == 3


def test_a_removed_member_counts_no_more() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    others = [name for name in cluster.nodes if name != leader.name]
    assert leader.group().remove_member(others[0]) is MembershipResult.ACCEPTED
    cluster.settle()
    cluster.crash(others[0])
    cluster.propose(b"by two")
    cluster.settle()
    assert cluster.machine(others[1]).data == [b"by two"]
    cluster.crash(others[1])
    cluster.propose(b"by one")
    cluster.settle()
    assert leader.machines[1].data == [b"by two"]


def test_a_removed_member_does_not_disturb() -> None:
    """It never learns of it, asks for votes again and again, and nobody's term rises."""
    cluster = Cluster(4)
    leader = leading(cluster)
    removed = next(name for name in cluster.nodes if name != leader.name)
    assert leader.group().remove_member(removed) is MembershipResult.ACCEPTED
    cluster.settle()
    term = leader.group().term
    cluster.pass_time(10_000)
    assert cluster.leader() is leader
    assert leader.group().term == term


def test_what_is_refused() -> None:
    cluster = Cluster(3, joiners=2)
    leader = leading(cluster)
    follower = next(node for node in cluster.up if node is not leader and node.name in leader.group().members)
    assert follower.group().add_member("n4") is MembershipResult.NOT_LEADER
    assert leader.group().add_member(follower.name) is MembershipResult.ALREADY_MEMBER
    assert leader.group().remove_member("n5") is MembershipResult.NOT_A_MEMBER
    assert leader.group().remove_member(leader.name) is MembershipResult.LEADER_ITSELF
    assert leader.group().add_member("n4") is MembershipResult.ACCEPTED
    assert leader.group().add_member("n5") is MembershipResult.NOT_READY
    alone = leading(Cluster(1))
    assert alone.group().remove_member("n1") is MembershipResult.LAST_VOTER


def test_a_new_leader_waits_for_an_entry_of_its_term() -> None:
    """Otherwise a change of an earlier leader, uncommitted, could still win (the bug of the single-server change)."""
    node = alone("n1")
    lead(node, ["n2"])
    node.sync(0)
    assert node.group().add_member("n4") is MembershipResult.NOT_READY
    feed(node, "n2", AppendReply(1, node.group().term, True, node.group().last_index, 0, 0))
    assert node.group().add_member("n4") is MembershipResult.ACCEPTED


def test_a_change_that_is_cut_is_undone() -> None:
    cluster = Cluster(3, joiners=1)
    leader = leading(cluster)
    cluster.passes = lambda sender, receiver, frame: leader.name not in (sender, receiver)
    assert leader.group().add_member("n4") is MembershipResult.ACCEPTED
    assert leader.group().learners == ("n4",)
    cluster.pass_time(4000)
    cluster.passes = lambda sender, receiver, frame: True
    cluster.pass_time(2000)
    assert leader.group().learners == ()
    assert leader.group().member._SyncObj__otherNodes == {
        each for each in leader.group().member.otherNodes if each.id in ("n1", "n2", "n3")
    }


def test_a_removed_member_is_not_counted_by_its_replies() -> None:
    cluster = Cluster(3)
    leader = leading(cluster)
    role = leader.group().member.role
    role.on_append_reply("stranger", AppendReply(1, leader.group().term, True, 1, 0, 0))  # type: ignore[union-attr]
    assert "stranger" not in role.progress  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["n1", "n1"], [""], ["x" * 256]])
def test_bad_names_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="name"):
        make_configuration(names)


def test_majorities_of_neighbours_overlap() -> None:
    for size in range(1, 8):
        one = Configuration(tuple(f"n{number}" for number in range(size)))
        two = one.with_learner("x").with_voter("x")
        assert one.majority + two.majority > len(two.voters)
