"""Compacted: what compaction has done to the pages of a stream on this member (compaction.py). No part of the state,
but for what a member says of it with a command.

Invariants:
1. Below `below` no record is there that another one below it supersedes.
2. `synced` is at most `below`, and what a checkpoint that is on the disk has: only that much may be said to others.
3. `needed` is at least all that this member has ever said, and all that the state which it has taken over knows of
   others: a tombstone below that may be gone elsewhere, so that who reads here must not meet what it hides.
"""

from __future__ import annotations

from amqp_broker.octets.buffer import Buffer
from queues.wire.reader import Reader


class Compacted:
    """tombstones: how many are in the part below `below`; first: the offset of the oldest one, and time: when it came,
    0 where there is none. wanted: somebody has asked for what is below this offset to be compacted."""

    __slots__ = ("below", "first", "needed", "synced", "time", "tombstones", "wanted")

    def __init__(self) -> None:
        self.below = self.synced = self.needed = 0
        self.tombstones = self.first = self.time = self.wanted = 0

    @property
    def is_enough(self) -> bool:
        """Whether readers may be served."""
        return self.below >= self.needed

    def want(self, below: int) -> None:
        """Somebody asks for what is below this offset to be compacted; 0: nobody, or it is done."""
        self.wanted = below

    def said_before(self, below: int) -> None:
        """This node has said that it has compacted so much, and may have lost its folder since."""
        if below > self.below:
            self.needed = max(self.needed, below)

    def passed_by_retention(self, below: int) -> None:
        """What is before this offset is not there any more, so there is nothing to be done."""
        self.below = max(self.below, below)

    def is_synced_to(self, below: int) -> None:
        """What was compacted so far is on the disk."""
        self.synced = max(below, self.synced)

    def octets(self) -> bytes:
        """For an image."""
        buffer = Buffer()
        for number in (self.below, self.needed, self.tombstones, self.first, self.time):
            buffer.put_u64(number)
        return buffer.take()

    def read(self, reader: Reader) -> None:
        """Out of an image. Raises Malformed."""
        self.below, self.needed, self.tombstones = reader.u64(), reader.u64(), reader.u64()
        self.first, self.time = reader.u64(), reader.u64()
        self.synced = self.below
