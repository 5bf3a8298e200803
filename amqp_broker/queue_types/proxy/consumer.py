"""ProxyConsumer: one consumer of a queue whose log is elsewhere, or one basic.get, between the stream and the channel.

    Delivered -> deliver -> the channel, or `waiting` while it has no credit -> hand_out
    settle -> ranges of the turn -> flush: one Settle

Deliveries come as the log assigns them, whether or not the client reads. What it has no credit for waits here (its own
prefetch is kept by the log; the channel's shared one, channel.flow and the output's room are kept here), and goes back
as never delivered when the consumer ends.

Invariants:
1. What is in `waiting` was never handed to the client, and comes before everything that is delivered later.
2. A delivery is settled at most once, and only in the epoch of the stream in which it was made.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import cython

from queues.message import Delivery, Message
from queues.quorum.commands import How, Settle
from queues.quorum.consumer import MOST_IN_FLIGHT

if TYPE_CHECKING:
    from amqp_broker.queue_types.proxy.command_sink import CommandSink
    from amqp_broker.queue_types.proxy.queue import QueueProxy
    from queues.effects import Refusal
    from queues.receipts import Receipt

_ACK = How.ACK

#: Acknowledgements wait at most so long for something that they can go along with, milliseconds, where the log may soon
#: have to hold messages back until it knows of them: half of the prefetch is held. Elsewhere: ACK_REST_MS.
CREDIT_REST_MS = 2
_CREDIT_REST_MS = CREDIT_REST_MS
_MOST_IN_FLIGHT = MOST_IN_FLIGHT


@cython.no_gc
@cython.cclass
class ProxyDelivery(Delivery):
    """A message that a log has assigned. holder: to which of its consumers; None once it is settled. epoch: that of the
    stream (CommandSink): afterwards it is nobody's."""

    delivery_owner: ProxyConsumer | None
    epoch: int


class Receiver(Protocol):
    """A Consumer, as messages are handed to it that a log elsewhere has assigned."""

    no_ack: bool
    is_waiting: bool

    def has_credit(self) -> bool: ...

    def deliver(self, delivery: Delivery) -> None: ...

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None: ...

    def redelivered(self, delivery: Delivery) -> Message: ...

    def on_queue_gone(self) -> None: ...


