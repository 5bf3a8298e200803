"""GroupVerbs: on which nodes the groups of queues are: `queues.grow`, `queues.shrink`, `queues.rebalance`.

An answer says what was asked for: the lists of members are metadata. Whoever leads a group brings it there, one node at
a time: a new one votes once it has caught up, and nobody goes before that. `cluster.status` says when it has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from amqp_broker.links.levels import SOME_MEMBERS
from amqp_broker.management.request import Request
from amqp_broker.metadata import commands
from amqp_broker.metadata.group_placing import spread
from amqp_broker.metadata.stream import Proposal
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.settings.workers import node_of_worker

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.queue_types.groups.groups import QuorumGroups

#: An answer's fields, which may change until it is given, and what has to be applied before that.
Answer = tuple[JsonObject, Proposal | None]


def group_of_queue(metadata: Metadata, groups: QuorumGroups, vhost: str, name: str, why: str) -> int:
    """Raises ValueError where there is no such queue, or it is in no group. why: what is said of that."""
    queue = metadata.queue(vhost, name)
    if queue is None:
        raise ValueError(f"no queue '{name}' in vhost '{vhost}'")
    if not lives_in_groups(queue.type):
        raise ValueError(f"queue '{name}' in vhost '{vhost}' is a {queue.type} queue{why}")
    return groups.of(queue.queue_id).group_id


class GroupVerbs:
    """See the module's docstring. Verbs raise ValueError for a request that cannot be."""

    def __init__(
        self, metadata: Metadata, replication: Replication, membership: Membership, groups: QuorumGroups
    ) -> None:
        self._metadata = metadata
        self._replication = replication
        self._membership = membership
        self._groups = groups
        self.verbs: dict[str, Callable[[Request], Answer]] = {
            "queues.grow": self._grow,
            "queues.shrink": self._shrink,
            "queues.rebalance": self._rebalance,
        }

    def _grow(self, request: Request) -> Answer:
        """`node` is to be a member of all groups of queues; with `vhost` and `queue`, of the one of that queue."""
        node, vhost, queue = self._asked(request)
        if not self._membership.is_linked(node):
            raise ValueError(f"node {node} is not linked, and could not catch up: ask again when it is there")
        changed = {}
        for group_id in self._asked_groups(vhost, queue):
            members = self._members(group_id)
            if node not in members:
                self._check_is_settled(group_id)
                changed[group_id] = [*members, node]
        return self._propose("queues.grow", changed)

    def _shrink(self, request: Request) -> Answer:
        """`node` is to be a member of no group of queues; with `vhost` and `queue`, not of the one of that queue.
        Refused where it is the last one, or the others could not go on without it. One that does not vote yet may go
        at any time."""
        node, vhost, queue = self._asked(request)
        changed = {}
        for group_id in self._asked_groups(vhost, queue):
            members = self._members(group_id)
            if node not in members:
                continue
            rest = [name for name in members if name != node]
            group = self._groups.all[group_id].raft
            is_voter = not group.members or node in group.members
            if is_voter:
                self._check_is_settled(group_id)
            if is_voter or not group.is_leader:  # who follows may hear later that it votes
                self._check_majority(group_id, node, rest)
            elif not rest:
                self._refuse_last(group_id, node)
            changed[group_id] = rest
        return self._propose("queues.shrink", changed)

    def _check_majority(self, group_id: int, node: str, rest: list[str]) -> None:
        if not rest:
            self._refuse_last(group_id, node)
        linked = [name for name in rest if self._membership.is_linked(name)]
        if 2 * len(linked) <= len(rest):
            gone = ", ".join(name for name in rest if name not in linked)
            raise ValueError(
                f"without {node} group {group_id} would have no majority: {len(linked)} of its {len(rest)} other "
                f"members are linked (missing: {gone}); grow it by another node first, or bring these back"
            )

    def _refuse_last(self, group_id: int, node: str) -> None:
        raise ValueError(
            f"{node} is the only member of group {group_id}, and has all that is in its queues: grow it by another "
            f"node first"
        )

    def _rebalance(self, request: Request) -> Answer:
        """Members are to be spread over racks and hosts, and evenly over the linked nodes; groups on all nodes stay so,
        and each keeps its size."""
        self._check_level()
        linked = self._membership.is_linked
        places = self._metadata.member_places()
        lists = self._metadata.group_lists()
        if missing := [name for name in places if not linked(name)]:
            raise ValueError(
                f"{', '.join(missing)} would have to take or give groups, and there is no link: ask again when all "
                f"nodes are there, or remove those that do not come back (`amqp-broker cluster remove`)"
            )
        for group_id in lists:
            self._check_is_settled(group_id)
        return self._propose("queues.rebalance", spread(lists, places))

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _asked(self, request: Request) -> tuple[str, str, str]:
        """The node, and the virtual host and the name of the queue, which is empty if all groups are meant."""
        node, vhost, queue = node_of_worker(request.text("node")), request.text("vhost", "/"), request.text("queue", "")
        if node not in self._metadata.members():
            raise ValueError(f"no member '{node}'; there are {', '.join(self._metadata.members()) or 'none'}")
        self._check_level()
        return node, vhost, queue

    def _check_level(self) -> None:
        level = self._metadata.level
        if level < SOME_MEMBERS:
            raise ValueError(
                f"the cluster is at level {level}, and groups on some of the nodes need {SOME_MEMBERS}: upgrade all "
                f"nodes first, `amqp-broker cluster status` shows which speak it"
            )

    def _asked_groups(self, vhost: str, name: str) -> list[int]:
        if not name:
            return sorted(self._groups.all)
        return [group_of_queue(self._metadata, self._groups, vhost, name, ": it is on one node only")]

    def _check_is_settled(self, group_id: int) -> None:
        """As far as this node knows: one change at a time."""
        raft, wanted = self._groups.all[group_id].raft, self._members(group_id)
        if raft.learners or (raft.members and set(raft.members) != set(wanted)):
            raise ValueError(
                f"group {group_id} is on its way to the members {', '.join(wanted)}: ask again when it has them "
                f"(`amqp-broker cluster status`), or take one off that does not come (`amqp-broker queue shrink`)"
            )

    def _members(self, group_id: int) -> list[str]:
        return sorted(self._membership.wanted(group_id))

    def _propose(self, verb: str, changed: dict[int, list[str]] | dict[int, tuple[str, ...]]) -> Answer:
        rows = [{"group": group_id, "members": sorted(members)} for group_id, members in changed.items()]
        fields: JsonObject = {"groups": rows}

        def look(is_changed: object) -> None:
            if not is_changed:
                fields.update(ok=False, error=f"{verb}: somebody else has changed the members; ask again")

        last: Proposal | None = None
        for group_id, members in changed.items():
            expected: Collection[str] = self._metadata.group_members(group_id)
            last = self._replication.propose(commands.put_group_members(group_id, members, expected))
            last.when_done(look)
        return fields, last
