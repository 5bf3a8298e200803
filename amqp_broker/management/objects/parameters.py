"""Parameters of virtual hosts, and global ones: what is kept for others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp_broker.management.access import POLICYMAKER
from amqp_broker.management.objects.kind import Cursor, Scope
from amqp_broker.management.objects.records import Records, VhostRecords
from amqp_broker.metadata.entities import GlobalParameter, Parameter

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies


class Parameters(VhostRecords[Parameter]):
    """By component."""

    name = "parameters"
    singular = "parameter"
    needs_tag = POLICYMAKER
    names = ("vhost", "component", "name")

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {
            "vhost": lambda one: one.vhost,
            "component": lambda one: one.component,
            "name": lambda one: one.name,
            "value": lambda one: one.value,
        }

    def keys_in(self, vhost: str) -> Iterable[Cursor]:
        """See VhostRecords."""
        return ((vhost, one.component, one.name) for one in self.metadata.parameters(vhost))

    def record(self, key: Cursor) -> Parameter | None:
        """See Records."""
        return self.metadata.parameter(key[0], key[1], key[2])


class GlobalParameters(Records[GlobalParameter]):
    """Of the whole cluster."""

    name = "global_parameters"
    singular = "global parameter"
    needs_tag = POLICYMAKER

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {"name": lambda one: one.name, "value": lambda one: one.value}

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        return ((one.name,) for one in self.metadata.global_parameters())

    def record(self, key: Cursor) -> GlobalParameter | None:
        """See Records."""
        return self.metadata.global_parameter(key[0])
