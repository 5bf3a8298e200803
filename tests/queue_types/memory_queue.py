"""MemoryQueue: a type of queue in plain Python that is in RAM and nowhere else, and answers when it is told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from queues.arguments import QueueArguments
from queues.consumer import Consumer
from queues.message import Delivery, Message
from queues.outcomes import PublishOutcome
from queues.queue import Done, Fetched, Queue, Tallied
from queues.write_group import WriteGroup
from tests.node.node_driver import NodeDriver


class MemoryWrites(WriteGroup):
    """Nothing is written."""

    def publish(self, message: Message, queues: list[Any], receipt: Any, is_again: bool, now: int) -> int:
        return max(queue.publish(message, receipt, is_again, now) for queue in queues)


MEMORY = MemoryWrites()


class MemoryQueue(Queue):
    """is_late: it answers in `answer`, one at a time."""

    def __init__(self, name: str, is_late: bool) -> None:
        super().__init__(name, 1 << 40, False, MEMORY)
        self.is_late = is_late
        self.settings = QueueArguments()
        self.declaration = QueueDeclaration(name, False, False, None, Table({}), "/")
        self.ready: deque[Delivery] = deque()
        self.consumers: dict[Consumer, None] = {}
        self.unacked = 0
        self._numbers = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, driver: NodeDriver) -> None:
        """The node has it, in the virtual host /."""
        vhost = driver.node.broker.vhosts["/"]
        vhost.queues[self.name] = self
        vhost.queue_changed(self.name)

    def attached(self) -> list[Consumer]:
        return list(self.consumers)

    def answer(self) -> bool:
        """Who has waited longest is answered. Returns whether there was somebody."""
        if self._waiting:
            self._waiting.popleft()()
            return True
        return False

    def _say(self, then: Callable[[], None]) -> None:
        if self.is_late:
            self._waiting.append(then)
        else:
            then()

    def count(self, is_use: bool, then: Done) -> None:
        self._say(lambda: then(None))

    def message_count(self) -> int:
        return len(self.ready)

    def unacked_count(self) -> int:
        return self.unacked

    def leased_count(self) -> int:
        return 0

    def consumer_count(self) -> int:
        return len(self.consumers)

    def publish(self, message: Message, receipt: Any, is_again: bool, now: int) -> int:
        delivery = Delivery()
        self._numbers += 1
        delivery.message, delivery.sequence, delivery.consumer = message, self._numbers, None
        delivery.returns, delivery.is_redelivered = 0, False
        self.ready.append(delivery)
        self.dispatch(now)
        return PublishOutcome.TAKEN

    def admit(self, consumer: Any, then: Done) -> None:
        self.had_consumers = True
        consumer.queue = self

        def join() -> None:
            self.consumers[consumer] = None
            then(None)

        self._say(join)

    def cancel(self, consumer: Consumer, gives_back: bool, now: int) -> None:
        self.consumers.pop(consumer, None)

    def credit_returned(self, consumer: Consumer) -> Any:
        consumer.is_waiting = True
        return 0

    def dispatch(self, now: int) -> Any:
        for consumer in list(self.consumers):
            while self.ready and consumer.has_credit():
                delivery = self.ready.popleft()
                if consumer.no_ack:
                    consumer.deliver_at_once(delivery.message, delivery.is_redelivered)
                else:
                    self._hand_over(delivery, consumer)
                    consumer.deliver(delivery)
        return 0

    def _hand_over(self, delivery: Delivery, consumer: Consumer) -> None:
        delivery.consumer = consumer
        self.unacked += 1

    def fetch(self, getter: Consumer, now: int, then: Fetched) -> None:
        def take() -> None:
            if not self.ready:
                then(None, None, 0)
                return
            delivery = self.ready.popleft()
            self._hand_over(delivery, getter)
            then(None, delivery, len(self.ready))

        self._say(take)

    def ack(self, delivery: Delivery) -> Any:
        self.unacked -= 1
        return 0

    def reject(self, delivery: Delivery, now: int) -> Any:
        return self.ack(delivery)

    def put_back(self, deliveries: list[Delivery], now: int) -> Any:
        for delivery in deliveries:
            delivery.is_redelivered = True
            delivery.returns += 1
        self.take_back(deliveries, now)
        return 0

    def take_back(self, deliveries: list[Delivery], now: int) -> None:
        self.unacked -= len(deliveries)
        self.ready = deque(sorted([*self.ready, *deliveries], key=lambda each: each.sequence))

    def clear(self, then: Tallied) -> None:
        def drop() -> None:
            count = len(self.ready)
            self.ready.clear()
            then(None, count)

        self._say(drop)

    def delete(self) -> int:
        self.is_deleted = True
        return len(self.ready)
