"""What the Raft paper and thesis say, sentence by sentence, on one member whose peers are played by the test."""

from __future__ import annotations

import pytest

from raft.errors import RaftStopped
from raft.messages import Append, AppendReply, VoteReply, VoteRequest
from tests.raft.defects_here import alone, entries, feed, lead


def earlier_terms_are_counted() -> bool:
    """Whether a leader commits an entry of an earlier term because it is on a majority (Figure 8)."""
    node = alone("n1")
    feed(node, "n3", Append(1, 1, 0, 0, 0, entries(1, 2, 1)))
    lead(node, ["n2"])
    node.sync(0)
    feed(node, "n2", AppendReply(1, node.group().term, True, 2, 0, 0))
    is_counted = node.group().commit_index > 0
    feed(node, "n2", AppendReply(1, node.group().term, True, 3, 0, 0))
    assert node.group().commit_index == 3
    return is_counted


def test_only_entries_of_the_leaders_term_are_committed_by_counting() -> None:
    """ "Raft never commits log entries from previous terms by counting replicas." (5.4.2)"""
    assert not earlier_terms_are_counted()


def test_a_stale_append_is_refused_with_the_term() -> None:
    """ "Reply false if term < currentTerm" (Figure 2)"""
    node = alone()
    feed(node, "n1", Append(1, 5, 0, 0, 0, []))
    assert feed(node, "n3", Append(1, 4, 0, 0, 0, entries(1, 1, 4))) == [AppendReply(1, 5, False, 0, 0, 0)]
    assert node.group().last_index == 0


def test_an_append_that_does_not_fit_is_refused() -> None:
    """ "Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm" (Figure 2)"""
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 0, entries(1, 3, 1)))
    assert feed(node, "n1", Append(1, 1, 9, 1, 0, [])) == [AppendReply(1, 1, False, 3, 1, 9)]
    assert feed(node, "n3", Append(1, 2, 3, 2, 0, [])) == [AppendReply(1, 2, False, 3, 1, 3)]


def test_a_conflict_cuts_what_follows() -> None:
    """ "If an existing entry conflicts with a new one, delete the existing entry and all that follow it" (Figure 2)"""
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 0, entries(1, 5, 1)))
    feed(node, "n3", Append(1, 2, 2, 1, 0, entries(3, 1, 2)))
    log = node.group().member.log
    assert [entry[2] for entry in log.entries_between(1, log.last_index)] == [1, 1, 2]


def test_a_conflict_at_a_committed_index_stops_the_node() -> None:
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 3, entries(1, 5, 1)))
    with pytest.raises(RaftStopped, match="n3 has entry 3 of term 2; here it is committed with term 1"):
        feed(node, "n3", Append(1, 2, 2, 1, 0, entries(3, 1, 2)))


def test_two_leaders_of_a_term_stop_the_node() -> None:
    """ "at most one leader can be elected in a given term" (Figure 3)"""
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 0, []))
    with pytest.raises(RaftStopped, match="n3 and n1 both lead in term 1"):
        feed(node, "n3", Append(1, 1, 0, 0, 0, []))


def test_who_has_voted_votes_for_nobody_else() -> None:
    """ "If votedFor is null or candidateId, and candidate's log is at least as up-to-date as receiver's log, grant
    vote" (Figure 2)"""
    node = alone()
    assert feed(node, "n1", VoteRequest(1, 3, False, False, 0, 0)) == [VoteReply(1, 3, False, True)]
    assert feed(node, "n3", VoteRequest(1, 3, False, False, 0, 0)) == [VoteReply(1, 3, False, False)]
    assert feed(node, "n1", VoteRequest(1, 3, False, False, 0, 0)) == [VoteReply(1, 3, False, True)]


@pytest.mark.parametrize(("last_index", "last_term", "is_granted"), [
    (5, 2, True), (4, 2, False), (1, 3, True), (9, 1, False),
])  # fmt: skip
def test_votes_go_to_logs_that_are_up_to_date(last_index: int, last_term: int, is_granted: bool) -> None:
    """ "If the logs have last entries with different terms, then the log with the later term is more up-to-date. If the
    logs end with the same term, then whichever log is longer is more up-to-date." (5.4.1)"""
    node = alone()
    feed(node, "n1", Append(1, 2, 0, 0, 0, entries(1, 5, 2)))
    request = VoteRequest(1, 9, False, True, last_index, last_term)
    assert feed(node, "n3", request) == [VoteReply(1, 9, False, is_granted)]


def test_nobody_deposes_a_leader_that_is_there() -> None:
    """ "if a server receives a RequestVote request within the minimum election timeout of hearing from a current
    leader, it does not update its term or grant its vote" (thesis, 4.2.3)"""
    node = alone()
    feed(node, "n1", Append(1, 1, 0, 0, 0, []))
    assert feed(node, "n3", VoteRequest(1, 9, False, False, 9, 9)) == [VoteReply(1, 1, False, False)]
    assert feed(node, "n3", VoteRequest(1, 9, True, False, 9, 9)) == [VoteReply(1, 1, True, False)]
    assert node.group().term == 1


def test_a_question_changes_nothing() -> None:
    """A pre-vote is no vote: the term stays, and another one may be told yes as well (thesis, 9.6)."""
    node = alone()
    for name in ("n1", "n3"):
        assert feed(node, name, VoteRequest(1, 1, True, False, 0, 0)) == [VoteReply(1, 1, True, True)]
    assert node.group().term == 0
    assert node.group().member.voted_for is None
