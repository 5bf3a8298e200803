"""PartitionedStream: several streams behind the name of one queue.

    publish -> PartitionWriter -> the partition of the key: a StreamQueue
    consume, with a group -> PartitionedReader -> a GroupReader for each partition that the group gives to it

It has no log of its own: what is asked of it is answered by its partitions, each of which can be read alone too. Who of
a group reads which of them is in the log of partition 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from amqp_broker.errors import not_found, precondition_failed
from amqp_broker.queue_types.stream.group_reader import GroupDelivery
from amqp_broker.queue_types.stream.log_queue import LogQueue
from amqp_broker.queue_types.stream.partition_writer import PartitionWriter
from amqp_broker.queue_types.stream.partitioned_reader import PartitionedReader
from amqp_broker.queue_types.stream.wish import GROUP, Wish
from queues.arguments import QueueArguments
from queues.message import Delivery, Message
from queues.queue import Done, Replicas

if TYPE_CHECKING:
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.stream.group_reader import GroupSettings
    from amqp_broker.queue_types.stream.parts import StreamParts
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.consumer import Consumer, Subscriber
    from queues.receipts import Receipt
    from queues.sums import QueueSums


class PartitionedStream(LogQueue):
    """parts: its partitions. group: in which its groups of readers are."""

    def __init__(
        self, declaration: QueueDeclaration, queue_id: int, parts: StreamParts, groups: GroupSettings,
        own_group: QueueGroup,
    ) -> None:  # fmt: skip
        super().__init__(declaration, queue_id, PartitionWriter(parts))
        self.parts = parts
        self.settings = QueueArguments()
        self._groups = groups
        self._own_group = own_group
        parts.when_changed(self._parts_changed)

    @property
    def group(self) -> QueueGroup:
        """See the class's docstring."""
        return self.parts.streams[0].group if self.parts.streams else self._own_group

    def partitions(self) -> list[StreamQueue]:
        """See Queue."""
        return list(self.parts.streams)

    def made_of_it(self) -> list[str]:
        """See Queue: of all its partitions."""
        return [name for stream in self.parts.streams for name in stream.made_of_it()]

    def _parts_changed(self) -> None:
        for reader in self.consumers.values():
            reader.look_later()

    # -- counts: those of its partitions, which count themselves -------------------------------------------------------

    def replicas(self) -> Replicas:
        """See Queue: of its groups of readers."""
        group = self.group
        return Replicas(group.leader or "", group.members())

    def elsewhere(self) -> list[str]:
        """See Queue: those that have the first partition that is not here."""
        found = next((stream.elsewhere() for stream in self.parts.streams if stream.elsewhere()), ())
        return list(found)

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue: of those that are elsewhere."""
        streams = [stream for stream in self.parts.streams if stream.elsewhere()]
        left = len(streams) + 1

        def counted(refusal: Exception | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                then(None)

        for stream in streams:
            stream.count(is_use, counted)
        counted(None)

    def message_count(self) -> int:
        """How many messages they have."""
        return sum([stream.message_count() for stream in self.parts.streams])

    def add_counts(self, sums: QueueSums) -> None:
        """See Queue: what its partitions do not count."""
        sums.add_held(0, 0, 0, len(self.consumers))

    def add_counters(self, sums: QueueSums) -> None:
        """See Queue."""
        self.add_gets(sums)
        for stream in self.parts.streams if not self.is_deleted else ():
            stream.add_counters(sums)

    def add_own_counters(self, sums: QueueSums) -> None:
        """See Queue: what its partitions do not count."""
        self.add_gets(sums)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        return int(self.writes.publish(message, [self], receipt, is_again, now))

    # -- consumers -----------------------------------------------------------------------------------------------------

    def _reader_for(self, consumer: Subscriber, wish: Wish) -> PartitionedReader:
        last = len(self.parts) - 1
        if last < 0:
            raise not_found("queue", self.name, self.declaration.vhost)
        if wish.group is None:
            raise precondition_failed(
                f"{self._title} has {last + 1} partitions: consume it with the argument {GROUP}, a name of those who "
                f"read it together, or read a partition alone: '{self.name}-0' to '{self.name}-{last}'"
            )
        return PartitionedReader(self, consumer, wish, self._groups)

    def give_up(self, subscriber: Subscriber) -> None:
        """It cannot go on: it is cancelled."""
        consumer = cast("Consumer", subscriber)
        if consumer in self.consumers:
            self.cancel(consumer, True, 0)
            consumer.on_queue_gone()

    def credit_returned(self, consumer: Consumer) -> None:
        """See Queue."""
        reader = self.consumers.get(consumer)
        consumer.is_waiting = True
        if reader is not None:
            reader.credit_returned()

    # -- settling ------------------------------------------------------------------------------------------------------

    def ack(self, delivery: Delivery) -> None:
        """See Queue."""
        assert isinstance(delivery, GroupDelivery)  # all that it delivers
        reader = delivery.reader
        reader.queue.ack(delivery)

    # -- the end -------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """Its consumers here are cancelled; its partitions are deleted with it, each by itself."""
        self.is_deleted = True
        self.parts.forget()
        self._cancel_all()
        return 0
