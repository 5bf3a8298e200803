"""Marks: where a stream can be cut, by size and by age, so that all members agree without looking at their pages.

A mark is set at the first chunk behind each `step` octets, or when so much time has passed that age can be told by it.
Retention cuts at a mark, and keeps what is behind the newest one. There are at most MOST: then every second one goes.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 4096
_MOST = MOST
#: A limit of size, or of age, is obeyed to this part of it at least.
_PARTS = 64


class Step:
    """How far apart marks are: so many octets, or so many milliseconds (0: any time)."""

    def __init__(self, octets: int, time: int) -> None:
        self.octets = octets
        self.time = time

    @classmethod
    def of(cls, max_bytes: int | None, max_age: int | None, segment_bytes: int) -> Step:
        """For these limits, and what is dropped at once at most."""
        octets = min(segment_bytes, max_bytes // _PARTS) if max_bytes is not None else segment_bytes
        return cls(octets, max(1, max_age // _PARTS) if max_age is not None else 0)


class Mark(NamedTuple):
    """A chunk begins here: its first offset, its time, and the octets of all chunks before it since the stream's
    beginning."""

    offset: int
    time: int
    octets: int


class Marks:
    """octets: of all chunks since the stream's beginning."""

    def __init__(self) -> None:
        self.octets = 0
        self.marks: list[Mark] = []

    def add(self, offset: int, time: int, octets: int, step: Step) -> bool:
        """A chunk was appended. Returns whether there is a new mark."""
        before, marks = self.octets, self.marks
        self.octets = before + octets
        if marks:
            last = marks[-1]
            last_time, last_octets = last[1], last[2]  # by their places, as this is asked for each chunk
            if before - last_octets < step.octets and (not step.time or time - last_time < step.time):
                return False
        marks.append(Mark(offset, time, before))
        if len(marks) > _MOST:
            del marks[1:-1:2]
        return True

    def trimmed(self, first: int) -> None:
        """The stream begins at this offset now: the newest mark that is not behind it stays."""
        gone = 0
        while gone + 1 < len(self.marks) and self.marks[gone + 1].offset <= first:
            gone += 1
        del self.marks[:gone]

    def cut(self, max_bytes: int | None, oldest: int | None) -> int | None:
        """The offset at which the stream should begin, None if it may stay as it is: as many of the oldest chunks go as
        can without its falling below `max_bytes`, and those of which all is older than `oldest`."""
        found = None
        for mark, behind in zip(self.marks, self.marks[1:], strict=False):
            is_long = max_bytes is not None and self.octets - behind.octets >= max_bytes
            is_old = oldest is not None and behind.time <= oldest
            if not is_long and not is_old:
                break
            found = behind.offset
            assert mark.offset < behind.offset
        return found

    def due_at(self, max_age: int) -> int:
        """When the oldest chunks will all be too old; 0 for not before there is another mark."""
        return self.marks[1].time + max_age if len(self.marks) > 1 else 0
