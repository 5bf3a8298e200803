"""Segments: the pages of a stream as they lie in the files of this member, in the order of their offsets.

What is not in a page yet, or has found no room on the disk, is in no file. Pages that were compacted or compressed lie
in other files than their neighbours, so a file may come up more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from queues.stream.log import Part
    from queues.stream.stream import Stream

#: Pages that are looked at in a slice, and slices for one answer: whoever wants more goes on behind them.
SLICE = 128
MOST_SLICES = 128


class Segment(NamedTuple):
    """Pages that follow each other in one file. file: its number, 0 for what is in RAM and in the group's log alone.
    first_offset, next_offset: of the messages. first_time: when the first of them came, milliseconds since the epoch.
    last_time: when what is behind them came, so that they are no newer; None where nothing is. octets: as they are
    stored; uncompressed_octets: were none of them compressed. is_sealed: nothing more comes to that file. is_compacted:
    all of it; None of a stream that is not."""

    file: int
    first_offset: int
    next_offset: int
    first_time: int
    last_time: int | None
    pages: int
    octets: int
    uncompressed_octets: int
    is_sealed: bool
    is_compacted: bool | None


#: Segments, and the offset at which those behind them begin; None: there are no more.
Found = tuple[list[Segment], int | None]


def segments_from(find: Callable[[], Stream | None], offset: int, most: int) -> Generator[None, None, Found]:
    """So many segments at most, from the page on in which an offset lies, in slices. find: the stream as it is now,
    None where it is not here any more."""
    found: list[Segment] = []
    for _ in range(MOST_SLICES):
        stream = find()
        if stream is None:
            return found, None
        parts = stream.log.parts_from(offset, SLICE)
        for part in parts:
            if not _add(found, _of_page(stream, part), most):
                return found, max(part.page.first, stream.first)
            offset = part.page.last + 1
        if len(parts) < SLICE:
            return _with_tail(found, stream, offset, most)
        yield None
    return found, offset


def _with_tail(found: list[Segment], stream: Stream, offset: int, most: int) -> Found:
    log = stream.log
    begin = max(log.tail_begin, stream.first)
    if log.next <= max(offset, begin):
        return found, None
    octets = log.tail_bytes
    tail = Segment(0, begin, log.next, log.tail_time, None, 0, octets, octets, False, _is_compacted(stream, log.next))
    return found, None if _add(found, tail, most) else begin


def _of_page(stream: Stream, part: Part) -> Segment:
    page, log = part.page, stream.log
    file, octets = (0, part.taken) if page.location is None else (page.location.segment, page.location.length)
    return Segment(
        file, max(page.first, stream.first), page.last + 1, part.time, None, 1, octets, part.taken,
        file > 0 and not log.is_open(file), _is_compacted(stream, page.last + 1),
    )  # fmt: skip


def _is_compacted(stream: Stream, following: int) -> bool | None:
    return following <= stream.compacted.below if stream.settings.key else None


def _add(found: list[Segment], seen: Segment, most: int) -> bool:
    """What comes next is part of the last one, or one of its own. Returns whether there is room for it."""
    if not found:
        found.append(seen)
        return True
    last = found[-1]
    if last.file != seen.file:
        found[-1] = last._replace(last_time=seen.first_time)
        if len(found) >= most:
            return False
        found.append(seen)
        return True
    found[-1] = last._replace(
        next_offset=seen.next_offset, pages=last.pages + seen.pages, octets=last.octets + seen.octets,
        uncompressed_octets=last.uncompressed_octets + seen.uncompressed_octets, is_sealed=seen.is_sealed,
        is_compacted=seen.is_compacted,
    )  # fmt: skip
    return True
