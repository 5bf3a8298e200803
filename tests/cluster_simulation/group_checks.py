"""GroupChecks: what must hold of the groups of a cluster after every turn, seen from above.

    G1  one leader per term and group; a member votes once a term
    G2  what is applied for the first time is on the disks of a majority
    G3  the commit index never passes the log; nothing is applied that is not committed
    G4  equal states at equal indexes: digests of queue groups, snapshots of the metadata
    G5  what was declared and answered is in the metadata of every linked member
    G6  of a host of several workers one votes in a group, and always the same

It watches the machines of each node, and tells LogModel what they apply and hand out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from amqp_broker.metadata.partitions import partition_name
from amqp_broker.metadata.queue_ids import delay_id
from amqp_broker.settings.workers import node_of_worker
from raft.messages import VoteReply, VoteRequest
from raft.wire import VOTE_REPLY, VOTE_REQUEST, decode
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.cluster_simulation.log_model import LogModel
from tests.cluster_simulation.queue_kinds import HELD_BACK
from tests.queues.quorum.digest import digest_of
from tests.simulation.state import Violation

#: The state is compared at every index that is a multiple of this.
_EVERY = 61
_METADATA = 0


class GroupChecks:
    """See the module's docstring."""

    def __init__(self, nodes: Mapping[str, ClusterNode], log: LogModel) -> None:
        self.nodes = nodes
        self.log = log
        self._votes: dict[tuple[str, int, int, int], str] = {}
        self._voters: dict[tuple[str, int, int], str] = {}
        self._leaders: dict[tuple[int, int], str] = {}
        self._metadata: dict[int, tuple[str, bytes]] = {}
        self._entries: dict[int, bytes] = {}
        self.last_metadata_index = 0
        self._learning: list[str] = []

    # -- watching ------------------------------------------------------------------------------------------------------

    def watch(self, node: ClusterNode) -> None:
        """A node has a new life: see what its machines do. Called before it reads its disk."""
        replication = node.node.replication
        self._watch_metadata(node, replication.machine)
        host: Any = replication.host
        open_group = host.open_group

        def watched(group_id: int, machine: Any, members: Sequence[str], now: int, placer: Any = None) -> Any:
            if group_id != _METADATA:
                self._watch_queues(node, group_id, machine)
            return open_group(group_id, machine, members, now, placer)

        host.open_group = watched

    def _watch_metadata(self, node: ClusterNode, machine: Any) -> None:
        apply = machine.apply

        def watched(index: int, term: int, data: bytes, now: int) -> None:
            if self._entries.setdefault(index, data) != data:
                raise Violation(f"{node.name} applies another metadata entry at {index} than others have")
            if index > self.last_metadata_index:
                self.last_metadata_index = index
                self.check_majority(node, _METADATA, index, term)
                declared = ("queue.declare", "exchange.declare")
                said = json.loads(data)["commands"]
                self._learning = [c["name"] for c in said if c["op"] in declared]
                self.log.counts["queues moved"] += sum(c["op"] == "queue.rehome" for c in said)
                self._learning += [
                    partition_name(c["name"], c["first"] + number)
                    for c in said
                    if c["op"] == "partitions.declare"
                    for number in range(len(c["partition_ids"]))
                ]
            apply(index, term, data, now)
            self._learn_names(node)
            if index % _EVERY == 0:
                self.compare_metadata(node, index)

        machine.apply = watched

    def _learn_names(self, node: ClusterNode) -> None:
        """Which numbers the metadata have given to queues that were declared, and to exchanges that hold back."""
        for name in self._learning:
            record = node.node.broker.metadata.queue("/", name)
            if record is not None:
                self.log.name_of.setdefault(record.queue_id, name)
            exchange = node.node.broker.metadata.exchange("/", name)
            if exchange is not None and exchange.number:
                self.log.name_of.setdefault(delay_id("/", name, exchange.number), HELD_BACK)
        self._learning = []

    def compare_metadata(self, node: ClusterNode, index: int) -> None:
        """The metadata of a node, as of an index (G4)."""
        text = json.dumps(node.node.broker.metadata.snapshot(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).digest()
        name, first = self._metadata.setdefault(index, (node.name, digest))
        if first != digest:
            raise Violation(f"{node.name} has other metadata at {index} than {name}")

    def _watch_queues(self, node: ClusterNode, group_id: int, machine: Any) -> None:
        log = self.log
        execution = machine._execution
        apply, end_install = machine.apply, machine.end_install

        def watched(index: int, term: int, data: bytes, now: int) -> None:
            if log.entry(group_id, index, data, node.name):
                self.check_majority(node, group_id, index, term)
            before = len(execution.effects)
            fed = {name: len(feed.effects) for name, feed in execution.feeds.items()}
            apply(index, term, data, now)
            log.told(group_id, index, node.name, execution.effects[before:])
            for name, count in fed.items():
                log.told(group_id, index, name, execution.feeds[name].effects[count:])
            if index % _EVERY == 0:
                log.digest(group_id, index, digest_of(machine), node.name)

        def installed() -> None:
            before = len(execution.effects)
            end_install()
            log.counts["installs"] += 1
            log.told(group_id, 0, node.name, execution.effects[before:], is_exact=False)

        open_feed, resume = machine.open_feed, machine.resume

        def fed_from_here(name: str, heard: Any) -> None:
            open_feed(name, heard)
            log.counts["feeds"] += 1
            log.told(group_id, 0, name, execution.feeds[name].effects, is_exact=False)

        def resumed(heard: Any) -> None:
            before = len(execution.effects)
            resume(heard)
            log.counts["resumed"] += 1
            log.told(group_id, 0, node.name, execution.effects[before:], is_exact=False)

        machine.apply, machine.end_install = watched, installed
        machine.open_feed, machine.resume = fed_from_here, resumed
        self._watch_places(machine.placer)

    def _watch_places(self, placer: Any) -> None:
        """Count what happens to chunks that lie in files of their own."""
        counts = self.log.counts
        place, put_together, take_back, take = placer.place, placer.put_together, placer.take_back, placer.take

        def placed(index: int, data: bytes) -> bytes | None:
            short: bytes | None = place(index, data)
            counts["placed entries"] += short is not None
            return short

        def found(index: int, short: bytes) -> bytes:
            counts["entries put together"] += 1
            data: bytes = put_together(index, short)
            return data

        def taken_back(index: int) -> None:
            counts["placed entries cut"] += sum(each >= index for each in placer._placed)
            take_back(index)

        def taken(index: int) -> Any:
            places = take(index)
            counts["placed chunks applied"] += len(places or ())
            return places

        placer.place, placer.put_together, placer.take_back, placer.take = placed, found, taken_back, taken

    # -- checks --------------------------------------------------------------------------------------------------------

    def check_majority(self, leader: ClusterNode, group_id: int, index: int, term: int) -> None:
        """An entry is applied for the first time, which is by who leads (G2)."""
        group = self.group_of(leader, group_id)
        if group is None or not group.member.is_leader:
            return
        configuration = group.member.configuration
        holders = []
        for name, node in self.nodes.items():
            group = self.group_of(node, group_id)
            if group is None:
                continue
            member = group.member
            log = member.log
            has_it = index <= log.synced_checkpoint_index or (
                index <= log.synced_index and log.term_at(index) in (None, term)
            )
            if has_it or node.has_forgotten:  # what it had acknowledged before may have been on its way
                holders.append(name)
        hosts = dict.fromkeys(map(node_of_worker, holders))
        voters = [name for name in hosts if name in configuration.voters]
        if len(voters) < configuration.majority:
            raise Violation(f"entry {index} of group {group_id} is applied, and only {voters} have it on disk")

    @staticmethod
    def group_of(node: ClusterNode, group_id: int) -> Any:
        """The node's member of a group, as it is or was when the node died; None before its first start."""
        if not node.lives:
            return None
        return node.node.replication.host.groups.get(group_id)

    def on_turn(self, node: ClusterNode) -> None:
        """A turn of a node is over (G1, G3)."""
        for group_id, group in node.node.replication.host.groups.items():
            member = group.member
            if member.is_leader:
                first = self._leaders.setdefault((group_id, member.current_term), node.name)
                if first != node.name:
                    raise Violation(f"{first} and {node.name} lead group {group_id} in term {member.current_term}")
            if not member.last_applied <= member.commit_index <= member.log.last_index:
                raise Violation(f"{node.name}: {group.statistics()}")

    def on_frames(self, node: ClusterNode, receiver: str, frames: Sequence[bytes]) -> None:
        """A node says something to another one: its votes (G1, G6)."""
        for frame in frames:
            if frame[1] == VOTE_REQUEST or frame[1] == VOTE_REPLY:
                message = decode(frame)
                if isinstance(message, VoteReply) and message.is_granted and not message.is_pre:
                    self._vote(node, message.group, message.term, node_of_worker(receiver))
                elif isinstance(message, VoteRequest) and not message.is_pre:
                    self._vote(node, message.group, message.term, node_of_worker(node.name))

    def _vote(self, node: ClusterNode, group_id: int, term: int, candidate: str) -> None:
        host = node_of_worker(node.name)
        voter = self._voters.setdefault((host, node.incarnation, group_id), node.name)
        if voter != node.name:
            raise Violation(f"{voter} and {node.name} vote in group {group_id}")
        first = self._votes.setdefault((host, node.incarnation, group_id, term), candidate)
        if first != candidate:
            raise Violation(f"{node.name} votes for {first} and {candidate} in term {term} of group {group_id}")

    def declared(self, node: ClusterNode, links: Sequence[str], queue: str) -> None:
        """A client of this node was told that a queue is there (G5). A member that has applied more may know already
        that it was deleted."""
        applied = node.node.replication.metadata_group.last_applied
        for name in [node.name, *links]:
            other = self.nodes[name]
            if not other.is_up or not other.node.is_ready:
                continue
            is_ahead = other.node.replication.metadata_group.last_applied > applied
            if not is_ahead and other.node.broker.metadata.queue("/", queue) is None:
                raise Violation(f"{node.name} has answered that '{queue}' is there, and on {name} it is not")

    def at_the_end(self) -> None:
        """All are at rest: all states are equal."""
        for group_id in next(iter(self.nodes.values())).node.replication.host.groups:
            states: dict[int, tuple[str, bytes]] = {}
            for node in self.nodes.values():
                group = self.group_of(node, group_id) if node.is_up else None
                if group is None or group.is_outside or node_of_worker(node.name) not in group.members:
                    continue
                if group_id == _METADATA:
                    self.compare_metadata(node, group.last_applied)
                    continue
                digest = digest_of(group.member.machine)
                name, first = states.setdefault(group.last_applied, (node.name, digest))
                if first != digest:
                    raise Violation(f"{node.name} and {name} end with different states of group {group_id}")
