"""Group: the public face of one member: propose, see what it is, change who belongs to it."""

from __future__ import annotations

from typing import NamedTuple

from raft.campaign import Campaign
from raft.entry import Entry
from raft.errors import RaftStopped
from raft.leader_changes import LeaderChanges
from raft.leadership import Leadership
from raft.member import Member
from raft.membership import MembershipResult, TransferResult


class PeerStatistics(NamedTuple):
    """A member as the leader sees it. `lag` counts entries."""

    name: str
    state: str
    match_index: int
    next_index: int
    in_flight_bytes: int
    lag: int
    is_connected: bool


class GroupStatistics(NamedTuple):
    """A snapshot of a group on this node. segments: of the journal that its log needs."""

    group_id: int
    role: str  # follower, candidate or leader
    leader: str | None
    term: int
    commit_index: int
    last_applied: int
    last_index: int
    synced_index: int
    checkpoint_index: int
    base_index: int
    log_bytes: int
    segments: int
    voters: tuple[str, ...]
    learners: tuple[str, ...]
    peers: tuple[PeerStatistics, ...]


class Group:
    """One group on this node. RaftHost.open_group makes it. leaders: who has led it."""

    is_deleted = False

    def __init__(self, group_id: int, dirty: dict[int, Group]) -> None:
        self.group_id = group_id
        self.member: Member = None  # type: ignore[assignment]  # open_group sets it: the log has to know its owner first
        self._announced: tuple[bool, str | None, int, int] = (False, None, 0, 0)
        # What that followed from.
        self._seen_role: object = None
        self._seen_leader: str | None = None
        self._seen_transfers = 0
        self.leaders = LeaderChanges()
        self._dirty = dirty  # the host's: groups that have something to send

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.member.is_leader

    @property
    def leader(self) -> str | None:
        leader: str | None = self.member.role.leader
        return leader

    @property
    def term(self) -> int:
        return self.member.current_term

    @property
    def commit_index(self) -> int:
        return self.member.commit_index

    @property
    def last_applied(self) -> int:
        return self.member.last_applied

    @property
    def last_index(self) -> int:
        return self.member.log.last_index

    @property
    def entries(self) -> list[Entry]:
        """Those of the log that this node has."""
        return self.member.log.entries

    @property
    def members(self) -> tuple[str, ...]:
        """The voters of the latest configuration in the log."""
        return self.member.configuration.voters

    @property
    def learners(self) -> tuple[str, ...]:
        return self.member.configuration.learners

    @property
    def is_outside(self) -> bool:
        """Whether nobody has added this node to the group, or it has left it: it knows of no members."""
        configuration = self.member.configuration
        return not configuration.voters and not configuration.learners

    @property
    def has_settled_members(self) -> bool:
        """Whether the latest configuration in the log is committed, as far as this member knows: no other leader can
        have another one in its place."""
        return self.member.log.configuration_index <= self.member.commit_index

    # -- what it is told -----------------------------------------------------------------------------------------------

    def term_at(self, index: int) -> int | None:
        """The term of an entry, or of the checkpoint; None where the log has neither."""
        return self.member.log.term_at(index)

    def propose(self, data: bytes) -> bool:
        """Append an entry. False: this member does not lead, or hands the leadership over. It counts when the machine
        applies it; until then it may still be replaced by another leader's. Raises ValueError for one that is too
        large."""
        member = self._running_member()
        if len(data) > member.settings.entry_bytes:
            raise ValueError(
                f"group {self.group_id}: an entry of {len(data)} octets; at most {member.settings.entry_bytes} are "
                f"allowed: propose it in parts, or raise entry_bytes"
            )
        role = member.role
        if not isinstance(role, Leadership) or not role.propose(data):
            return False
        self._dirty[self.group_id] = self
        return True

    def add_member(self, name: str) -> MembershipResult:
        """A learner at first, which becomes a voter by itself once it has caught up."""
        return self._change(name, is_removal=False)

    def remove_member(self, name: str) -> MembershipResult:
        """A voter or a learner that is to belong to the group no more."""
        return self._change(name, is_removal=True)

    def leave(self, term: int) -> None:
        """Keep nothing of the group: this node is no member any more, as a leader of `term` has committed. The machine
        has been emptied before; whoever adds the node again gives it everything."""
        self._dirty[self.group_id] = self
        self._running_member().leave(term)

    def transfer_leadership(self, name: str) -> TransferResult:
        """Have another voter lead."""
        role = self._running_member().role
        if not isinstance(role, Leadership):
            return TransferResult.NOT_LEADER
        self._dirty[self.group_id] = self
        return role.transfer(name)

    def leave_segment(self, segment: int) -> bool:
        """The journal wants to retire a segment: write again what lies there. There is no more then."""
        self._dirty[self.group_id] = self
        self._running_member().leave_segment(segment)
        return False

    def go_on(self) -> None:
        """What the machine has waited for is there: what it did not apply, or export, is tried again. Raises
        RaftStopped."""
        self._dirty[self.group_id] = self
        self._running_member()
        self.settle()

    def take_checkpoint(self) -> bool:
        """The machine has something to gain by a checkpoint as of now. Returns whether one is made; not while the last
        one is made or waits for the disk, or when nothing was applied since."""
        member = self._running_member()
        if not member.may_take_checkpoint or not member.take_checkpoint():
            return False
        self._dirty[self.group_id] = self
        return True

    def statistics(self) -> GroupStatistics:
        """A snapshot."""
        member, log = self.member, self.member.log
        return GroupStatistics(
            self.group_id,
            member.role.name,
            member.leader,
            member.current_term,
            member.commit_index,
            member.last_applied,
            log.last_index,
            log.synced_index,
            log.checkpoint_index,
            log.base_index,
            log.ram_bytes,
            log.segment_count(),
            log.configuration.voters,
            log.configuration.learners,
            self._peer_statistics(),
        )

    def _peer_statistics(self) -> tuple[PeerStatistics, ...]:
        role = self.member.role
        if not isinstance(role, Leadership):
            return ()
        last_index = self.member.log.last_index
        return tuple(
            PeerStatistics(
                name,
                progress.state.value,
                progress.match_index,
                progress.next_index,
                progress.in_flight_bytes,
                last_index - progress.match_index,
                progress.is_connected,
            )
            for name, progress in role.progress.items()
        )

    def _change(self, name: str, is_removal: bool) -> MembershipResult:
        role = self._running_member().role
        if not isinstance(role, Leadership):
            return MembershipResult.NOT_LEADER
        self._dirty[self.group_id] = self
        return role.remove_member(name) if is_removal else role.add_member(name)

    def _running_member(self) -> Member:
        if self.member.is_stopped:
            raise RaftStopped(self.group_id, "this member has stopped before")
        return self.member

    # -- for the host --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """After anything has happened: apply what is committed, tell the machine of a new role."""
        member = self.member
        role = member.role
        leader, transfers = role.leader, role.transfers_given_up
        if role is not self._seen_role or leader != self._seen_leader or transfers != self._seen_transfers:
            self._seen_role, self._seen_leader, self._seen_transfers = role, leader, transfers
            self._announce(member)
        member.apply_committed()

    def _announce(self, member: Member) -> None:
        """Tell the machine if its role is another one (a role has one term)."""
        if isinstance(member.role, Campaign):
            self.leaders.campaigns(member.role.is_transfer)
        voters = member.configuration.voters
        self.leaders.seen(member.leader, member.current_term, member.is_leader, voters == (member.node_id,), member.now)
        state = (member.is_leader, member.leader, member.current_term, member.role.transfers_given_up)
        if state != self._announced:
            self._announced = state
            try:
                member.machine.role_changed(state[0], state[1], state[2], member.now)
            except Exception as error:
                raise member.failed("telling the machine of its role", error) from error
