"""A queue has another home: what its old one, its new one and all others change at run time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from queues.consumer import Consumer

#: So many consumers go on at the new queue in one slice.
_FOLLOWING = 16


def take_place(broker: Broker, vhost: VHost, record: QueueRecord, queue_id: int) -> None:
    """The queue that the metadata have takes the place of the one of that id, which was it until now: bindings stay, as
    they are of its name; consumers of this node go on with it, and what they hold is of the queue that is gone."""
    entry = vhost.queues.entry(record.name)
    if entry is None or entry.queue_id != queue_id:
        broker.add_recorded_queue(vhost, record)
        return
    present = vhost.queues.made(record.name)
    consumers: deque[Consumer] = deque()
    if present is None:
        broker.forget_unused(vhost, record)
    else:
        queue = present.itself()
        consumers.extend(queue.part_with_all())
        broker.forget_queue(vhost, queue)
    broker.add_recorded_queue(vhost, record)
    for queue_type in broker.types.values():
        queue_type.forget(queue_id)
    if present is None:
        return
    heir = vhost.queues[record.name] if consumers or broker.held.keeps(present) else None
    broker.held.release(present, heir)
    if heir is None:
        return  # nobody here uses it

    def follow_some(now: int) -> bool:
        for _ in range(min(_FOLLOWING, len(consumers))):
            consumers.popleft().follow(heir)
        return bool(consumers)

    if consumers:
        broker.background.add(follow_some)
