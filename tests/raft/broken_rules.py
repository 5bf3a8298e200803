"""One rule turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from raft import campaign, member, recovery
from raft.campaign import Campaign
from raft.configuration import Configuration
from raft.entry import MEMBERSHIP
from raft.following import Following
from raft.host import RaftHost
from raft.leadership import Leadership
from raft.log import GroupLog
from raft.member import Member
from raft.membership import MembershipResult
from raft.messages import AppendReply, VoteReply, VoteRequest
from raft.recovery import RecoveredGroup

Patch = pytest.MonkeyPatch


def reply_before_the_sync(patch: Patch) -> None:
    """S4: what a member says is not on its disk yet."""
    patch.setattr(RaftHost, "_hold", lambda self, peer, frame, position: self._put(peer, frame))


def leader_counts_itself_before_its_sync(patch: Patch) -> None:
    """The leader's own disk counts before it has the entry."""
    add = GroupLog.add

    def hasty(self: GroupLog, command: bytes, idx: int, term: int, kind: int = 0) -> None:
        add(self, command, idx, term, kind)
        self.synced_index = idx

    patch.setattr(GroupLog, "add", hasty)


def own_vote_counts_before_its_sync(patch: Patch) -> None:
    """A candidate that has not stored that it voted for itself, in a reply to which nothing is waited for."""
    patch.setattr(RaftHost, "_hold", lambda self, peer, frame, position: self._put(peer, frame))
    begin = Campaign.begin

    def hasty(self: Campaign) -> None:
        begin(self)
        self._votes[self.member.node_id] = True

    patch.setattr(Campaign, "begin", hasty)


def votes_are_not_stored(patch: Patch) -> None:
    """S5: term and vote are in RAM only."""

    def forgetful(self: GroupLog, term: int, voted_for: str | None) -> None:
        self.current_term = term
        self.voted_for = voted_for

    patch.setattr(GroupLog, "set_state", forgetful)

    def lenient(self: RecoveredGroup) -> Any:
        self.term = max(self.term, self.entries[-1][2] if self.entries else 0, self.checkpoint.term)  # type: ignore[union-attr]
        return self.checkpoint

    patch.setattr(RecoveredGroup, "finish", lenient)


def the_vote_is_forgotten_at_a_restart(patch: Patch) -> None:
    """S5, milder: the term is stored, the vote is not."""
    set_state = GroupLog.set_state

    def forgetful(self: GroupLog, term: int, voted_for: str | None) -> None:
        set_state(self, term, None)
        self.voted_for = voted_for

    patch.setattr(GroupLog, "set_state", forgetful)


def the_log_is_cut_without_a_conflict(patch: Patch) -> None:
    """S1: whatever follows the entry before is cut."""

    def cutting(self: Following, entries: list[Any]) -> list[Any]:
        log = self.member.log
        first = max(entries[0][1], self.member.commit_index + 1)
        fresh = [entry for entry in entries if entry[1] >= first]
        if fresh and first <= log.last_index:
            log.cut_from(first)
        return fresh

    patch.setattr(Following, "_without_known", cutting)


def replies_of_an_earlier_term_count(patch: Patch) -> None:
    """S7: a reply is taken for one of now, whatever leadership it was for."""
    receive = Member.receive

    def credulous(self: Member, sender: str, message: Any) -> None:
        if isinstance(message, AppendReply) and message.term < self.current_term:
            message = message._replace(term=self.current_term)
        receive(self, sender, message)

    patch.setattr(Member, "receive", credulous)


def leaders_of_an_earlier_term_count(patch: Patch) -> None:
    """S7: who led before is believed, and followed, by who does not lead."""
    accept_leader = Member.accept_leader

    def credulous(self: Member, sender: str, term: int) -> Following | None:
        if term < self.current_term and isinstance(self.role, Following):
            self.role.leader = sender
            term = self.current_term
        return accept_leader(self, sender, term)

    patch.setattr(Member, "accept_leader", credulous)


def votes_of_an_earlier_term_count(patch: Patch) -> None:
    """S8: a vote is taken for one of now."""

    def credulous(self: Campaign, sender: str, reply: VoteReply) -> None:
        if reply.is_granted:
            self._votes[sender] = True
            self._count()

    patch.setattr(Campaign, "on_reply", credulous)


