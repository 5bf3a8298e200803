"""QueueCounters: what was counted of a queue since this node was started, or since the queue was made: none ever falls.

A classic queue counts at its home. The members of a group agree on how many messages a quorum queue has taken and has
given up; deliveries they do not count. Answers to basic.get count on the node of the channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queues.classic import ClassicQueue
from queues.reason import Reason
from queues.rules import QueueRules

Counter = Callable[[Any], int | None]


def rules_of(queue: Any) -> QueueRules | None:
    """The queue where its rules are run, None for one of another node."""
    if isinstance(queue, QueueRules):
        return queue
    group = getattr(queue, "group", None)
    found: QueueRules | None = group.machine.queues.get(queue.queue_id) if group is not None else None
    return found


def _of_classic(count: Callable[[ClassicQueue], int]) -> Counter:
    return lambda queue: count(queue) if isinstance(queue, ClassicQueue) else None


def _dropped(reason: Reason) -> Counter:
    def count(queue: Any) -> int | None:
        rules = rules_of(queue)
        return rules.drops[reason] if rules is not None else None

    return count


def _published(queue: Any) -> int | None:
    if isinstance(queue, ClassicQueue):
        return queue.published
    rules = rules_of(queue)
    return rules.next_sequence - 1 if rules is not None else None


def acked(queue: ClassicQueue) -> int:
    """How many messages consumers have acknowledged."""
    return queue.settled_count - queue.auto_acked - queue.unconsumed - queue.fetched_no_ack


def delivered(queue: ClassicQueue) -> int:
    """How many deliveries to consumers that acknowledge them."""
    return queue.delivered - queue.fetched - queue.fetched_no_ack


#: By column.
COUNTERS: dict[str, Counter] = {
    "publish": _published,
    "deliver": _of_classic(delivered),
    "deliver_no_ack": _of_classic(lambda queue: queue.auto_acked),
    "get": lambda queue: queue.fetched,
    "get_no_ack": lambda queue: queue.fetched_no_ack,
    "get_empty": lambda queue: queue.fetched_nothing,
    "redeliver": _of_classic(lambda queue: queue.redelivered),
    "ack": _of_classic(acked),
    "expired": _dropped(Reason.EXPIRED),
    "rejected": _dropped(Reason.REJECTED),
    "maxlen_dropped": _dropped(Reason.MAXLEN),
    "delivery_limit_dropped": _dropped(Reason.DELIVERY_LIMIT),
}
