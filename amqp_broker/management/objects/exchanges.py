"""Exchanges, the predeclared ones among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import Scope
from amqp_broker.management.objects.values import as_object
from amqp_broker.management.objects.vhost_things import VhostThings
from amqp_broker.routing.vhost import VHost
from amqp_broker.turn.task import Steps
from amqp_broker.vhosts.policies import EXCHANGES, matching_policies
from exchanges.router import ExchangeEntry

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.octets.sorted_keys import SortedKeys

#: An exchange, and where it is.
InVhost = tuple[VHost, ExchangeEntry]


class Exchanges(VhostThings[InVhost, InVhost]):
    """A thing is (vhost, entry of the router)."""

    name = "exchanges"
    singular = "exchange"

    def __init__(self, counts: NodeCounts) -> None:
        super().__init__(counts)
        self.columns = {
            "name": lambda one: one[1].name,
            "vhost": lambda one: one[0].name,
            "type": lambda one: one[1].exchange.type_name,
            "durable": lambda one: bool(one[1].durable),
            "auto_delete": lambda one: bool(one[1].auto_delete),
            "internal": lambda one: bool(one[1].internal),
            "arguments": lambda one: as_object(one[1].arguments),
            "policy": self._policy,
            "alternate_exchange": lambda one: one[1].alternate,
            "messages_delayed": lambda one: len(one[0].delayed[one[1].name]) if one[1].name in one[0].delayed else None,
            "user_who_performed_action": lambda one: "",
            "publish_in": lambda one: one[1].published_in,
            "publish_out": lambda one: one[1].published_out,
        }

    def names(self, vhost: VHost) -> SortedKeys[str]:
        """See VhostThings."""
        return vhost.router.names

    def one(self, vhost: VHost, name: str) -> InVhost | None:
        """See VhostThings."""
        entry = vhost.router.get(name)
        return (vhost, entry) if entry is not None else None

    def is_there(self, thing: InVhost) -> bool:
        """See Kind."""
        return thing[0].router.get(thing[1].name) is thing[1]

    def details(self, scope: Scope, thing: InVhost) -> Steps:
        """See Kind: who publishes how much, and to which queues it went, nobody counts."""
        return {"incoming": [], "outgoing": []}
        yield

    def _policy(self, one: InVhost) -> str:
        policy, _ = matching_policies(self.metadata, one[0].name, EXCHANGES, one[1].name)
        return policy.name if policy is not None else ""
