"""LogQueue: what holds for every queue whose messages stay where they are, and are read by offset: streams, and what
consists of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amqp_broker.queue_types.stream.group_reader import GroupDelivery
from amqp_broker.queue_types.stream.wish import not_implemented
from queues.message import Delivery
from queues.queue import Fetched, Held, Queue, Tallied

if TYPE_CHECKING:
    from queues.consumer import Consumer


class LogQueue(Queue):
    """See the module's docstring."""

    keeps_messages = True
    #: Of transactions: what is published twice because of a crash is there twice.
    recognises_producers = False

    @property
    def _title(self) -> str:
        return f"queue '{self.name}' in vhost '{self.declaration.vhost}'"

    # -- counts, and looking -------------------------------------------------------------------------------------------

    def unacked_count(self) -> int:
        """See Queue: they are in the stream whether or not somebody has acknowledged them."""
        return 0

    def leased_count(self) -> int:
        """See Queue."""
        return 0

    def seen_at(self) -> str | None:
        """See Queue: all have the same."""
        return ""

    def holdings(self) -> Iterator[Held | None]:
        """See Queue: what a consumer was given is not kept for it."""
        return iter(())

    # -- consumers, who give credit by settling ------------------------------------------------------------------------

    def is_abandoned(self) -> bool:
        """See Queue: it never goes with its consumers."""
        return False

    def dispatch(self, now: int) -> None:
        """See Queue: whoever has credit is served behind this, with all the credit that the turn brings."""

    def reject(self, delivery: Delivery, now: int) -> None:
        """See Queue."""
        if type(delivery) is GroupDelivery:
            delivery.reader.settled(delivery)

    def put_back(self, deliveries: list[Delivery], now: int) -> None:
        """See Queue."""
        for delivery in deliveries:
            if type(delivery) is GroupDelivery:
                delivery.reader.returned(delivery)

    # -- what it does not do -------------------------------------------------------------------------------------------

    def take_back(self, deliveries: list[Delivery], now: int) -> None:
        """See Queue: nobody fetches from a stream."""

    def fetch(self, getter: Consumer, now: int, then: Fetched) -> None:
        """See Queue."""
        then(not_implemented(f"basic.get not supported by stream queues {self._title}"), None, 0)

    def clear(self, then: Tallied) -> None:
        """See Queue."""
        then(not_implemented(f"queue.purge not supported by stream queues {self._title}"), 0)
