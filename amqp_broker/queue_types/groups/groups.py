"""QuorumGroups: the groups of quorum queues on this node: which queue is in which, and what each has still to do.

A queue is in group queue_id % N + 1. Replication tells them of every input; what they say to their logs and to each
other they say at the end of the turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.queue_types.groups.group import QueueGroup
from amqp_broker.settings.workers import node_of_worker, worker_name
from queues.quorum.machine import QueueGroupMachine
from raft.host import RaftHost

if TYPE_CHECKING:
    from amqp_broker.cluster.group_places import GroupPlaces
    from amqp_broker.cluster.transfers import Transfers
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.queue_types.groups.group import GroupHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.turn.timings import Timings
    from queues.queue import Queue
    from queues.stream.stream import Stream

log = logging.getLogger("amqp_broker.cluster")

#: Of `sealed`: nothing was being filled.
_NOTHING = -1
#: So long after its start a worker waits for the others of its node before it publishes letters, milliseconds.
_MEETING_MS = 5000
#: A node that leads nothing asks no more often than this to lead a group, milliseconds.
_ASK_MS = 1000
#: Within so long of a read that took as much as one may, more of that client is expected, milliseconds.
_INPUT_MS = 5


class Submitted(NamedTuple):
    """Commands of this process to a group, up to number `last` of a session; and behind these what was being filled
    when the group had `sealed` so often."""

    session: int
    last: int
    sealed: int = _NOTHING


#: By group.
UnderWay: TypeAlias = dict[int, Submitted]


class QuorumGroups:
    """all: by number. is_active: there are quorum queues. is_busy: a group has something to do at the end of this turn.
    places: which process has which. has_lists: groups are, or were, on some of the nodes only, or the node has workers.
    is_ready, is_alone: of the node's metadata (Replication). pagers: the node's, for classic queues, and those of the
    groups. synced_position: up to where the journal is on the disk."""

    def __init__(
        self,
        config: Config,
        raft: RaftHost,
        places: GroupPlaces,
        tenants: Tenants,
        transfers: Transfers,
        host: GroupHost,
        clock: TurnClock,
        is_ready: Callable[[], bool],
        is_alone: Callable[[], bool],
    ) -> None:
        self._config = config
        self._raft = raft
        self.places = places
        self._linked = tenants.linked
        self._send_batch = tenants.register(FrameKind.QUEUE_BATCH, self._on_batch)
        self.send_request = tenants.register(FrameKind.GUEST_REQUEST, self._on_guest_request)
        self.send_answer = tenants.register(FrameKind.GUEST_ANSWER, self._on_guest_answer)
        self._transfers = transfers
        transfers.ask_elsewhere(self._look)
        self._host = host
        self._metadata = host.metadata
        self.clock = clock
        self.is_ready = is_ready
        self.is_alone = is_alone
        self.all: dict[int, QueueGroup] = {}
        self.pagers = [host.store.pager]
        self.is_active = False
        self.is_busy = False
        self.has_lists = config.has_workers or places.is_spread
        self._lists_seen = 0
        self.synced_position = 0
        #: Who is told how long things take, if anybody is.
        self.timings: Timings | None = None
        self._is_leaving = False
        #: Until then letters wait for the other workers of this node, which start behind this one; 0: no more.
        self.meets_until = 0
        self._asked_at = -_ASK_MS
        #: In which something has happened, by Raft.
        self._changed = raft.dirty
        #: Those that have something to do at the end of the turn, besides the changed ones; those that had it; those
        #: that wait for the disk; those that have something to say when it is not busy any more; and when those are due
        #: that have a time.
        self._touched: dict[int, None] = {}
        self._served: dict[int, None] = {}
        self._unsynced: dict[int, None] = {}
        self._filled: dict[int, None] = {}
        self._gathering: dict[int, None] = {}
        self.input_until = 0
        self._deadlines: dict[int, int] = {}
        #: Those that have not applied so much of what was submitted that publishers have to wait.
        self._behind: dict[int, None] = {}
        self._backlog_limit = config.publish_backlog_bytes

    # -- what they are -------------------------------------------------------------------------------------------------

    @property
    def own_node(self) -> str:
        """The name of this process, under which its commands are in the logs."""
        return self.places.own_process

    def is_linked(self, name: str) -> bool:
        """Whether there is a link to that node."""
        return name in self._linked

    def _look(self, group_id: int) -> tuple[str | None, Collection[str]]:
        """See LookElsewhere."""
        group = self.all.get(group_id)
        if group is None:
            return None, ()
        leader = group.leader
        return (None if leader is None else node_of_worker(leader)), group.voters()

    def awaits_workers(self, now: int) -> bool:
        """Whether this process has just started, and other workers of its node are not linked yet. A letter to a queue
        of theirs would be lost on its way, and come a second later, behind those that were due after it."""
        if self.meets_until and (
            now >= self.meets_until or all(map(self.is_linked, self._beside()))
        ):
            self.meets_until = 0
        return self.meets_until > 0

    def _beside(self) -> Iterator[str]:
        """The other workers of this node."""
        own = node_of_worker(self.own_node)
        names = (worker_name(own, number) for number in range(self._config.worker_processes))
        return (name for name in names if name != self.own_node)

    @property
    def is_behind(self) -> bool:
        """Whether publishers have to wait: a group has not applied publish_backlog of what was submitted."""
        return bool(self._behind)

    def has_unapplied(self) -> bool:
        """Whether something that was submitted here has not come to its log, or nothing has come of it yet."""
        return self.is_active and any(group.backlog_bytes() or group.settling for group in self.all.values())

    def under_way(self) -> UnderWay:
        """What was published in this turn or before, and has not come to its log."""
        return {
            group_id: Submitted(
                group.stream.session, group.stream.last, group.sealed if group.filled_bytes else _NOTHING
            )
            for group_id, group in self.all.items()
            if self.is_active and group.backlog_bytes()
        }

    def leave_what_is_applied(self, under_way: UnderWay) -> UnderWay:
        """Of what was under way, what is still. In a new session commands have new numbers: then it is all there is."""
        left: UnderWay = {}
        for group_id, before in under_way.items():
            group = self.all[group_id]
            stream = group.stream
            if before.sealed == group.sealed:  # it has no number yet
                left[group_id] = before
            elif stream.unapplied and (before.sealed != _NOTHING or stream.session != before.session):
                left[group_id] = Submitted(stream.session, stream.last)
            elif stream.unapplied and stream.applied < before.last:
                left[group_id] = before
        return left

    def __iter__(self) -> Iterator[QueueGroup]:
        return iter(self.all.values())

    def stream(self, queue_id: int) -> Stream | None:
        """What the log of its group has made of a stream here, if it has one of this id."""
        return self.all[queue_id % len(self.all) + 1].machine.stream(queue_id)

    def of(self, queue_id: int) -> QueueGroup:
        """The group that a quorum queue is in."""
        return self.all[queue_id % len(self.all) + 1]

    def place_queue(self, next_queue_id: int, is_local: bool, size: int = 0) -> int:
        """The id, from `next_queue_id` on, that puts a new quorum queue into the group with the fewest; `is_local`:
        of those that this node leads, with any of its workers, as what is published here has one hop less then, or of
        which nobody is known to lead yet, as right after a start. Where all are led by others, it asks to lead the
        group, if that has no queue yet. size: on how many nodes it is to be, 0 for any number; see
        `groups_of_size`."""
        groups, now = self.groups_of_size(size) if self.has_lists else self.all, self.clock.now
        if is_local and self.has_lists:  # of those that are here, too, if there are some
            groups = {each: group for each, group in groups.items() if self._is_on_this_node(group)} or groups
        led = {each for each, group in groups.items() if self._leads(group)} if is_local else set()
        unled = [each for each, group in groups.items() if group.leader is None] if led else []
        found = [*led, *unled] or groups
        chosen = min(found, key=lambda group_id: (len(groups[group_id].queues), group_id not in led, group_id))
        is_member = groups[chosen].guest is None
        is_new = is_member and not 0 <= now - self._asked_at < _ASK_MS  # a crowd of declarations asks once
        if is_local and not led and not groups[chosen].queues and not self._is_leaving and is_new:
            self._asked_at = now
            self._transfers.request(chosen, self.places.own_host)
        return next_queue_id + (chosen - 1 - next_queue_id) % len(self.all)

    def _is_on_this_node(self, group: QueueGroup) -> bool:
        is_elsewhere = self.places.is_spread and not self.places.is_here(group.group_id)
        return self.places.own_host in group.voters() if is_elsewhere else group.guest is None

    def _leads(self, group: QueueGroup) -> bool:
        """Whether this node leads a group, with any of its workers."""
        leader = group.leader
        return bool(group.raft.is_leader) or (leader is not None and node_of_worker(leader) == self.places.own_host)

    def groups_of_size(self, size: int) -> dict[int, QueueGroup]:
        """Those that are on so many nodes; where there are none, those that are on the next larger number; where all
        are on fewer, those on the most."""
        metadata, everybody = self._metadata, len(self._metadata.members())
        counts = {group_id: len(metadata.group_members(group_id)) or everybody for group_id in self.all}
        if not size:
            return self.all
        larger = [count for count in counts.values() if count >= size]
        wanted = min(larger) if larger else max(counts.values())
        return {group_id: group for group_id, group in self.all.items() if counts[group_id] == wanted}

    def place_queues(self, next_queue_id: int, count: int, size: int = 0) -> list[int]:
        """Ids from `next_queue_id` on that rise and put new queues, of which the messages of one are divided, into
        different groups, with different leaders where there are several, those with the fewest queues first. The queue
        itself comes before them, in the group of the first. size: see `place_queue`."""
        groups = self.groups_of_size(size) if self.has_lists else self.all
        used = dict.fromkeys(groups, 0)
        led = dict.fromkeys([group.leader for group in groups.values()], 0)
        ids: list[int] = []
        for _ in range(count):
            chosen = min(
                groups,
                key=lambda each: (used[each], led[groups[each].leader], len(groups[each].queues), each),
            )
            used[chosen] += 1
            led[groups[chosen].leader] += 1
            for _ in range(1 if ids else 2):
                lowest = ids[-1] + 1 if ids else next_queue_id
                ids.append(lowest + (chosen - 1 - lowest) % len(self.all))
        return ids

    def place_beside(self, next_queue_id: int, queue_id: int) -> int:
        """The id, from `next_queue_id` on, that puts a new queue into the group of another one."""
        return next_queue_id + (queue_id - next_queue_id) % len(self.all)

    def leased(self) -> list[Queue]:
        """The queues with lease groups in the logs that this node leads."""
        led = [group for group in self.all.values() if group.raft.is_leader] if self.is_active else []
        return [
            cast("Queue", group.queues[queue_id])
            for group in led
            for queue_id in group.machine.leased_queues()
            if queue_id in group.queues
        ]

    def members_of(self, group_id: int) -> tuple[str, ...]:
        """The nodes that a group is on, as far as they are named. A process that does not have it begins with its own
        node, where another one may."""
        named = tuple(self._metadata.group_members(group_id))
        if self.places.is_here(group_id):
            return named
        own = self.places.own_host
        names = named or tuple(sorted(self._metadata.members()))
        return tuple(sorted(names, key=lambda name: name != own)) or (own,)

    # -- start and end -------------------------------------------------------------------------------------------------

    def open(self, members: tuple[str, ...], now: int) -> None:
        """See Replication's QueueGroups. Raises CorruptLog."""
        own = self.own_node
        self.meets_until = now + _MEETING_MS if self._config.has_workers else 0
        for group_id in range(1, self._config.queue_groups + 1):
            pager = self.pagers[0].another()  # of the node's
            machine = QueueGroupMachine(own, pager, self._config.stream_direct_bytes)
            first = members if self.places.is_here(group_id) else ()
            raft = self._raft.open_group(group_id, machine, first, now, machine.placer)
            if self.has_lists:
                machine.expect_guests()
            self.pagers.append(pager)
            self.all[group_id] = QueueGroup(raft, machine, pager, self, self._host, self._config, now)

    @property
    def has_groups(self) -> bool:
        """See Replication's QueueGroups."""
        return bool(self.places.has_groups)

    def is_here(self, group_id: int) -> bool:
        """See Replication's QueueGroups."""
        return bool(self.places.is_here(group_id))

    def processes(self, members: Mapping[int, Iterable[str]]) -> Iterable[str]:
        """See Replication's QueueGroups."""
        places = self.places
        return dict.fromkeys(places.process_of(group_id, name) for group_id, names in members.items() for name in names)

    def activate(self) -> None:
        """There is a quorum queue."""
        self.is_active = True

    def leave(self) -> None:
        """The node is about to end: it asks to lead nothing."""
        self._is_leaving = True

    def timed_now(self) -> float:
        """What the time is by the clock of the timings, which are taken."""
        assert self.timings is not None  # who calls looks
        return self.timings.clock()

    def measure(self, timings: Timings) -> None:
        """Tell it how long things take from now on."""
        self.timings = timings

    # -- inputs --------------------------------------------------------------------------------------------------------

    def peer_connected(self, name: str, now: int) -> None:
        """A link to a member is there."""
        for group in self.all.values():
            group.peer_connected(name, now)
        self.touch_all(now)

    def peer_disconnected(self, name: str, now: int) -> None:
        """It is gone."""
        for group in self.all.values():
            group.peer_disconnected(name, now)
        self.touch_all(now)

    def _on_batch(self, name: str, payload: bytes, now: int) -> None:
        number = int.from_bytes(payload[:4], "big")
        group = self.all.get(number)
        if group is None:
            log.error("%s speaks of queue group %d, which is not here", name, number)
            return
        group.receive_batch(name, payload[4:], now)

    def _on_guest_request(self, name: str, payload: bytes, now: int) -> None:
        group = self._group_of_frame(name, payload)
        if group is not None:
            group.receive_request(name, payload, now)
            self.touch(group.group_id)

    def _on_guest_answer(self, name: str, payload: bytes, now: int) -> None:
        group = self._group_of_frame(name, payload)
        if group is not None:
            group.receive_answer(name, payload, now)
            self.touch(group.group_id)

    def _group_of_frame(self, name: str, payload: bytes) -> QueueGroup | None:
        """Of a guest's frame, or of one for a guest."""
        number = int.from_bytes(payload[2:6], "big")
        group = self.all.get(number)
        if group is None:
            log.error("%s speaks of queue group %d, which is not here", name, number)
        return group

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        self.synced_position = position
        if self._filled:
            self._touched.update(self._filled)
            self._filled = {}
            self.is_busy = True
        if self._unsynced:
            unsynced, self._unsynced = self._unsynced, {}
            for group_id in unsynced:
                group = self.all[group_id]
                if group.synced(position):
                    self._unsynced[group_id] = None

    def tick(self, now: int) -> None:
        """Time has passed."""
        for group_id, due in self._deadlines.items():
            if due <= now:
                self.touch(group_id)
                group = self.all[group_id]
                group.absorb(now)

    def compare(self, now: int) -> None:
        """The node's queues are those of the metadata from now on: groups compare them with their logs."""
        for group in self.all.values():
            group.compare()
        self.touch_all(now)

    def touch_all(self, now: int) -> None:
        """Links are others, or the queues of the metadata."""
        self._touched = dict.fromkeys(self.all)
        self.is_busy = True
        for group in self.all.values():
            group.absorb(now)

    def absorb(self, now: int) -> None:
        """What was applied takes effect for clients."""
        for group_id in list(self._changed):  # whatever happens in a group makes it so
            group = self.all.get(group_id)
            if group is not None:
                group.absorb(now)

    # -- for the groups ------------------------------------------------------------------------------------------------

    def touch(self, group_id: int) -> None:
        """A group has something to do at the end of this turn."""
        self._touched[group_id] = None
        self.is_busy = True

    def touch_when_synced(self, group_id: int) -> None:
        """It has when the sync that is under way is over."""
        self._filled[group_id] = None

    def touch_in_next_turn(self, group_id: int) -> None:
        """It has in the next turn, too."""
        self._gathering[group_id] = None

    def input_goes_on(self, is_more: bool, now: int) -> None:
        """Whether a client has said more than one read has taken: that is read soon."""
        self.input_until = now + _INPUT_MS if is_more else 0

    def served(self, group_id: int) -> None:
        """What a group was touched for is done; what touches it from now on has still to be."""
        self._touched.pop(group_id, None)
        self._served[group_id] = None

    def send_batch(self, leader: str, group_id: int, batch: bytes) -> bool:
        """Bring a batch of commands to the leader of a group. False if there is no link."""
        return self._send_batch(leader, group_id.to_bytes(4, "big") + batch)

    # -- the end of a turn ---------------------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """What this turn has to say to groups is said; before the journal is looked at for its length."""
        if self._metadata.group_generation != self._lists_seen:
            self._lists_seen = self._metadata.group_generation
            self.has_lists = (
                self.has_lists or self._metadata.has_group_lists or bool(self._metadata.member_workers())
            )
            if self.has_lists:
                for group in self.all.values():
                    group.machine.expect_guests()
                self.touch_all(now)
        for group_id in self._changed:
            if group_id in self.all:
                self._touched[group_id] = None
        if self._gathering:
            self._touched.update(self._gathering)
            self._gathering = {}
        while self._touched:  # what one group hears may give another one something to do
            group = self.all[next(iter(self._touched))]
            group.end_turn(now)

    def record_change(self) -> None:
        """Raft ends its turn after this, and does not know any more then in which groups something has happened."""
        self.is_busy = bool(self._touched or self._gathering)
        for group_id in self._changed:
            self._served[group_id] = None

    def end_turn(self, position: int) -> None:
        """Everything of this turn is in the journal, which ends there."""
        served, self._served = self._served, {}
        for group_id in served:
            group = self.all.get(group_id)
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

    def next_deadline(self) -> int:
        """When `tick` has something to do; 0 for never."""
        deadline = 0
        for due in self._deadlines.values():
            if not deadline or due < deadline:
                deadline = due
        return deadline
