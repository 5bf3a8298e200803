"""RecordFinder: the records of a stream by their offsets, which costs little where they are asked for in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.stream.record import RECORD_FIXED, next_record

if TYPE_CHECKING:
    from queues.stream.stream import Stream
    from queues.stream.tail import Stored

#: The header with the value to filter by, as a field of a table, and the kinds that it may have: string and octets.
_VALUE_KEY = b"\x15x-stream-filter-value"
_KINDS = (b"S", b"x")


class RecordFinder:
    """It remembers the place where it was last within a chunk, and nothing of the stream."""

    __slots__ = ("_chunk", "_number", "_place")

    def __init__(self) -> None:
        self._chunk = -1  # its first offset
        self._number = 0
        self._place = 0  # of this record, behind the first one's

    def find(self, stream: Stream, offset: int) -> tuple[Stored, int] | None:
        """The chunk that has this offset, and where the record begins in its octets; None where the stream does not
        have it. Raises CorruptRecord, OSError."""
        stored = stream.log.chunk_at(offset) if offset >= stream.first else None
        if stored is None or not stored.first <= offset < stored.next:
            return None
        chunk, number = stored.chunk, offset - stored.first
        if stored.first != self._chunk or number < self._number:
            self._chunk, self._number, self._place = stored.first, 0, 0
        at = chunk.start + self._place
        for _ in range(number - self._number):
            at = next_record(chunk.octets, at)
        self._number, self._place = number, at - chunk.start
        return stored, at


def routing_key_of(octets: bytes, at: int) -> bytes:
    """With which routing key the message in the record at `at` was published."""
    begin = at + RECORD_FIXED
    begin += 1 + octets[begin]  # behind the exchange
    return octets[begin + 1 : begin + 1 + octets[begin]]


def has_value(octets: bytes, at: int, value: bytes) -> bool:
    """Whether the message in the record at `at` has this value to filter by. The record's hash has been compared
    before: so where the octets of the field stand in the header frame is not looked at."""
    begin = at + RECORD_FIXED + int.from_bytes(octets[at + 19 : at + 21], "big") + 1
    header = octets[begin : begin + 8 + int.from_bytes(octets[begin + 3 : begin + 7], "big")]
    length = len(value).to_bytes(4, "big")
    return any(_VALUE_KEY + kind + length + value in header for kind in _KINDS)
