"""What the model keeps: messages, their copies in queues, queues in their incarnations, consumers and channels.

A copy is one message in one incarnation of a queue. Where the broker has a choice that the model cannot see (what a
crash left, whether a full queue has dropped its head), the copy is `is_maybe`, or `Model.may_be_gone` says so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.settings import QueueSpec

# Where a copy is.
READY = "ready"
HELD = "held"
DELAYED = "delayed"
GONE = "gone"

#: A turn that is never durable.
NEVER = 1 << 60


class Violation(AssertionError):
    """The broker did what it must not do."""


@dataclass(slots=True, eq=False)
class Published:
    """A message as it was published. properties: what a delivery has to carry unchanged; `released` where it was held
    back."""

    number: int
    body: bytes
    properties: bytes
    is_persistent: bool
    priority: int
    ttl: int | None
    must_return: bool = False
    released: bytes | None = None


@dataclass(slots=True, eq=False)
class Copy:
    """A message in a queue. Turns are the simulation's; times are milliseconds.

    place: rises in the order of publication. stored_turn, settled_turn: the turns whose sync makes its being there,
    or its being gone, durable. must_be_redelivered: None where the flag may be either.
    """

    message: Published
    queue: Incarnation
    place: int
    level: int
    is_durable: bool
    stored_turn: int
    ready_since: int
    state: str = READY
    source: str = ""
    expires_at: int = 0
    due: int = 0
    settled_turn: int = NEVER
    reason: str = ""
    is_maybe: bool = False
    is_ordered: bool = True
    was_delivered: bool = False
    must_be_redelivered: bool | None = False
    returns: int = 0
    returns_are_known: bool = True
    consumer: Consumer | None = None
    has_letter: bool = False
    may_have_letter: bool = False

    def __str__(self) -> str:
        return (
            f"message {self.message.number} in '{self.queue.spec.name}' ({self.state} {self.reason}, stored in turn "
            f"{self.stored_turn}, settled in {self.settled_turn}, maybe {self.is_maybe})"
        )


@dataclass(slots=True, eq=False)
class Incarnation:
    """One life of a queue, from its declaration to its deletion. `queue_id` is the broker's number of it.

    purged_at, and a channel's ended_at: which of the last purge and the channel's end came first.
    """

    spec: QueueSpec
    declared_turn: int
    queue_id: int = 0
    deleted_turn: int = NEVER
    bound_turn: int = NEVER
    purged_at: int = 0
    copies: dict[tuple[int, str], Copy] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)

    @property
    def is_deleted(self) -> bool:
        return self.deleted_turn != NEVER


@dataclass(slots=True, eq=False)
class Purge:
    """A queue.purge of this turn: when it was (as `Incarnation.purged_at`), and what the model had for it to take."""

    operation: Any
    queue: Incarnation
    at: int
    gone: list[Copy]


@dataclass(slots=True, eq=False)
class Consumer:
    """One basic.consume."""

    tag: str
    channel: ModelChannel
    queue: Incarnation
    no_ack: bool
    prefetch: int
    held: int = 0
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Publish:
    """A publish that waits for its confirm."""

    message: Published
    copies: list[Copy]
    turn: int
    was_returned: bool = False


@dataclass(slots=True, eq=False)
class ModelChannel:
    """A channel as both sides see it: `outstanding` and `is_dead` are the broker's view, when it has handled what was
    sent; `unsettled` and `is_closed` are the client's, who has sent or seen it."""

    client: Any
    number: int
    is_dead: bool = False
    ended_at: int = 0
    is_closed: bool = False
    is_confirming: bool = False
    published: int = 0
    confirmed: int = 0
    unconfirmed: dict[int, Publish] = field(default_factory=dict)
    transaction: list[Any] | None = None
    client_in_tx: bool = False
    client_confirms: bool = False
    is_leaving: bool = False
    next_tag: int = 1
    outstanding: dict[int, Copy] = field(default_factory=dict)
    unsettled: dict[int, None] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    client_consumers: dict[str, None] = field(default_factory=dict)
    prefetch: int = 0
    highest_prefetch: int = NEVER
    consumer_prefetch: int = 0
    held: int = 0
    replies: deque[Any] = field(default_factory=deque)
    returned: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Delivery:
    """A basic.deliver or basic.get-ok that has been seen in this turn."""

    channel: ModelChannel
    consumer: Consumer | None
    queue: Incarnation
    no_ack: bool
    number: int
    source: str
    is_redelivered: bool
    properties: bytes
    body: bytes
    tag: int
    copy: Copy | None = None
