"""Relief: what holds too much in RAM brings pages to the disk: groups of quorum queues, then those queues that have the
most, and last the heads of queues that nobody consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.leases import groups_of

if TYPE_CHECKING:
    from amqp_broker.node import Node


def relieve(node: Node, want_bytes: int) -> int:
    """Free so many octets. Returns how many of them were not to be had."""
    pager = node.store.pager
    replication = node.replication
    want = want_bytes - replication.relieve(want_bytes)
    queues = [queue for vhost in node.broker.vhosts.values() for queue in vhost.queues.values() if not queue.is_proxy]
    holders = [queue.ready for queue in queues]
    holders += [group for queue in queues for group in groups_of(queue)]
    sizes = [(holder.ram_page_bytes(), index) for index, holder in enumerate(holders)]
    for size, index in sorted(sizes, reverse=True):
        if want <= 0 or not size:
            break
        want -= holders[index].relieve(want)
    if want > 0 and pager.used + pager.elsewhere + pager.assembling > pager.budget_bytes:
        # Only heads are left, and those of very many queues fill any budget: who has no consumer can do without.
        want -= replication.relieve(want, keeps_heads=False)
        sizes = [
            (queue.ready.ram_head_bytes(), index)
            for index, queue in enumerate(queues)
            if not queue.dispatcher.consumers
        ]
        for size, index in sorted(sizes, reverse=True):
            if want <= 0 or not size:
                break
            want -= queues[index].ready.relieve(min(want, size), keeps_head=False)
    return want
