"""Effects: what a node has to do because of what was applied. Data; the node takes them with `take_effects`.

Those of a consumer or a command come on the node whose consumer or command it is, and only for its present session.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from queues.message import Message
from queues.reason import Reason


class Refusal(IntEnum):
    """Why a command had no success."""

    FULL = 1
    """A queue with overflow reject-publish has no room: negative acknowledgement."""
    NO_QUEUE = 2
    """A queue is not there: not yet, or not any more. The node's metadata tells which."""
    EXCLUSIVE = 3
    """The queue has an exclusive consumer, or others where this one is to be exclusive."""
    ID_USED = 4
    """The consumer's number is not above the earlier ones."""
    UNKNOWN = 5
    """Never out of a log: the link or the session was lost before an answer came. It may have been done. Of a home: it
    is the queue's no more, or about to be."""
    FENCED = 6
    """The lease group has another owner now."""
    LEASE_GONE = 7
    """There is no such lease group, or another incarnation of it, or it does not hold what was named."""


class Cancel(IntEnum):
    """Why the broker has ended a consumer."""

    QUEUE_GONE = 1
    TIMEOUT = 2


class Gone(IntEnum):
    """Why a queue is gone."""

    DROPPED = 1
    EXPIRED = 2
    MISSED = 3
    """It went while this node was away."""


class Delivered:
    """For a consumer; the delivery counts against its prefetch until it is settled, also where the consumer has asked
    for no acknowledgements: then the node settles it once it is on its way. delivery_count: how often it came back.
    (No tuple like the others: there is one for every message, and compiled code reads it.)"""

    def __init__(
        self, consumer: int, delivery_id: int, message: Message, redelivered: bool, delivery_count: int
    ) -> None:
        self.consumer = consumer
        self.delivery_id = delivery_id
        self.message = message
        self.redelivered = redelivered
        self.delivery_count = delivery_count

    def __iter__(self) -> Iterator[object]:
        return iter((self.consumer, self.delivery_id, self.message, self.redelivered, self.delivery_count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Delivered) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks one up


def make_delivered(
    consumer: int, delivery_id: int, message: Message, redelivered: bool, delivery_count: int
) -> Delivered:
    """A Delivered (a function, because a C call costs less than a constructor's argument tuple)."""
    effect = Delivered.__new__(Delivered)
    effect.consumer = consumer
    effect.delivery_id = delivery_id
    effect.message = message
    effect.redelivered = redelivered
    effect.delivery_count = delivery_count
    return effect


class Refused(NamedTuple):
    sequence: int
    refusal: Refusal


class Confirmed(NamedTuple):
    """The own commands first..last of this session are applied; all but `refused` with success."""

    session: int
    first: int
    last: int
    refused: tuple[Refused, ...]


class GetAnswered(NamedTuple):
    """message: None when there was none (delivery_id is 0 then), or when it cannot be had any more. ready: how many are
    left. There being some and no message, one is to ask again: more has expired in front of them, or had to be looked
    at, than one command does."""

    sequence: int
    consumer: int
    delivery_id: int
    message: Message | None
    redelivered: bool
    delivery_count: int
    ready: int


class Counted(NamedTuple):
    """So many ready messages were purged, or went with their queue."""

    sequence: int
    messages: int


class AttachRefused(NamedTuple):
    sequence: int
    consumer: int
    refusal: Refusal


class SettleMissed(NamedTuple):
    """So many of the deliveries that were to be settled are not held by this consumer: others have them."""

    sequence: int
    consumer: int
    deliveries: int


class ConsumerCancelled(NamedTuple):
    """The broker has ended this consumer; what it held has returned to the queue, or is gone with it."""

    consumer: int
    why: Cancel


class Unreadable(NamedTuple):
    """A consumer got this delivery while the node was away, and its stream does not have the message any more."""

    consumer: int
    delivery_id: int


class DeadLettered(NamedTuple):
    """On the leader only, and again on every new one, until it proposes Dispatched for this letter."""

    queue_id: int
    letter: int
    message: Message
    reason: Reason
    delivery_count: int


class Discarded(NamedTuple):
    """On the leader only: so many messages came back too often, and the queue has no dead letter exchange."""

    queue_id: int
    messages: int


class QueueOpened(NamedTuple):
    """On the leader only: a queue is new, or where there are guests has other settings. Whoever wanted it may have
    wanted it before it was deleted, or before others were wanted."""

    queue_id: int


class QueueGone(NamedTuple):
    queue_id: int
    why: Gone


class Grown(NamedTuple):
    """On every member, of its streams to which it listens: something was appended, or taken from the beginning. next:
    the offset that the next message gets."""

    queue_id: int
    next: int


class SessionClosed(NamedTuple):
    """The own session is over: nothing of it that has not been confirmed will ever be applied."""

    session: int


Effect = (
    Delivered
    | Confirmed
    | GetAnswered
    | Counted
    | AttachRefused
    | SettleMissed
    | ConsumerCancelled
    | Unreadable
    | DeadLettered
    | Discarded
    | QueueOpened
    | QueueGone
    | Grown
    | SessionClosed
)
