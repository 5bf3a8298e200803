"""Messages that went to no queue: the last of each node, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import LOOK, Cursor, Kind, Scope, Things
from amqp_broker.management.request import Request
from amqp_broker.routing.unroutable import Unroutable
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts


class UnroutableMessages(Kind[Unroutable, Unroutable]):
    """Of the virtual hosts that the asker sees, whoever published them."""

    name = "unroutable"
    singular = "unroutable message"
    cursor = (int,)
    is_by_node = True

    def __init__(self, counts: NodeCounts) -> None:
        super().__init__(counts)
        self._ring = counts.broker.unroutable_ring
        self.columns = {
            "at": lambda one: one.at,
            "vhost": lambda one: one.vhost,
            "exchange": lambda one: one.address.exchange,
            "routing_key": lambda one: one.address.routing_key,
            "mandatory": lambda one: one.is_mandatory,
            "user": lambda one: one.user,
            "connection": lambda one: str(one.peer),
            "node": lambda one: self.node_name,
            "number": lambda one: one.number,
        }

    def things(self, scope: Scope, after: Cursor | None) -> Things[Unroutable]:
        """See Kind."""
        last = after[0] if after is not None else -1
        while found := self._ring.after(last, LOOK):
            for one in found:
                if scope.covers(one.vhost):
                    yield (one.number,), one
            last = found[-1].number
            yield None

    def is_there(self, thing: Unroutable) -> bool:
        """See Kind."""
        return self._ring.has(thing)

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind: by its number, on this node."""
        number = request.number("number", None, 0, 1 << 62)
        found = self._ring.after(number - 1, 1)
        return found[0] if found and found[0].number == number and scope.covers(found[0].vhost) else None
        yield
