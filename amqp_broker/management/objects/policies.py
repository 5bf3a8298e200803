"""Policies and operator policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import Cursor
from amqp_broker.management.objects.records import VhostRecords
from amqp_broker.metadata.entities import Policy

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies


class Policies(VhostRecords[Policy]):
    """Those that users make."""

    name = "policies"
    singular = "policy"

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {
            "vhost": lambda one: one.vhost,
            "name": lambda one: one.name,
            "pattern": lambda one: one.pattern,
            "apply-to": lambda one: one.apply_to,
            "definition": lambda one: dict(one.definition),
            "priority": lambda one: one.priority,
        }

    def those_of(self, vhost: str) -> list[Policy]:
        """All of a virtual host: never many, since each queue is compared with each of them."""
        return self.metadata.policies(vhost)

    def keys_in(self, vhost: str) -> Iterable[Cursor]:
        """See VhostRecords."""
        return [(vhost, policy.name) for policy in self.those_of(vhost)]

    def record(self, key: Cursor) -> Policy | None:
        """See Records."""
        return next((policy for policy in self.those_of(key[0]) if policy.name == key[1]), None)


class OperatorPolicies(Policies):
    """Those that administrators make."""

    name = "operator_policies"
    singular = "operator policy"

    def those_of(self, vhost: str) -> list[Policy]:
        """See Policies."""
        return self.metadata.operator_policies(vhost)