def everybody_gets_a_vote(patch: Patch) -> None:
    """The log of a candidate may be behind."""
    consider = campaign.consider

    def generous(self: Member, sender: str, request: VoteRequest) -> None:
        consider(self, sender, request._replace(last_term=1 << 60))

    patch.setattr(member, "consider", generous)


def votes_are_given_twice(patch: Patch) -> None:
    """Whoever asks gets it, even if another one has it."""
    consider = campaign.consider

    def generous(self: Member, sender: str, request: VoteRequest) -> None:
        if not request.is_pre and request.term == self.current_term and not self.is_leader:
            self._SyncObj__votedForNodeId = None
        consider(self, sender, request)

    patch.setattr(member, "consider", generous)


def commits_what_is_not_verified(patch: Patch) -> None:
    """S2: the leader's commit index counts for whatever is in the log."""

    def hasty(self: Following, commit_index: int) -> None:
        self.member.set_commit(min(commit_index, self.member.log.last_index))

    patch.setattr(Following, "commit", hasty)


def entries_of_earlier_terms_are_counted(patch: Patch) -> None:
    """Figure 8 of the paper."""

    def counting(self: Leadership) -> None:
        member = self.member
        configuration = member.configuration
        matches = sorted(
            member.log.synced_index if name == member.node_id else self.progress[name].match_index
            for name in configuration.voters
        )
        index = matches[len(matches) - configuration.majority]
        if index > member.commit_index and index > 0:
            member.set_commit(index)

    patch.setattr(Leadership, "advance_commit", counting)


def half_is_a_majority(patch: Patch) -> None:
    """One disk too few."""
    patch.setattr(Configuration, "majority", property(lambda self: max(1, len(self.voters) // 2)))


def membership_changes_at_will(patch: Patch) -> None:
    """S9: several uncommitted changes at a time, and no catching up."""

    def at_will(self: Leadership, configuration: Any) -> MembershipResult:
        log = self.member.log
        for name in configuration.learners:
            configuration = configuration.with_voter(name)
        log.add(configuration.encode(), log.last_index + 1, self.term, MEMBERSHIP)
        self.member.configuration_changed()
        return MembershipResult.ACCEPTED

    patch.setattr(Leadership, "_change", at_will)


def rewritten_entries_cut_the_log(patch: Patch) -> None:
    """Recovery takes an entry that was written again for a new one."""
    take = RecoveredGroup._take_entry

    def cutting(self: RecoveredGroup, segment: int, entry: Any) -> None:
        place = entry[1] - self._first
        if 0 <= place < len(self.entries):
            del self.entries[place:]
            del self.segments[place:]
        take(self, segment, entry)

    patch.setattr(RecoveredGroup, "_take_entry", cutting)


def segments_are_not_left(patch: Patch) -> None:
    """S10: what lies in a retired segment is not written again."""
    patch.setattr(Member, "leave_segment", lambda self, segment: None)


def an_install_keeps_the_log(patch: Patch) -> None:
    """An installed state does not void the entries that were in the journal before it."""
    accept = RecoveredGroup._accept

    def keeping(self: RecoveredGroup, checkpoint: recovery.Checkpoint, replaces: bool) -> None:
        accept(self, checkpoint, replaces and not self.entries)

    patch.setattr(RecoveredGroup, "_accept", keeping)


def an_entry_is_applied_twice(patch: Patch) -> None:
    """S12: what was applied before the state was restored is applied again."""
    apply_committed = Member.apply_committed

    def again(self: Member) -> None:
        if self.commit_index > self.last_applied > self.log.base_index + 3:
            self._SyncObj__raftLastApplied -= 1
        apply_committed(self)

    patch.setattr(Member, "apply_committed", again)


RULES = [
    reply_before_the_sync,
    leader_counts_itself_before_its_sync,
    own_vote_counts_before_its_sync,
    votes_are_not_stored,
    the_vote_is_forgotten_at_a_restart,
    the_log_is_cut_without_a_conflict,
    replies_of_an_earlier_term_count,
    leaders_of_an_earlier_term_count,
    votes_of_an_earlier_term_count,
    everybody_gets_a_vote,
    votes_are_given_twice,
    commits_what_is_not_verified,
    entries_of_earlier_terms_are_counted,
    half_is_a_majority,
    membership_changes_at_will,
    rewritten_entries_cut_the_log,
    segments_are_not_left,
    an_install_keeps_the_log,
    an_entry_is_applied_twice,
]

