"""ClusterVerbs: what administrators may ask about the cluster, and of it, over `amq.system` (system.py).

Each node answers with what it knows itself: of the groups that it leads, how far the others are. Of groups that another
one of its workers has, that one says it. What changes the cluster may be asked of any node: members are metadata, and
who leads a group hears of a transfer from the node that was asked. An answer says that it is on its way;
`cluster.status` says when it has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from amqp_broker.management.queue_walk import queues_in_slices
from amqp_broker.management.request import Request
from amqp_broker.management.verbs.groups import group_of_queue
from amqp_broker.metadata import commands
from amqp_broker.metadata.stream import Proposal
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.settings.kinds import MemberAddress, parse_member
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.turn.task import Steps
from raft.membership import TransferResult
from raft.memory import IDENTITY_BYTES

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.cluster.transfers import Transfers
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.vhosts.broker import Broker
    from raft.group import Group

#: An answer's fields, which may change until it is given, and what has to be applied before that.
Answer = tuple[JsonObject, Proposal | None]

METADATA = "metadata"
QUORUM_QUEUES = "quorum queues"
#: So many names of queues are listed in an answer.
MAX_LISTED_QUEUES = 1000
#: The question of one worker to another for the rows of the groups that it has.
_GROUPS_HERE = "groups_here"
#: So many are looked at in one slice.
_SLICE = 32


class ClusterVerbs:
    """See the module's docstring. Verbs raise ValueError for a request that cannot be."""

    def __init__(
        self,
        broker: Broker,
        replication: Replication,
        membership: Membership,
        transfers: Transfers,
        groups: QuorumGroups,
        peers: PeerQuestions,
    ) -> None:
        self._broker = broker
        self._config = broker.config
        self._metadata = broker.metadata
        self._replication = replication
        self._acquaintances = replication.acquaintances
        self._transfers = transfers
        self._groups = groups
        self._places = groups.places
        self._membership = membership
        self._peers = peers
        peers.serve({_GROUPS_HERE: self._serve})
        self.verbs: dict[str, Callable[[Request], Answer | Steps]] = {
            "cluster.status": self._status,
            "cluster.add": self._add,
            "cluster.remove": self._remove,
            "cluster.transfer": self._transfer,
            "cluster.rebalance": self._rebalance,
        }

    # -- what it is ----------------------------------------------------------------------------------------------------

    def _status(self, request: Request) -> Steps:
        """With `node`: whether it has left all groups for certain, too (`Membership.has_left`). `brief`: without the
        queues of the groups, which costs by how many there are."""
        node = request.text("node", "")
        config, replication = self._config, self._replication
        groups: list[JsonObject] = yield from self._describe_groups(request)
        critical_groups = {row["group"] for row in groups if row["is_critical"]}
        queues: dict[int, int] = {}
        critical: list[JsonObject] = []
        if not request.flag("brief"):
            queues, critical = yield from self._queues_in_groups(critical_groups)
        for row in groups:
            row["queues"] = queues.get(row["group"], 0)
        return {
            "cluster": config.cluster_name,
            "node": replication.own_node,
            "level": self._metadata.level,
            "members": self._describe_members(),
            "groups": groups,
            "critical_queues": critical,
            "critical_queue_count": sum(queues.get(group, 0) for group in critical_groups),
            **({"has_left": self._has_left(node)} if node else {}),
        }

    def _describe_groups(self, request: Request) -> Steps:
        """Its result: a row for each."""
        rows: dict[int, JsonObject] = {}
        for each in sorted(self._replication.groups(), key=lambda each: each.group_id):
            rows[each.group_id] = self._describe_group(each)
            yield None
        if others := self._places.others_with_groups:
            answers = yield from self._peers.ask_all(others, _GROUPS_HERE, {}, request.asker)
            for answer in answers.values():
                if answer is not None:
                    rows |= {row["group"]: row for row in answer.fields["groups"] if row["group"] in rows}
        return list(rows.values())

    def _serve(self, request: Request) -> Steps:
        rows: list[JsonObject] = []
        for each in self._replication.groups():
            if self._is_here(each.group_id):
                rows.append(self._describe_group(each))
                yield None
        return {"groups": rows}, ""

    def _is_here(self, group_id: int) -> bool:
        return bool(self._places.is_here(group_id))

    def _has_left(self, name: str) -> bool:
        return name not in self._metadata.members() and self._membership.has_left(name)

    def _describe_members(self) -> list[JsonObject]:
        replication, membership = self._replication, self._membership
        own = replication.own_node
        recorded, racks = self._metadata.members(), self._metadata.member_racks()
        addresses = {name: str(address) for name, address in membership.addresses().items()}
        addresses[own] = str(membership.own_address or "")
        return [
            {
                "node": name,
                "address": addresses.get(name, ""),
                "rack": racks.get(name, ""),
                "is_linked": membership.is_linked(name),
                "speaks_level": self._level_spoken(name),
                "is_this_node": name == own,
                "is_leaving": bool(recorded) and name not in recorded,
            }
            for name in sorted({*recorded, *replication.members(), own})
        ]

    def _level_spoken(self, name: str) -> int | None:
        """The latest that a node speaks; None where there is no link."""
        replication = self._replication
        is_known = name == replication.own_node or self._membership.is_linked(name)
        return replication.spoken_by(name) if is_known else None

    def _describe_group(self, group: Group) -> JsonObject:
        group_id = group.group_id
        state = group.statistics()
        known = self._groups
        queues = known.all.get(group_id)
        is_guest = queues is not None and queues.guest is not None
        voters = queues.voters() if queues is not None and group.is_outside else state.voters
        processes = [self._places.process_of(group_id, name) for name in voters]
        linked = [name for name in processes if self._membership.is_linked(name)]
        leader = queues.leader if queues is not None else state.leader
        return {
            "group": group_id,
            "holds": QUORUM_QUEUES if group_id else METADATA,
            "role": "guest" if is_guest else state.role,
            "leader": None if leader is None else node_of_worker(leader),
            "worker": self._places.worker_of(group_id),
            "term": state.term,
            "commit_index": state.commit_index,
            "applied_index": state.last_applied,
            "last_index": state.last_index,
            "checkpoint_index": state.checkpoint_index,
            "voters": list(voters),
            "learners": list(state.learners),
            "lag": {peer.name: peer.lag for peer in state.peers},
            "log_bytes": state.log_bytes,
            "segments": state.segments,
            "commit_ms": self._groups.all[group_id].commit_ms if group_id in self._groups.all else None,
            # With one more voter gone there would be no majority. A node alone has nobody to lose.
            "is_critical": len(voters) > 1 and 2 * (len(linked) - 1) <= len(voters),
        }

    def _queues_in_groups(self, critical: set[int]) -> Steps:
        """Its result: how many queues each group has; and those of critical groups, a bounded number of them."""
        counts: dict[int, int] = {}
        found: list[JsonObject] = []
        for vhost, names in queues_in_slices(self._broker, _SLICE):
            for name in names:
                queue = self._metadata.queue(vhost.name, name)
                if queue is None or not lives_in_groups(queue.type):
                    continue
                group_id = self._groups.of(queue.queue_id).group_id
                counts[group_id] = counts.get(group_id, 0) + 1
                if group_id in critical and len(found) < MAX_LISTED_QUEUES:
                    found.append({"vhost": vhost.name, "name": name, "group": group_id})
            yield None
        return counts, found

    # -- members -------------------------------------------------------------------------------------------------------

    def _add(self, request: Request) -> Answer:
        """A node is to be a member: `node` is NAME=HOST:PORT, `identity` that of its folder, if that has one."""
        text, identity = request.text("node"), _identity(request)
        try:
            name, address = parse_member(text)
        except ValueError as error:
            raise ValueError(f"node '{text}' is {error}") from None
        config, recorded = self._config, self._metadata.members()
        own = self._replication.own_node
        if self._membership.own_address is None:
            raise ValueError(
                f"node {own} has no address for other members: start it with cluster_listen and cluster_secret_file "
                f"(and cluster, if it listens on all addresses)"
            )
        if own not in recorded:
            if recorded or not self._replication.is_alone:
                raise ValueError(f"node {own} is no member yet, or not any more: ask one that `cluster status` shows")
            # It has just started alone, and what it says of itself at its start is not applied yet.
            self._replication.propose(commands.put_member(own, str(self._membership.own_address)))
        for other, known in recorded.items():
            if other != name and known == str(address):
                raise ValueError(f"{address} is the address of {other} already")
        self._check_is_new(name, recorded, identity)
        members = [*self._known_members(), MemberAddress(name, address)]
        answer: JsonObject = {
            "cluster": config.cluster_name,
            "queue_groups": config.queue_groups,
            "members": [str(each) for each in sorted(set(members))],
            "generation": self._acquaintances.generation,
            "replaces": self._acquaintances.replaces,
        }
        replication, metadata = self._replication, self._metadata
        put = commands.add_member(name, str(address), identity) if identity else commands.put_member(name, str(address))
        proposal = replication.propose(put)

        def look(_: object) -> None:
            if identity and metadata.identity_of(name) != identity:
                answer.update(ok=False, error=f"cluster.add: {_already(name)}")
            # Who had this name before is forgotten up to here: the new node says so to those who have not heard of it.
            answer.update(index=replication.last_applied)

        proposal.when_done(look)
        return answer, proposal

    def _check_is_new(self, name: str, recorded: Container[str], identity: str) -> None:
        """Whoever is added is let in with an empty folder, so it must not have promised anything under this name: to be
        added is not the way back for a member whose folder is lost. Raises ValueError."""
        older = self._acquaintances.older_versions() if identity else []
        if older:
            raise ValueError(
                f"{', '.join(older)} would not understand it, of an older version: upgrade all members before {name} "
                f"joins"
            )
        if name in recorded and (self._acquaintances.has_met(name) or self._votes(name)):
            raise ValueError(_already(name))
        if name not in recorded and not self._membership.has_left(name):
            raise ValueError(
                f"{name} is leaving, or another change of members is going on, or no majority of the members is "
                f"linked: it may still be in some group; ask again, `amqp-broker cluster status` shows it"
            )

    def _votes(self, name: str) -> bool:
        return any(name in group.members for group in self._replication.groups())

    def _known_members(self) -> list[MemberAddress]:
        membership, own = self._membership, self._replication.own_node
        known = [MemberAddress(name, address) for name, address in membership.addresses().items()]
        if membership.own_address is not None:
            known.append(MemberAddress(own, membership.own_address))
        return known

    def _remove(self, request: Request) -> Answer:
        """`node` is to be no member any more. Refused if the others could not go on without it."""
        name, drops_queues = request.text("node"), request.flag("drops_queues")
        membership, recorded = self._membership, self._metadata.members()
        if name not in recorded:
            if any(row["node"] == name and row["is_leaving"] for row in self._describe_members()):
                return {"remaining": list(recorded), "dropped_queues": 0}, None
            names = ", ".join(recorded) or "none but this node"
            raise ValueError(f"no member '{name}'; there are {names}")
        if not membership.is_settled:
            raise ValueError(
                f"another change of members is going on; `amqp-broker cluster status` shows when all groups have the "
                f"members {', '.join(recorded)}"
            )
        for group in self._replication.groups():
            members = group.members
            if group.is_outside and group.group_id:
                members = tuple(membership.wanted(group.group_id))
            rest = [other for other in members if other != name]
            if name not in members or (not rest and membership.is_linked(name)):
                continue  # its only member gives what it has to another one before it goes
            process_of = self._places.process_of
            gone = [other for other in rest if not membership.is_linked(process_of(group.group_id, other))]
            if 2 * len(gone) >= len(rest):
                raise ValueError(
                    f"without {name} there would be no majority: {len(rest) - len(gone)} of the {len(rest)} others "
                    f"are linked; remove who is gone ({', '.join(gone) or 'nobody'}) first"
                )
        lost = [queue for queue in self._metadata.queues_at(name, with_workers=True) if queue.durable]
        if lost and not drops_queues:
            listed = ", ".join(f"'{queue.name}'" for queue in lost[:5]) + (", ..." if len(lost) > 5 else "")
            raise ValueError(
                f"{len(lost)} durable classic queues live on {name} and would be gone: {listed}; "
                f"delete them, or say that they may be dropped (--drop-queues)"
            )
        fields = {"remaining": [other for other in recorded if other != name], "dropped_queues": len(lost)}
        propose = self._replication.propose
        fate = commands.DROP if drops_queues else commands.REFUSE
        proposal = propose(commands.remove_member(name, expected=list(recorded), queues=fate))

        def look(changed: object) -> None:
            if not changed:
                text = f"somebody else has changed the members, or declared a queue on {name}; ask again"
                fields.update(ok=False, error=f"cluster.remove: {text}")

        proposal.when_done(look)
        return fields, proposal

    # -- leaders -------------------------------------------------------------------------------------------------------

    def _transfer(self, request: Request) -> Answer:
        """The group of a quorum queue is to be led by `node`."""
        vhost, name, target = request.text("vhost"), request.text("queue"), node_of_worker(request.text("node"))
        group_id = group_of_queue(self._metadata, self._groups, vhost, name, ", and has no leader")
        result = self._transfers.request(group_id, target)
        if result not in (TransferResult.STARTED, TransferResult.LEADER_ALREADY):
            raise ValueError(f"group {group_id} of queue '{name}', node '{target}': {result.value}")
        return {"group": group_id, "leader": target}, None

    def _rebalance(self, request: Request) -> Answer:
        """Leaders are to be spread evenly over the linked members."""
        moves = []
        for move in self._membership.plan():
            result = self._transfers.request(move.group_id, move.target)
            moves.append(
                {
                    "group": move.group_id,
                    "from": move.source,
                    "to": move.target,
                    "is_started": result is TransferResult.STARTED,
                    "note": "" if result is TransferResult.STARTED else result.value,
                }
            )
        return {"moves": moves}, None


def _identity(request: Request) -> str:
    """Of a folder, hexadecimal; "" where none is given."""
    identity = request.text("identity", "")
    try:
        is_one = len(bytes.fromhex(identity)) in (0, IDENTITY_BYTES)
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError(f"field identity has to be {IDENTITY_BYTES} octets in hexadecimal, got '{identity}'")
    return identity.lower()


def _already(name: str) -> str:
    return (
        f"{name} is a member already: start it with the folder that it has; if that is lost, `amqp-broker cluster "
        f"rejoin --node-name {name} ...` gives it a new one"
    )
