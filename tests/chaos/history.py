"""History: what the clients of a cluster did and saw in one round; `checker` says what of it must not be.

Times are seconds of one monotonic clock. Everything happens on one loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from tests.kill.ledger import MessageId, message_of

MAX_VIOLATIONS = 40
#: What the broker says of itself when it should not have come to this.
DEFECT = "defect in the broker"


class QueueKind(Enum):
    QUORUM = "quorum"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue of the workload; `home` is the node that a classic one is declared on, at whichever of its workers."""

    name: str
    kind: QueueKind
    home: str = ""


def classic_queues(nodes: Iterable[str], workers: int) -> list[QueueSpec]:
    """As many on each node as it has workers. The name ends with the node's."""
    names = [(f"{number}.{node}" if number else node, node) for node in nodes for number in range(workers)]
    return [QueueSpec(f"chaos.classic.{name}", QueueKind.CLASSIC, node) for name, node in names]


class Outcome(Enum):
    """What the publisher knows of an attempt to publish."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    NACKED = "nacked"
    RETURNED = "returned"
    UNKNOWN = "unknown"


class Settlement(Enum):
    """What the consumer has done with a delivery, before it said so."""

    NONE = "none"
    ACKED = "acked"
    REQUEUED = "requeued"


@dataclass(slots=True)
class Attempt:
    """One publish of a message, on one node."""

    message: MessageId
    node: str
    began: float
    ended: float = 0.0
    outcome: Outcome = Outcome.PENDING


@dataclass(slots=True)
class Delivery:
    """A message that came to a consumer."""

    queue: str
    node: str
    consumer: str
    at: float
    is_redelivered: bool
    settlement: Settlement = Settlement.NONE
    settled_at: float = inf


@dataclass(slots=True)
class Record:
    """All that is known of one message."""

    queue: str
    attempts: list[Attempt] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def is_confirmed(self) -> bool:
        return any(attempt.outcome is Outcome.CONFIRMED for attempt in self.attempts)


@dataclass
class History:
    """`queues` are those that messages are published to. `violations` are texts."""

    queues: dict[str, QueueSpec]
    records: dict[MessageId, Record] = field(default_factory=dict)
    #: By node and queue: when publishers there got their confirms.
    confirms: defaultdict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Queues that were lost with the folder of their node, and until when: what was published to them before is gone.
    lost_queues: dict[str, float] = field(default_factory=dict)
    deliveries: int = 0
    violations: list[str] = field(default_factory=list)
    #: Of which node, when, and how it showed.
    lost_connections: list[tuple[str, float, str]] = field(default_factory=list)
    #: Errors that clients met and went on after, by what they were.
    errors: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    #: The same, with their texts.
    error_texts: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def violated(self, text: str) -> None:
        """Something happened that must not happen."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(text)

    def failed(self, what: str, error: BaseException, node: str, at: float) -> None:
        """A client met an error that faults may cause; one that nothing may cause is a violation, once."""
        name = f"{what}: {type(error).__name__}"
        if isinstance(error, ConnectionError):
            self.lost_connections.append((node, at, f"{name}: {error}"))
        self.errors[name] += 1
        if len(self.error_texts[name]) < MAX_VIOLATIONS:
            self.error_texts[name].add(str(error))
        if self.errors[name] == 1 and DEFECT in str(error):
            self.violated(f"{name}: {error}")

    def publishing(self, message: MessageId, queue: str, node: str, at: float) -> Attempt:
        """An attempt is about to be made."""
        record = self.records.setdefault(message, Record(queue))
        attempt = Attempt(message, node, at)
        record.attempts.append(attempt)
        return attempt

    def ended(self, attempt: Attempt, outcome: Outcome, at: float) -> None:
        """The publisher knows more of it."""
        attempt.outcome, attempt.ended = outcome, at
        if outcome is Outcome.CONFIRMED:
            self.confirms[attempt.node, self.records[attempt.message].queue].append(at)

    def delivered(self, delivery: Delivery, body: bytes) -> bool:
        """A message has come to a consumer. Returns whether it is one that was published there."""
        message = message_of(body)
        if message is None:
            self.violated(f"{delivery.queue}: a body of {len(body)} octets that nobody published: {body[:60]!r}")
            return False
        record = self.records.get(message)
        if record is None or record.queue != delivery.queue:
            where = "never published" if record is None else f"published to {record.queue}"
            self.violated(f"{delivery.queue}: {message} was delivered, but it was {where}")
            return False
        record.deliveries.append(delivery)
        self.deliveries += 1
        return True

    def pending(self) -> list[str]:
        """Attempts that nobody has answered, neither way."""
        return [
            f"{attempt.message} to {record.queue} on {attempt.node} since {attempt.began:.3f}"
            for record in self.records.values()
            for attempt in record.attempts
            if attempt.outcome is Outcome.PENDING
        ]

    def missing(self) -> list[MessageId]:
        """Messages that are confirmed and were never delivered."""
        return [
            message
            for message, record in self.records.items()
            if record.is_confirmed and not record.deliveries and not self.is_lost_with_its_queue(record)
        ]

    def is_lost_with_its_queue(self, record: Record) -> bool:
        """Whether it was published to a queue that went with the folder of its node."""
        return any(attempt.began < self.lost_queues.get(record.queue, 0.0) for attempt in record.attempts)
