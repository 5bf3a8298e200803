"""Start: where somebody begins in a stream, as it was asked for, and the offset that this is."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from queues.stream.stream import Stream


class StartKind(IntEnum):
    """What a Start is about."""

    FIRST = 0
    LAST = 1
    NEXT = 2
    OFFSET = 3
    FROM_END = 4
    TIME = 5
    AGE = 6


class Start(NamedTuple):
    """At an offset, so many from the end, at a time, or so long ago, both in milliseconds. The others have no value."""

    kind: StartKind
    value: int = 0


def page_of(start: Start, stream: Stream, now: int) -> int:
    """An offset of the page that has to be read to find the place; below 0 for none."""
    kind, value = start
    if kind is StartKind.LAST:
        return stream.next - 1
    if kind in (StartKind.TIME, StartKind.AGE):
        return stream.log.page_of_time(value if kind is StartKind.TIME else max(0, now - value))
    return -1


def place_of(start: Start, stream: Stream, now: int) -> int:
    """The offset, which may be beyond the end. Raises CorruptRecord, OSError."""
    kind, value = start
    if kind is StartKind.FIRST:
        return stream.first
    if kind is StartKind.LAST:
        return stream.log.last_chunk()
    if kind is StartKind.OFFSET:
        return max(stream.first, value)
    if kind is StartKind.FROM_END:
        return max(stream.first, stream.next - value)
    if kind is StartKind.TIME:
        return stream.log.offset_at(value)
    if kind is StartKind.AGE:
        return stream.log.offset_at(max(0, now - value))
    return stream.next
