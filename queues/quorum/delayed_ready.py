"""DelayedReady: the messages of a queue that holds back, in the order in which they are due, which is when they expire.

Nobody consumes from such a queue, which is that of an exchange that delays messages: what is due expires, and is a dead
letter. All but the order is as the rules have it.
"""

from __future__ import annotations

from queues.message import Message, make_entry
from queues.quorum.timed_place import place_at
from queues.ready import Ready


class DelayedReady(Ready):
    """See Ready. It is in no journal."""

    def push(self, message: Message, sequence: int, expires_at: int, journal_segment: int) -> None:
        """See Ready: at the place of the time at which it expires (timed_place.py)."""
        self.place(make_entry(message, place_at(expires_at, sequence), expires_at, 0))
