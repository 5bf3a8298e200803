"""Member: one node's part in one group: a pysyncobj SyncObj whose unsafe methods are replaced by their mangled names.

Term, vote, commit index and last applied index stand in MemberState, where the stock class finds them under its own
names; its raft state and its accessors are kept. What decides is here and in the three roles, one of which a member
always has:

    Following --(no word from a leader)--> Campaign(pre) --(a majority would vote)--> Campaign --(a majority voted)-->
    Leadership --(a higher term, or no answers of a majority)--> Following          any --(a leader's word)--> Following

It knows no journal format, no octets of the wire, no other groups, no clock: `clock` is set from outside, in ms.

Invariants (docs/raft.md numbers the same):
1. No message but an Append leaves before everything this member has written for its group is synced (the host sees to
   it): so every promise that it makes survives a crash.
2. The term never falls; a vote, once given in a term, is not changed.
3. commit_index <= what is known to match the leader's log; last_applied <= commit_index; an entry at or below the
   commit index is never cut. Anything that would break this raises RaftStopped.
4. An entry is applied once; if that raises, the member has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from pysyncobj.config import SyncObjConf
from pysyncobj.node import Node
from pysyncobj.poller import Poller
from pysyncobj.syncobj import _RAFT_STATE, SyncObj
from pysyncobj.transport import Transport

import raft.pinned  # noqa: F401  # refuses another pysyncobj
from raft.campaign import Campaign, consider
from raft.checkpointing import Checkpointing, Slices
from raft.configuration import Configuration
from raft.following import Following
from raft.leadership import Leadership
from raft.log import GroupLog
from raft.machine import Machine
from raft.member_state import MemberState
from raft.messages import (
    Append,
    AppendReply,
    GroupMessage,
    InstallChunk,
    InstallReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raft.settings import NEVER, RaftSettings

Post = Callable[[str, GroupMessage], None]


class RandomSource(Protocol):
    """What is used of random.Random."""

    def random(self) -> float:
        """0 <= x < 1"""


class _SilentPoller(Poller):  # type: ignore[misc]  # pysyncobj is not typed
    """Polls nothing: the driver has the sockets."""

    def poll(self, timeout: float) -> None:
        """Nothing."""


class _Outlet(Transport):  # type: ignore[misc]
    """What the stock class takes for its transport."""

    def __init__(self, post: Post) -> None:
        super().__init__(None, None, [])
        self._post = post

    def send(self, node: Node, message: GroupMessage) -> bool:
        """Hand a message to the host."""
        self._post(node.id, message)
        return True


def _not_here(*_arguments: object, **_named: object) -> NoReturn:
    """Stands in for a stock method that must never run."""
    raise RuntimeError("a method of the stock pysyncobj was called that is not safe; use propose and add_member")


class Member(MemberState, SyncObj):  # type: ignore[misc]
    """See the module's docstring. `post` takes messages for other members; `machine` is what the log drives."""

    def __init__(
        self,
        node_id: str,
        log: GroupLog,
        machine: Machine,
        settings: RaftSettings,
        random_source: RandomSource,
        post: Post,
        is_connected: Callable[[str], bool],
    ) -> None:
        MemberState.__init__(self, node_id, log, machine, settings, post, is_connected)
        self._peers: dict[str, Node] = {}  # pysyncobj's objects for names
        self._tail = (0, 0)  # of a synced checkpoint: its index, and where the tail that is kept begins
        #: How work is done in slices; None: at once.
        self.slices: Slices | None = None
        self._checkpointing: Checkpointing | None = None
        #: Up to which segment the journal has no checkpoint that is needed; up to which it is to have none.
        self._left_segment = self._leaves_segment = 0
        self._random_source = random_source
        self._waits = False  # it has no vote, and no leader is known
        configuration = SyncObjConf(
            autoTick=False, pollerType="select", journalFile=None, fullDumpFile=None, dynamicMembershipChange=True
        )
        # The stock constructor looks at every property of this class.
        self.take_role(Following(self, None), is_leader=False)
        SyncObj.__init__(self, Node(node_id), [], configuration, nodeClass=Node, transport=_Outlet(post))
        # What the constructor has read from a clock and from chance, or set, is replaced.
        self._poller = _SilentPoller()
        self._SyncObj__raftLog = log
        self.current_term = log.current_term
        self.voted_for = log.voted_for
        self.commit_index = self.last_applied = log.checkpoint_index
        self._SyncObj__needLoadDumpFile = False
        self.take_role(Following(self, None), is_leader=False)
        self.configuration_changed()

    @property
    def leader(self) -> str | None:
        """Whom this member takes for the leader; itself, if it is."""
        leader: str | None = self.role.leader
        return leader

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.log.configuration.voters

    def _peer(self, name: str) -> Node:
        node = self._peers.get(name)
        if node is None:
            self._peers[name] = node = Node(name)
        return node

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _SyncObj__onMessageReceived(self, node: Node, message: GroupMessage) -> None:  # noqa: N802
        self.receive(node.id, message)

    def receive(self, sender: str, message: GroupMessage) -> None:
        """A message of this group from another member."""
        if _take_usual(self, sender, message):
            return
        if isinstance(message, Append):
            following = self.accept_leader(sender, message.term)
            if following is None:
                self._refuse_stale(sender, message)
            else:
                following.on_append(message)
        elif isinstance(message, InstallChunk):
            following = self.accept_leader(sender, message.term)
            if following is None:
                self._refuse_stale(sender, message)
            else:
                following.on_install_chunk(message)
        elif isinstance(message, VoteRequest):
            consider(self, sender, message)
        elif isinstance(message, VoteReply):
            self._on_vote_reply(sender, message)
        else:
            self._on_reply(sender, message)

    def _on_reply(self, sender: str, message: AppendReply | InstallReply | TimeoutNow) -> None:
        """What counts only in its own term."""
        if message.term > self.current_term:
            self.follow(message.term, None)
        if message.term < self.current_term:
            return  # a reply of an earlier leadership (S7)
        role = self.role
        if isinstance(message, TimeoutNow):
            if isinstance(role, Following) and role.leader == sender and self.is_voter:
                self.campaign(is_pre=False, is_transfer=True)
        elif isinstance(role, Leadership):
            if isinstance(message, AppendReply):
                role.on_append_reply(sender, message)
            else:
                role.on_install_reply(sender, message)

    def _on_vote_reply(self, sender: str, reply: VoteReply) -> None:
        if not reply.is_granted and reply.term > self.current_term:
            self.follow(reply.term, None)
        elif isinstance(self.role, Campaign):
            self.role.on_reply(sender, reply)

    def _refuse_stale(self, sender: str, message: Append | InstallChunk) -> None:
        """Tell a deposed leader of the term."""
        if isinstance(message, Append):
            self._SyncObj__sendNextNodeIdx(self._peer(sender), AppendReply(
                self.group_id, self.current_term, False, 0, 0, message.prev_index
            ))  # fmt: skip
        else:
            self.send(sender, InstallReply(self.group_id, self.current_term, message.install_id, 0, False))

    def _SyncObj__sendNextNodeIdx(self, node: Node, reply: AppendReply) -> None:  # noqa: N802
        """Answer an append, with the term."""
        self._SyncObj__transport.send(node, reply)

    def on_beat(self, sender: str, term: int, commit_index: int) -> int:
        """A leader is there. Returns up to where the log is known to match its log (0: it is no leader any more)."""
        role = self.role
        if type(role) is not Following or role.leader != sender or term != self.current_term:
            following = self.accept_leader(sender, term)
            if following is None:
                return 0
            role = following
        else:
            role.heard_at = self.clock
            self.deadline = self.clock + self.timeout
        if commit_index > self.commit_index:
            role.commit(commit_index)
        return role.verified_index

    def on_beat_reply(self, sender: str, term: int, sent_index: int, match_index: int) -> bool:
        """An answer to a beat of this member. Returns whether there may be something to do now."""
        if term > self.current_term:
            self.follow(term, None)
            return True
        if term == self.current_term and isinstance(self.role, Leadership):
            return self.role.on_beat_reply(sender, sent_index, match_index)
        return False

    def accept_leader(self, sender: str, term: int) -> Following | None:
        """Follow whoever leads in `term`; None if that is over."""
        current: int = self.current_term
        if term < current:
            return None
        role = self.role
        if term > current or isinstance(role, Campaign):
            self.follow(term, sender)
            role = self.role
        if isinstance(role, Leadership) or (isinstance(role, Following) and role.leader not in (None, sender)):
            self.stop(f"{sender} and {self.leader} both lead in term {term}")
        assert isinstance(role, Following)
        role.leader = sender
        role.heard_at = self.clock
        self.deadline = self.clock + self.timeout
        return role

    # -- roles ---------------------------------------------------------------------------------------------------------

    def follow(self, term: int, leader: str | None, vote: str | None = None) -> None:
        """Begin to follow: in a new term, with `vote` given there, or in the current one."""
        self.role.close()
        if term > self.current_term:
            self._SyncObj__setCurrentTerm(term, vote)
        self.take_role(Following(self, leader), is_leader=False)
        self._SyncObj__setState(_RAFT_STATE.FOLLOWER)
        self.restart_timeout()

    def campaign(self, is_pre: bool, is_transfer: bool = False) -> None:
        """Stand for election, or (is_pre) ask first whether it would succeed."""
        self.role.close()
        self.restart_timeout()
        self._SyncObj__setState(_RAFT_STATE.FOLLOWER if is_pre else _RAFT_STATE.CANDIDATE)
        if not is_pre:
            self._SyncObj__setCurrentTerm(self.current_term + 1, self.node_id)
        self.take_role(Campaign(self, is_pre, is_transfer), is_leader=False)
        self.role.begin()

    def won(self, campaign: Campaign) -> None:
        """A majority is for it."""
        if campaign.is_pre:
            self.campaign(is_pre=False)
        else:
            self._SyncObj__onBecomeLeader()

    def _SyncObj__onBecomeLeader(self) -> None:  # noqa: N802
        self.role.close()
        self._SyncObj__setState(_RAFT_STATE.LEADER)
        self.deadline = NEVER
        self.take_role(Leadership(self), is_leader=True)
        self.role.begin()

    def restart_timeout(self) -> None:
        """Draw a new election time-out, from now."""
        self.timeout = self._SyncObj__generateRaftTimeout()
        self.deadline = self.clock + self.timeout

    def _SyncObj__generateRaftTimeout(self) -> int:  # noqa: N802
        low, high = self.settings.election_timeout_min_ms, self.settings.election_timeout_max_ms
        return low + int((high - low) * self._random_source.random())

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: N802, N803
        """The time-out has passed without a leader. Who has no vote waits for one, without a time-out."""
        if self.is_voter:
            self.campaign(is_pre=self.configuration.majority > 1)
        else:
            self.follow(self.current_term, None)
            self.deadline = NEVER
            self._waits = True

    def synced(self, position: int) -> bool:
        """The journal is on the disk up to `position`. Returns whether something may follow from that."""
        moved = self.log.synced(position)
        role = self.role
        if isinstance(role, Following):
            return False
        if isinstance(role, Campaign):
            role.on_synced(position)
        if moved and isinstance(self.role, Leadership):
            self.role.advance_commit()
        return True

    # -- commit and apply ----------------------------------------------------------------------------------------------

    def _SyncObj__applyLogEntries(self) -> None:  # noqa: N802
        self.apply_committed()

    def installed(self, index: int, term: int, configuration: Configuration) -> None:
        """The machine has another member's state: make it the beginning of the log, in one record of the journal."""
        self._give_up_checkpoint()
        try:
            chunks = self.machine.checkpoint()
        except Exception as error:
            raise self.failed("a checkpoint after an install", error) from error
        self.log.replace(index, term, configuration, chunks)
        self.commit_index = self.last_applied = index
        self.configuration_changed()

    def _SyncObj__tryLogCompaction(self) -> None:  # noqa: N802
        """Take a checkpoint if the log has grown enough."""
        log = self.log
        if log.appended_bytes > self.settings.log_bytes and self.may_take_checkpoint:
            self.take_checkpoint()

    def leave(self, term: int) -> None:
        """This node is no member any more, and somebody who led in `term` has said so: nothing stays of the group but
        term and vote. The machine has been emptied before."""
        if self.is_leader:
            self.stop("a leader cannot leave: another one has to lead first")
        if term > self.current_term:
            self.follow(term, None)
        self._give_up_checkpoint()
        try:
            chunks = self.machine.checkpoint()
        except Exception as error:
            raise self.failed("a checkpoint of nothing", error) from error
        self.log.replace(0, 0, Configuration(), chunks)
        self.commit_index = self.last_applied = 0
        self._tail = (0, 0)
        self.follow(self.current_term, None)
        self.configuration_changed()

    def trim(self) -> None:
        """Let go of what a synced checkpoint holds, but for what members that are alive still need, and for a short
        tail that a member which stumbles may need."""
        log = self.log
        index = log.synced_checkpoint_index
        if log.base_index >= index:
            return
        if log.ram_bytes <= self.settings.log_cap_bytes:
            if self._tail[0] != index:
                self._tail = (index, log.index_before(index, self.settings.log_bytes // 4))
            index = self._tail[1]
            if isinstance(self.role, Leadership):
                index = min(index, self.role.needed_index())
        log.trim(index)

    @property
    def may_take_checkpoint(self) -> bool:
        """Whether none is being made, or waits for the disk."""
        return self._checkpointing is None and not self.log.has_unsynced_checkpoint

    def take_checkpoint(self) -> bool:
        """Make a checkpoint as of the last apply, unless the newest one is of that; where there are slices, as of the
        last apply when it is prepared. Returns whether it is made."""
        if self.last_applied <= self.log.checkpoint_index:
            return False
        if self.slices is None:
            self._write_checkpoint()
        else:
            self._begin_checkpoint(self.slices)
        return True

    def _begin_checkpoint(self, slices: Slices) -> None:
        self._checkpointing = Checkpointing(self)
        slices(self._checkpointing.step)

    def checkpoint_is_whole(self, made: Checkpointing) -> None:
        """It has all its chunks."""
        self._checkpointing = None
        self.log.write_checkpoint(made.index, made.term, made.chunks, self._left_segment < self._leaves_segment)
        self._left_segment = self._leaves_segment

    def _give_up_checkpoint(self) -> None:
        if self._checkpointing is not None:
            self._checkpointing.close()
            self._checkpointing = None

    def term_applied(self, index: int) -> int:
        """The term of the entry that was applied last. Raises RaftStopped."""
        term = self.log.term_at(index)
        if term is None:
            self.stop(f"entry {index} is applied, but not in the log")
        return term

    def _write_checkpoint(self) -> None:
        """One as of the last apply, at once."""
        self._give_up_checkpoint()
        index = self.last_applied
        term = self.term_applied(index)
        try:
            chunks = self.machine.checkpoint()
        except Exception as error:
            raise self.failed("a checkpoint", error) from error
        self.log.write_checkpoint(index, term, chunks)

    def prepare_to_leave(self, segment: int) -> bool:
        """Journal segments up to `segment` are to be retired. Returns whether `leave_segment` has no checkpoint to
        make; if it has, one is made in slices."""
        log = self.log
        if self.slices is None or self._left_segment >= segment or log.oldest_needed_segment() > segment:
            return True
        self._leaves_segment = segment
        if self._checkpointing is None:
            self._begin_checkpoint(self.slices)
        return False

    def leave_segment(self, segment: int) -> None:
        """Write again whatever of this group lies in journal segments up to `segment`."""
        log = self.log
        if log.oldest_needed_segment() <= segment:
            if self._left_segment < segment or log.checkpoint_segment <= segment:
                self._write_checkpoint()
            if log.oldest_entry_segment() <= segment:
                log.rewrite_entries()
        if log.state_segment <= segment:
            log.rewrite_state()

    # -- configuration -------------------------------------------------------------------------------------------------

    def configuration_changed(self) -> None:
        """The log has another latest configuration."""
        if self._waits and self.is_voter:
            self._waits = False
            self.restart_timeout()
        everybody = self.log.configuration.everybody
        self._SyncObj__updateClusterConfiguration([name for name in everybody if name != self.node_id])
        if isinstance(self.role, Leadership):
            self.role.configuration_changed()

    def _SyncObj__updateClusterConfiguration(self, names: list[str]) -> None:  # noqa: N802
        self._SyncObj__otherNodes = {Node(name) for name in names}

    # -- stock methods that must never run -----------------------------------------------------------------------------

    _SyncObj__sendAppendEntries = _not_here
    _SyncObj__loadDumpFile = _not_here
    _SyncObj__doApplyCommand = _not_here
    _SyncObj__changeCluster = _not_here
    _SyncObj__doChangeCluster = _not_here
    _SyncObj__parseChangeClusterRequest = _not_here
    _SyncObj__deleteEntriesTo = _not_here
    _applyCommand = _not_here  # noqa: N815
    _checkCommandsToApply = _not_here  # noqa: N815
    _autoTickThread = _not_here  # noqa: N815
    addNodeToCluster = _not_here  # noqa: N815
    removeNodeFromCluster = _not_here  # noqa: N815
    transferLeadership = _not_here  # noqa: N815
    setCodeVersion = _not_here  # noqa: N815
    forceLogCompaction = _not_here  # noqa: N815


def _take_usual(member: MemberState, sender: str, message: GroupMessage) -> bool:
    """An append of the leader that is followed, or an answer to one of this leader's: of the present term, as nearly
    everything is that comes. Returns whether it was that."""
    role = member.role
    if type(message) is Append:
        if type(role) is not Following or role.leader != sender or message.term != member.current_term:
            return False
        following = role
        following.heard_at = member.clock
        member.deadline = member.clock + member.timeout
        following.on_append(message)
        return True
    if type(message) is AppendReply and type(role) is Leadership and message.term == member.current_term:
        leading = role
        leading.on_append_reply(sender, message)
        return True
    return False
