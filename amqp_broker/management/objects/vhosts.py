"""Virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import Cursor, Kind, Scope, Things
from amqp_broker.metadata.entities import VHost
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.request import Request
    from queues.sums import QueueSums

#: Counters of queues, and what they are called in their sums.
_COUNTED = {
    "publish": "published", "deliver": "delivered", "deliver_no_ack": "auto_acked", "get": "got",
    "get_no_ack": "got_no_ack", "get_empty": "got_nothing", "redeliver": "redelivered", "ack": "acked",
}  # fmt: skip


class VHosts(Kind[VHost, VHost]):
    """A thing is the record of the metadata."""

    name = "vhosts"
    singular = "vhost"
    cursor = (str,)

    def __init__(self, counts: NodeCounts) -> None:
        super().__init__(counts)
        vhosts = counts.broker.vhosts
        self.columns = {
            "name": lambda one: one.name,
            "description": lambda one: one.description,
            "tags": lambda one: list(one.tags),
            "default_queue_type": lambda one: one.default_queue_type,
            "metadata": _metadata,
            "tracing": lambda one: one.tracing,
            "protected_from_deletion": lambda one: one.is_protected,
            "cluster_state": lambda one: {self.node_name: "running"},
            "connections": lambda one: vhosts[one.name].connections,
            "queues": lambda one: len(vhosts[one.name].queues),
            "exchanges": lambda one: len(vhosts[one.name].router.names),
            "limits": lambda one: dict(one.limits),
            "of_deleted_queues": lambda one: _counted(vhosts[one.name].gone),
        }

    def things(self, scope: Scope, after: Cursor | None) -> Things[VHost]:
        """See Kind."""
        for name in self.vhosts_of(scope, after[0] if after is not None else None):
            if name is None:
                yield None
            elif (after is None or name > after[0]) and (found := self.metadata.vhost(name)) is not None:
                yield (name,), found

    def is_there(self, thing: VHost) -> bool:
        """See Kind."""
        return thing.name in self.broker.vhosts

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind."""
        name = request.text("name")
        return self.metadata.vhost(name) if scope.covers(name) else None
        yield


def _metadata(one: VHost) -> JsonObject:
    return {
        "description": one.description, "tags": list(one.tags), "default_queue_type": one.default_queue_type,
        **({"protected_from_deletion": True} if one.is_protected else {}),
    }  # fmt: skip


def _counted(sums: QueueSums) -> JsonObject:
    """What queues that are gone have counted, by the names of theirs."""
    return {name: getattr(sums, of) for name, of in _COUNTED.items()}
