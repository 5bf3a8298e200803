"""Which queue of this node makes most of its work: found by what all of them count, twice, in slices."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.turn.task import Steps
from queues.sums import QueueSums

if TYPE_CHECKING:
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.turn.task import Awaited
    from queues.queue import Queue

#: So many queues are looked at in one slice.
_SLICE: Final = 64


class BusiestQueue(NamedTuple):
    """messages: that it has taken and given out between the two looks; all_messages: all queues together."""

    vhost: str
    name: str
    messages: int
    all_messages: int


def find_busiest(vhosts: Iterable[VHost], pause: Awaited) -> Steps:
    """Returns a BusiestQueue, or None if nothing was moved at all. pause: what lies between the two looks."""
    before: dict[Queue, int] = {}
    for vhost in list(vhosts):
        queues = iter(vhost.queues.all_made())
        while some := list(islice(queues, _SLICE)):
            for queue in some:
                before[queue] = _moved(queue)
            yield None
    yield pause
    busiest, most, total = None, 0, 0
    counted = iter(before.items())
    while part := list(islice(counted, _SLICE)):
        for queue, count in part:
            moved = 0 if queue.is_deleted else _moved(queue) - count
            total += moved
            if moved > most:
                busiest, most = queue, moved
        yield None
    return None if busiest is None else BusiestQueue(busiest.declaration.vhost, busiest.name, most, total)


def _moved(queue: Queue) -> int:
    """Messages that have gone in and out since it was made."""
    sums = QueueSums()
    queue.add_counters(sums)
    return sums.published + sums.delivered + sums.auto_acked + sums.got + sums.got_no_ack
