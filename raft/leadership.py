"""Leadership: the role of a leader in one term.

Invariants:
1. An entry is committed when a majority of the voters has it on disk and it, or a later one on as many disks, is of
   this term (Raft paper, section 5.4.2). The leader counts itself up to its own synced index only.
2. A new configuration is taken when the one before it is committed, and an entry of this term.
3. A leader that has not heard of a majority for an election time-out steps down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.configuration import Configuration
from raft.entry import MEMBERSHIP, NO_OP, REGULAR
from raft.errors import NotNow
from raft.install import InstallSender
from raft.membership import MembershipResult, TransferResult
from raft.messages import Append, AppendReply, InstallReply, TimeoutNow
from raft.progress import INSTALL, PROBE, REPLICATE, Progress
from raft.settings import NEVER

if TYPE_CHECKING:
    from raft.member import Member

#: The own disk is spared where a commit without it comes at most so much later than with it, milliseconds.
_SPARED_MS = 2.0
#: Entries rest for members that are not needed for a majority up to so many octets.
REST_BYTES = 64 * 1024
_REST_BYTES = REST_BYTES


class Leadership:
    """See the module's docstring."""

    name = "leader"
    has_fresh_leader = True

    def __init__(self, member: Member) -> None:
        self.member = member
        self.term = member.current_term
        self.first_index = member.log.last_index + 1
        self.progress: dict[str, Progress] = {}
        self.is_transferring = False
        self.transfers_given_up = 0
        self._transfer_to = ""
        self._transfer_deadline = 0
        self._was_told_to_stand = False
        self._install_count = 0
        self._shared: dict[int, Append] = {}
        # What follows from the configuration: the voters but this member, whether it is one, and how many decide.
        self._others: list[Progress] = []
        self._is_voter = False
        self._majority = 1
        self._has_learners = False
        #: When members that do not wait for it hear of the commit index; NEVER: they all know it.
        self.notice_at = NEVER
        #: When the own disk is to have what is not committed yet, although the others' should do; NEVER: nothing waits.
        self.disk_due_at = NEVER
        self._awaited_index = 0
        self._is_overdue = False
        self.is_resting = False  # there are entries that members which are not needed for a majority get later
        self._seen_index = 0
        self._unsent_bytes = 0

    @property
    def leader(self) -> str:
        return self.member.node_id

    def begin(self) -> None:
        """Nobody's match is known; an empty entry of this term makes the older ones committable."""
        self.configuration_changed()
        self.member.log.add(b"", self.first_index, self.term, NO_OP)

    def close(self) -> None:
        """The role ends."""
        for progress in self.progress.values():
            progress.drop_install()

    # -- proposals -----------------------------------------------------------------------------------------------------

    def propose(self, data: bytes) -> bool:
        """Append an entry; False while a transfer is going on."""
        if self.is_transferring:
            return False
        log = self.member.log
        log.add(data, log.last_index + 1, self.term, REGULAR)
        self._unsent_bytes += len(data)
        return True

    def advance_commit(self) -> None:
        """Count disks."""
        member = self.member
        matches = []
        for progress in self._others:
            matches.append(progress.match_index)
        if self._is_voter:
            matches.append(member.log.synced_index)
        matches.sort()
        index = matches[len(matches) - self._majority]
        if index > member.commit_index and member.log.term_at(index) == self.term:
            member.set_commit(index)

    # -- the own disk --------------------------------------------------------------------------------------------------

    def needs_own_disk(self, disk_lag_ms: float = 0.0) -> bool:
        """Whether what was written waits for this node's disk, which takes so long. If not, other voters' disks commit
        it about as soon, and the own one has it with the next sync, or `own_disk_wait_ms` later if it is not committed
        (decision 0024)."""
        member = self.member
        if self.is_resting:
            return member.commit_index < member.log.last_index
        if self._is_overdue and self._awaited_index == member.commit_index:
            return True
        self._is_overdue = False
        lags = []
        for each in self._others:
            if each.is_connected and each.state is REPLICATE:
                lags.append(each.lag_ms)
        if len(lags) < self._majority:
            return True
        lags.sort()
        slowest, before = lags[self._majority - 1], lags[self._majority - 2]
        if slowest - before > max(_SPARED_MS, disk_lag_ms):
            return True
        if member.commit_index == member.log.last_index:
            self.disk_due_at = NEVER
        elif self.disk_due_at == NEVER or self._awaited_index != member.commit_index:
            self.disk_due_at = member.clock + member.settings.own_disk_wait_ms
            self._awaited_index = member.commit_index
        return False

    def wait_is_over(self) -> None:
        """`disk_due_at` has come: the own disk is needed, and the others are slower than was thought."""
        self.disk_due_at = NEVER
        self._is_overdue = True
        for progress in self.progress.values():
            progress.record_silence(self.member.clock)

    # -- replies -------------------------------------------------------------------------------------------------------

    def on_append_reply(self, sender: str, reply: AppendReply) -> None:
        """An answer of this term."""
        progress = self.progress.get(sender)
        if progress is None:
            return  # not a member (S8)
        progress.replied_at = self.member.clock
        if reply.is_success:
            self._matched(progress, reply.match_index)
        elif progress.state is not INSTALL and reply.prev_index > progress.match_index:
            if progress.state is PROBE and reply.prev_index != progress.next_index - 1:
                return  # an answer to an earlier probe
            progress.probe(self._next_after_refusal(reply))

    def _next_after_refusal(self, reply: AppendReply) -> int:
        """One term back at a time. The base of the log (which asks for an install) where it can match below only."""
        log = self.member.log
        index = log.last_match(reply.match_index, reply.match_term)
        term = log.term_at(index)
        if reply.match_index < log.base_index or term is None or term > reply.match_term:
            return log.base_index
        return index + 1

    def on_beat_reply(self, sender: str, sent_index: int, match_index: int) -> bool:
        """An answer to a beat: what was sent before it has arrived, or is lost. Returns whether that is news."""
        progress = self.progress.get(sender)
        if progress is None:
            return False
        progress.replied_at = self.member.clock
        if progress.state is REPLICATE and progress.match_index == match_index == sent_index:
            return False
        if match_index > progress.match_index:
            self._matched(progress, match_index)
        if progress.state is PROBE:
            progress.probe_may_be_lost()
        elif progress.state is REPLICATE and progress.match_index < sent_index:
            progress.probe(progress.match_index + 1)
        return True

    def _matched(self, progress: Progress, index: int) -> None:
        if index > self.member.log.last_index:
            self.member.stop(f"a follower has entry {index}, and the leader's log ends at {self.member.log.last_index}")
        if progress.matched(index, self.member.clock):
            self.advance_commit()
            if self.is_transferring:
                self._hand_over()

    def on_install_reply(self, sender: str, reply: InstallReply) -> None:
        """How far an install has come."""
        progress = self.progress.get(sender)
        if progress is None:
            return
        progress.replied_at = self.member.clock
        install = progress.install
        if install is None or install.install_id != reply.install_id:
            return
        if reply.is_done:
            progress.probe(install.index + 1)
            self._matched(progress, install.index)
        elif not install.acknowledged(reply.next_number):
            progress.probe(progress.next_index)

    # -- sending -------------------------------------------------------------------------------------------------------

    def end_turn(self, disk_lag_ms: float = 0.0) -> list[str]:
        """Send what can be sent. Returns who should be told of a new commit index by a notice. disk_lag_ms: of the own
        disk."""
        if self._has_learners:
            self._promote()
        member = self.member
        commit_index = member.commit_index
        last_index = member.log.last_index
        if self._shared:
            self._shared.clear()
        may_rest = False
        if last_index != self._seen_index or self.is_resting:
            self._seen_index = last_index
            may_rest = self._choose_needed(disk_lag_ms)
        is_due = member.clock >= self.notice_at
        if is_due and self.is_resting and commit_index < last_index:
            self._note_delay()
        concerned = member.machine.take_concerned()
        concerns_all = concerned is None
        is_waiting = self.is_resting = False
        notices: list[str] = []
        for name, progress in self.progress.items():
            if not progress.is_connected:
                continue
            is_told_now = is_due or concerns_all or bool(concerned and name in concerned)
            if progress.next_index <= last_index or progress.state is not REPLICATE:
                if may_rest and not (progress.is_needed or is_told_now) and progress.state is REPLICATE:
                    self.is_resting = True
                    continue
                self._send_entries(name, progress)
            if progress.told_commit_index < commit_index and progress.state is REPLICATE:
                if is_told_now:
                    progress.told_commit_index = commit_index
                    notices.append(name)
                else:
                    is_waiting = True
        if not self.is_resting:
            self._unsent_bytes = 0
        if not is_waiting and not self.is_resting:
            self.notice_at = NEVER
        elif self.notice_at == NEVER:
            self.notice_at = member.clock + member.settings.notice_ms
        return notices

    def _choose_needed(self, disk_lag_ms: float) -> bool:
        """Which members are needed for a majority, with the own disk. Returns whether the others get their entries
        later, many at once: with the next that concern them, or after `notice_ms` (decision 0047)."""
        member = self.member
        others = self._others
        needed = self._majority - 1
        if not needed or len(others) <= needed or not self._is_voter or not member.settings.notice_ms:
            return False
        if self.is_transferring or self._has_learners or self._unsent_bytes > _REST_BYTES:
            return False
        ready = []
        for each in others:
            if each.is_connected and each.state is REPLICATE:
                ready.append(each)
        if len(ready) <= needed:
            return False
        if len(ready) > 1:
            ready.sort(key=_preference)
        if max(disk_lag_ms, ready[needed - 1].lag_ms) > ready[needed].lag_ms + _SPARED_MS:
            return False  # the others' disks are quicker than this node's
        for place, each in enumerate(ready):
            each.is_needed = place < needed
        return True

    def _note_delay(self) -> None:
        """Others have rested for as long as they may, and something is not committed: who is needed may be slower than
        was thought."""
        clock = self.member.clock
        for each in self._others:
            if each.is_needed:
                each.record_silence(clock)

    def _send_entries(self, name: str, progress: Progress) -> None:
        log = self.member.log
        limit = self.member.settings.in_flight_bytes
        while True:
            if progress.state is INSTALL:
                self._send_install(name, progress)
                return
            if progress.state is PROBE:
                if progress.is_probing:
                    return
            elif progress.next_index > log.last_index or progress.in_flight_bytes >= limit:
                return
            if progress.next_index <= log.base_index:
                if not self._begin_install(progress):
                    return
                continue
            append = self._append_from(progress.next_index)
            self.member.send(name, append)
            progress.told_commit_index = append.commit_index
            entries = append.entries
            size = 0
            for entry in entries:
                data = entry[0]
                size += len(data)
            progress.sent(append.prev_index + len(entries), size, self.member.clock)

    def _append_from(self, next_index: int) -> Append:
        """The same object for everybody who gets the same, so that it is encoded once."""
        append = self._shared.get(next_index)
        if append is None:
            member, log = self.member, self.member.log
            entries = log.entries_from(next_index, member.settings.append_bytes)
            prev_term = log.term_at(next_index - 1)
            assert prev_term is not None
            append = Append(member.group_id, self.term, next_index - 1, prev_term, member.commit_index, entries)
            self._shared[next_index] = append
        return append

    def _begin_install(self, progress: Progress) -> bool:
        """Returns whether one was begun; else it is tried again in another turn."""
        member = self.member
        index = member.last_applied
        term = member.log.term_at(index)
        assert term is not None
        self._install_count += 1
        configuration = member.log.configuration_at(index)
        try:
            progress.begin_install(InstallSender(member, self._install_count, index, term, configuration))
        except NotNow:
            return False
        return True

    def _send_install(self, name: str, progress: Progress) -> None:
        if progress.install is not None:
            try:
                chunks = progress.install.take_chunks()
            except NotNow:
                progress.probe(progress.next_index)
                return
            for chunk in chunks:
                self.member.send(name, chunk)

    def connected(self, name: str, is_connected: bool) -> None:
        """A link came up or went down: what was on its way is lost."""
        progress = self.progress.get(name)
        if progress is not None:
            progress.is_connected = is_connected
            progress.probe(progress.match_index + 1 if progress.match_index else progress.next_index)

    # -- time ----------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """At every heartbeat: is there still a majority; is the transfer over; does an install hang?"""
        member = self.member
        configuration = member.configuration
        since = member.clock - member.settings.election_timeout_max_ms
        answering = sum(
            name == member.node_id or self.progress[name].replied_at >= since for name in configuration.voters
        )
        if answering < configuration.majority:
            member.follow(self.term, None)
            return
        if self.is_transferring and member.clock >= self._transfer_deadline:
            self._give_up_transfer()
        for name, progress in self.progress.items():
            if progress.install is not None and progress.is_connected:
                for chunk in progress.install.take_again():
                    member.send(name, chunk)

    def needed_index(self) -> int:
        """The log is needed from here on by members that are alive."""
        needed = self.member.log.last_index
        since = self.member.clock - 2 * self.member.settings.election_timeout_max_ms
        for progress in self.progress.values():
            if progress.is_connected and progress.replied_at >= since:
                needed = min(needed, progress.install.index if progress.install else progress.match_index)
        return needed

    # -- membership ----------------------------------------------------------------------------------------------------

    def configuration_changed(self) -> None:
        """The log has another configuration: who is new is probed, who is gone is forgotten."""
        member = self.member
        before = self.progress
        self.progress = {}
        for name in member.configuration.everybody:
            if name == member.node_id:
                continue
            progress = before.pop(name, None)
            if progress is None:
                progress = Progress(member.log.last_index + 1, member.clock, member.is_connected(name))
            self.progress[name] = progress
        for progress in before.values():
            progress.drop_install()
        configuration = member.configuration
        self._others = [self.progress[name] for name in configuration.voters if name != member.node_id]
        self._is_voter = member.node_id in configuration.voters
        self._majority = configuration.majority
        self._has_learners = bool(configuration.learners)

    def add_member(self, name: str) -> MembershipResult:
        """As a learner; it becomes a voter when it has caught up."""
        if name in self.member.configuration.everybody:
            return MembershipResult.ALREADY_MEMBER
        return self._change(self.member.configuration.with_learner(name))

    def remove_member(self, name: str) -> MembershipResult:
        """It counts no more from now on."""
        configuration = self.member.configuration
        if name not in configuration.everybody:
            return MembershipResult.NOT_A_MEMBER
        if configuration.voters == (name,):
            return MembershipResult.LAST_VOTER
        if name == self.member.node_id:
            return MembershipResult.LEADER_ITSELF
        return self._change(configuration.without(name))

    def _promote(self) -> None:
        """A learner that has everything committed becomes a voter."""
        for name in self.member.configuration.learners:
            progress = self.progress[name]
            if progress.state is REPLICATE and progress.match_index >= self.member.commit_index:
                self._change(self.member.configuration.with_voter(name))
                return

    def _change(self, configuration: Configuration) -> MembershipResult:
        member, log = self.member, self.member.log
        if max(log.configuration_index, self.first_index) > member.commit_index or self.is_transferring:
            return MembershipResult.NOT_READY
        log.add(configuration.encode(), log.last_index + 1, self.term, MEMBERSHIP)
        member.configuration_changed()
        return MembershipResult.ACCEPTED

    # -- transfer ------------------------------------------------------------------------------------------------------

    def transfer(self, name: str) -> TransferResult:
        """Let another voter take over as soon as it has the whole log; given up after an election time-out."""
        if name == self.member.node_id:
            return TransferResult.LEADER_ALREADY
        if name not in self.member.configuration.voters:
            return TransferResult.NOT_A_VOTER
        if not self.progress[name].is_connected:
            return TransferResult.NOT_CONNECTED
        if self.is_transferring:
            return TransferResult.IN_PROGRESS
        self.is_transferring = True
        self._was_told_to_stand = False
        self._transfer_to = name
        self._transfer_deadline = self.member.clock + self.member.settings.election_timeout_max_ms
        self._hand_over()
        return TransferResult.STARTED

    def _hand_over(self) -> None:
        progress = self.progress.get(self._transfer_to)
        if progress is None:
            self._give_up_transfer()
        elif progress.match_index == self.member.log.last_index and not self._was_told_to_stand:
            self._was_told_to_stand = True
            self.member.send(self._transfer_to, TimeoutNow(self.member.group_id, self.term))

    def _give_up_transfer(self) -> None:
        self.is_transferring = False
        self.transfers_given_up += 1


def _preference(progress: Progress) -> float:
    """Who is needed stays so while he is not much slower than others."""
    return progress.lag_ms - (_SPARED_MS if progress.is_needed else 0.0)
