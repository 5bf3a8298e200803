"""LeaseSource: the lease groups of one queue, wherever its log is, as those who lease its messages use them.

`then` is called once, at once or later, with why it was not done, None for success: NO_QUEUE, FENCED, LEASE_GONE, or
UNKNOWN if nobody knows, so that it has to be asked again. Reading is at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from queues.effects import Refusal
from queues.ready import Ready

Done = Callable[[Refusal | None], None]


class Caller(NamedTuple):
    """Who calls: the group's name, its incarnation and its owner as the caller knows them."""

    group: str
    incarnation: str
    owner: str


class LeasedGroup(Protocol):
    """One group, to be read only. trimmed, next: the offsets of what it holds, and of what comes next; last_called:
    when its owner did something last, milliseconds since the epoch."""

    name: str
    incarnation: str
    owner: str
    trimmed: int
    next: int
    last_called: int

    @property
    def count(self) -> int:
        """How many messages it holds."""

    @property
    def bytes(self) -> int:
        """Their octets, about."""

    def read(self, first: int, last: int, max_bytes: int) -> list[Any]:
        """See MessageLog.read."""


class ReadyMessages(NamedTuple):
    """What is ready in a queue: runs within which sequences rise, and the sequence that comes next."""

    levels: list[Ready]
    next_sequence: int


class LeaseSource(Protocol):
    """The groups of one queue."""

    #: So many messages at most are claimed at once.
    step_messages: int
    #: What is done is in this node's journal, and durable when that is synced. Otherwise it is durable when it is done,
    #: on whatever disks are needed, which may be never; and what is read here may be behind.
    is_local: bool

    def groups(self) -> Mapping[str, LeasedGroup]:
        """By name; to be read only."""

    def is_here(self) -> bool:
        """Whether this node still has the log: where it has not, a group that it does not find may be there."""

    def ready_count(self) -> int:
        """How many messages a claim would find."""

    def ready(self) -> ReadyMessages:
        """The ready messages themselves; to be read only."""

    def is_exclusive(self) -> bool:
        """Whether a consumer has the queue for itself alone."""

    def lease_expires(self) -> int | None:
        """For how long an owner may not call before a group is released, milliseconds; None for ever."""

    def open(self, caller: Caller, now: int, then: Done) -> None:
        """The group is there and is the caller's; with this incarnation, if it was not there."""

    def claim(
        self, caller: Caller, after: int, messages: int, octets: int, adds: bool, now: int, then: Done
    ) -> None:
        """The group takes ready messages; unless it `adds`, only while it holds none beyond offset `after`."""

    def ack(self, caller: Caller, upto: int, now: int, then: Done) -> None:
        """Everything below `upto` is done with."""

    def release(self, caller: Caller, now: int, then: Done) -> None:
        """What the group holds goes back to the queue, and the group is gone."""

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when something is ready that no consumer takes. The last one who asks is called."""


class LeasedAt(NamedTuple):
    """The groups are on another node, which is to be asked."""

    home: str
