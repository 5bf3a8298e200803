"""PartitionedReader: a consumer that reads the partitions of a stream together with others.

    join -> the group is open in every partition -> JoinPartitions, in the log of partition 0 -> a share of them
    given: a GroupReader joins that partition's own group, and reads when the one before has left it
    taken: its GroupReader gets nothing more, waits for what its client holds, and leaves

What it is given is looked up in partition 0 in each slice, as a GroupReader looks up whether it reads: so it does not
matter how the news came. Only what moves waits; the readers of the other partitions go on.

Invariants:
1. A partition is read by who is first in that partition's own group (queues/stream/groups.py), whoever it is given to.
2. A group begins in all partitions before anybody reads any of them: with the first member, each where that one says;
   in those that are added later at their first message. So nothing is left out.
3. It has a GroupReader for each partition that is its own, and for no other, once it has looked.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.errors import AmqpException, precondition_failed
from amqp_broker.messages.facts import MessageFacts, with_header
from amqp_broker.protocol.fields import join_table, typed
from amqp_broker.queue_types.stream.group_reader import GroupReader
from amqp_broker.queue_types.stream.offsets import FIRST
from amqp_broker.queue_types.stream.reader import LooksAt, StreamReader
from queues.consumer import Consumer
from queues.effects import Refusal
from queues.receipts import JointReceipt
from queues.stream.commands import JoinPartitions, LeavePartitions, OpenGroup
from queues.stream.groups import MOST_GROUPS
from queues.stream.record import PARTITION_HEADER as PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amqp_broker.queue_types.stream.group_reader import GroupSettings
    from amqp_broker.queue_types.stream.partitioned import PartitionedStream
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.wish import Wish
    from queues.consumer import Subscriber
    from queues.message import Delivery, Message
    from queues.queue import Done
    from queues.stream.start import Start

log = logging.getLogger("amqp_broker")


class PartitionedReader:
    """readers: by partition. _turns: in which order they may use what credit there is."""

    def __init__(
        self, queue: PartitionedStream, consumer: Subscriber, wish: Wish, settings: GroupSettings
    ) -> None:
        assert wish.group is not None  # who calls looks
        self.queue = queue
        self.consumer = consumer
        self.name = wish.group
        self.readers: dict[int, GroupReader] = {}
        self.is_ended = False
        self._wish = wish
        self._settings = settings
        self._first = queue.partitions()[0]
        self._member = self._first.new_member()
        self._number = self._member.number
        self._watch = _Watch(self)
        self._is_joining = False
        self._is_member = False
        self._turns: deque[GroupReader] = deque()

    # -- membership ----------------------------------------------------------------------------------------------------

    def join(self, then: Done) -> None:
        """Ask to be a member; `then` is told when it is one."""
        self._is_joining = True

        def joined(refusal: Refusal | None) -> None:
            self._is_joining = False
            if refusal is Refusal.UNKNOWN and not self.is_ended:
                self.join(then)  # the node's session was lost meanwhile
                return
            then(self._refused(refusal) if refusal is not None else None)
            self.look_later()

        def is_current() -> None:
            stream = None if self.is_ended else self._first.readable(self._watch)
            if stream is None:
                joined(Refusal.NO_QUEUE)
                return
            is_known = stream.shares.get(self.name) is not None
            self._open(FIRST if is_known else self._wish.start, lambda refusal: self._opened(refusal, joined))

        self._first.prepare()
        self._first.when_seen(self._watch, is_current)

    def _open(self, start: Start, then: Callable[[Refusal | None], None]) -> None:
        """See to it that there is the group in each partition."""
        streams = self.queue.partitions()
        if not streams:
            then(Refusal.NO_QUEUE)
            return
        receipt = JointReceipt()
        waiting = [len(streams)]

        def placed(part: StreamQueue, position: int | None) -> None:
            if position is None:
                receipt.refusals.append(Refusal.NO_QUEUE)
            else:
                part.group.submit(OpenGroup(part.queue_id, self.name, position), receipt)
            waiting[0] -= 1
            if not waiting[0]:
                receipt.seal(lambda refusals: then(refusals[0] if refusals else None))

        for part in streams:
            part.prepare()
            part.place(start, lambda position, part=part: placed(part, position))  # type: ignore[misc]

    def _opened(self, refusal: Refusal | None, joined: Callable[[Refusal | None], None]) -> None:
        if refusal is None and self.is_ended:
            refusal = Refusal.NO_QUEUE
        if refusal is not None:
            joined(refusal)
            return
        self._is_member = True
        first, receipt = self._first, JointReceipt()
        first.watch(self._watch)
        command = JoinPartitions(first.queue_id, self.name, self._number, len(self.queue.parts))
        first.group.submit(command, receipt)
        receipt.seal(lambda refusals: joined(refusals[0] if refusals else None))

    def _refused(self, refusal: Refusal) -> AmqpException:
        stream = self.queue.name
        if refusal is Refusal.FULL:
            return precondition_failed(
                f"a partition of stream '{stream}' has {MOST_GROUPS} groups already: forget one before '{self.name}' "
                "begins"
            )
        return precondition_failed(
            f"group '{self.name}' of stream '{stream}': the stream, or the group, is gone; consume again, which begins "
            "the group anew if the stream is there"
        )

    def end(self, gives_back: bool) -> None:
        """The consumer is cancelled. gives_back: its client settles nothing any more."""
        self.is_ended = True
        first = self._first
        self._watch.end(gives_back)
        first.unwatch(self._watch)
        if self._is_member:
            first.group.submit(LeavePartitions(first.queue_id, self.name, self._number))
        for partition in list(self.readers):
            self._drop(partition, gives_back)

    # -- its share -----------------------------------------------------------------------------------------------------

    def look_later(self) -> None:
        """There may be news."""
        if self._is_member and not self.is_ended:
            self._first.serve_later(self._watch)

    def look(self) -> None:
        """See to it that it reads what is its own, and nothing else."""
        if self.is_ended or self._is_joining:
            return
        stream = self._first.readable(self._watch)
        if stream is None:
            return
        share = stream.shares.get(self.name)
        if share is None or self._member not in share.members or len(share.owners) < len(self.queue.parts):
            # The node's session was lost, and its members with it; or there are more partitions than there were.
            self.join(self._joined_again)
            return
        own = share.of(self._member)
        for partition in [each for each in self.readers if each not in own]:
            self._drop(partition, False)
        streams = self.queue.partitions()
        for partition in own:
            if partition not in self.readers and partition < len(streams):
                self._take(partition, streams[partition])

    def _joined_again(self, error: Exception | None) -> None:
        if error is not None and not self.is_ended:
            log.error("a consumer of group '%s' is cancelled: %s", self.name, error)
            self.give_up()

    def _take(self, partition: int, part: StreamQueue) -> None:
        consumer = PartitionConsumer(self, partition)
        reader = GroupReader(part, consumer, FIRST, self._wish.filter, self.name, self._settings)
        self.readers[partition] = reader
        self._turns.append(reader)
        part.watch(reader)

        def joined(error: Exception | None) -> None:
            if error is not None and not reader.is_ended:
                self._joined_again(error)
            elif error is None:
                part.serve_later(reader)

        reader.join(joined)

    def _drop(self, partition: int, gives_back: bool) -> None:
        reader = self.readers.pop(partition)
        self._turns.remove(reader)
        reader.queue.unwatch(reader)
        reader.end(gives_back)

    # -- delivering ----------------------------------------------------------------------------------------------------

    def credit_returned(self) -> None:
        """Its client has room: each time another partition is the first to use it."""
        self._turns.rotate(-1)
        for reader in self._turns:
            reader.consumer.is_waiting = True
            reader.queue.serve_later(reader)

    def give_up(self) -> None:
        """It cannot go on."""
        self.queue.give_up(self.consumer)


class _Watch(StreamReader):
    """Is served by partition 0 as its readers are, whenever something happens there."""

    def __init__(self, reader: PartitionedReader) -> None:
        super().__init__(reader._first, PartitionConsumer(reader, 0), FIRST, None)
        self.consumer.is_waiting = True
        self.looks_at = LooksAt(reader.name, True)
        self._reader = reader

    def serve(self, room: int, now: int) -> int:
        """See StreamReader."""
        self._reader.look()
        return room


class PartitionConsumer(Consumer):
    """A consumer as one partition sees it. is_waiting: for messages of this one."""

    def __init__(self, reader: PartitionedReader, partition: int) -> None:
        super().__init__(reader.consumer.no_ack, 0)
        self._reader = reader
        self._consumer = reader.consumer
        self._partition = typed("l", partition)
        self._field = join_table([(PARTITION, self._partition)])
        self.arguments: Mapping[str, object] | None = reader.consumer.arguments
        self.prefetch, self.tag, self.is_exclusive = reader.consumer.prefetch, reader.consumer.tag, False

    def prefetch_limit(self) -> int:
        """See Subscriber."""
        return self._consumer.prefetch_limit()

    def shared_limit(self) -> int:
        """See Subscriber."""
        return self._consumer.shared_limit()

    def has_credit(self) -> bool:
        """See Consumer."""
        has_credit = self._consumer.has_credit()
        if not has_credit:
            self._consumer.is_waiting = False  # its channel says when there is some again
        return has_credit

    def deliver(self, delivery: Delivery) -> None:
        """See Consumer."""
        delivery.consumer = self._consumer
        delivery.message = self._marked(delivery.message)
        self._consumer.deliver(delivery)

    def deliver_record(self, delivery: Delivery, octets: bytes, place: int, offset: int, more: bytes) -> bool:
        """See Consumer: with one header more."""
        delivery.consumer = self._consumer
        return self._consumer.deliver_record(delivery, octets, place, offset, self._field)

    def trail(self, is_behind: bool) -> None:
        """See Consumer."""
        self._consumer.trail(is_behind)

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        """See Consumer."""
        self._consumer.deliver_at_once(self._marked(message), is_redelivered)

    def on_queue_gone(self) -> None:
        """See Consumer."""
        self._reader.give_up()

    def _marked(self, message: Message) -> Message:
        return with_header(message, MessageFacts(message), PARTITION, self._partition)
