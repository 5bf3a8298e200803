"""Resting: what came back to a queue and is to rest before it comes again (x-delayed-retry-type, RabbitMQ 4.3's).

    settle, or a consumer goes -> add -> (its time has come) -> take -> ready, at the original place

retry.py says how long. The messages are in a Ready of their own, in the order in which they have rested, so that very
many are paged as those of a queue are. A place there is that of its time (timed_place.py); the rest of the message's
number, and when it expires, is where other entries have their expiry.

Invariants:
1. What rests is neither ready nor held: nobody gets it, no limit of a length counts it, and it does not expire; but it
   rests no longer than it lives.
2. Which ones rest, and how long, follows from the log: time is the group's.
"""

from __future__ import annotations

from queues.message import Entry, make_entry
from queues.pager import Pager
from queues.quorum.letters import empty
from queues.quorum.retry import LATEST, Retry
from queues.quorum.timed_place import PLACE_BITS, PLACE_MASK, place_at, time_of
from queues.ready import Ready

#: Bits of a message's number above those in its place, which are with its expiry.
_UPPER_BITS = 21
_UPPER_MASK = (1 << _UPPER_BITS) - 1
_NUMBER_BITS = PLACE_BITS + _UPPER_BITS


class Resting:
    """The messages of one queue that rest, in a Ready of their own."""

    def __init__(self, pager: Pager, queue_id: int) -> None:
        self.pager = pager
        self.queue_id = queue_id
        self.waiting = Ready(pager, queue_id)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.waiting.count)

    def add(self, entries: list[Entry], retry: Retry, now: int) -> None:
        """Messages that were held rest from now on. They stay counted in the budget."""
        resting = []
        for entry in entries:
            number = entry.sequence
            place = place_at(retry.until(entry, now), number)
            upper = number >> PLACE_BITS & _UPPER_MASK
            resting.append(self._moved(entry, place, min(entry.expires_at, LATEST) << _UPPER_BITS | upper))
        self.waiting.put_back(resting)

    def first_due(self) -> int:
        """When the first one has rested, 0 where none rests."""
        first = self.waiting.peek()
        return 0 if first is None else max(1, time_of(first.sequence))

    def take(self, most: int, next_sequence: int, now: int) -> list[Entry]:
        """Those that have rested, so many at most. next_sequence: the number of the queue's next message."""
        found: list[Entry] = []
        while len(found) < most and 0 < self.first_due() <= now:
            entry = self.waiting.pop()
            if entry is None:
                break
            number = (entry.expires_at & _UPPER_MASK) << PLACE_BITS | entry.sequence & PLACE_MASK
            number += (next_sequence - 1 - number) >> _NUMBER_BITS << _NUMBER_BITS
            found.append(self._moved(entry, number, entry.expires_at >> _UPPER_BITS))
        return found

    def _moved(self, entry: Entry, sequence: int, expires_at: int) -> Entry:
        """The same message under another number; it relies on no page any more."""
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None
        moved = make_entry(entry.message, sequence, expires_at, 0)
        moved.returns, moved.is_redelivered = entry.returns, entry.is_redelivered
        return moved

    def clear(self) -> int:
        """Forget all. Returns how many there were."""
        return empty(self.waiting)
