"""HeldQueue: stands in a virtual host for a classic queue that is about to live elsewhere.

    publish -> kept, in order -> `release`: to the queue, wherever it is then

What clients publish is kept until then; they wait in front of their next publish (Pauses), so that is what one turn
brings, and of dead letters what their queues have under way. What else is asked of it is refused: methods of clients
that name it wait (vhosts/held_queues.py).

Invariants:
1. What is kept comes to the queue in the order in which it was published, before anything that is published later.
2. Each receipt has one fate. What is kept for a queue of this node is done when the journal has it on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from queues.effects import Refusal
from queues.lease_source import LeasedAt
from queues.message import Message
from queues.outcomes import PublishOutcome
from queues.queue import Done, Fetched, Queue, Tallied
from queues.refusal import NOT_FOUND, QueueRefusal
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from queues.consumer import Consumer
    from queues.peeking import PeekSteps, PeekWish
    from queues.receipts import Receipt
    from queues.sizes import QueueSizes
    from queues.sums import QueueSums

_TAKEN: int = PublishOutcome.TAKEN
_STORED: int = PublishOutcome.STORED
_REFUSED: int = PublishOutcome.REFUSED


class _Kept(NamedTuple):
    """A message that was published."""

    message: Message
    receipt: Receipt | None
    is_again: bool


class HeldWrites(WriteGroup):
    """Of one held queue. home: where the queue lives now, by name. is_held: until it is released."""

    is_local = False
    paces = True
    #: It has no alarm of its own.
    is_blocked = False

    def __init__(self, home: str) -> None:
        self.home = home
        self.is_held = True
        self.kept: list[_Kept] = []

    def written_at(self) -> str:
        """See WriteGroup."""
        return self.home

    def publish(
        self, message: Message, queues: Sequence[Queue], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """See WriteGroup."""
        if receipt is not None:
            receipt.expect()
        self.kept.append(_Kept(message, receipt, is_again))
        return _TAKEN

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether publishers have to wait: as long as it is held."""
        return self.is_held

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was published waits."""
        return not self.kept


class HeldQueue(Queue):
    """real: the queue for which it stands. Counts are its."""

    def __init__(self, real: Queue, home: str) -> None:
        self.held_writes = HeldWrites(home)
        super().__init__(real.name, real.queue_id, real.is_durable, self.held_writes)
        self.real = real
        self.home = real.home
        self.counts_returns = real.counts_returns
        self.settings = real.settings
        self.declaration = real.declaration
        self.last_used = real.last_used
        self.had_consumers = real.had_consumers

    def release(self, queue: Queue | None, later: Callable[[Receipt], None], now: int) -> None:
        """What was kept is for this queue; None: there is none any more. later: takes the receipt of what is written to
        the journal, and completes it when that is on the disk."""
        writes = self.held_writes
        writes.is_held = False
        kept, writes.kept = writes.kept, []
        for message, receipt, is_again in kept:
            outcome = _TAKEN
            if queue is not None:
                outcome = queue.publish(message, receipt, is_again, now)
            if receipt is None:
                continue
            if queue is None:
                receipt.complete(Refusal.NO_QUEUE)
            elif outcome == _STORED:
                later(receipt)
            else:  # where the queue is elsewhere, the receipt waits for that besides
                receipt.complete(Refusal.FULL if outcome == _REFUSED else None)

    def _refusal(self) -> QueueRefusal:
        text = f"queue '{self.name}' in vhost '{self.declaration.vhost}' is moving to another home: ask again"
        return QueueRefusal(NOT_FOUND, text)

    # -- counts --------------------------------------------------------------------------------------------------------

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue."""
        self.real.count(is_use, then)

    def message_count(self) -> int:
        """See Queue."""
        return self.real.message_count()

    def unacked_count(self) -> int:
        """See Queue."""
        return self.real.unacked_count()

    def leased_count(self) -> int:
        """See Queue."""
        return self.real.leased_count()

    def consumer_count(self) -> int:
        """See Queue."""
        return self.real.consumer_count()

    def attached(self) -> Iterable[object]:
        """See Queue."""
        return self.real.attached()

    def active_tag(self) -> str | None:
        """See Queue."""
        return self.real.active_tag()

    def is_active(self, consumer: object) -> bool | None:
        """See Queue."""
        return self.real.is_active(consumer)

    def numbered_consumers(self) -> Iterator[tuple[int, object]]:
        """See Queue."""
        return self.real.numbered_consumers()

    def add_counts(self, sums: QueueSums) -> int:  # type: ignore[override]  # an int, compiled
        """See Queue."""
        self.real.add_counts(sums)
        return 0

    def add_counters(self, sums: QueueSums) -> int:  # type: ignore[override]  # an int, compiled
        """See Queue."""
        self.real.add_counters(sums)
        return 0

    def add_own_counters(self, sums: QueueSums) -> int:  # type: ignore[override]  # an int, compiled
        """See Queue."""
        self.real.add_own_counters(sums)
        return 0

    def elsewhere(self) -> Sequence[str]:
        """See Queue."""
        return self.real.elsewhere()

    def leases(self) -> LeasedAt:
        """See Queue: its home says `busy`, as it does where there is no link to it."""
        return LeasedAt(self.held_writes.home)

    def seen_at(self) -> str | None:
        """See Queue."""
        return self.real.seen_at()

    def peek(self, wish: PeekWish) -> PeekSteps | None:
        """See Queue."""
        return self.real.peek(wish)

    def sizes(self) -> QueueSizes | None:
        """See Queue."""
        return self.real.sizes()

    def is_reachable(self) -> bool:
        """See Queue."""
        return self.real.is_reachable()

    def is_abandoned(self) -> bool:
        """See Queue: it is none that goes with its last consumer."""
        return False

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        return self.held_writes.publish(message, [self], receipt, is_again, now)

    def itself(self) -> Queue:
        """See Queue."""
        return self.real

    def part_with_all(self) -> list[Consumer]:
        """See Queue."""
        return self.real.part_with_all()

    # -- what is refused -----------------------------------------------------------------------------------------------

    def admit(self, consumer: object, then: Done) -> None:
        """See Queue."""
        then(self._refusal())

    def fetch(self, getter: object, now: int, then: Fetched) -> None:
        """See Queue."""
        then(self._refusal(), None, 0)

    def clear(self, then: Tallied) -> None:
        """See Queue."""
        then(self._refusal(), 0)

    def count_for_certain(self, then: Done) -> None:
        """See Queue."""
        then(self._refusal())
