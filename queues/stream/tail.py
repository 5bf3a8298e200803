"""Tail: the end of a stream's log on one member: the chunks that are in no page yet, and where it begins and ends.

StreamLog is one, with its pages. It is by itself so that a chunk is appended without a call that is interpreted: where
there are many streams, each of them has a chunk of a few messages, and there are as many chunks as there are streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from amqp_broker.octets.buffer import Buffer
from queues.stream.chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queues.pager import Pager

#: Octets of a stored chunk before the chunk: first offset, time, length.
HEAD_BYTES = 20
_HEAD_BYTES = HEAD_BYTES


# As a chunk is (chunk.py), it is nothing for the collector of cycles.
@cython.no_gc
@cython.cclass
class Stored:
    """A chunk in its place: its first offset, when it was applied (milliseconds since the epoch), and itself."""

    def __init__(self, first: int, time: int, chunk: Chunk) -> None:
        self.first = first
        self.time = time
        self.chunk = chunk

    @property
    def next(self) -> int:
        """The offset behind its last record."""
        return self.first + self.chunk.records

    def apart(self) -> Stored:
        """The same, whose octets are without what lies around them."""
        return Stored(self.first, self.time, self.chunk.apart())

    def records(self) -> Iterator[tuple[int, int]]:
        """The offset of each record that is there, and where it begins in the chunk's octets."""
        octets, first = self.chunk.octets, self.first
        for at in self.chunk.places():
            yield first + int.from_bytes(octets[at + 4 : at + 8], "big"), at


class Tail:
    """first, next: the oldest offset, and the one that comes next. octets: of all that the log has, heads included, as
    it is stored; tail_bytes: of what is in no page yet."""

    def __init__(self, pager: Pager) -> None:
        self.first = 0
        self.next = 0
        self.octets = 0
        self.tail_bytes = 0
        self._pager = pager
        self._tail: list[Stored] = []

    def seal(self) -> None:
        """The tail becomes a page."""
        raise NotImplementedError


def add_chunk(tail: Tail, time: int, chunk: Chunk) -> int:
    """A chunk that was applied at this time, whose octets have nothing else, goes to the end. Returns the offset of its
    first record."""
    pager = tail._pager
    if tail.tail_bytes >= pager.page_bytes:
        tail.seal()
    first = tail.next
    stored = Stored.__new__(Stored)  # as the constructor does it, compiled without a call
    stored.first = first
    stored.time = time
    stored.chunk = chunk
    tail._tail.append(stored)
    tail.next = first + chunk.records
    added = _HEAD_BYTES + len(chunk.octets)
    tail.tail_bytes += added
    tail.octets += added
    pager.used += added
    return first


def tail_octets(tail: list[Stored]) -> bytes:
    """Chunks with octets of their own, as a page has them."""
    size = 0
    for stored in tail:
        size += _HEAD_BYTES + len(stored.chunk.octets)
    buffer = Buffer(size)
    for stored in tail:
        octets = stored.chunk.octets
        buffer.put_u64(stored.first)
        buffer.put_u64(stored.time)
        buffer.put_u32(len(octets))
        buffer.put_bytes(octets)
    return buffer.take()
