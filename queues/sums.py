"""QueueSums: what classic queues of a node hold together, and what was counted of them: for who adds up very many."""

from __future__ import annotations

from queues.classic import ClassicQueue
from queues.queue import Queue
from queues.reason import Reason

_REJECTED = int(Reason.REJECTED)
_EXPIRED = int(Reason.EXPIRED)
_MAXLEN = int(Reason.MAXLEN)
_DELIVERY_LIMIT = int(Reason.DELIVERY_LIMIT)


class QueueSums:
    """Messages, but for `consumers` and `ready_bytes` (octets of bodies). The first four are as of now, the others
    count from the start. acked: by consumers. got, got_no_ack, got_nothing: answers to basic.get."""

    def __init__(self) -> None:
        self.ready = self.ready_bytes = self.unacked = self.consumers = 0
        self.published = self.delivered = self.auto_acked = self.redelivered = self.acked = 0
        self.got = self.got_no_ack = self.got_nothing = 0
        self.rejected = self.expired = self.too_many = self.returned_too_often = 0

    def add(self, queue: ClassicQueue) -> None:
        """One more queue."""
        ready = queue.ready
        self.ready += ready.count
        self.ready_bytes += ready.message_bytes
        self.unacked += queue.unacked
        self.consumers += len(queue.dispatcher.consumers)
        self.add_counters(queue)

    def add_counters(self, queue: ClassicQueue) -> None:
        """What was counted of one."""
        self.published += queue.published
        self.delivered += queue.delivered - queue.fetched - queue.fetched_no_ack
        self.auto_acked += queue.auto_acked
        self.redelivered += queue.redelivered
        self.acked += queue.settled_count - queue.auto_acked - queue.unconsumed - queue.fetched_no_ack
        self.add_gets(queue)
        drops = queue.drops
        self.rejected += drops[_REJECTED]
        self.expired += drops[_EXPIRED]
        self.too_many += drops[_MAXLEN]
        self.returned_too_often += drops[_DELIVERY_LIMIT]

    def add_gets(self, queue: Queue) -> None:
        """What was counted of one whose messages are elsewhere."""
        self.got += queue.fetched
        self.got_no_ack += queue.fetched_no_ack
        self.got_nothing += queue.fetched_nothing
