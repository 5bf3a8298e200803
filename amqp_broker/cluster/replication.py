"""Replication: the metadata as all nodes have them, this node's stream of commands for them, and all inputs of Raft.

    group 0      the metadata (metadata/machine.py); `propose` puts commands into this node's stream
    groups 1..N  quorum queues (queue_types/groups/groups.py), which hear of the same inputs

A worker k of a node has no group 0: it follows what worker 0 applies (metadata/feed.py), and is a guest of the groups
that another worker has (group_places.py).

It knows no sockets: frames of peers come in through `receive_peer` and go out through `end_turn`.

Invariants:
1. After every input `absorb` has run: what was committed is applied, and whoever waited for it has gone on.
2. A node is ready when a command of its own of this start was applied: it then knows all that was answered before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from amqp_broker.cluster.transient_queues import TransientQueues
from amqp_broker.links.acquaintances import Acquaintances
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import WORKERS
from amqp_broker.links.tenants import Tenants
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.feed import FeedFollower, FeedSource, FollowedGroup
from amqp_broker.metadata.machine import Batch, MetadataMachine, Projection
from amqp_broker.metadata.stream import MetadataStream, Proposal, Then
from amqp_broker.settings.workers import are_beside, node_of_worker, worker_name, worker_number
from queues.quorum.session import session_above
from queues.store import MessageStore
from raft.errors import FolderGivenUp
from raft.group import Group
from raft.host import RaftHost
from raft.outbox import Outbox
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.turn.task import Task
    from amqp_broker.turn.timings import Timings
    from queues.timers import Timers
    from raft.machine import LogPort

log = logging.getLogger("amqp_broker.cluster")

#: Sessions are times in milliseconds, shifted by this.
_SESSION_BITS = 10
#: A worker k waits so long for links with all others before it serves, milliseconds; and looks so often.
LINKING_MS = 2000
_LOOK_MS = 20


class QueueGroups(Protocol):
    """The groups of quorum queues: they hear of every input."""

    def open(self, members: tuple[str, ...], now: int) -> None:
        """After the journal was read. members: see RaftHost.open_group."""

    @property
    def has_groups(self) -> bool:
        """Whether this process has the log of one."""

    def is_here(self, group_id: int) -> bool:
        """Whether this process has the log of a group."""

    def processes(self, members: Mapping[int, Iterable[str]]) -> Iterable[str]:
        """Those that have groups at these members of them."""

    def peer_connected(self, name: str, now: int) -> None:
        """A link to a member is there."""

    def peer_disconnected(self, name: str, now: int) -> None:
        """It is gone."""

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""

    def tick(self, now: int) -> None:
        """Time has passed."""

    def absorb(self, now: int) -> None:
        """What was applied takes effect for clients."""

    def work(self, now: int) -> None:
        """What this turn has to say to groups is said."""

    def record_change(self) -> None:
        """Raft ends its turn after this, and does not know any more then in which groups something has happened."""

    def end_turn(self, position: int) -> None:
        """Everything of this turn is in the journal, which ends there."""

    def next_deadline(self) -> int:
        """When `tick` has something to do; 0 for never."""


class Replication:
    """See the module's docstring. take_level: hears the level that the metadata are at, before anything of it is
    written. waits_for_level: this is a worker k, and there are members of a version that knows no workers."""

    def __init__(
        self,
        config: Config,
        host: RaftHost,
        port: LogPort,
        groups: QueueGroups,
        tenants: Tenants,
        outbox: Outbox,
        store: MessageStore,
        metadata: Metadata,
        projection: Projection,
        populate: Callable[[], Task],
        timers: Timers,
        clock: TurnClock,
        random_bytes: Callable[[int], bytes],
        take_level: Callable[[int], None],
    ) -> None:
        self._config = config
        self.host = host
        self.port = port
        self._groups = groups
        self._tenants = tenants
        self._outbox = outbox
        self._memory = host.memory
        self._raft_groups = host.groups
        self._store = store
        self._journal = store.journal
        self._metadata = metadata
        self._projection = projection
        self._populate = populate
        self._timers = timers
        self.clock = clock
        self._random_bytes = random_bytes
        self._take_level = take_level
        self.is_ready = self.waits_for_level = False
        #: Something has happened in this turn that concerns groups or peers. What submits a command sets it.
        self.is_busy = True
        #: When `tick` is due; 0 for never. As of the last turn that was busy.
        self.deadline = 0
        #: Groups that have something to send: another reason for `end_turn`.
        self.dirty = self.host.dirty
        self.acquaintances = Acquaintances(self, host, self.touch, random_bytes)
        tenants.register(FrameKind.ACQUAINTANCE, self.acquaintances.on_said)
        self._said = self.acquaintances.output
        self._send_commands = tenants.register(FrameKind.METADATA_COMMANDS, self._on_metadata_commands)
        self._send_applied = tenants.register(FrameKind.METADATA_APPLIED, self._on_metadata_applied)
        #: Up to there the metadata were read as they were, and not applied one command after the other.
        self.read_index = 0
        self._removal_watchers: list[Callable[[str, int], None]] = []
        #: Up to where the journal is on the disk, as this was told.
        self.synced_position = 0
        #: Somebody waits for the disk.
        self.wants_sync = False
        #: Who is told how long things take, if anybody is.
        self.timings: Timings | None = None
        self._frame_came_at = 0.0  # the first that has brought something which is not on the disk
        self._metadata_group: Group | None = None
        self.machine = MetadataMachine(metadata, self)
        self.stream = MetadataStream(config.node_name)
        self._transient_queues = TransientQueues(metadata, self.propose)
        self._follower: FeedFollower | None = None
        self._source: FeedSource | None = None
        self._share(config)
        self._connected: dict[str, int] = {}  # linked members, and up to where they have applied the metadata
        self._workers: dict[str, None] = {}
        self._absent: dict[str, int] = {}  # the other members, and since when
        self._looked_after: dict[str, int] = {}  # those of them whose queues were given up, and when the last time
        self._leader: str | None = None
        self._told_members = self._told_workers = self._linking_since = 0
        self._is_absorbing = self._has_populated = False

    def _share(self, config: Config) -> None:
        """One of several workers follows worker 0, or is that."""
        register = self._tenants.register
        if config.worker:
            followed = FollowedGroup(node_of_worker(config.node_name))
            self._metadata_group = cast("Group", followed)
            self._follower = follower = FeedFollower(self.machine, followed)
            follower.send_with(register(FrameKind.METADATA_FEED, follower.receive))
        elif config.has_workers:
            self._source = source = FeedSource(self.machine, lambda: self.last_applied)
            self.machine.feed(source)
            source.send_with(register(FrameKind.METADATA_FEED, source.receive))

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def own_node(self) -> str:
        """The name of this process: the node's, as it has that in its groups, and which of the workers it is."""
        return worker_name(self.host.node_id, self._config.worker)

    def spoken_by(self, node: str) -> int:
        """The newest level that a node speaks: this one, or one that is linked; else the first."""
        acquaintances = self.acquaintances
        return acquaintances.own_level if node == self.own_node else acquaintances.level_of(node)

    @property
    def metadata_group(self) -> Group:
        """Raft's group of the metadata, from `open` on."""
        assert self._metadata_group is not None
        return self._metadata_group

    def members(self) -> tuple[str, ...]:
        """All nodes of the cluster: voters and learners."""
        group = self.metadata_group
        return (*group.members, *group.learners)

    @property
    def level(self) -> int:
        """The level of the cluster (links/levels.py), as far as this node knows."""
        return self._metadata.level

    @property
    def is_clustered(self) -> bool:
        """Whether there is another node than this one."""
        return len(self.members()) > 1

    @property
    def is_alone(self) -> bool:
        """Whether this node is all there is to agree: then nothing but its disk is ever waited for."""
        return self.metadata_group.members == (self.own_node,)

    def linked_members(self) -> list[str]:
        """The nodes to which there is a link, workers left out."""
        return [name for name in self._connected if name == node_of_worker(name)]

    @property
    def has_workers(self) -> bool:
        """Whether this process is one of several of its node, which know the same metadata."""
        return self._config.has_workers

    def workers(self) -> list[str]:
        """The other workers of this node to which there was a link."""
        return list(self._workers)

    def groups(self) -> list[Group]:
        """All of Raft's groups that this node is in."""
        return list(self._raft_groups.values())

    @property
    def session(self) -> int:
        """Of this node's stream of commands to the metadata."""
        return self.stream.session

    @property
    def last_applied(self) -> int:
        """Up to where the metadata are applied."""
        return self.metadata_group.last_applied

    @property
    def identity(self) -> bytes:
        """By which the others tell this node from one of its name that began anew."""
        return self._memory.identity

    def is_connected(self, node_id: str) -> bool:
        """Whether there is a link to that node."""
        return node_id in self._connected

    def connected(self) -> list[str]:
        """The nodes to which there is a link."""
        return list(self._connected)

    # -- start ---------------------------------------------------------------------------------------------------------

    def open(self, now: int) -> None:
        """After the journal was read (`host.feed_recovered`). Raises FolderGivenUp, CorruptLog, StorageError."""
        config = self._config
        if self.host.goes_on_alone:
            self._memory.begin_anew()
        if self._memory.reason:
            raise FolderGivenUp(self._memory.reason)
        names = tuple(member.name for member in config.cluster)
        if not names:
            own = node_of_worker(config.node_name)
            names = (own if config.worker else self._name_of_old(own),)
            self.host.rename(names[0])
        self._check_folder()
        bootstrap = () if config.cluster_join else names
        if config.recover:
            self.host.salvage_damaged()
        self._groups.open(bootstrap, now)
        if self._follower is not None:
            self._leader = self.metadata_group.leader
        else:
            self._metadata_group = self.host.open_group(0, self.machine, bootstrap, now)
        group = self.metadata_group
        for line in self.host.losses:
            log.warning("the journal is damaged: %s", line)
        self.read_index = group.last_applied
        self.host.reroute()
        self._take_level(self.level)
        # Above every session of earlier runs that the log knows; the time, for those that only others know.
        known = self.machine.last_session(self.own_node, group.entries)
        self.stream.open(self.own_node, self._session_above(known))
        self._absent = {name: now for name in self.members() if name != self.own_node}
        self._expect_workers(now)
        self._store.count_elsewhere(self.host.live_bytes)
        self._begin(None)
        if config.worker and not self._groups.has_groups:
            return  # it has promised nobody anything
        if config.cluster_listen or config.others or not self.is_alone or self.host.goes_on_alone:
            self.acquaintances.open(self._timers, now)

    def to_be_heard(self) -> Iterable[str]:
        """The processes that may know what this one has promised: those with which it has groups."""
        known = {each.group_id: (*each.members, *each.learners) for each in self._raft_groups.values()}
        return self._groups.processes(known)

    def recorded_members(self) -> Mapping[str, str]:
        """The members by the metadata, as far as this node knows them."""
        return self._metadata.members()

    def recorded_racks(self) -> Mapping[str, str]:
        """In which racks members are by the metadata; "" of one that has said that it is in none."""
        return self._metadata.member_racks()

    def recorded_identity(self, name: str) -> str:
        """Of the folder that the metadata have for a member, hexadecimal; "" if they have none."""
        return self._metadata.identity_of(name)

    def _session_above(self, newest: int) -> int:
        return session_above(newest, self.clock.now << _SESSION_BITS, self._random_bytes)

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
        """The folder has to be this node's, with as many groups, and those that it is to have. Raises StorageError."""
        groups, own = self.host.recovered_groups, self.host.node_id
        for group_id in sorted(groups):
            voters = self.host.recovered_voters(group_id)
            if len(voters) == 1 and voters[0] != own and (not group_id or self._config.worker):
                raise StorageError(
                    f"this folder belongs to node {voters[0]}, and node_name is {own}: start it under the name "
                    f"that it has, in `cluster` too"
                )
            self._check_place(group_id, bool(voters))
        lacks_some = bool(groups) and max(groups) < self._config.queue_groups
        if groups and max(groups) != self._config.queue_groups and not (lacks_some and self._config.recover):
            raise StorageError(
                f"this folder has {max(groups)} groups for quorum queues, and queue_groups is "
                f"{self._config.queue_groups}: start it with --queue-groups {max(groups)}"
            )

    def _check_place(self, group_id: int, has_voters: bool) -> None:
        """A group of which the folder has something is to be here, and only here; where what is damaged is left out
        (`recover`), that may be all of a log. Raises StorageError."""
        config, is_here = self._config, not group_id or self._groups.is_here(group_id)
        if has_voters and not is_here:
            raise StorageError(
                f"this folder has the log of group {group_id} of quorum queues and streams, and by the file WORKERS "
                f"another worker has it: restore the whole data folder from a copy"
            )
        is_alone = not (config.cluster or config.cluster_listen or self.host.goes_on_alone or config.recover)
        if is_alone and is_here and self.host.has_recovered(group_id) and not has_voters:
            raise StorageError(
                f"this folder has no log of group {group_id} of quorum queues and streams, and by the file WORKERS no "
                f"other worker has it: restore the whole data folder from a copy"
            )

    def _started(self, result: object) -> None:
        """A command of this start was applied, so the metadata are whole: if they have no virtual host, there never was
        one, and whoever leads makes it. A node alone is at its own level before anybody asks it for something."""
        if self._metadata.vhosts():
            spoken = self.acquaintances.own_level
            if self.is_alone and self.level < spoken:
                self.propose(commands.raise_level(spoken))
                self._begin(None)
            elif self._follower is not None and not self._is_at_home(self.clock.now):
                self._timers.at(self.clock.now + _LOOK_MS, self._started)
            else:
                self.waits_for_level = False
                self.is_ready = True
            return
        if self.metadata_group.is_leader and not self._has_populated:
            self._has_populated = True
            self._populate().when_done(self._begin)
        else:
            self._begin(None)

    def _is_at_home(self, now: int) -> bool:
        """Of a worker k: whether the others know that it is there. In a cluster the level has to be one with workers,
        and the metadata to name it; and links with all are there, or some are not to be had now."""
        host, metadata = node_of_worker(self.own_node), self._metadata
        members = metadata.members()
        if len(members or self._config.cluster) <= 1:
            return True
        self.waits_for_level = metadata.level < WORKERS
        if self.waits_for_level or worker_number(self.own_node) not in metadata.workers_of(host).numbers:
            return False
        self._linking_since = self._linking_since or now
        names = [*members, *metadata.worker_names()]
        is_linked = all(name in self._connected for name in names if name != self.own_node)
        return is_linked or now - self._linking_since >= LINKING_MS

    def _begin(self, result: object) -> None:
        """`_started` hears when everything that was proposed before is applied."""
        self._transient_queues.delete(
            self.own_node, commands.node_started(self.own_node), self._started,
            is_starting=True, with_exchanges=self.is_alone and not self._config.worker_joins,
        )  # fmt: skip

    # -- inputs --------------------------------------------------------------------------------------------------------

    def peer_connected(self, name: str, now: int) -> None:
        """A link to a member is there."""
        self.is_busy = True
        self._connected[name] = 0
        self._absent.pop(name, None)
        self._looked_after.pop(name, None)
        self._told_members = self._told_workers = 0
        if are_beside(name, self.own_node):
            self._workers[name] = None
        self.host.peer_connected(name, now)
        if self._follower is not None:
            self._follower.peer_connected(name)
        if name == self._leader:
            self.stream.resend()
        self._groups.peer_connected(name, now)
        self.absorb(now)

    def peer_disconnected(self, name: str, now: int) -> None:
        """It is gone."""
        self.is_busy = True
        if self._connected.pop(name, None) is not None:
            self._absent[name] = now
        if self._follower is not None:
            self._follower.peer_disconnected(name)
        elif self._source is not None:
            self._source.peer_disconnected(name)
        self.host.peer_disconnected(name, now)
        self._groups.peer_disconnected(name, now)
        self.absorb(now)

    def receive_peer(self, name: str, frame: bytes, now: int) -> None:
        """A frame of a member. Raises PeerProtocolError: its link has to go; RaftStopped: the node has to stop."""
        self.is_busy = True
        if self.timings is not None and not self._frame_came_at:
            self._frame_came_at = self.timings.clock()
        self._tenants.receive(name, frame, now)
        self.absorb(now)

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        now = self.clock.now
        self.synced_position = position
        if self.stream.unapplied:
            self.is_busy = True  # something may have waited for the disk
        if self.acquaintances.wants_sync:
            self.is_busy = True
            self.acquaintances.synced(position, now)
            self.wants_sync = self.acquaintances.wants_sync
        self._groups.synced(position)
        if self._frame_came_at and self.timings is not None:
            if self.host.wants_sync:
                self.timings.since("append", self._frame_came_at)
            self._frame_came_at = 0.0
        if self.host.has_unsynced:
            self.host.synced(position, now)
            self.wants_sync = self.host.wants_sync or self.acquaintances.wants_sync
            if self.dirty:  # and not for what a follower has on its disk, but to say so
                self.is_busy = True
                self.absorb(now)

    def tick(self, now: int) -> None:
        """Time has passed."""
        self.is_busy = True
        self.host.tick(now)
        if self._absent and self.metadata_group.is_leader:
            self._look_after_absent(now)
        self._groups.tick(now)
        self.absorb(now)

    def _look_after_absent(self, now: int) -> None:
        """Members that are away for too long lose what does not survive their restart."""
        for name, since in self._absent.items():
            if now - max(since, self._looked_after.get(name, 0)) < self._config.node_down_ms:
                continue
            self._looked_after[name] = now
            if self._metadata.some_transients(name, 1, self._metadata.next_queue_id):
                log.warning("%s is away for %d ms: its transient queues are gone", name, now - since)
                self._give_up(name)

    def _give_up(self, name: str) -> None:
        """What does not survive a restart of this member goes, unless it comes back meanwhile."""
        since = self._absent[name]
        self._transient_queues.delete(
            name, commands.node_gone(name), goes_on=lambda: self._absent.get(name) == since
        )

    def forget_worker(self, name: str) -> None:
        """Another worker of this node is none any more."""
        self._workers.pop(name, None)

    def _expect_workers(self, now: int) -> None:
        """Workers that the metadata know, and to which there is no link, are away from now on."""
        for name in self._metadata.worker_names():
            if name not in self._connected and name != self.own_node:
                self._absent.setdefault(name, now)

    def touch(self) -> None:
        """There is something to do at the end of this turn."""
        self.is_busy = True

    def watch_removals(self, hear: Callable[[str, int], None]) -> None:
        """Tell that a member was removed by the metadata, and at which index."""
        self._removal_watchers.append(hear)

    def measure(self, timings: Timings) -> None:
        """Tell it how long things take from now on."""
        self.timings = timings

    def absorb(self, now: int) -> None:
        """What was applied takes effect for clients."""
        if self._is_absorbing:
            return
        self._is_absorbing = True
        if self.dirty:
            self._groups.absorb(now)
        group = self._metadata_group
        assert group is not None  # nothing comes in before `open`
        applied = group.last_applied
        if self._source is not None:
            self._source.reach(applied)
        if self._connected:
            self._tell_applied(applied)
        if self.stream.settling:
            self.stream.settle(self._known_to_all(applied), now)
        self._is_absorbing = False

    def _tell_applied(self, applied: int) -> None:
        """A member says what it and its workers have applied; to its workers, what they and all linked members have.
        So each hears of all without a word from workers of other members. What a worker k says is its own."""
        to_members = to_workers = applied
        if not self._config.worker:
            for name, reached in self._connected.items():
                if name in self._workers:
                    to_members = min(to_members, reached)
                elif name == node_of_worker(name):
                    to_workers = min(to_workers, reached)
        if to_members > self._told_members:
            self._told_members = to_members
            if not self._config.worker:
                self._say_applied(self.linked_members(), to_members)
        if to_workers > self._told_workers:
            self._told_workers = to_workers
            self._say_applied([name for name in self._connected if name in self._workers], to_workers)

    def _say_applied(self, names: list[str], index: int) -> None:
        octets = index.to_bytes(8, "big")
        for name in names:
            self._send_applied(name, octets)

    def _known_to_all(self, applied: int) -> int:
        """Up to where all have applied the metadata that are linked: members with their workers, and the workers of
        this node. A worker k hears of members by its worker 0."""
        is_worker = self._config.worker > 0
        known = applied
        for name, reached in self._connected.items():
            if name in self._workers or (not is_worker and name == node_of_worker(name)):
                known = min(known, reached)
        return known

    # -- metadata ------------------------------------------------------------------------------------------------------

    def propose(self, command: Command, then: Then | None = None) -> Proposal:
        """Put a command into this node's stream; `then(result)` is called when it is applied. Raises ValueError."""
        commands.check_command(command)
        self.is_busy = True
        return self.stream.propose(command, then)

    def newest_proposal(self) -> Proposal | None:
        """The newest command of this node that is not applied yet."""
        return self.stream.last

    def wait_for_disk(self) -> None:
        """What is proposed from now on leaves when all that was appended before is on this node's disk."""
        self.stream.wait_for_disk(self.port.position)

    def settling(self) -> Proposal | None:
        """For an answer that relies on what was found here: done when the linked members know it too. None: they do."""
        applied = self.metadata_group.last_applied
        if self._known_to_all(applied) >= applied:
            return None
        self.is_busy = True
        return self.stream.wait_for(applied, self.clock.now)

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        """See Listener."""
        if not self.stream.is_open:
            return
        if origin == self.own_node and session > self.stream.session:
            self.stream.reopen(self._session_above(session))  # of an earlier run, when the clock was ahead
        is_own = origin == self.own_node and session == self.stream.session
        if command["op"] == "member.remove":
            self.host.reroute()
            self.acquaintances.member_removed(command["node"], index, self.clock.now)
            for hear in self._removal_watchers:
                hear(command["node"], index)
        elif command["op"] in ("member.add", "member.put"):
            self.acquaintances.member_added(command["node"], index, self.clock.now)
        elif command["op"] == "member.workers":
            self._expect_workers(self.clock.now)
            self.host.reroute()
        elif command["op"] == "level.raise":
            self._take_level(self.level)
            log.info("the cluster is at level %d: no member can go back to the version before", self.level)
        result = self._projection.applied(command, changed, is_own)
        if is_own:
            self.stream.applied(number, index, result, self.clock.now)
            self._transient_queues.applied(number)

    def replaced(self, index: int) -> None:
        """See Listener."""
        self._projection.replaced()
        if not self.stream.is_open:
            return
        self.read_index = index
        self._take_level(self.level)
        self.acquaintances.members_replaced(dict(self.recorded_members()), index, self.clock.now)
        self._expect_workers(self.clock.now)
        self.host.reroute()
        session = self.machine.session_of(self.own_node)
        if session > self.stream.session:
            self.stream.reopen(self._session_above(session))
        number = self.machine.last_number(self.own_node, self.stream.session)
        if number:
            self.stream.applied(number, index, None, self.clock.now)
            self._transient_queues.applied(number)

    def leads(self, is_leader: bool, leader: str | None) -> None:
        """See Listener."""
        self._leader = leader
        self.stream.resend()

    def _on_metadata_commands(self, name: str, payload: bytes, now: int) -> None:
        if self.metadata_group.is_leader:
            try:
                Batch.decode(payload)
            except ValueError as error:
                log.error("metadata commands of %s are refused: %s", name, error)
                return
            self.metadata_group.propose(payload)
        elif self._leader is not None and are_beside(name, self.own_node):
            self._send_commands(self._leader, payload)

    def _on_metadata_applied(self, name: str, payload: bytes, now: int) -> None:
        if name in self._connected:
            self._connected[name] = int.from_bytes(payload, "big")

    # -- output --------------------------------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """What this turn has to say to groups is said; before the journal is looked at for its length. For turns that
        are busy."""
        self._groups.work(now)
        if self.stream.unapplied:
            self._say_to_metadata(now)

    def _say_to_metadata(self, now: int) -> None:
        for batch in self.stream.take_batches(now, None if self.is_alone else self.synced_position):
            octets = batch.encode()
            if self.metadata_group.is_leader:
                self.metadata_group.propose(octets)
            elif self._leader is not None:
                self._send_commands(self._leader, octets)

    def end_turn(self, now: int) -> None:
        """Everything of this turn is in the journal: groups append and answer. For turns that are busy, or where a
        group is `dirty`."""
        self.is_busy = False
        self._groups.record_change()
        self.host.end_turn(now)
        self.wants_sync = self.host.wants_sync or self.acquaintances.wants_sync
        if not self.wants_sync and self.stream.unapplied and not self.is_alone:
            self.wants_sync = self.stream.waits_for_disk(self.synced_position)
        self._groups.end_turn(self._journal.position)
        self.deadline = self._next_deadline()

    def take_peers(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each peer, at the end of the turn."""
        output: list[tuple[str, list[bytes]]] = self._outbox.take()
        return self.acquaintances.take_output() + output if self._said else output

    def take_early(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each peer that have waited for the disk, and what else may leave before the turn ends."""
        if self._said:
            return []  # that goes first
        output: list[tuple[str, list[bytes]]] = self._outbox.take()
        return output

    def _next_deadline(self) -> int:
        deadline = self.host.due_at() if self._raft_groups else 0
        if self.stream.unapplied or self.stream.settling:
            due = self.stream.next_deadline() or 0
            if due and (not deadline or due < deadline):
                deadline = due
        due = self._groups.next_deadline()
        if due and (not deadline or due < deadline):
            deadline = due
        return deadline
