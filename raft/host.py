"""RaftHost: all groups of a node: one outbox, one heartbeat per peer, one clock.

    inputs   receive_peer, synced, tick, peer_connected, peer_disconnected, and what Groups are told
    end_turn decides what goes out, and puts it into the outbox, which others may use too

It knows no sockets and no files. Time comes in with every call, in ms; what drives elections is how much of it has
passed, and a jump counts for two heartbeats at most, so that neither a clock that is set nor a process that was
stopped makes a leader look dead.

Invariants:
1. The outbox: a message other than an Append or an install's chunk goes out when the journal is
   synced up to where its group had written when it was made.
2. After RaftStopped nothing goes out, and everything raises it again.
3. A member of a group is heard from the one process of it that has the group (routes.py), and from no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from raft.checkpointing import Slices
from raft.configuration import encode_name, make_configuration
from raft.entry import MEMBERSHIP
from raft.errors import RaftStopped
from raft.following import Following
from raft.group import Group
from raft.journal_records import FIRST_RAFT_KIND, MEMORY_KINDS, group_of
from raft.leadership import Leadership
from raft.log import GroupLog
from raft.machine import LogPort, Machine, Placer
from raft.member import Member, RandomSource
from raft.memory import Memory
from raft.messages import (
    Append,
    AppendReply,
    Beat,
    BeatReply,
    CommitNotice,
    GroupMessage,
    Heartbeat,
    HeartbeatReply,
    InstallChunk,
    Message,
    TimeoutNow,
)
from raft.outbox import Outbox
from raft.progress import LAG_WEIGHT
from raft.recovery import RecoveredGroup
from raft.routes import Routes
from raft.settings import NEVER, RaftSettings
from raft.wire import decode, encode
from storage.errors import StorageError

#: Of a heartbeat's time: who hears a beat within so much of its own next one beats along; who beats along waits so much
#: longer for the next time, so that it is always the same member whose clock wakes the others.
_ALONG = 2
_PATIENCE = 8
#: While the disk stalls, so many messages wait for it; answers to heartbeats beyond that are not given at all.
MAX_HELD = 10_000
#: What is left, after a turn without it, of how long the own disk is known to take.
_FADED = 0.995


class RaftHost:
    """See the module's docstring. `random` is a random.Random of the driver's. outbox: where what goes out is put."""

    def __init__(
        self, node_id: str, port: LogPort, settings: RaftSettings, random: RandomSource, outbox: Outbox
    ) -> None:
        encode_name(node_id)
        self.node_id = node_id
        self.settings = settings
        self.groups: dict[int, Group] = {}
        self.memory = Memory()
        self.failure: RaftStopped | None = None
        #: Set before groups are opened: a group of this node alone whose log is damaged goes on with what is left.
        self.salvages = False
        #: Set before groups are opened: this node alone is all of every group, whoever else was, and what its log has
        #: counts as decided.
        self.goes_on_alone = False
        #: What groups have lost so, a line each.
        self.losses: list[str] = []
        self._port = port
        self._random_source = random
        self._recovered: dict[int, RecoveredGroup] = {}
        self._connected: dict[str, None] = {}  # processes
        self._routes: Routes | None = None
        self._slices: Slices | None = None
        self._is_routed = False
        #: Groups that `end_turn` has something to do for.
        self.dirty: dict[int, Group] = {}
        self.outbox = outbox
        self._held: deque[tuple[int, str, bytes]] = deque()  # (position, peer, frame)
        self._synced_position = 0
        self._written_position = 0
        self._wanted_position = 0
        self._disk_asked_at = 0
        self._disk_lag_ms = 0.0  # of the own disk, as Progress.lag_ms is of others'
        self._has_time = False
        self._now = 0
        self._clock = 0
        self._heartbeat_at = 0
        self._election_at = NEVER
        self._rests = False  # no heartbeat is due
        self._notice_at = NEVER
        self._disk_due_at = NEVER
        # One append goes to several members.
        self._encoded_append: Append | None = None
        self._encoded = b""

    @property
    def election_timeout_max_ms(self) -> int:
        """Within this time a group that nobody leads holds an election."""
        return self.settings.election_timeout_max_ms

    def rename(self, node_id: str) -> None:
        """Before groups are opened: what is on the disk is that of a node of this name."""
        encode_name(node_id)
        self.node_id = node_id

    def route_with(self, routes: Routes) -> None:
        """Before groups are opened: how members are reached."""
        self._routes = routes
        self.reroute()

    def reroute(self) -> None:
        """Members are reached in another way than before, maybe."""
        self._is_routed = self._routes is not None and self._routes.is_needed
        if not self._is_routed:
            return
        for group in self.groups.values():
            role = group.member.role
            if not isinstance(role, Leadership):
                continue
            for name, progress in role.progress.items():
                is_connected = self._process_of(group.group_id, name) in self._connected
                if is_connected != progress.is_connected:
                    role.connected(name, is_connected)
                    self.dirty[group.group_id] = group

    def _process_of(self, group_id: int, member: str) -> str:
        """Where a member is reached for a group."""
        if not self._is_routed or self._routes is None:
            return member
        return self._routes.process_of(group_id, member)

    def member_at(self, group_id: int, process: str) -> str:
        """See `_member_at`."""
        return self._member_at(group_id, process)

    def _member_at(self, group_id: int, process: str) -> str:
        """Whose member of a group speaks from a process; "" for nobody's."""
        if not self._is_routed or self._routes is None:
            return process
        member = self._routes.member_of(process)
        return member if self._routes.process_of(group_id, member) == process else ""

    def _is_here(self, group_id: int) -> bool:
        """Whether this process has a group."""
        return not self._is_routed or self._routes is None or self._routes.is_here(group_id)

    def _reaches(self, group_id: int, member: str) -> bool:
        return self._process_of(group_id, member) in self._connected

    def work_in_slices(self, slices: Slices) -> None:
        """Before groups are opened: what costs by how much there is in a group is done so from now on."""
        self._slices = slices

    def _work(self, group: Group, step: Callable[[int], bool]) -> None:
        """Slices of a group. What they have written has to reach the disk."""
        assert self._slices is not None

        def work(now: int) -> bool:
            try:
                goes_on = step(now)
            except RaftStopped as error:
                self._fail(error)
                raise
            if not goes_on:
                self.dirty[group.group_id] = group
            return goes_on

        self._slices(work)

    def prepare_to_leave(self, segment: int) -> bool:
        """Journal segments up to this one are to be retired. Returns whether all groups can leave them at once; if not,
        they see to it, and the journal has more to write then."""
        is_prepared = True
        for group in self.groups.values():
            is_prepared = group.member.prepare_to_leave(segment) and is_prepared
        return is_prepared

    def salvage_damaged(self) -> None:
        """See `salvages`."""
        self.salvages = True

    def go_on_alone(self) -> None:
        """See `goes_on_alone`."""
        self.goes_on_alone = True

    # -- recovery and opening ------------------------------------------------------------------------------------------

    def feed_recovered(self, segment: int, kind: int, payload: bytes) -> None:
        """One journal entry of a raft kind, in order, while the journal is read. Raises CorruptLog, StorageError."""
        if kind < FIRST_RAFT_KIND:
            raise ValueError(f"a journal entry of kind {kind} is not for groups: theirs begin at {FIRST_RAFT_KIND}")
        if kind in MEMORY_KINDS:
            try:
                self.memory.take(kind, payload)
            except ValueError as error:
                raise StorageError(
                    f"journal segment {segment}: what this node remembers cannot be read: {error}; restore the folder "
                    f"from a copy, or have the node rejoin its cluster with a new one (amqp-broker cluster rejoin)"
                ) from None
            return
        group_id = group_of(payload)
        recovered = self._recovered.get(group_id)
        if recovered is None:
            self._recovered[group_id] = recovered = RecoveredGroup(group_id)
        recovered.take(segment, kind, payload)

    @property
    def recovered_groups(self) -> tuple[int, ...]:
        """Groups of which the journal holds something. Each must be opened before a journal segment is retired."""
        return tuple(self._recovered)

    def recovered_voters(self, group_id: int) -> tuple[str, ...]:
        """The voters of a group as the journal has them, before it is opened; none if it has nothing of the group."""
        recovered = self._recovered.get(group_id)
        return recovered.configuration.voters if recovered is not None else ()

    def has_recovered(self, group_id: int) -> bool:
        """Whether the journal has more of a group than the torn beginning of its first record."""
        recovered = self._recovered.get(group_id)
        return recovered is not None and not recovered.is_nothing

    def open_group(
        self, group_id: int, machine: Machine, members: Sequence[str], now: int, placer: Placer | None = None
    ) -> Group:
        """Take part in a group. `members` counts only if nothing was recovered; it is the same on every one of them,
        and empty on a node that is going to be added to the group. placer: what puts parts of the machine's entries
        elsewhere. Raises CorruptLog, CorruptRecord, RaftStopped."""
        if group_id in self.groups:
            raise ValueError(f"group {group_id} is open already")
        self._advance(now)
        group = Group(group_id, self.dirty)
        log = GroupLog(group_id, self._port, group, placer)
        recovered = self._recovered.pop(group_id, None)
        lost = self._salvage(recovered, members, machine, placer) if recovered is not None and self.salvages else []
        if recovered is None or recovered.is_nothing or (lost and recovered.checkpoint is None):
            log.begin(make_configuration(list(members)), machine.checkpoint())
            if recovered is not None and recovered.term:
                log.set_state(recovered.term, None)
        else:
            log.adopt(recovered)
            if placer is not None:
                unreadable = placer.take_losses()
                self.losses += unreadable
                lost += unreadable
            assert recovered.checkpoint is not None
            machine.restore(recovered.checkpoint.chunks)
            if lost:
                log.write_again(recovered.checkpoint.chunks)
            if self.goes_on_alone and members:
                log.set_state(log.current_term + 1, self.node_id)
                alone = make_configuration([self.node_id])
                log.add(alone.encode(), log.last_index + 1, log.current_term, MEMBERSHIP)
        group.member = member = Member(
            self.node_id, log, machine, self.settings, self._random_source, self._post,
            partial(self._reaches, group_id),
        )  # fmt: skip
        member.clock = self._clock
        member.now = now
        if self._slices is not None:
            member.slices = partial(self._work, group)
        self.groups[group_id] = group
        if member.configuration.voters == (self.node_id,):
            member.campaign(is_pre=False)
        else:
            member.restart_timeout()
        self._settle(group)
        return group

    def _salvage(
        self, recovered: RecoveredGroup, members: Sequence[str], machine: Machine, placer: Placer | None
    ) -> list[str]:
        """What is lost of a group; none if its log is whole, or if others know better."""
        voters = recovered.configuration.voters or tuple(members)
        if voters != (self.node_id,) or tuple(members) != (self.node_id,):
            return []
        if placer is not None:
            placer.salvage()
        lost = recovered.salvage(make_configuration(voters), machine.checkpoint()) if recovered.is_damaged else []
        self.losses += lost
        return lost

    # -- inputs --------------------------------------------------------------------------------------------------------

    def peer_connected(self, node_id: str, now: int) -> None:
        """An authenticated link to a process of a peer is there."""
        self._advance(now)
        self._connected[node_id] = None
        self._connection_changed(node_id, True)

    def peer_disconnected(self, node_id: str, now: int) -> None:
        """The link is gone, with everything on it."""
        self._advance(now)
        self._connected.pop(node_id, None)
        self.outbox.drop(node_id)
        self._held = deque(each for each in self._held if each[1] != node_id)
        self._connection_changed(node_id, False)

    def _connection_changed(self, node_id: str, is_connected: bool) -> None:
        for group in self.groups.values():
            role = group.member.role
            if isinstance(role, Leadership):
                role.connected(self._member_at(group.group_id, node_id), is_connected)
                self.dirty[group.group_id] = group

    def receive_peer(self, node_id: str, frame: bytes, now: int) -> None:
        """A frame (a bytes object) from a peer. Raises PeerProtocolError: close the link. Raises RaftStopped: stop the
        node."""
        self._advance(now)
        if node_id not in self._connected:
            return
        message = decode(frame)
        try:
            self._dispatch(node_id, message)
        except RaftStopped as error:
            self._fail(error)
            raise

    def _dispatch(self, node_id: str, message: Message) -> None:
        if isinstance(message, (Append, AppendReply)):  # the most by far
            self._receive(node_id, message)
        elif isinstance(message, Heartbeat):
            self._on_beats(node_id, message.beats, wants_reply=True)
        elif isinstance(message, CommitNotice):
            self._on_beats(node_id, message.beats, wants_reply=False)
        elif isinstance(message, HeartbeatReply):
            self._on_beat_replies(node_id, message.replies)
        else:
            self._receive(node_id, message)

    def _receive(self, node_id: str, message: GroupMessage) -> None:
        group = self.groups.get(message.group)
        if self._is_routed:
            node_id = self._member_at(message.group, node_id) if self._is_here(message.group) else ""
        if group is not None and node_id:
            self._enter(group)
            group.member.receive(node_id, message)
            self._settle(group)

    def _on_beats(self, node_id: str, beats: list[Beat], wants_reply: bool) -> None:
        replies: list[BeatReply] = []
        position = 0
        for group_id, term, commit_index, sent_index in beats:
            group = self.groups.get(group_id)
            name = self._member_at(group_id, node_id)
            if group is None or not name or not self._is_here(group_id):
                continue
            member = group.member
            member.clock = self._clock
            member.now = self._now
            before = (member.commit_index, member.role, member.role.leader)
            match_index = member.on_beat(name, term, commit_index)
            if before != (member.commit_index, member.role, member.role.leader):
                self._settle(group)
            if wants_reply:
                replies.append((group_id, member.current_term, sent_index, match_index))
                position = max(position, member.log.position)
        if replies and (len(self._held) < MAX_HELD or position <= self._synced_position):
            self._hold(node_id, encode(HeartbeatReply(replies)), position)
        if wants_reply and self._heartbeat_at - self._clock <= self.settings.heartbeat_ms // _ALONG:
            # Awake anyway: members that beat together wake each other half as often.
            self._heartbeat_at = self._clock + self.settings.heartbeat_ms + self.settings.heartbeat_ms // _PATIENCE
            self._beat()

    def _on_beat_replies(self, node_id: str, replies: list[BeatReply]) -> None:
        for group_id, term, sent_index, match_index in replies:
            group = self.groups.get(group_id)
            name = self._member_at(group_id, node_id)
            if group is not None and name and self._is_here(group_id):
                self._enter(group)
                if group.member.on_beat_reply(name, term, sent_index, match_index):
                    self._settle(group)

    def synced(self, position: int, now: int) -> None:
        """The journal is on the disk up to `position`. Raises RaftStopped."""
        self._advance(now)
        if self._synced_position < self._wanted_position <= position:
            self._disk_lag_ms += (self._clock - self._disk_asked_at - self._disk_lag_ms) * LAG_WEIGHT
        self._synced_position = max(self._synced_position, position)
        if position >= self._written_position:
            self._disk_due_at = NEVER
        try:
            for group in self.groups.values():
                log = group.member.log
                if log.position > log.synced_position:
                    self._enter(group)
                    if group.member.synced(position):
                        self._settle(group)
        except RaftStopped as error:
            self._fail(error)
            raise
        held = self._held
        while held and held[0][0] <= position:
            _, peer, frame = held.popleft()
            self._put(peer, frame)

    def tick(self, now: int) -> None:
        """Time has passed. Raises RaftStopped."""
        self._advance(now)
        try:
            if self._clock >= self._election_at:
                self._hold_elections()
            if self._clock >= self._heartbeat_at:
                self._heartbeat_at = self._clock + self.settings.heartbeat_ms
                self._beat()
                self._rest_if_idle()
            if self._clock >= self._notice_at:
                self._find_notices()
            if self._clock >= self._disk_due_at:
                self._find_overdue()
        except RaftStopped as error:
            self._fail(error)
            raise

    def _hold_elections(self) -> None:
        self._election_at = NEVER
        for group in self.groups.values():
            member = group.member
            if self._clock >= member.deadline:
                self._enter(group)
                member.doTick()
                self._settle(group)
            self._election_at = min(self._election_at, member.deadline)

    def _rest_if_idle(self) -> None:
        """Nobody is to be told that this node is there, and no election is due: no time has to pass until something
        happens in a group. A node alone, and one without votes, is at rest then."""
        if self._election_at != NEVER:
            return
        for group in self.groups.values():
            role = group.member.role
            if isinstance(role, Leadership) and role.progress:
                return
        self._rests = True
        self._heartbeat_at = NEVER

    def _find_notices(self) -> None:
        """Groups with members that are to hear of a commit now: `end_turn` tells them."""
        self._notice_at = NEVER
        for group in self.groups.values():
            role = group.member.role
            if not isinstance(role, Leadership):
                continue
            if self._clock >= role.notice_at:
                self.dirty[group.group_id] = group
            else:
                self._notice_at = min(self._notice_at, role.notice_at)

    def _find_overdue(self) -> None:
        """Groups whose followers take long: this node's disk is needed after all."""
        self._disk_due_at = NEVER
        for group in self.groups.values():
            role = group.member.role
            if not isinstance(role, Leadership):
                continue
            if not group.member.log.has_unsynced:
                role.disk_due_at = NEVER
            elif self._clock >= role.disk_due_at:
                self._enter(group)
                role.wait_is_over()
                self.dirty[group.group_id] = group
            else:
                self._disk_due_at = min(self._disk_due_at, role.disk_due_at)

    def _beat(self) -> None:
        """One frame for each peer, with the beats of all groups that this node leads."""
        beats: dict[str, list[Beat]] = {}
        for group_id, group in self.groups.items():
            member = group.member
            member.trim()
            role = member.role
            if not isinstance(role, Leadership):
                continue
            member.clock = self._clock
            member.now = self._now
            given_up = role.transfers_given_up
            role.check()
            if member.role is not role:
                self._settle(group)
                continue
            if role.transfers_given_up != given_up:
                self._settle(group)
            term, commit_index = role.term, member.commit_index
            for name, progress in role.progress.items():
                if progress.is_connected:
                    progress.told_commit_index = commit_index
                    process = self._process_of(group_id, name)
                    beats.setdefault(process, []).append((group_id, term, commit_index, progress.sent_index))
        for name, each in beats.items():
            self._put(name, encode(Heartbeat(each)))

    # -- output --------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> None:
        """Everything of this turn that can go out goes to the output. Raises RaftStopped."""
        self._advance(now)
        dirty = self.dirty
        notices: dict[str, list[Beat]] = {}
        try:
            while dirty:
                group_id = next(iter(dirty))
                group = dirty.pop(group_id)
                self._end_group_turn(group, notices)
        except RaftStopped as error:
            self._fail(error)
            raise
        if notices:
            for name, beats in notices.items():
                self._put(name, encode(CommitNotice(beats)))
        self._encoded_append, self._encoded = None, b""

    def _end_group_turn(self, group: Group, notices: dict[str, list[Beat]]) -> None:
        member = group.member
        log = member.log
        member.clock = self._clock
        if log.appended_bytes > member.log_bytes:
            member._SyncObj__tryLogCompaction()
        role = member.role
        if isinstance(role, Leadership):
            leading = role
            for name in leading.end_turn(self._disk_lag_ms):
                beat = (group.group_id, leading.term, member.commit_index, leading.progress[name].sent_index)
                notices.setdefault(self._process_of(group.group_id, name), []).append(beat)
            if leading.notice_at < self._notice_at:
                self._notice_at = leading.notice_at
            position = log.position
            if position > self._written_position:
                self._written_position = position
            if position > self._synced_position:
                if leading.needs_own_disk(self._disk_lag_ms):
                    self._ask_disk(position)
                else:
                    self._disk_lag_ms *= _FADED  # what is not measured is forgotten
                    self._disk_due_at = min(self._disk_due_at, leading.disk_due_at)
            return
        if isinstance(role, Following):
            following = role
            following.end_turn()
        position = log.position
        if position > self._written_position:
            self._written_position = position
        if position > self._synced_position:
            self._ask_disk(position)

    def _ask_disk(self, position: int) -> None:
        """Somebody waits for the own disk."""
        if self._wanted_position <= self._synced_position:
            self._disk_asked_at = self._clock
        self._wanted_position = max(self._wanted_position, position)

    def next_deadline(self) -> int | None:
        """When `tick` is due, in the time that `now` counts; None without groups."""
        if not self.groups or not self._has_time:
            return None
        due = self.due_at()
        return due if due < NEVER else None

    def due_at(self) -> int:
        """The same of a host with groups."""
        next_at = self._heartbeat_at
        if self._election_at < next_at:
            next_at = self._election_at
        if self._notice_at < next_at:
            next_at = self._notice_at
        if self._disk_due_at < next_at:
            next_at = self._disk_due_at
        return self._now + (next_at - self._clock if next_at > self._clock else 0)

    def live_bytes(self) -> int:
        """What the journal has to hold of all groups, octets, about: their last checkpoints, and what follows them."""
        return sum(group.member.log.live_bytes for group in self.groups.values())

    @property
    def wants_sync(self) -> bool:
        """Whether somebody waits until what was written is on the disk."""
        return self._wanted_position > self._synced_position

    @property
    def has_unsynced(self) -> bool:
        """Whether something that was written is not on the disk."""
        return self._written_position > self._synced_position

    @property
    def promised_position(self) -> int:
        """Up to here the disk has what groups have written: all that peers were told is below."""
        return min(self._written_position, self._synced_position)

    # -- inner workings ------------------------------------------------------------------------------------------------

    def _fail(self, error: RaftStopped) -> None:
        self.failure = error
        self.outbox.stop()

    def _advance(self, now: int) -> None:
        """Let time pass, as far as it is believed."""
        if self.failure is not None:
            raise self.failure
        if now == self._now and self._has_time:
            return
        if self._has_time and now > self._now:
            self._clock += min(now - self._now, 2 * self.settings.heartbeat_ms)
        self._has_time = True
        self._now = now

    def _enter(self, group: Group) -> None:
        group.member.clock = self._clock
        group.member.now = self._now

    def _settle(self, group: Group) -> None:
        """Something has happened in a group."""
        group.settle()
        deadline = group.member.deadline
        if deadline < self._election_at:
            self._election_at = deadline
        if self._rests:
            self._rests = False
            self._heartbeat_at = self._clock + self.settings.heartbeat_ms
        self.dirty[group.group_id] = group

    def _post(self, peer: str, message: GroupMessage) -> None:
        """A member's message to another one."""
        peer = self._process_of(message.group, peer)
        if isinstance(message, Append):
            if self._encoded_append is not message:
                self._encoded_append, self._encoded = message, encode(message)
            self._put(peer, self._encoded)
        elif isinstance(message, (InstallChunk, TimeoutNow)):  # whoever is to stand relies on nothing of ours
            self._put(peer, encode(message))
        else:
            group: Group = self.groups[message.group]
            self._hold(peer, encode(message), group.member.log.position)

    def _hold(self, peer: str, frame: bytes, position: int) -> None:
        """Put it into the output once the journal is synced up to `position`."""
        if position <= self._synced_position and not self._held:
            self._put(peer, frame)
        elif peer in self._connected:
            if self._held:
                position = max(position, self._held[-1][0])
            self._ask_disk(position)
            self._held.append((position, peer, frame))

    def _put(self, peer: str, frame: bytes) -> None:
        if peer in self._connected:
            self.outbox.put(peer, frame)
