"""Letters: the dead letters of one queue that are not known to be where they are to go.

    add -> waiting (paged, like any queue) -> transit (at most WINDOW) -> dispatched

What is in transit was handed to the leader of the day, and is handed to every new leader again. Both are part of the
replicated state, so that no letter is lost with a leader; it may go out twice.

In a letter's entry the sequence is its number, and `expires_at` holds its reason and delivery count: nothing expires.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import cython

from queues.effects import DeadLettered
from queues.message import Entry, Message
from queues.pager import Pager
from queues.ready import Ready
from queues.reason import Reason

if not cython.compiled:
    from queues.message import make_entry

#: So many letters of a queue are under way at a time.
WINDOW = 1000
#: What is in transit before there was anything: a deque takes 760 octets, and few queues have dead letters.
_NOTHING: Any = ()


class Letters:
    """Dead letters in the order of their numbers."""

    def __init__(self, pager: Pager, queue_id: int) -> None:
        self.pager = pager
        self.queue_id = queue_id
        self.waiting = Ready(pager, queue_id)
        self.transit: deque[Entry] = _NOTHING
        self.next_letter = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.waiting.count) + len(self.transit)

    def add(self, message: Message, reason: Reason, delivery_count: int) -> Entry | None:
        """A new letter. Returns its entry if it is in transit at once."""
        letter = self.next_letter
        self.next_letter = letter + 1
        facts = reason | delivery_count << 8
        if self.waiting.count or len(self.transit) >= WINDOW:
            self.waiting.push(message, letter, facts, 0)
            return None
        entry = make_entry(message, letter, facts, 0)
        self.pager.used += message.size
        self.put_in_transit(entry)
        return entry

    def put_in_transit(self, entry: Entry) -> None:
        """A letter is under way."""
        if self.transit is _NOTHING:
            self.transit = deque()
        self.transit.append(entry)

    def dispatched(self, letter: int) -> list[Entry]:
        """The letters up to this one are done. Returns those that are in transit now and were not before."""
        transit = self.transit
        while transit and transit[0].sequence <= letter:
            self._forget(transit.popleft())
        found = []
        while len(self.transit) < WINDOW:
            entry = self.waiting.pop()
            if entry is None:
                break
            self.put_in_transit(entry)
            found.append(entry)
        return found

    def effect(self, entry: Entry) -> DeadLettered:
        """What the leader is told of a letter."""
        facts = entry.expires_at
        return DeadLettered(self.queue_id, entry.sequence, entry.message, Reason(facts & 255), facts >> 8)

    def _forget(self, entry: Entry) -> None:
        self.pager.used -= entry.message.size
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None

    def discard(self) -> None:
        """The queue is gone, and its letters with it."""
        while self.transit:
            self._forget(self.transit.popleft())
        empty(self.waiting)


def empty(ready: Ready) -> int:
    """Forget all messages of a Ready: give back their RAM and their places. Returns how many there were."""
    pager, queue_id = ready.pager, ready.queue_id
    count = int(ready.count)
    entries, pages = ready.clear()
    for entry in entries:
        pager.used -= entry.message.size
        if entry.page is not None:
            pager.settle(queue_id, entry.page)
            entry.page = None
    for page in pages:
        if page.origin is not None:
            pager.settle(queue_id, page.origin, page.count)
        pager.release(queue_id, page)
    return count
