"""NodeCounts: what of a node is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.connection.entries import Entries
    from amqp_broker.connection.logins import Logins
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.leases.service import Leases
    from amqp_broker.management.kept_totals import KeptTotals
    from amqp_broker.management.node_facts import NodeFacts
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.queue_types.remote.remote_queues import RemoteQueues
    from amqp_broker.resources.alarms import Alarms
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.disk_counts import DiskCounts
    from amqp_broker.turn.histogram import Histogram
    from amqp_broker.turn.timings import Timings
    from amqp_broker.vhosts.broker import Broker
    from queues.store import MessageStore


class NodeCounts(NamedTuple):
    """backlog_bytes: octets that were appended and are not on the disk. timings: None unless things are measured."""

    config: Config
    broker: Broker
    store: MessageStore
    groups: QuorumGroups
    leases: Leases
    alarms: Alarms
    clients: Clients
    membership: Membership
    logins: Logins
    facts: NodeFacts
    is_ready: Callable[[], bool]
    backlog_bytes: Callable[[], int]
    timings: Callable[[], Timings | None]
    disk: DiskCounts
    kept: KeptTotals
    loop_delays: Histogram
    turn_times: Histogram
    remote_queues: RemoteQueues
    pauses: Pauses
    entries: Entries
