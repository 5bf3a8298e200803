"""Campaign: standing for election, and `consider`: being asked for a vote.

Before a real election a member asks whether it would win one (thesis, section 9.6), so that a member that was cut off
does not raise the term when it comes back. Nobody helps to depose a leader that it has heard of recently (section
4.2.3), unless the leader itself has asked for the election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.messages import VoteReply, VoteRequest

if TYPE_CHECKING:
    from raft.member import Member


class Campaign:
    """The role of a candidate, or of one who asks whether to become one."""

    name = "candidate"
    transfers_given_up = 0
    leader: str | None = None

    def __init__(self, member: Member, is_pre: bool, is_transfer: bool) -> None:
        self.member = member
        self.is_pre = is_pre
        self.is_transfer = is_transfer
        self.term = member.current_term + (1 if is_pre else 0)
        self._votes: dict[str, bool] = {}
        self._own_vote_position = member.log.position

    def begin(self) -> None:
        """Ask every voter. The own vote counts when it is on the disk; a mere question needs no disk."""
        member, log = self.member, self.member.log
        for name in member.configuration.voters:
            if name != member.node_id:
                request = VoteRequest(
                    member.group_id, self.term, self.is_pre, self.is_transfer, log.last_index, log.last_term
                )
                member.send(name, request)
        if self.is_pre:
            self._votes[member.node_id] = True

    def on_synced(self, position: int) -> None:
        """The disk has what was written up to `position`."""
        if not self.is_pre and position >= self._own_vote_position:
            self._votes[self.member.node_id] = True
            self._count()

    def on_reply(self, sender: str, reply: VoteReply) -> None:
        """One voter, one vote, in this campaign only (S8)."""
        if reply.is_pre == self.is_pre and reply.term == self.term and reply.is_granted:
            self._votes[sender] = True
            self._count()

    def _count(self) -> None:
        configuration = self.member.configuration
        if sum(name in self._votes for name in configuration.voters) >= configuration.majority:
            self.member.won(self)

    def close(self) -> None:
        """The role ends."""


def consider(member: Member, sender: str, request: VoteRequest) -> None:
    """A vote is asked for."""
    term = member.current_term
    if request.term < term or _has_fresh_leader(member, request) or not member.configuration.voters:
        _answer(member, sender, request, is_granted=False)
        return
    log = member.log
    is_up_to_date = (request.last_term, request.last_index) >= (log.last_term, log.last_index)
    if request.is_pre:
        _answer(member, sender, request, is_granted=is_up_to_date and request.term > term)
        return
    if request.term > term:
        member.follow(request.term, None, vote=sender if is_up_to_date else None)
        is_granted = is_up_to_date
    else:
        is_granted = is_up_to_date and not member.is_leader and member.voted_for in (None, sender)
        if is_granted and member.voted_for is None:
            member._SyncObj__setCurrentTerm(term, sender)
        if is_granted and isinstance(member.role, Campaign):
            member.follow(term, None)
    if is_granted:
        member.restart_timeout()
    _answer(member, sender, request, is_granted)


def _has_fresh_leader(member: Member, request: VoteRequest) -> bool:
    if request.is_transfer:
        return False
    role = member.role
    return not isinstance(role, Campaign) and role.has_fresh_leader


def _answer(member: Member, sender: str, request: VoteRequest, is_granted: bool) -> None:
    term = request.term if is_granted else member.current_term
    member.send(sender, VoteReply(member.group_id, term, request.is_pre, is_granted))
