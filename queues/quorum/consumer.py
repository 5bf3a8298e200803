"""QuorumConsumer: a consumer as every member of the group knows it, whichever node it is connected to.

Its credit follows from the log alone: it may hold `credit_limit` deliveries, however fast its client reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.message import Entry
from queues.numbered_consumer import NumberedConsumer

if TYPE_CHECKING:
    from queues.quorum.queue import QuorumQueue

#: What a consumer may hold that asks for no limit, or for more, or for no acknowledgements.
MOST_IN_FLIGHT = 2000


class QuorumConsumer(NumberedConsumer):
    """One basic.consume, or what basic.get has fetched (`is_getter`).

    origin, consumer_id: the node's name, and the number that it has given. is_attached: it stands in the queue's
    dispatcher; one that was cancelled lives on as long as it holds something, and so does a getter.
    """

    def __init__(
        self,
        origin: str,
        consumer_id: int,
        queue: QuorumQueue,
        prefetch: int = 0,
        no_ack: bool = False,
        priority: int = 0,
        is_exclusive: bool = False,
        tag: str = "",
        is_getter: bool = False,
    ) -> None:
        super().__init__(no_ack, priority)
        self.queue: QuorumQueue = queue
        self.origin = origin
        self.consumer_id = consumer_id
        self.set_prefetch(prefetch)
        self.is_exclusive = is_exclusive
        self.tag = tag
        self.is_getter = is_getter
        self.is_attached = False

    def set_prefetch(self, prefetch: int) -> None:
        """Change how many deliveries it asks for; `credit_limit` is how many it may hold."""
        self.prefetch = prefetch
        self.credit_limit = prefetch if prefetch and not self.no_ack and prefetch < MOST_IN_FLIGHT else MOST_IN_FLIGHT

    def has_credit(self) -> bool:
        return len(self.held) < self.credit_limit

    def hold(self, entry: Entry, clock: int) -> int:
        """Take an entry. Returns the delivery's number, which it never gives again."""
        entry.consumer = self
        return self.keep(entry, clock)

    def held_since(self) -> int:
        """When its oldest delivery was made; 0 if it holds none."""
        for _, since in self.held.values():
            return since
        return 0
