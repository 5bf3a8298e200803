"""Move: the journal entry by which messages leave one queue (or log) and are in others, at once or not at all.

    MOVED   u64 source id, u32 n, n x (u64 sequence in the source, u16 returns, u8 flags: 1 redelivered 2 octets follow,
            u16 m, m x (u64 target id, u64 sequence there, u64 expires_at),
            only with flag 2: u32 length and packed message)

The sequence in a log is the offset. Without octets the message is what the journal holds of the source: the copy
there is the target's from now on.

Invariants:
1. A message whose durable copy is not in the journal is moved with its octets.
2. Whoever relies on a copy that was the source's is noted as having something in its segment (`MessageStore.touch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import cython

from queues.message import Message
from queues.store import MOVED, MessageStore

if TYPE_CHECKING:
    from queues.consumer import Consumer

if not cython.compiled:
    from queues.page import put_message

_IS_REDELIVERED = 1
_HAS_OCTETS = 2
_MOST_PLACES = 65_535


class MoveTarget(Protocol):
    """A queue that messages can be moved into. next_sequence: what the next one is there."""

    queue_id: int
    is_durable: bool
    next_sequence: int

    def expiry_of(self, message: Message, now: int) -> int:
        """When a message expires there that comes now, 0 for never."""

    def taker(self) -> Consumer | None:
        """The consumer who gets what comes now, None where it has to wait."""

    def enqueue(
        self, message: Message, expires_at: int, journal_segment: int, taker: Consumer | None, now: int
    ) -> None:
        """It has the message, whose entry in the journal, if it needs one, was written: `add_for`."""


class Move:
    """One MOVED entry that is being written: `add` or `add_for` each message, then `close`. Nothing else may write to
    the journal meanwhile."""

    def __init__(self, store: MessageStore, source: Any) -> None:
        self._store = store
        store.segment(source)
        self._buffer = store.journal.open_entry(MOVED)
        self._buffer.put_u64(source.queue_id)
        self._count_at = self._buffer.length
        self._buffer.put_u32(0)
        self._count = 0

    def add(
        self,
        message: Message,
        sequence: int,
        returns: int,
        is_redelivered: bool,
        has_octets: bool,
        queue_id: int,
        target: int,
        expires_at: int,
    ) -> None:
        """Message `sequence` of the source is number `target` of queue `queue_id` now."""
        buffer = self._buffer
        buffer.put_u64(sequence)
        buffer.put_u16(min(returns, 65535))
        buffer.put_u8((_IS_REDELIVERED if is_redelivered else 0) | (_HAS_OCTETS if has_octets else 0))
        buffer.put_u16(1)
        buffer.put_u64(queue_id)
        buffer.put_u64(target)
        buffer.put_u64(expires_at)
        self._put_octets(message, has_octets)

    def add_for(
        self,
        message: Message,
        sequence: int,
        returns: int,
        is_redelivered: bool,
        has_octets: bool,
        places: list[tuple[int, int, int]],
    ) -> None:
        """Message `sequence` of the source is in several others now: (queue id, sequence, expires_at) each. In none: it
        is settled."""
        buffer = self._buffer
        buffer.put_u64(sequence)
        buffer.put_u16(min(returns, 65535))
        buffer.put_u8((_IS_REDELIVERED if is_redelivered else 0) | (_HAS_OCTETS if has_octets else 0))
        if len(places) > _MOST_PLACES:
            raise ValueError(f"a message moves into {len(places)} queues at once: at most {_MOST_PLACES} can be")
        buffer.put_u16(len(places))
        for queue_id, target, expires_at in places:
            buffer.put_u64(queue_id)
            buffer.put_u64(target)
            buffer.put_u64(expires_at)
        self._put_octets(message, has_octets)

    def _put_octets(self, message: Message, has_octets: bool) -> None:
        self._count += 1
        if has_octets:
            buffer = self._buffer
            start = buffer.length
            buffer.put_u32(0)
            put_message(buffer, message)
            buffer.set_u32(start, buffer.length - start - 4)

    def close(self) -> int:
        """Returns the journal position that has to be synced to cover it."""
        self._buffer.set_u32(self._count_at, self._count)
        store = self._store
        store.position = store.journal.close_entry()
        return store.position
