"""A queue has another home: what its old one, its new one and all others change at run time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker

#: So many consumers go on at the new queue in one slice.
_FOLLOWING = 16


def take_place(broker: Broker, vhost: VHost, record: QueueRecord, queue_id: int) -> None:
    """The queue that the metadata have takes the place of the one of that id, which was it until now: bindings stay, as
    they are of its name; consumers of this node go on with it, and what they hold is of the queue that is gone."""
    present = vhost.queues.get(record.name)
    if present is None or present.queue_id != queue_id:
        broker.add_recorded_queue(vhost, record)
        return
    queue = present.itself()
    consumers = deque(queue.part_with_all())
    broker.forget_queue(vhost, queue)
    broker.add_recorded_queue(vhost, record)
    for queue_type in broker.types.values():
        queue_type.forget(queue_id)
    heir = vhost.queues[record.name]
    broker.held.release(present, heir)

    def follow_some(now: int) -> bool:
        for _ in range(min(_FOLLOWING, len(consumers))):
            consumers.popleft().follow(heir)
        return bool(consumers)

    if consumers:
        broker.background.add(follow_some)