class ProxyConsumer:
    """number: the stream's number of it; another one after the session was closed. is_open: the log has it, and the
    client knows; deliveries before that wait. is_ended: it gets nothing more. is_released:
    what its client held goes back with it. seen: the last delivery that was handed to the client. prefetch: the limit
    that the log keeps. refusal: why the log did not take it. is_late: it has credit for what waits, and is to get it in
    turns to come. unseen: of one that has ended, how many waited for it. waiting_bytes: of messages, in `waiting`.
    received, told: octets of messages that have come for it, and that its sink has told somebody were taken."""

    def __init__(self, proxy: QueueProxy, sink: CommandSink, consumer: Receiver, number: int, prefetch: int) -> None:
        self.proxy = proxy
        self.sink = sink
        self.consumer = consumer
        self.counts = proxy.counts
        self.number = number
        self.prefetch = prefetch
        self.is_open = False
        self.is_ended = False
        self.is_released = False
        self.seen = 0
        self.refusal: Refusal | None = None
        self.waiting: deque[ProxyDelivery] = deque()
        self.waiting_bytes = self.received = self.told = 0
        self.is_late = False
        self.unseen = 0
        self.is_settling = False
        self.fetches = 0  # so often it was asked for a message
        self._how = _ACK
        self._first = 0
        self._last = 0
        self._ranges: list[tuple[int, int]] = []
        self._unsettled = 0
        self._held = 0  # by the log's account: what is to be settled among it

    # -- deliveries --------------------------------------------------------------------------------------------------

    def deliver(self, delivery_id: int, message: Message, is_redelivered: bool, returns: int) -> None:
        """The log has assigned it a message."""
        if self.is_ended:
            return  # its Detach gives it back
        delivery = self.delivery(delivery_id, message, is_redelivered, returns)
        consumer = self.consumer
        if self.waiting or not self.is_open or not consumer.has_credit():
            self._wait(delivery)
        elif self.sink.may_hand_out:
            self._hand_over(delivery)
        else:
            self._wait(delivery)
            self.sink.hand_out_later(self)
        if self._unsettled:
            self._limit_rest()

    def _wait(self, delivery: ProxyDelivery) -> None:
        self.waiting.append(delivery)
        self.waiting_bytes += delivery.message.size
        self.consumer.is_waiting = False

    def delivery(self, delivery_id: int, message: Message, is_redelivered: bool, returns: int) -> ProxyDelivery:
        """A delivery as channels hold it."""
        delivery = ProxyDelivery.__new__(ProxyDelivery)
        delivery.message = message
        delivery.sequence = delivery_id
        delivery.consumer = None
        delivery.is_redelivered = is_redelivered
        delivery.returns = returns
        delivery.delivery_owner = self
        delivery.epoch = self.sink.epoch
        self._held += 1
        return delivery

    def _hand_over(self, delivery: ProxyDelivery) -> None:
        consumer = self.consumer
        self.sink.handed_out(delivery)
        self.seen = delivery.sequence
        counts = self.counts
        if delivery.is_redelivered:
            counts.redelivered += 1
        if consumer.no_ack:
            counts.auto_acked += 1
            # It is on its way to the client, who is not going to say more about it.
            self.settle(delivery.sequence, _ACK)
            message = consumer.redelivered(delivery) if delivery.is_redelivered else delivery.message
            consumer.deliver_at_once(message, delivery.is_redelivered)
        else:
            counts.delivered += 1
            delivery.consumer = consumer
            consumer.deliver(delivery)

    def hand_out(self) -> None:
        """The consumer may have credit: it gets what waits for it."""
        consumer = self.consumer
        waiting = self.waiting
        sink = self.sink
        while waiting and self.is_open and consumer.has_credit():
            if not sink.may_hand_out:
                sink.hand_out_later(self)
                break
            delivery = waiting.popleft()
            self.waiting_bytes -= delivery.message.size
            self._hand_over(delivery)
        consumer.is_waiting = not waiting

    def tell(self) -> None:
        """The log is told that it has left (Parting of queues/queue.py)."""
        if self.proxy.is_deleted or self.refusal is not None:
            self.forget()
        else:
            self.sink.detach(self, False)

    def end(self) -> None:
        """Nothing more is handed to the client; what waits is above what the client has `seen`."""
        self.is_ended = True
        self.unseen = len(self.waiting)
        self.waiting.clear()
        self.waiting_bytes = 0

    def cancel(self) -> None:
        """The broker ends it; what it held is not its any more."""
        self.is_ended = True
        self.forget()
        self.proxy.forget_consumer(self.consumer)
        self.consumer.on_queue_gone()

    def forget(self) -> None:
        """What it has got, and has not settled, is no longer its: the stream's epoch is over."""
        self.waiting.clear()
        self.waiting_bytes = 0
        self.seen = 0
        self._ranges = []
        self._first = 0
        self._unsettled = 0
        self._held = 0
        self.consumer.is_waiting = True

    # -- settling ----------------------------------------------------------------------------------------------------

    def settle(self, delivery_id: int, how: How) -> None:
        """Settle a delivery at the end of the turn."""
        if how is not self._how:
            self.flush(None)
            self._how = how
        if not self.is_settling:
            self.is_settling = True
            self.sink.add_settling(self)
        self._unsettled += 1
        self._limit_rest()
        if self._first:
            if delivery_id == self._last + 1:
                self._last = delivery_id
                return
            self._ranges.append((self._first, self._last))
        self._first = self._last = delivery_id

    def _limit_rest(self) -> None:
        """Nobody waits for acknowledgements until the log has no more for the consumer before they arrive. Far from its
        limit they may rest long; near to it, only until the client has settled half of it, and not for long; what goes
        back to the queue, not at all."""
        limit = self.prefetch
        if not limit or limit > _MOST_IN_FLIGHT or self.consumer.no_ack:
            limit = _MOST_IN_FLIGHT
        if self._how is not _ACK or 2 * self._unsettled >= limit:
            self.sink.limit_rest(0)
        elif 2 * self._held >= limit:
            self.sink.limit_rest(_CREDIT_REST_MS)

    def flush(self, receipt: Receipt | None) -> None:
        """Submit what is to be settled."""
        if self._first:
            ranges = (*self._ranges, (self._first, self._last))
            self._ranges = []
            self._first = 0
            self._held -= self._unsettled
            self._unsettled = 0
            self.sink.submit(Settle(self.number, self._how, ranges), receipt)
