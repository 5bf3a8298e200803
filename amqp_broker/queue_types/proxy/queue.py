"""QueueProxy: a queue whose log is elsewhere, as a channel of this node sees it.

    channel -> ack, reject, put_back -> ProxyConsumer -> CommandSink.flush, at the end of the turn
    channel -> attach, fetch, clear -> CommandSink -> ... -> called back when the log has answered
    Delivered -> ProxyConsumer -> ChannelConsumer

A base for QuorumQueue and RemoteQueue, which know where the counts of a queue are to be had.

Invariants:
1. `consumers` has exactly the consumers of this node that were attached and have not ended.
2. Of a deleted queue nothing is submitted any more.
"""

from __future__ import annotations

from typing import Any

from amqp_broker.errors import AmqpException, ChannelException, not_found
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.proxy.command_sink import CommandSink, Fetched, Tallied
from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
from amqp_broker.queue_types.receipts import Receipt
from queues.consumer import Consumer
from queues.message import Entry
from queues.queue import Queue
from queues.quorum.commands import Attach, How, Prefetch
from queues.quorum.effects import Refusal

_ACK = How.ACK
_REQUEUE = How.REQUEUE
_REJECT = How.REJECT


class QueueProxy(Queue):
    """is_prepared: nothing has to be done before its first command. recognises_producers: it drops what a producer has
    given it before, by the producer's numbers. knows_message_ids: it recognises messages by their message-id.
    refuses_get: basic.get is not possible."""

    recognises_producers = False

    def __init__(self, name: str, queue_id: int, is_durable: bool, sink: CommandSink) -> None:
        super().__init__(name, queue_id, is_durable)
        self.is_proxy = True
        self.sink = sink
        self.is_prepared = True
        self.knows_message_ids = False
        self.refuses_get = False
        self.consumers: dict[Any, ProxyConsumer] = {}
        self._reviving: list[ProxyConsumer] = []

    def prepare(self) -> None:
        """Before the first command."""

    def policy_changed(self) -> None:
        """A policy of its virtual host was changed."""

    def check_available(self) -> None:
        """Raises ChannelException while its log cannot be reached at all."""

    # -- consumers -----------------------------------------------------------------------------------------------------

    def attach(self, consumer: Any, receipt: Receipt | None) -> ProxyConsumer:
        """A consumer joins. When the receipt is complete, `refusal` of what this returns says whether the log has taken
        it; `open` then lets deliveries through."""
        if not self.is_prepared:
            self.prepare()
        sink = self.sink
        holder = ProxyConsumer(self, sink, consumer, sink.new_consumer(), consumer.prefetch_limit())
        consumer.queue = self
        self.consumers[consumer] = holder
        sink.attach(holder)
        sink.submit(
            Attach(
                holder.number, self.queue_id, holder.prefetch, consumer.no_ack, consumer.priority,
                consumer.is_exclusive, consumer.tag,
            ),
            receipt,
        )  # fmt: skip
        return holder

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer joins whom nobody has to tell."""
        self.attach(consumer, None).open()

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves; what its client holds stays held, what waits for it goes back."""
        self._leave(consumer, False)

    def release_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves, and everything that it holds goes back; `put_back` does nothing for these then."""
        self._leave(consumer, True)

    def _leave(self, consumer: Consumer, gives_back: bool) -> None:
        holder = self.consumers.pop(consumer, None)
        if holder is None:
            return
        if self.is_deleted or holder.refusal is not None:
            holder.is_ended = True
            holder.forget()
        else:
            self.sink.detach(holder, gives_back)

    def count_unseen(self, consumer: Consumer) -> int:
        """How many messages wait for a consumer here."""
        holder = self.consumers.get(consumer)
        return 0 if holder is None else len(holder.waiting)

    def part(self, consumer: Consumer) -> list[ProxyConsumer]:
        """A consumer leaves, and gets nothing more from now on; the log hears of it with `detach`, for what this
        returns. What its client holds stays held."""
        holder = self.consumers.pop(consumer, None)
        if holder is None:
            return []
        holder.end()
        return [holder]

    def detach(self, holder: ProxyConsumer) -> None:
        """The log is told that a consumer has left."""
        if self.is_deleted or holder.refusal is not None:
            holder.forget()
        else:
            self.sink.detach(holder, False)

    def prefetch_changed(self, consumer: Any) -> None:
        """A limit of the consumer, or of its channel, was changed."""
        holder = self.consumers.get(consumer)
        if holder is not None and not self.is_deleted:
            limit = consumer.prefetch_limit()
            if limit != holder.prefetch:
                holder.prefetch = limit
                self.sink.submit(Prefetch(holder.number, limit))

    def credit_returned(self, consumer: Consumer) -> None:
        """The consumer may have credit again; call `dispatch` afterwards."""
        consumer.is_waiting = True
        holder = self.consumers.get(consumer)
        if holder is not None and holder.waiting:
            self._reviving.append(holder)

    def dispatch(self, now: int) -> None:
        """Consumers that may have credit again get what waits for them."""
        if self._reviving:
            reviving = self._reviving
            self._reviving = []
            for holder in reviving:
                if not holder.is_ended:
                    holder.hand_out()

    # -- settling ------------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        """The client is done with it."""
        self._settle(entry, _ACK)

    def reject(self, entry: Entry, now: int) -> None:
        """The client refuses it for good."""
        self._settle(entry, _REJECT)

    def put_back(self, entries: list[Entry], now: int) -> None:
        """Deliveries come back unprocessed."""
        for entry in entries:
            self._settle(entry, _REQUEUE)

    def _settle(self, entry: Entry, how: How) -> None:
        holder = entry.page
        entry.consumer = None
        entry.page = None
        # What was delivered before the stream's session ended has returned to the queue by itself.
        if entry.journal_segment == self.sink.epoch and not self.is_deleted and not holder.is_released:
            holder.settle(entry.sequence, how)

    # -- answers that come later ---------------------------------------------------------------------------------------

    def fetch(self, getter: Any, then: Fetched) -> None:
        """basic.get: `then` has the entry, which `getter` holds."""
        if not self.is_prepared:
            self.prepare()
        sink = self.sink
        holder = ProxyConsumer(self, sink, getter, sink.new_consumer(), 0)
        holder.is_open = True
        sink.fetch(holder, self.queue_id, then)

    def give_back(self, entry: Entry) -> None:
        """What was fetched has nobody to take it any more: it returns as it came."""
        self._settle(entry, How.RETURN)

    def clear(self, then: Tallied) -> None:
        """queue.purge: `then` is told how many messages were dropped."""
        if not self.is_prepared:
            self.prepare()
        self.sink.purge(self.queue_id, then)

    def unavailable(self) -> AmqpException:
        """What a client is told when nobody knows what became of its command."""
        raise NotImplementedError

    def refused(self, refusal: Refusal) -> AmqpException:
        """What a client is told when its command had no success."""
        vhost = self.declaration.vhost
        if refusal is Refusal.NO_QUEUE:
            return not_found("queue", self.name, vhost)
        if refusal is Refusal.EXCLUSIVE:
            text = f"queue '{self.name}' in vhost '{vhost}' in exclusive use"
            return ChannelException(ReplyCode.ACCESS_REFUSED, text)
        return self.unavailable()

    def answered(self, refusal: Refusal | None, count: int) -> int:
        """The count of an answer. Raises AmqpException when there is none."""
        if refusal is not None:
            raise self.refused(refusal)
        return count

    # -- the end -------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """The queue is no more: its consumers here are cancelled. Returns how many messages were ready."""
        count = self.message_count()
        self.is_deleted = True
        for consumer in list(self.consumers):
            holder = self.consumers[consumer]
            if holder.is_open:
                self.sink.cancel(holder)
        return count
