"""Segments: the files of this member in which a stream lies, in the order of what they begin with.

Two files of a stream grow at a time, of chunks that came with their place and of pages that were filled, and what was
compacted or compressed lies in others than its neighbours: so what a file has need not be without gaps. What is not in
a page yet, or has found no room on the disk, is in none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from queues.stream.pages import Part
    from queues.stream.stream import Stream

#: Pages that are looked at in a slice, and slices for one answer: whoever wants more goes on behind them.
SLICE = 128
MOST_SLICES = 32


class Segment(NamedTuple):
    """What a file has of a stream. file: its number, 0 for what is in RAM and in the group's log alone. first_offset,
    next_offset: from where to where, though not all between them. messages: how many, with those that compaction has
    taken. first_time: when the first of them came, milliseconds since the epoch. last_time: when what is behind them
    came, so that they are no newer; None where nothing is. octets: as they are stored; uncompressed_octets: were none
    of them compressed. is_sealed: nothing more comes to that file. is_compacted: all of it; None of a stream that is
    not."""

    file: int
    first_offset: int
    next_offset: int
    messages: int
    first_time: int
    last_time: int | None
    pages: int
    octets: int
    uncompressed_octets: int
    is_sealed: bool
    is_compacted: bool | None


#: Segments, and the offset at which those behind them begin; None: there are no more.
Found = tuple[list[Segment], int | None]


class _Listed:
    """most: so many files. found: by their numbers, in the order in which they come up."""

    def __init__(self, most: int) -> None:
        self.found: dict[int, Segment] = {}
        self._most = most
        self._last = -1

    def add(self, seen: Segment) -> bool:
        """What comes next. Returns whether there was room for it."""
        found, last = self.found, self._last
        before = found.get(seen.file)
        if before is None and len(found) >= self._most:
            return False
        if last >= 0 and last != seen.file:
            found[last] = found[last]._replace(last_time=seen.first_time)
        self._last = seen.file
        found[seen.file] = seen if before is None else _together(before, seen)
        return True

    def up_to(self, offset: int | None, time: int | None = None) -> Found:
        """The answer; what is behind it begins there, and came then."""
        if time is not None and self._last >= 0:
            self.found[self._last] = self.found[self._last]._replace(last_time=time)
        return list(self.found.values()), offset


def segments_from(find: Callable[[], Stream | None], offset: int, most: int) -> Generator[None, None, Found]:
    """So many segments at most, of the pages from the one on in which an offset lies, in slices. A file that has more
    behind the offset that is returned comes up again there. find: the stream as it is now, None where it is not here
    any more."""
    listed = _Listed(most)
    for _ in range(MOST_SLICES):
        stream = find()
        if stream is None:
            return listed.up_to(None)
        parts = stream.log.parts_from(offset, SLICE)
        for part in parts:
            if not listed.add(_of_page(stream, part)):
                return listed.up_to(max(part.page.first, stream.first), part.time)
            offset = part.page.last + 1
        if len(parts) < SLICE:
            return _with_tail(listed, stream, offset)
        yield None
    return listed.up_to(offset)


def _with_tail(listed: _Listed, stream: Stream, offset: int) -> Found:
    log = stream.log
    begin = max(log.tail_begin, stream.first)
    if log.next <= max(offset, begin):
        return listed.up_to(None)
    octets = log.tail_bytes
    tail = Segment(
        0, begin, log.next, log.next - begin, log.tail_time, None, 0, octets, octets, False,
        _is_compacted(stream, log.next),
    )  # fmt: skip
    return listed.up_to(None) if listed.add(tail) else listed.up_to(begin, log.tail_time)


def _of_page(stream: Stream, part: Part) -> Segment:
    page, log = part.page, stream.log
    file, octets = (0, part.taken) if page.location is None else (page.location.segment, page.location.length)
    first, following = max(page.first, stream.first), page.last + 1
    return Segment(
        file, first, following, following - first, part.time, None, 1, octets, part.taken,
        file > 0 and not log.is_open(file), _is_compacted(stream, following),
    )  # fmt: skip


def _is_compacted(stream: Stream, following: int) -> bool | None:
    return following <= stream.compacted.below if stream.settings.key else None


def _together(before: Segment, seen: Segment) -> Segment:
    """What a file has, with more of it."""
    return seen._replace(
        first_offset=before.first_offset, messages=before.messages + seen.messages, first_time=before.first_time,
        pages=before.pages + seen.pages, octets=before.octets + seen.octets,
        uncompressed_octets=before.uncompressed_octets + seen.uncompressed_octets,
    )  # fmt: skip
