"""QueueProxy: a queue whose log is elsewhere, as a channel of this node sees it.

    channel -> ack, reject, put_back -> ProxyConsumer -> CommandSink.flush, at the end of the turn
    channel -> consume, fetch, clear -> CommandSink -> ... -> `then`, when the log has answered
    Delivered -> ProxyConsumer -> ChannelConsumer

A base for QuorumQueue and RemoteQueue, which know where the counts of a queue are to be had.

Invariants:
1. `consumers` has exactly the consumers of this node that were attached and have not ended.
2. Of a deleted queue nothing is submitted any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from amqp_broker.errors import AmqpException, ChannelException, not_found
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.proxy.command_sink import CommandSink
from amqp_broker.queue_types.proxy.consumer import ProxyConsumer, ProxyDelivery
from queues.consumer import Consumer, Subscriber
from queues.effects import Refusal
from queues.message import Message
from queues.queue import Done, Fetched, Parting, Queue, Tallied
from queues.quorum.commands import Attach, How, Prefetch
from queues.receipts import JointReceipt, Receipt
from queues.refusal import QueueRefusal
from queues.sums import QueueSums

_ACK = How.ACK
_REQUEUE = How.REQUEUE
_REJECT = How.REJECT
_RETURN = How.RETURN

#: So many go back to a log at a time: all that it takes at once it also hands to its consumers at once.
_RETURN_WINDOW = 256


class QueueProxy(Queue):
    """is_prepared: nothing has to be done before its first command. knows_message_ids: it recognises messages by their
    message-id. refuses_get: basic.get is not possible. counts: what consumers of this node were given, and
    acknowledged."""

    return_window = _RETURN_WINDOW

    def __init__(self, name: str, queue_id: int, is_durable: bool, sink: CommandSink) -> None:
        super().__init__(name, queue_id, is_durable, sink)
        self.sink = sink
        self.is_prepared = True
        self.knows_message_ids = False
        self.refuses_get = False
        self.consumers: dict[object, ProxyConsumer] = {}
        self.counts = QueueSums()
        self._reviving: list[ProxyConsumer] = []

    def prepare(self) -> None:
        """Before the first command."""

    def policy_changed(self) -> None:
        """A policy of its virtual host was changed."""

    def availability(self) -> AmqpException | None:
        """Why its log cannot be reached at all, None if it can."""
        return None

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        return self.sink.publish(message, [self], receipt, is_again, now)

    # -- consumers -----------------------------------------------------------------------------------------------------

    def attached(self) -> Iterable[object]:
        """See Queue."""
        return self.consumers

    def numbered_consumers(self) -> Iterator[tuple[int, object]]:
        """See Queue."""
        return iter([(each.number, each.consumer) for each in self.consumers.values()])

    def has_single_active_consumer(self) -> bool:
        """See Queue."""
        return bool(self.settings.single_active_consumer)

    def is_active(self, consumer: object) -> bool | None:
        """See Queue: that is known where its log is."""
        return None if self.has_single_active_consumer() else True

    def admit(self, consumer: Subscriber, then: Done) -> None:
        """See Queue. What the log assigns to it before it has answered waits."""
        refusal = self.availability()
        if refusal is not None:
            then(refusal)
            return
        self.had_consumers = True
        receipt = JointReceipt()
        delivery_owner = self._attach(consumer, receipt)

        def done(refusals: list[Refusal]) -> None:
            refusal = delivery_owner.refusal or (refusals[0] if refusals else None)
            if refusal is None:
                delivery_owner.is_open = True
                then(None)
            else:
                self.consumers.pop(consumer, None)
                then(self.refused(refusal))

        receipt.seal(done)

    def _attach(self, consumer: Subscriber, receipt: Receipt) -> ProxyConsumer:
        if not self.is_prepared:
            self.prepare()
        sink = self.sink
        delivery_owner = ProxyConsumer(self, sink, consumer, sink.new_consumer(), consumer.prefetch_limit())
        consumer.queue = self
        self.consumers[consumer] = delivery_owner
        sink.attach(delivery_owner)
        sink.submit(
            Attach(
                delivery_owner.number, self.queue_id, delivery_owner.prefetch, consumer.no_ack, consumer.priority,
                consumer.is_exclusive, consumer.tag,
            ),
            receipt,
        )  # fmt: skip
        return delivery_owner

    def cancel(self, consumer: Consumer, gives_back: bool, now: int) -> None:
        """See Queue; what waits for it here goes back."""
        delivery_owner = self.consumers.pop(consumer, None)
        if delivery_owner is None:
            return
        if self.is_deleted or delivery_owner.refusal is not None:
            delivery_owner.is_ended = True
            delivery_owner.forget()
        else:
            self.sink.detach(delivery_owner, gives_back)

    def forget_consumer(self, consumer: object) -> None:
        """The broker has ended it."""
        self.consumers.pop(consumer, None)

    def count_unseen(self, consumer: Consumer) -> int:
        """See Queue: those that wait here."""
        delivery_owner = self.consumers.get(consumer)
        return 0 if delivery_owner is None else len(delivery_owner.waiting)

    def part(self, consumer: Consumer, now: int) -> Parting | None:
        """See Queue: to tell the log may bring back very many, for others to get."""
        delivery_owner = self.consumers.pop(consumer, None)
        if delivery_owner is not None:
            delivery_owner.end()
        return delivery_owner

    def is_abandoned(self) -> bool:
        """See Queue: that is seen where its log is."""
        return False

    def prefetch_changed(self, consumer: Subscriber) -> None:
        """A limit of the consumer, or of its channel, was changed."""
        delivery_owner = self.consumers.get(consumer)
        if delivery_owner is not None and not self.is_deleted:
            limit = consumer.prefetch_limit()
            if limit != delivery_owner.prefetch:
                delivery_owner.prefetch = limit
                self.sink.submit(Prefetch(delivery_owner.number, limit))

    def credit_returned(self, consumer: Consumer) -> None:
        """The consumer may have credit again; call `dispatch` afterwards."""
        consumer.is_waiting = True
        delivery_owner = self.consumers.get(consumer)
        if delivery_owner is not None and delivery_owner.waiting:
            self._reviving.append(delivery_owner)

    def dispatch(self, now: int) -> None:
        """Consumers that may have credit again get what waits for them."""
        if self._reviving:
            reviving = self._reviving
            self._reviving = []
            for delivery_owner in reviving:
                if not delivery_owner.is_ended:
                    delivery_owner.hand_out()

    # -- settling ------------------------------------------------------------------------------------------------------

    def ack(self, delivery: ProxyDelivery) -> None:  # type: ignore[override]  # its own come back
        """The client is done with it."""
        self.counts.acked += 1
        self.settle_as(delivery, _ACK)

    def reject(self, delivery: ProxyDelivery, now: int) -> None:  # type: ignore[override]  # its own come back
        """The client refuses it for good."""
        self.settle_as(delivery, _REJECT)

    def put_back(self, deliveries: list[ProxyDelivery], now: int) -> None:  # type: ignore[override]  # its own come back
        """Deliveries come back unprocessed."""
        for delivery in deliveries:
            self.settle_as(delivery, _REQUEUE)

    def take_back(self, deliveries: list[ProxyDelivery], now: int) -> None:  # type: ignore[override]  # its own come back
        """See Queue."""
        for delivery in deliveries:
            self.settle_as(delivery, _RETURN)

    def settle_as(self, delivery: ProxyDelivery, how: How) -> None:
        """The client has done so with it."""
        delivery_owner = delivery.delivery_owner
        delivery.consumer = None
        delivery.delivery_owner = None
        # What was delivered before the stream's session ended has returned to the queue by itself.
        is_of_this_session = delivery.epoch == self.sink.epoch and not self.is_deleted
        if is_of_this_session and delivery_owner is not None and not delivery_owner.is_released:
            delivery_owner.settle(delivery.sequence, how)

    def when_settled(self, receipt: Receipt, has_refused: bool) -> None:
        """See Queue: when the log has taken it."""
        for delivery_owner in self.sink.settling:
            if delivery_owner.proxy is self:
                delivery_owner.flush(receipt)

    # -- answers that come later ---------------------------------------------------------------------------------------

    def fetch(self, getter: Consumer, now: int, then: Fetched) -> None:
        """See Queue."""
        refusal = self.availability()
        if refusal is None and self.refuses_get:
            refusal = ChannelException(
                ReplyCode.RESOURCE_LOCKED,
                f"cannot obtain access to locked queue '{self.name}' in vhost '{self.declaration.vhost}'. "
                "basic.get operations are not supported by quorum queues with single active consumer",
            )
        if refusal is not None:
            then(refusal, None, 0)
            return
        if not self.is_prepared:
            self.prepare()
        sink = self.sink
        delivery_owner = ProxyConsumer(self, sink, getter, sink.new_consumer(), 0)
        delivery_owner.is_open = True
        sink.fetch(
            delivery_owner,
            self.queue_id,
            lambda refusal, delivery, left: then(self._refusal(refusal), delivery, left),
        )

    def clear(self, then: Tallied) -> None:
        """See Queue."""
        if not self.is_prepared:
            self.prepare()
        self.sink.purge(self.queue_id, lambda refusal, count: then(self._refusal(refusal), count))

    def unavailable(self) -> AmqpException:
        """What a client is told when nobody knows what became of its command."""
        raise NotImplementedError

    def refused(self, refusal: Refusal) -> AmqpException | QueueRefusal:
        """What a client is told when its command had no success."""
        vhost = self.declaration.vhost
        if refusal is Refusal.NO_QUEUE:
            return not_found("queue", self.name, vhost)
        if refusal is Refusal.EXCLUSIVE:
            return self.in_exclusive_use()
        return self.unavailable()

    def _refusal(self, refusal: Refusal | None) -> AmqpException | QueueRefusal | None:
        return None if refusal is None else self.refused(refusal)

    def part_with_all(self) -> list[Consumer]:
        """See Queue."""
        self.is_deleted = True
        consumers, self.consumers = self.consumers, {}
        sink = self.sink
        for delivery_owner in consumers.values():
            sink.delivery_owners.pop(delivery_owner.number, None)
            delivery_owner.is_ended = True
            delivery_owner.forget()
        return cast("list[Consumer]", list(consumers))

    # -- the end -------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """The queue is no more: its consumers here are cancelled. Returns how many messages were ready."""
        count = self.message_count()
        self.is_deleted = True
        for consumer in list(self.consumers):
            delivery_owner = self.consumers[consumer]
            if delivery_owner.is_open:
                self.sink.cancel(delivery_owner)
        return count
