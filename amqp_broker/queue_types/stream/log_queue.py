"""LogQueue: what holds for every queue whose messages stay where they are, and are read by offset: streams, and what
consists of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from amqp_broker.errors import AmqpException, not_found, precondition_failed
from amqp_broker.queue_types.stream.group_reader import GroupDelivery
from amqp_broker.queue_types.stream.wish import Wish, not_implemented
from queues.arguments import ArgumentError
from queues.message import Delivery
from queues.queue import Done, Fetched, Held, Queue, Tallied
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from queues.consumer import Consumer, Subscriber


class LogQueue(Queue):
    """consumers: exactly those of this node that have not ended, each with what reads for it. _joining: those that have
    not been answered yet."""

    keeps_messages = True

    def __init__(self, declaration: QueueDeclaration, queue_id: int, writes: WriteGroup) -> None:
        super().__init__(declaration.name, queue_id, True, writes)
        self.declaration = declaration
        self.counts_returns = True
        self.consumers: dict[Consumer, Any] = {}  # own class: each type of queue has that of its readers
        self._joining: set[Consumer] = set()

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

    def consumer_count(self) -> int:
        """See Queue: of this node; of those of others nobody knows."""
        return len(self.consumers)

    def attached(self) -> Iterable[object]:
        """See Queue."""
        return self.consumers

    def seen_at(self) -> str | None:
        """See Queue: all have the same."""
        return ""

    def holdings(self) -> Iterator[Held | None]:
        """See Queue: what a consumer was given is not kept for it."""
        return iter(())

    # -- consumers, who give credit by settling ------------------------------------------------------------------------

    def admit(self, consumer: Subscriber, then: Done) -> None:
        """See Queue. If the queue goes before it has joined, that is its answer: it is not told by basic.cancel of a
        tag that it does not have yet."""
        joining = cast("Consumer", consumer)
        try:
            reader = self._reader_for(consumer, Wish.of(consumer, self._title))
        except ArgumentError as error:
            then(precondition_failed(f"invalid arg '{error.key}' for {self._title}: {error.reason}"))
            return
        except AmqpException as error:
            then(error)
            return
        self.had_consumers = True
        self.consumers[joining] = reader
        self._joining.add(joining)

        def joined(error: Exception | None) -> None:
            self._joining.remove(joining)
            if error is None and joining not in self.consumers:
                error = not_found("queue", self.name, self.declaration.vhost)
            if error is not None:
                self.cancel(joining, True, 0)
            then(error)

        self._join(joining, joined)

    def _reader_for(self, consumer: Subscriber, wish: Wish) -> object:
        """What reads for a consumer. Raises AmqpException."""
        raise NotImplementedError

    def _join(self, consumer: Consumer, then: Done) -> None:
        """What reads for it begins; `then` is told when it may."""
        self.consumers[consumer].join(then)

    def cancel(self, consumer: Consumer, gives_back: bool, now: int) -> None:
        """See Queue."""
        reader = self.consumers.pop(consumer, None)
        if reader is not None:
            reader.end(gives_back)
            self._reader_has_left(reader)

    def _reader_has_left(self, reader: object) -> None:
        """There is one fewer."""

    def _cancel_all(self) -> None:
        """The queue is gone."""
        consumers, self.consumers = self.consumers, {}
        for consumer, reader in consumers.items():
            is_joining = consumer in self._joining  # it is answered when its reader ends, or soon after
            reader.end(True)
            if not is_joining:
                consumer.on_queue_gone()
            self._reader_has_left(reader)

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
