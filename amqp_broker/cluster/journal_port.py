"""What a node gives to Raft: its journal, and chance."""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.octets.buffer import Buffer
from queues.store import MessageStore


class JournalPort:
    """The node's journal as raft's LogPort."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._journal = store.journal

    @property
    def position(self) -> int:
        """See LogPort."""
        return int(self._journal.position)

    @property
    def current_segment(self) -> int:
        """See LogPort."""
        return int(self._journal.current_segment)

    def open_entry(self, kind: int) -> Buffer:
        """See LogPort."""
        return self._journal.open_entry(kind)

    def close_entry(self) -> int:
        """See LogPort."""
        return int(self._journal.close_entry())

    def touch(self, segment: int, owner: object) -> None:
        """See LogPort."""
        self._store.touch(segment, owner)

    def carry(self, octets: int) -> None:
        """See LogPort."""
        self._store.carry(octets)


class RandomSource:
    """RandomSource for election time-outs, out of the node's own."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes

    def random(self) -> float:
        """0 <= x < 1"""
        return int.from_bytes(self._random_bytes(6), "big") * 2.0**-48
