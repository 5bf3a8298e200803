"""Snapshots of a node for whoever renders them: plain dictionaries of plain values, made when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_broker.connection.connection import OPEN
from queues.classic import ClassicQueue

if TYPE_CHECKING:
    from amqp_broker.node import Node


def node_statistics(node: Node) -> dict[str, Any]:
    """Counts of the whole node; sizes in octets."""
    broker, store = node.broker, node.store
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    return {
        "node": node.config.node_name,
        "connections": sum(1 for connection in node.connections.values() if connection.state == OPEN),
        "channels": sum(len(connection.channels) for connection in node.connections.values()),
        "vhosts": len(broker.vhosts),
        "queues": len(queues),
        "consumers": sum(len(queue.dispatcher.consumers) for queue in queues),
        "messages_ready": sum(queue.ready.count for queue in queues),
        "messages_unacked": sum(queue.unacked for queue in queues),
        "memory_used": store.pager.used,
        "memory_assembling": store.pager.assembling,
        "memory_budget": store.pager.budget_bytes,
        "pages_stored": store.pager.pages_stored,
        "pages_loaded": store.pager.pages_loaded,
        "journal_bytes": store.journal.total_bytes,
        "unsynced_bytes": node.backlog_bytes(),
        "unroutable": broker.unroutable,
        "dead_letter_cycles_dropped": broker.dead_letters.cycles_dropped,
        "is_blocked": node.alarms.is_on,
    }


def queue_statistics(queue: ClassicQueue) -> dict[str, Any]:
    """Counts of one queue; sizes in octets."""
    return {
        "name": queue.name,
        "durable": bool(queue.is_durable),
        "messages_ready": queue.ready.count,
        "messages_unacked": queue.unacked,
        "message_bytes_ready": queue.ready.message_bytes,
        "consumers": len(queue.dispatcher.consumers),
        "published": queue.published,
        "delivered": queue.delivered,
        "redelivered": queue.redelivered,
        "settled": queue.settled_count,
    }
