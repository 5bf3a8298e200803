"""NodeCounts: what of a node is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.connection.logins import Logins
    from amqp_broker.flow.clients import Clients
    from amqp_broker.leases.service import Leases
    from amqp_broker.management.node_facts import NodeFacts
    from amqp_broker.queue_types.quorum.groups import QuorumGroups
    from amqp_broker.resources.alarms import Alarms
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.timings import Timings
    from amqp_broker.vhosts.broker import Broker
    from queues.store import MessageStore


class NodeCounts(Protocol):
    """timings: None unless things are measured. A node is one (node.py)."""

    @property
    def config(self) -> Config: ...
    @property
    def broker(self) -> Broker: ...
    @property
    def store(self) -> MessageStore: ...
    @property
    def groups(self) -> QuorumGroups: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def alarms(self) -> Alarms: ...
    @property
    def clients(self) -> Clients: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def logins(self) -> Logins: ...
    @property
    def facts(self) -> NodeFacts: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def timings(self) -> Timings | None: ...

    def backlog_bytes(self) -> int:
        """Octets that were appended and are not on the disk."""
