"""RestingOffsets: what came back to a queue over a stream and is to rest (resting.py has those of other queues).

It has no messages, only their offsets, in RAM: so many at most (MOST_RESTING); while there are as many, the queue hands
out nothing of the stream that it has not handed out before.
"""

from __future__ import annotations

from bisect import insort

from queues.message import Entry
from queues.quorum.retry import Retry

#: No setting, because all members have to agree.
MOST_RESTING = 100_000


class RestingOffsets:
    """entries: (until when it rests, offset, entry), in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, Entry]] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.entries)

    def add(self, entries: list[Entry], retry: Retry, now: int) -> None:
        """Messages that were held rest from now on."""
        for entry in entries:
            self.put(entry, retry.until(entry, now))

    def put(self, entry: Entry, until: int) -> None:
        """One rests until then."""
        insort(self.entries, (until, entry.sequence, entry))

    def first_due(self) -> int:
        """When the first one has rested, 0 where none rests."""
        return max(1, self.entries[0][0]) if self.entries else 0

    def take(self, most: int, next_sequence: int, now: int) -> list[Entry]:
        """Those that have rested, so many at most."""
        count = 0
        while count < min(most, len(self.entries)) and self.entries[count][0] <= now:
            count += 1
        found = [entry for _, _, entry in self.entries[:count]]
        del self.entries[:count]
        return found

    def clear(self) -> int:
        """Forget all. Returns how many there were."""
        count = len(self.entries)
        self.entries = []
        return count
