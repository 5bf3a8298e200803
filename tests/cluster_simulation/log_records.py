"""What the LogModel keeps: copies of messages in queues, whose hands they are in, and the logs of groups.

Times are indexes of a group's log; NEVER is later than all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.cluster_simulation.queue_kinds import QueueKind

NEVER = 1 << 60


@dataclass(slots=True, eq=False)
class Handing:
    """A message in a consumer's hands, from one index to another. `end`: how it ended, "" while it has not."""

    copy: Copy
    holder: Holder
    delivery_id: int
    since: int
    is_first: bool
    until: int = NEVER
    end: str = ""
    seen: int = 0  # how often it was seen on the wire
    rests_from: int = 0  # the group's time when it came back; 0 if it did not, or nobody knows

    def __str__(self) -> str:
        return f"delivery {self.delivery_id} to {self.holder} from {self.since} to {self.until} ({self.end or 'held'})"


@dataclass(slots=True, eq=False)
class Copy:
    """A message in a queue. place: where the log has it. may_be_absent: it may have been refused."""

    number: int
    queue: QueueLog
    place: tuple[int, int]
    priority: int
    clock: int
    handings: list[Handing] = field(default_factory=list)
    end: str = ""
    ended_at: int = NEVER
    may_be_absent: bool = False
    may_be_purged: bool = False
    is_confirmed: bool = False
    is_again: bool = False

    def __str__(self) -> str:
        return f"message {self.number} in '{self.queue.kind.name}' (taken at {self.place}, {self.end or 'not ended'})"


@dataclass(slots=True, eq=False)
class Holder:
    """A consumer, or what has fetched one message. returned_at: from then on it holds nothing of what it held. unseen:
    deliveries above this went back when it left, and when that was."""

    origin: str
    number: int
    session: int
    queue: QueueLog | None
    tag: str = ""
    no_ack: bool = False
    is_getter: bool = False
    priority: int = 0
    attached_at: int = 0
    detached_at: int = NEVER
    returned_at: int = NEVER
    unseen: tuple[int, int] = (NEVER, NEVER)
    handings: dict[int, Handing] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"consumer {self.number & 0xFFFFF} '{self.tag}' of {self.origin}"


@dataclass(slots=True, eq=False)
class QueueLog:
    """One queue, by its number. opened_at, dropped_at: indexes. returns: where messages may have come back as if they
    had never been handed out."""

    queue_id: int
    kind: QueueKind
    opened_at: int
    dropped_at: int = NEVER
    copies: dict[int, Copy] = field(default_factory=dict)
    returns: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Stream:
    """A node's stream of commands, as the log has it."""

    session: int = 0
    is_open: bool = False
    last: int = 0


@dataclass(slots=True, eq=False)
class GroupHistory:
    """Everything known of one group."""

    number: int
    entries: dict[int, bytes] = field(default_factory=dict)
    last_index: int = 0
    clock: int = 0
    clocks: dict[int, int] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    delivery_owners: dict[tuple[str, int], Holder] = field(default_factory=dict)
    enqueues: dict[tuple[str, int, int], list[Copy]] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
