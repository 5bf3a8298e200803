"""Consumer: what a queue knows of whom it delivers to. The channel implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from queues.message import Delivery, Message

if TYPE_CHECKING:
    from queues.queue import Queue

#: More than anybody can hold.
UNLIMITED = 2**31 - 1


class Consumer:
    """Somebody who takes messages of one queue.

    no_ack: deliveries are settled at once (`deliver_at_once`), the others are held until they are settled (`deliver`).
    priority: the argument x-priority; higher is served first.
    is_waiting: it stands in the dispatcher's line; cleared when it is found without credit.
    line_before, line_after: the dispatcher's: the consumers beside it in the line where it stands.
    credit: how many more deliveries it may hold, where that is a matter of its own; `has_credit` has the last word.
    """

    def __init__(self, no_ack: bool, priority: int) -> None:
        self.queue = cast("Queue", None)  # until it joins one
        self.no_ack = no_ack
        self.priority = priority
        self.is_waiting = False
        self.line_before: Consumer | None = None
        self.line_after: Consumer | None = None
        self.credit = UNLIMITED

    def has_credit(self) -> bool:
        """Whether one more delivery may be handed over now."""
        raise NotImplementedError

    def deliver(self, delivery: Delivery) -> None:
        """Take a message and answer for it until it is settled."""
        raise NotImplementedError

    def deliver_record(self, delivery: Delivery, octets: bytes, place: int, offset: int, more: bytes) -> bool:
        """Take a record of a stream as it lies there (queues/stream/record.py), with these header fields more, and
        answer for it. False: not this one; as a message it is taken (`deliver`)."""
        return False

    def trail(self, is_behind: bool) -> None:
        """It reads what is far from the end of a stream now, or does not any more."""

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        """Take a message that the queue has already forgotten."""
        raise NotImplementedError

    def redelivered(self, delivery: Delivery) -> Message:
        """What to deliver of a message that came back: itself, unless the consumer has something to add."""
        return delivery.message

    def goes_along(self) -> bool:
        """The queue lives elsewhere from now on, and the consumer stands in it no more. Whether it is to be attached
        there by this node."""
        return True

    def follow(self, queue: Queue) -> None:
        """Another queue has taken the place of its own, and it goes on there, if it is one of this node; what it holds
        is of the one that is gone, and comes again."""

    def on_queue_gone(self) -> None:
        """The queue was deleted: the consumer is cancelled by the broker."""
        raise NotImplementedError


class Joining(Protocol):
    """A Consumer that joins. is_exclusive: it wants the queue for itself alone."""

    is_exclusive: bool


class Subscriber(Joining, Protocol):
    """One of which a queue may have to know more, as of those that join by basic.consume. prefetch: its own limit, 0
    for none. arguments: those that it came with."""

    queue: Queue
    tag: str
    no_ack: bool
    priority: int
    prefetch: int
    is_waiting: bool

    @property
    def arguments(self) -> Mapping[str, object] | None: ...

    def prefetch_limit(self) -> int:
        """How many deliveries it may hold, its channel's limit counted in; 0 for any number."""

    def shared_limit(self) -> int:
        """The limit of its channel, 0 for none."""

    def has_credit(self) -> bool: ...

    def deliver(self, delivery: Delivery) -> None: ...

    def deliver_record(self, delivery: Delivery, octets: bytes, place: int, offset: int, more: bytes) -> bool: ...

    def trail(self, is_behind: bool) -> None: ...

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None: ...

    def redelivered(self, delivery: Delivery) -> Message: ...

    def on_queue_gone(self) -> None: ...
