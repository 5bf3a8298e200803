"""QuorumView: the verb `quorum.view`: the group behind a quorum queue, as each of its members sees it.

Nobody knows all of it: how far the others are, the leader knows; who led when, and why, each member has seen for
itself. So all are asked, and each row says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.vhosts.broker import Broker
    from raft.group import Group

#: What a member says that stands elsewhere in the answer.
_OF_THE_WHOLE = ("peers", "leader_changes", "leader")


class QuorumView:
    """See the module's docstring."""

    def __init__(
        self,
        broker: Broker,
        groups: QuorumGroups,
        replication: Replication,
        membership: Membership,
        peers: PeerQuestions,
    ) -> None:
        self._vhosts = broker.vhosts
        self._metadata = broker.metadata
        self._clock = broker.clock
        self._groups = groups
        self._places = groups.places
        self._all = replication.host.groups
        self._membership = membership
        self._peers = peers
        peers.serve({"raft": self._serve})
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "quorum.view": self._view,
        }

    def _view(self, request: Request) -> Steps:
        """leader, term: as the member says that knows the highest term. members: what each says of itself, with
        `acknowledged_index` and `lag` (entries) as the leader says; None where none is known."""
        vhost, name = request.text("vhost"), request.text("name")
        queue = request.asker.find_queue(self._vhosts, vhost, name)
        if not lives_in_groups(queue.declaration.type):
            kind = queue.declaration.type
            raise ValueError(f"queue '{name}' in vhost '{vhost}' is of type {kind}, which is on one node only")
        found_group = self._groups.of(queue.queue_id)
        group, members = found_group.raft, found_group.members()
        learners = [self._places.process_of(group.group_id, each) for each in group.learners]
        asked = [each for each in self._peers.others() if each in (*members, *learners)]
        answers = yield from self._peers.ask_all(asked, "raft", {"group": group.group_id}, request.asker)
        rows = [] if found_group.guest is not None else [self._describe(group)]
        rows += (answer.fields for answer in answers.values() if answer is not None and answer.fields)
        rows = rows or [self._describe(group)]
        newest = max(rows, key=lambda row: (row["term"], row["leader"] is not None))
        leading = next((row for row in rows if row["role"] == "leader" and row["term"] == newest["term"]), None)
        changes = [{"seen_by": row["node"], **each} for row in rows for each in row["leader_changes"]]
        return {
            "group": group.group_id,
            "term": newest["term"],
            "leader": newest["leader"],
            "members": _members(members, learners, rows, leading, self._membership.is_linked),
            "leader_changes": sorted(changes, key=lambda each: (each["term"], each["at"]), reverse=True),
            "at": self._clock.now,
            "stale": [name for name, answer in answers.items() if answer is None],
        }

    def _serve(self, request: Request) -> Steps:
        group = self._all.get(request.number("group", None, 0, 1 << 62))
        return ({} if group is None else self._describe(group)), ""
        yield

    def _describe(self, group: Group) -> JsonObject:
        state, queues = group.statistics(), self._groups.all.get(group.group_id)
        return {
            "node": self._peers.own_node,
            "role": state.role,
            "leader": state.leader if queues is None else queues.member_leading(),
            "term": state.term,
            "last_index": state.last_index,
            "synced_index": state.synced_index,
            "commit_index": state.commit_index,
            "applied_index": state.last_applied,
            "checkpoint_index": state.checkpoint_index,
            "level": self._metadata.level,
            "log_bytes": state.log_bytes,
            "without_leader_since": group.leaders.without_since or None,
            "leader_changes": [each._asdict() for each in group.leaders.all],
            "peers": {
                peer.name: {
                    "acknowledged_index": peer.match_index,
                    "lag": peer.lag,
                    "state": peer.state,
                    "is_connected": peer.is_connected,
                }
                for peer in state.peers
            },
        }


def _members(
    voters: Collection[str],
    learners: Collection[str],
    rows: list[JsonObject],
    leading: JsonObject | None,
    is_linked: Callable[[str], bool],
) -> list[JsonObject]:
    """One for each member, whether it has answered or not."""
    said = {row["node"]: row for row in rows}
    found = []
    for name in sorted({*voters, *learners}):
        row = {key: value for key, value in said.get(name, {}).items() if key not in _OF_THE_WHOLE}
        known = leading["peers"].get(node_of_worker(name), {}) if leading is not None else {}
        if leading is not None and leading["node"] == name:
            known = {"acknowledged_index": leading["synced_index"], "lag": 0, "state": "leader"}
        found.append({
            "role": "unknown", **row, "node": name, "is_voter": name in voters, "is_linked": is_linked(name),
            "acknowledged_index": known.get("acknowledged_index"), "lag": known.get("lag"), "state": known.get("state"),
        })  # fmt: skip
    return found
