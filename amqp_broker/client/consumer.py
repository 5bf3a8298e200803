"""Consumer: the deliveries that a queue pushes to one subscription of a channel."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from amqp_broker.client.errors import ClientTimeout, ConsumerCancelled
from amqp_broker.client.messages import Delivery
from amqp_broker.client.transport import deadline_in
from amqp_broker.protocol import methods as m

if TYPE_CHECKING:
    from amqp_broker.client.channel import Channel


class Consumer:
    """Made by `Channel.consume`; iterate over it, or ask it for the `next` delivery.

    Iteration ends when nothing has come for `idle_timeout` seconds (None: never), or once the consumer has
    been cancelled here and what had already arrived is used up. When the broker cancels it, ConsumerCancelled
    follows the last delivery.
    """

    def __init__(self, channel: Channel, consumer_tag: str) -> None:
        self.consumer_tag = consumer_tag
        self.idle_timeout: float | None = None
        self.deliveries: deque[Delivery] = deque()
        self.is_cancelled = False
        self.is_cancelled_by_broker = False
        self._channel = channel

    def take(self, delivery: Delivery) -> None:
        """A message has come for it."""
        self.deliveries.append(delivery)

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next delivery, or None when none has come within `timeout` seconds (None: waits for ever)."""
        try:
            self._channel.wait_until(
                lambda: bool(self.deliveries) or self.is_cancelled, deadline_in(timeout), "a delivery"
            )
        except ClientTimeout:
            return None
        if self.deliveries:
            return self.deliveries.popleft()
        if self.is_cancelled_by_broker:
            raise ConsumerCancelled(
                f"the broker cancelled consumer '{self.consumer_tag}': was its queue deleted?"
            )
        return None

    def cancel(self) -> None:
        """Ends the subscription. What has already arrived can still be taken; nothing is requeued."""
        if not self.is_cancelled:
            self._channel.call(m.BasicCancel(self.consumer_tag))
            self._channel.forget_consumer(self.consumer_tag)
            self.is_cancelled = True

    def __iter__(self) -> Iterator[Delivery]:
        while (delivery := self.next(self.idle_timeout)) is not None:
            yield delivery

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.cancel()
