"""QuorumConsumer: a consumer as every member of the group knows it, whichever node it is connected to.

Its credit follows from the log alone: it may hold `credit_limit` deliveries, however fast its client reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.consumer import Consumer
from queues.message import Entry

if TYPE_CHECKING:
    from queues.quorum.queue import QuorumQueue

#: What a consumer may hold that asks for no limit, or for more, or for no acknowledgements.
MOST_IN_FLIGHT = 2000


class QuorumConsumer(Consumer):
    """One basic.consume, or what basic.get has fetched (`is_getter`).

    origin, consumer_id: the node's name, and the number that it has given. held: by delivery id, in order, the entry
    and when it was delivered. is_attached: it stands in the queue's dispatcher; one that was cancelled lives on as long
    as it holds something, and so does a getter.
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
        self.next_delivery = 1
        self.held: dict[int, tuple[Entry, int]] = {}

    def set_prefetch(self, prefetch: int) -> None:
        """Change how many deliveries it asks for; `credit_limit` is how many it may hold."""
        self.prefetch = prefetch
        self.credit_limit = prefetch if prefetch and not self.no_ack and prefetch < MOST_IN_FLIGHT else MOST_IN_FLIGHT

    @property
    def is_done(self) -> bool:
        """Whether nothing is left of it."""
        return not self.is_attached and not self.held

    def has_credit(self) -> bool:
        return len(self.held) < self.credit_limit

    def hold(self, entry: Entry, clock: int) -> int:
        """Take an entry. Returns the delivery's number, which it never gives again."""
        delivery_id = self.next_delivery
        self.next_delivery = delivery_id + 1
        self.held[delivery_id] = (entry, clock)
        entry.consumer = self
        return delivery_id

    def take(self, ranges: tuple[tuple[int, int], ...]) -> tuple[list[Entry], int]:
        """The entries of deliveries first..last that it holds, and how many of these it does not hold."""
        held = self.held
        entries: list[Entry] = []
        missed: Any = 0  # of any size: the ranges are the client's
        for first, last in ranges:
            count = last - first + 1
            before = len(entries)
            if count <= len(held):
                for offset in range(count):
                    found = held.pop(first + offset, None)
                    if found is not None:
                        entries.append(found[0])
            else:
                for delivery_id in [each for each in held if first <= each <= last]:
                    entries.append(held.pop(delivery_id)[0])
            if count != len(entries) - before:
                missed += count - (len(entries) - before)
        return entries, missed

    def take_all(self) -> list[Entry]:
        """Everything that it holds."""
        entries = [entry for entry, _ in self.held.values()]
        self.held.clear()
        return entries

    def held_since(self) -> int:
        """When its oldest delivery was made; 0 if it holds none."""
        for _, since in self.held.values():
            return since
        return 0
