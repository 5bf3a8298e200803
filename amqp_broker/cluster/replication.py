"""Replication: all Raft groups of a node, this node's streams of commands to them, and what members say to each other.

    group 0      the metadata (metadata/machine.py); broker.propose puts commands into this node's stream
    groups 1..N  quorum queues (queue_types/quorum/group.py); a queue is in group queue_id % N + 1

It knows no sockets: frames of peers come in through `receive_peer` and go out through `end_turn`.

Invariants:
1. After every input `absorb` has run: what was committed is applied, and whoever waited for it has gone on.
2. A node is ready when a command of its own of this start was applied: it then knows all that was answered before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from amqp_broker.cluster.transfers import Transfers
from amqp_broker.links.acquaintances import Acquaintances
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.tenants import Tenants
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.machine import Batch, MetadataMachine, Projection
from amqp_broker.metadata.stream import MetadataStream, Proposal, Then
from amqp_broker.octets.buffer import Buffer
from amqp_broker.queue_types.quorum.group import QueueGroup
from queues.quorum.session import session_above
from queues.store import MessageStore
from raft.errors import FolderGivenUp
from raft.group import Group
from raft.host import RaftHost
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.timings import Timings
    from amqp_broker.vhosts.broker import Broker

log = logging.getLogger("amqp_broker.cluster")

#: A node that leads nothing asks no more often than this to lead a group, milliseconds.
_ASK_MS = 1000
#: Sessions are times in milliseconds, shifted by this.
_SESSION_BITS = 10


class JournalPort:
    """The node's journal as raft's LogPort."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._journal = store.journal

    @property
    def position(self) -> int:
        """See LogPort."""
        return int(self._journal.position)

    @property
    def current_segment(self) -> int:
        """See LogPort."""
        return int(self._journal.current_segment)

    def open_entry(self, kind: int) -> Buffer:
        """See LogPort."""
        return self._journal.open_entry(kind)

    def close_entry(self) -> int:
        """See LogPort."""
        return int(self._journal.close_entry())

    def touch(self, segment: int, owner: Any) -> None:
        """See LogPort."""
        self._store.touch(segment, owner)


