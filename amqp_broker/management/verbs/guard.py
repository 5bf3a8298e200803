"""Guard: whether a node could be stopped now, and what would be away with it.

A group goes on without a node if a majority of its members is there and up to date: one that is linked and lags far
behind holds up every publish until it has caught up. How far members are its leader knows, which is asked, wherever it
is. Under traffic nobody ever has the whole log, so what counts is the end that the log had when that was first asked:
members are up to date that have it on their disks within `CATCH_UP_MS`.

    watched: the leader says where its log ends -> a majority without this node has that -> up to date
                                                -> the time is over -> lagging; leaderless, if nobody says that he leads

A leader of a version that cannot be asked is believed to have its members up to date, if they are linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.links.frame_kinds import SINCE, FrameKind
from amqp_broker.management.queue_walk import queues_in_slices
from amqp_broker.management.verbs.cluster import MAX_LISTED_QUEUES
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request
    from raft.group import Group

#: Members have so long to get what was the end of the log when that was asked; so often their leaders are asked.
CATCH_UP_MS = 500
_EVERY_MS = 50
#: So long another node is waited for that waits for members.
PATIENCE_MS = 3 * CATCH_UP_MS
#: So many groups are asked for at a time: fewer than questions may be open to one node.
_AT_ONCE = 16
#: So many queues are looked at in one slice.
_SLICE = 64

#: What a process says that has no group.
NOTHING: Final[JsonObject] = {
    "is_safe": True, "critical_groups": [], "critical_queues": [], "lag": 0, "lagging_groups": [],
    "leaderless_groups": [], "leads": 0, "classic_queues": 0, "only_copies": 0,
}  # fmt: skip


class _Report(NamedTuple):
    """What a leader says of its group. confirmed: up to where its members have the log, those that are connected."""

    term: int
    last_index: int
    leader: str
    confirmed: Mapping[str, int]


class _Watched:
    """A group, and the others of its members. lag: how many entries that one of them lacks that a majority needs then,
    of what the log had when its leader was first asked; None while no leader is known."""

    def __init__(self, group: Group, own: str) -> None:
        self.group = group
        self.others = [name for name in group.members if name != own]
        self._majority = len(group.members) // 2 + 1
        self._term = self._end = 0
        self.lag: int | None = None

    def take(self, report: _Report) -> bool:
        """Returns whether a majority is up to date."""
        if report.term != self._term:
            self._term, self._end = report.term, report.last_index
        lags = sorted(self._lag_of(name, report) for name in self.others)
        self.lag = lags[self._majority - 1]
        return not self.lag

    def _lag_of(self, name: str, report: _Report) -> int:
        if name == report.leader:
            return 0
        confirmed = report.confirmed.get(name)
        return max(1, self._end) if confirmed is None else max(0, self._end - confirmed)


class Guard:
    """Of this node."""

    def __init__(self, counts: NodeCounts, replication: Replication, peers: PeerQuestions) -> None:
        self._broker = counts.broker
        self._metadata = counts.broker.metadata
        self._clock, self._timers = counts.broker.clock, counts.broker.timers
        self._membership = counts.membership
        self._groups, self._places = counts.groups, counts.groups.places
        self._replication = replication
        self._raft_groups = replication.host.groups
        self._peers = peers

    def look(self, request: Request) -> Steps:
        """Its result: what `node.guard` says, but for what a node says of itself."""
        alone = {number for number, group in self._raft_groups.items() if group.members == (self._places.own_host,)}
        critical = {number for number, group in self._raft_groups.items() if self._is_critical(group)}
        behind = yield from self._behind(request, critical)
        lags = {number: lag for number, lag in behind.items() if lag is not None}
        queues, homed, only = yield from self._look_through(critical, alone)
        return {
            "is_safe": not critical and not behind,
            "critical_groups": sorted(critical),
            "critical_queues": queues,
            "lag": max(lags.values(), default=0),
            "lagging_groups": sorted(lags),
            "leaderless_groups": sorted({*behind} - {*lags}),
            "leads": sum(group.is_leader and len(group.members) > 1 for group in self._raft_groups.values()),
            "classic_queues": homed,
            "only_copies": only,
        }

    def _is_critical(self, group: Group) -> bool:
        """Whether too few of the others are there."""
        others = [name for name in group.members if name != self._places.own_host]
        linked = [name for name in others if self._is_linked(group, name)]
        return bool(others) and 2 * len(linked) <= len(group.members)

    def _is_linked(self, group: Group, name: str) -> bool:
        return bool(self._membership.is_linked(self._places.process_of(group.group_id, name)))

    # -- who is up to date ---------------------------------------------------------------------------------------------

    def _behind(self, request: Request, critical: set[int]) -> Steps:
        """Its result: by group, how many entries the others lack; None where nobody leads."""
        own = self._places.own_host
        left = [
            _Watched(group, own)
            for number, group in self._raft_groups.items()
            if own in group.members and len(group.members) > 1 and number not in critical
        ]
        until = self._clock.now + CATCH_UP_MS
        is_first = True
        while left and (is_first or self._clock.now < until):
            if not is_first:
                yield self._pause()
            is_first = False
            behind: list[_Watched] = []
            for start in range(0, len(left), _AT_ONCE):
                behind += yield from self._still_behind(request, left[start : start + _AT_ONCE])
            left = behind
        return {each.group.group_id: each.lag for each in left}

    def _pause(self) -> Completion[None]:
        pause: Completion[None] = Completion()
        self._timers.at(self._clock.now + _EVERY_MS, lambda now: pause.complete(None))
        return pause

    def _still_behind(self, request: Request, some: Iterable[_Watched]) -> Steps:
        """Its result: those of some groups that are not up to date by what their leaders say now."""
        behind, asked = [], []
        for each in some:
            group = each.group
            leader = "" if group.leader is None else self._places.process_of(group.group_id, group.leader)
            if group.is_leader:
                behind += [] if each.take(self._own_report(group)) else [each]
            elif not leader or not self._membership.is_linked(leader):
                behind.append(each)
            elif self._replication.spoken_by(leader) >= SINCE[FrameKind.MANAGEMENT]:
                fields: JsonObject = {"group": group.group_id}
                asked.append((each, self._peers.ask(leader, "raft", fields, request.asker, CATCH_UP_MS)))
        for each, question in asked:
            answer = yield question
            report = _report_of(answer.fields) if answer is not None else None
            if report is None or not each.take(report):
                behind.append(each)
        yield None
        return behind

    def _own_report(self, group: Group) -> _Report:
        state = group.statistics()
        confirmed = {peer.name: peer.match_index for peer in state.peers if peer.is_connected}
        return _Report(state.term, state.last_index, self._places.own_host, confirmed)

    # -- what would be away --------------------------------------------------------------------------------------------

    def _look_through(self, critical: set[int], alone: set[int]) -> Steps:
        """Its result: queues that stand still without these groups, a bounded number of them; how many durable classic
        queues live here alone, and how many queues in groups of which nobody else is a member: they are away with the
        node."""
        own = self._replication.own_node
        found: list[JsonObject] = []
        homed = only = 0
        for vhost, names in queues_in_slices(self._broker, _SLICE):
            for each in names:
                record = self._metadata.queue(vhost.name, each)
                if record is None:
                    continue
                if lives_in_groups(record.type):
                    group_id = self._groups.of(record.queue_id).group_id
                    only += group_id in alone
                    if group_id in critical and len(found) < MAX_LISTED_QUEUES:
                        found.append({"vhost": vhost.name, "name": each})
                else:
                    homed += record.durable and node_of_worker(record.home) == own
            yield None
        return found, homed, only


def _report_of(said: JsonObject) -> _Report | None:
    """What the answer to `raft` says; None if its node does not lead."""
    if said.get("role") != "leader":
        return None
    confirmed = {
        name: peer["acknowledged_index"] for name, peer in said["peers"].items() if peer.get("is_connected", True)
    }
    return _Report(said["term"], said["last_index"], node_of_worker(said["node"]), confirmed)
