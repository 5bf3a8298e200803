"""Snapshots of a node for whoever renders them: plain dictionaries of plain values, made when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.leases.queue_leases import group_list
from amqp_broker.management.queue_walk import queues_in_slices
from amqp_broker.queue_types.register import type_of
from amqp_broker.turn.task import Steps
from queues.lease_source import LeasedAt
from queues.queue import Queue

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.routing.vhost import VHost


#: So many queues are looked at in one slice.
_SLICE = 32


def count_node(counts: NodeCounts) -> Steps:
    """Counts of the whole node; sizes in octets. Its result; queues are looked at a few at a time."""
    broker, clients = counts.broker, counts.clients
    alarms, leases, timings = counts.alarms, counts.leases, counts.timings()
    queues = consumers = ready = unacked = leased = 0
    for vhost, names in queues_in_slices(broker, _SLICE):
        for name in names:
            queue = vhost.queues.made(name)
            # What other nodes hold, they count themselves.
            if queue is not None and not queue.described_at() and not queue.elsewhere():
                consumers += queue.consumer_count()
                ready += queue.message_count() if not queue.partitions() else 0  # which are queues themselves
                unacked += queue.unacked_count()
                leased += queue.leased_count()
        queues += len(names)
        yield None
    held = held_by_node(counts)
    yield None
    return {
        "node": counts.config.node_name,
        **held,
        "connection_moves": clients.moved,
        "queues": queues,
        "consumers": consumers,
        "messages_ready": ready,
        "messages_unacked": unacked,
        "pages_stored": sum(each.pages_stored for each in counts.groups.pagers),
        "pages_loaded": sum(each.pages_loaded for each in counts.groups.pagers),
        "unapplied_bytes": sum(group.backlog_bytes() for group in counts.groups),
        "unroutable": broker.unroutable,
        "messages_leased": leased,
        "lease_requests": leases.requests,
        "lease_claims_waiting": leases.claims.waiting_count,
        "txn_staged_messages": broker.apps.staged_messages(),
        "dead_letter_cycles_dropped": broker.dead_letters.cycles_dropped,
        "delivery_limit_dropped": broker.discards.total,
        "is_blocked": alarms.is_on,
        "is_full": alarms.is_full,
        "timings": {} if timings is None else timings.statistics(),
    }


def held_by_node(counts: NodeCounts) -> JsonObject:
    """What there is, where that is an integer already."""
    broker, clients, store = counts.broker, counts.clients, counts.store
    pager = store.pager
    quorum_bytes = sum(group.ram_bytes for group in counts.groups)
    return {
        "connections": clients.open_count,
        "publishers_blocked": len(counts.pauses.held),
        "channels": clients.channels_opened - clients.channels_closed,
        "vhosts": len(broker.vhosts),
        "messages_delayed": sum(len(each) for vhost in broker.vhosts.values() for each in vhost.delayed.values()),
        "memory_used": pager.used + quorum_bytes,
        "memory_quorum_queues": quorum_bytes,
        "memory_assembling": pager.assembling,
        "memory_budget": pager.budget_bytes,
        "memory_budget_of_node": counts.config.memory_budget_bytes,
        "journal_bytes": store.journal.total_bytes,
        "unsynced_bytes": counts.backlog_bytes(),
    }


def delayed_statistics(vhost: VHost) -> list[JsonObject]:
    """How many messages the exchanges of a virtual host hold back: those of durable ones that are persistent on all
    nodes, the others on this one."""
    return [{"exchange": name, "messages": len(delayed)} for name, delayed in vhost.delayed.items()]


def queue_statistics(queue: Queue, now: int) -> JsonObject:
    """Counts of one queue; sizes in octets. Those of a queue of another node are as of when its home was asked last."""
    queue_type = type_of(queue)
    found: JsonObject = {
        "name": queue.name,
        "type": queue_type.name,
        "durable": bool(queue.is_durable),
        "messages_ready": queue.message_count(),
        "messages_unacked": queue.unacked_count(),
        "consumers": queue.consumer_count(),
        "leased": queue.leased_count(),
    }
    found |= queue_type.figures(queue)
    source = queue.leases()
    if source is not None and not isinstance(source, LeasedAt):
        found["lease_groups"] = group_list(source.groups(), now)
    return found