class Chance:
    """Chance for election time-outs, out of the node's own."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes

    def random(self) -> float:
        """0 <= x < 1"""
        return int.from_bytes(self._random_bytes(6), "big") * 2.0**-48


class Replication:
    """See the module's docstring."""

    def __init__(
        self,
        config: Config,
        broker: Broker,
        projection: Projection,
        tenants: Tenants,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._config = config
        self._broker = broker
        self._projection = projection
        self.clock = broker.clock
        self.is_ready = False
        #: Something has happened in this turn that concerns groups or peers. What submits a command sets it.
        self.is_busy = True
        #: When `tick` is due; 0 for never. As of the last turn that was busy.
        self.deadline = 0
        store = self._store = broker.store
        settings = config.raft_settings(config.memory_budget_bytes)
        self.port = JournalPort(store)
        self.host = RaftHost(config.node_name, self.port, settings, Chance(random_bytes), tenants.outbox)
        tenants.register_raft(self.host.receive_peer)
        self._tenants = tenants
        self.transfers = Transfers(self.host, tenants)
        #: Groups that have something to send: another reason for `end_turn`.
        self.dirty = self.host.dirty
        self.acquaintances = Acquaintances(self, random_bytes)
        tenants.register(FrameKind.ACQUAINTANCE, self.acquaintances.on_said)
        self._said = self.acquaintances.output
        self._send_commands = tenants.register(FrameKind.METADATA_COMMANDS, self._on_metadata_commands)
        self._send_applied = tenants.register(FrameKind.METADATA_APPLIED, self._on_metadata_applied)
        self._send_queue_batch = tenants.register(FrameKind.QUEUE_BATCH, self._on_queue_batch)
        #: Up to there the metadata were read as they were, and not applied one command after the other.
        self.read_index = 0
        #: Who hears that a member was removed, and at which index.
        self.on_member_removed: Callable[[str, int], None]
        #: There are quorum queues.
        self.is_active = False
        #: Up to where the journal is on the disk, as this was told.
        self.synced_position = 0
        #: Somebody waits for the disk.
        self.wants_sync = False
        #: Who is told how long things take, if anybody is.
        self.timings: Timings | None = None
        #: The node is about to end: it leads no more.
        self.is_leaving = False
        self._asked_at = -_ASK_MS
        self._frame_came_at = 0.0  # the first that has brought something which is not on the disk
        #: Queue groups that have something to do at the end of the turn, besides those that are `dirty`; those that had
        #: it; those that wait for the disk; and when those are due that have a time.
        self._touched: dict[int, None] = {}
        self._served: dict[int, None] = {}
        self._unsynced: dict[int, None] = {}
        self._deadlines: dict[int, int] = {}
        #: Queue groups that have not applied so much of what was submitted that publishers have to wait.
        self._behind: dict[int, None] = {}
        self._backlog_limit = config.publish_backlog_bytes
        self.metadata_group: Group = None  # type: ignore[assignment]  # `open` sets it
        self.queue_groups: dict[int, QueueGroup] = {}
        #: The node's, for classic queues, and those of the groups.
        self.pagers = [store.pager]
        self.machine = MetadataMachine(broker.metadata, self)
        self.stream: MetadataStream = None  # type: ignore[assignment]  # `open` sets it
        self._connected: dict[str, int] = {}  # linked members, and up to where they have applied the metadata
        self._absent: dict[str, int] = {}  # the other members, and since when
        self._leader: str | None = None
        self._told_applied = 0
        self._is_absorbing = False
        self._has_populated = False

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def own_node(self) -> str:
        """This node's name in its groups."""
        return self.host.node_id

    def members(self) -> tuple[str, ...]:
        """All nodes of the cluster: voters and learners."""
        group = self.metadata_group
        return (*group.members, *group.learners)

    @property
    def is_clustered(self) -> bool:
        """Whether there is another node than this one."""
        return len(self.members()) > 1

    @property
    def is_alone(self) -> bool:
        """Whether this node is all there is to agree: then nothing but its disk is ever waited for."""
        return self.metadata_group.members == (self.own_node,)

    def is_connected(self, node_id: str) -> bool:
        """Whether there is a link to that node."""
        return node_id in self._connected

    def connected(self) -> list[str]:
        """The nodes to which there is a link."""
        return list(self._connected)

    def group_of(self, queue_id: int) -> QueueGroup:
        """The group that a quorum queue is in."""
        return self.queue_groups[queue_id % len(self.queue_groups) + 1]

    def place_queue(self, next_queue_id: int, is_local: bool) -> int:
        """The id, from `next_queue_id` on, that puts a new quorum queue into the group with the fewest; `is_local`:
        of those that this node leads, as what is published here has one hop less then. Where it leads none, it asks to
        lead the group, if that has no queue yet."""
        groups = self.queue_groups
        led = [group_id for group_id, group in groups.items() if group.raft.is_leader] if is_local else []
        chosen = min(led or groups, key=lambda group_id: (len(groups[group_id].queues), group_id))
        is_new = not 0 <= self.clock.now - self._asked_at < _ASK_MS  # a crowd of declarations asks once
        if is_local and not led and not groups[chosen].queues and not self.is_leaving and is_new:
            self._asked_at = self.clock.now
            self.transfers.request(chosen, self.own_node)
        return next_queue_id + (chosen - 1 - next_queue_id) % len(groups)

    # -- start ---------------------------------------------------------------------------------------------------------

    def open(self, now: int) -> None:
        """After the journal was read (`host.feed_recovered`). Raises FolderGivenUp, CorruptLog, StorageError."""
        config = self._config
        if self.host.goes_on_alone:
            self.host.memory.begin_anew()
        if self.host.memory.reason:
            raise FolderGivenUp(self.host.memory.reason)
        names = tuple(member.name for member in config.cluster)
        if not names:
            names = (self._name_of_old(config.node_name),)
            self.host.node_id = names[0]
        self._check_folder()
        bootstrap = () if config.cluster_join else names
        self.host.salvages = config.recover
        for group_id in range(1, config.queue_groups + 1):
            group = QueueGroup(group_id, self, self._broker, config)
            self.queue_groups[group_id] = group
            self.pagers.append(group.pager)
            group.open(self.host.open_group(group_id, group.machine, bootstrap, now), now)
        self.metadata_group = self.host.open_group(0, self.machine, bootstrap, now)
        for line in self.host.losses:
            log.warning("the journal is damaged: %s", line)
        self.read_index = self.metadata_group.last_applied
        # Above every session of earlier runs that the log knows; the time, for those that only others know.
        known = self.machine.last_session(self.own_node, self.metadata_group.member.log.entries)
        self.stream = MetadataStream(self.own_node, self._session_above(known))
        self._absent = {name: now for name in self.members() if name != self.own_node}
        self._broker.store.live_elsewhere = self.host.live_bytes
        self._begin(None)
        if config.cluster_listen or config.others or not self.is_alone or self.host.goes_on_alone:
            self.acquaintances.open(self._broker.timers, now)

    def recorded_members(self) -> Mapping[str, str]:
        """The members by the metadata, as far as this node knows them."""
        return self._broker.metadata.members()

    def recorded_identity(self, name: str) -> str:
        """Of the folder that the metadata have for a member, hexadecimal; "" if they have none."""
        return self._broker.metadata.identity_of(name)

    def _session_above(self, newest: int) -> int:
        return session_above(newest, self.clock.now << _SESSION_BITS, self._broker.random_bytes)

    def _name_of_old(self, name: str) -> str:
        """The name under which the folder was made. A node alone goes on with it when its own has changed, as that of
        the host does in containers: the members of its groups are known by name."""
        known = (self.host.recovered_voters(group_id) for group_id in sorted(self.host.recovered_groups))
        voters = next((voters for voters in known if voters), ())
        if len(voters) == 1 and voters[0] != name:
            old = voters[0]
            log.warning("this folder belongs to node %s, and goes on under that name (node_name is %s)", old, name)
            return old
        return name

    def _check_folder(self) -> None:
        """The folder has to be this node's, with as many groups. Raises StorageError."""
        voters, groups = self.host.recovered_voters(0), self.host.recovered_groups
        if len(voters) == 1 and voters[0] != self.own_node:
            raise StorageError(
                f"this folder belongs to node {voters[0]}, and node_name is {self.own_node}: start it under the name "
                f"that it has, in `cluster` too"
            )
        lacks_some = bool(groups) and max(groups) < self._config.queue_groups
        if groups and max(groups) != self._config.queue_groups and not (lacks_some and self._config.recover):
            raise StorageError(
                f"this folder has {max(groups)} groups for quorum queues, and queue_groups is "
                f"{self._config.queue_groups}: start it with --queue-groups {max(groups)}"
            )

    def _started(self, result: Any) -> None:
        """A command of this start was applied, so the metadata are whole: if they have no virtual host, there never was
        one, and whoever leads makes it."""
        if self._broker.metadata.vhosts():
            self.is_ready = True
            return
        if self.metadata_group.is_leader and not self._has_populated:
            self._has_populated = True
            self._broker.populate().when_done(self._begin)
        else:
            self._begin(None)

    def _begin(self, result: Any) -> None:
        """`_started` hears when everything that was proposed before is applied."""
        self.is_busy = True
        self.stream.propose(commands.node_started(self.own_node), self._started)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def peer_connected(self, name: str, now: int) -> None:
        """A link to a member is there."""
        self.is_busy = True
        self._connected[name] = 0
        self._absent.pop(name, None)
        self._told_applied = 0
        self.host.peer_connected(name, now)
        if name == self._leader:
            self.stream.resend()
        for group in self.queue_groups.values():
            group.peer_connected(name, now)
        self.touch_all(now)
        self.absorb(now)

    def peer_disconnected(self, name: str, now: int) -> None:
        """It is gone."""
        self.is_busy = True
        if self._connected.pop(name, None) is not None:
            self._absent[name] = now
        self.host.peer_disconnected(name, now)
        for group in self.queue_groups.values():
            group.peer_disconnected(name, now)
        self.touch_all(now)
        self.absorb(now)

    def receive_peer(self, name: str, frame: bytes, now: int) -> None:
        """A frame of a member. Raises PeerProtocolError: its link has to go; RaftStopped: the node has to stop."""
        self.is_busy = True
        if self.timings is not None and not self._frame_came_at:
            self._frame_came_at = self.timings.clock()
        self._tenants.receive(name, frame, now)
        self.absorb(now)

    def synced(self, position: int, now: int) -> None:
        """The journal is on the disk up to there."""
        self.synced_position = position
        if self.stream.unapplied:
            self.is_busy = True  # something may have waited for the disk
        if self.acquaintances.wants_sync:
            self.is_busy = True
            self.acquaintances.synced(position, now)
            self.wants_sync = self.acquaintances.wants_sync
        if self._unsynced:
            unsynced, self._unsynced = self._unsynced, {}
            for group_id in unsynced:
                group = self.queue_groups[group_id]
                if group.synced(position):
                    self._unsynced[group_id] = None
        if self._frame_came_at and self.timings is not None:
            if self.host.wants_sync:
                self.timings.since("append", self._frame_came_at)
            self._frame_came_at = 0.0
        if self.host.has_unsynced:
            self.is_busy = True
            self.host.synced(position, now)
            self.wants_sync = self.host.wants_sync or self.acquaintances.wants_sync
            self.absorb(now)

    def tick(self, now: int) -> None:
        """Time has passed."""
        self.is_busy = True
        self.host.tick(now)
        if self._absent and self.metadata_group.is_leader:
            self._look_after_absent(now)
        for group_id, due in self._deadlines.items():
            if due <= now:
                self._touched[group_id] = None
                self.queue_groups[group_id].absorb(now)
        self.absorb(now)

    def _look_after_absent(self, now: int) -> None:
        """Members that are away for too long lose what does not survive their restart."""
        for name, since in self._absent.items():
            if now - since >= self._config.node_down_ms and self._broker.metadata.transients(name):
                log.warning("node %s is away for %d ms: its transient queues are gone", name, now - since)
                self._absent[name] = now
                self.propose(commands.node_gone(name))

    def touch(self, group_id: int) -> None:
        """A queue group has something to do at the end of this turn."""
        self._touched[group_id] = None
        self.is_busy = True

    def served(self, group_id: int) -> None:
        """What a queue group was touched for is done; what touches it from now on has still to be."""
        self._touched.pop(group_id, None)
        self._served[group_id] = None

    def compare(self, now: int) -> None:
        """The node's queues are those of the metadata from now on: groups compare them with their logs."""
        for group in self.queue_groups.values():
            group.compare()
        self.touch_all(now)

    def touch_all(self, now: int) -> None:
        """Links are others, or the queues of the metadata."""
        self._touched = dict.fromkeys(self.queue_groups)
        for group in self.queue_groups.values():
            group.absorb(now)

    def absorb(self, now: int) -> None:
        """What was applied takes effect for clients."""
        if self._is_absorbing:
            return
        self._is_absorbing = True
        if self.dirty:
            for group_id in list(self.dirty):  # whatever happens in a group makes it so
                group = self.queue_groups.get(group_id)
                if group is not None:
                    group.absorb(now)
        applied = self.metadata_group.last_applied
        if applied != self._told_applied and self._connected:
            self._told_applied = applied
            octets = applied.to_bytes(8, "big")
            for name in self._connected:
                self._send_applied(name, octets)
        if self.stream.settling:
            self.stream.settle(min(self._connected.values(), default=applied), now)
        self._is_absorbing = False

    # -- metadata ------------------------------------------------------------------------------------------------------

    def propose(self, command: Command, then: Then | None = None) -> Proposal:
        """Put a command into this node's stream; `then(result)` is called when it is applied. Raises ValueError."""
        commands.check_command(command)
        self.is_busy = True
        return self.stream.propose(command, then)

    def settling(self) -> Proposal | None:
        """For an answer that relies on what was found here: done when the linked members know it too. None: they do."""
        applied = self.metadata_group.last_applied
        if min(self._connected.values(), default=applied) >= applied:
            return None
        self.is_busy = True
        return self.stream.wait_for(applied, self.clock.now)

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        """See Listener."""
        if self.stream is None:
            return
        if origin == self.own_node and session > self.stream.session:
            self.stream.reopen(self._session_above(session))  # of an earlier run, when the clock was ahead
        is_own = origin == self.own_node and session == self.stream.session
        if command["op"] == "member.remove":
            self.acquaintances.member_removed(command["node"], index, self.clock.now)
            self.on_member_removed(command["node"], index)
        elif command["op"] in ("member.add", "member.put"):
            self.acquaintances.member_added(command["node"], index, self.clock.now)
        result = self._projection.applied(command, changed, is_own)
        if is_own:
            self.stream.applied(number, index, result, self.clock.now)

    def replaced(self, index: int) -> None:
        """See Listener."""
        self._projection.replaced()
        if self.stream is None:
            return
        self.read_index = index
        self.acquaintances.members_replaced(dict(self.recorded_members()), index, self.clock.now)
        session = self.machine.session_of(self.own_node)
        if session > self.stream.session:
            self.stream.reopen(self._session_above(session))
        number = self.machine.last_number(self.own_node, self.stream.session)
        if number:
            self.stream.applied(number, index, None, self.clock.now)

    def leads(self, is_leader: bool, leader: str | None) -> None:
        """See Listener."""
        self._leader = leader
        if self.stream is not None:
            self.stream.resend()

    def _on_metadata_commands(self, name: str, payload: bytes, now: int) -> None:
        if self.metadata_group.is_leader:
            try:
                Batch.decode(payload)
            except ValueError as error:
                log.error("metadata commands of %s are refused: %s", name, error)
                return
            self.metadata_group.propose(payload)

    def _on_metadata_applied(self, name: str, payload: bytes, now: int) -> None:
        if name in self._connected:
            self._connected[name] = int.from_bytes(payload, "big")

    # -- quorum queues -------------------------------------------------------------------------------------------------

    def _on_queue_batch(self, name: str, payload: bytes, now: int) -> None:
        group = self.queue_groups.get(int.from_bytes(payload[:4], "big"))
        if group is None:
            log.error("%s speaks of queue group %d, which is not here", name, int.from_bytes(payload[:4], "big"))
            return
        group.receive_batch(name, payload[4:], now)

    # -- output --------------------------------------------------------------------------------------------------------

    def send_batch(self, leader: str, group_id: int, batch: bytes) -> bool:
        """Bring a batch of commands to the leader of a queue group. False if there is no link."""
        return self._send_queue_batch(leader, group_id.to_bytes(4, "big") + batch)

    def begin_end_of_turn(self, now: int) -> None:
        """What this turn has to say to groups is said; before the journal is looked at for its length. For turns that
        are busy."""
        for group_id in self.dirty:
            if group_id in self.queue_groups:
                self._touched[group_id] = None
        while self._touched:  # what one group hears may give another one something to do
            group = self.queue_groups[next(iter(self._touched))]
            group.end_turn(now)
        if self.stream.unapplied:
            self._say_to_metadata(now)

    def _say_to_metadata(self, now: int) -> None:
        for batch in self.stream.take_batches(now, None if self.is_alone else self.synced_position):
            octets = batch.encode()
            if self.metadata_group.is_leader:
                self.metadata_group.propose(octets)
            elif self._leader is not None:
                self._send_commands(self._leader, octets)

    def end_turn(self, now: int) -> list[tuple[str, list[bytes]]]:
        """Everything of this turn is in the journal. Returns frames for each peer. For turns that are busy, or where a
        group is `dirty`."""
        self.is_busy = bool(self._touched)
        served, self._served = self._served, {}
        served.update(dict.fromkeys(self.dirty))
        self.host.end_turn(now)
        stream_waits = not self.is_alone and self.stream.waits_for_disk(self.synced_position)
        self.wants_sync = self.host.wants_sync or self.acquaintances.wants_sync or stream_waits
        position = self._store.journal.position
        for group_id in served:
            group = self.queue_groups.get(group_id)
            if group is not None:
                if group.written(position):
                    self._unsynced[group_id] = None
                due = group.next_deadline()
                if due:
                    self._deadlines[group_id] = due
                elif self._deadlines:
                    self._deadlines.pop(group_id, None)
                if group.backlog_bytes() > self._backlog_limit:
                    self._behind[group_id] = None
                elif self._behind:
                    self._behind.pop(group_id, None)
        self.deadline = self._next_deadline()
        output: list[tuple[str, list[bytes]]] = self._tenants.outbox.take()
        return self.acquaintances.take_output() + output if self._said else output

    def take_output(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each peer that have waited for the disk, and what else may leave before the turn ends."""
        if self._said:
            return []  # that goes first
        output: list[tuple[str, list[bytes]]] = self._tenants.outbox.take()
        return output

    @property
    def is_behind(self) -> bool:
        """Whether publishers have to wait: a group has not applied publish_backlog of what was submitted."""
        return bool(self._behind)

    def _next_deadline(self) -> int:
        deadline = self.host.next_deadline() or 0
        if self.stream.unapplied or self.stream.settling:
            due = self.stream.next_deadline() or 0
            if due and (not deadline or due < deadline):
                deadline = due
        if self._deadlines:
            for due in self._deadlines.values():
                if not deadline or due < deadline:
                    deadline = due
        return deadline
