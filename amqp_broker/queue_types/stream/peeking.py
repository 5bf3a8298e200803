"""Peeking at a stream: its messages by offset, for who only looks (queues/peeking.py), from this node's copy.

Positions are offsets. A chunk that was found is looked at to its end: it stays whole whatever the stream drops.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from queues.peeking import Damaged, Peeked, PeekSteps, PeekWish
from queues.stream.record import APART, RECORD_FIXED, body_size_of
from storage.errors import StorageError

if TYPE_CHECKING:
    from queues.stream.stream import Stream
    from queues.stream.tail import Stored

#: Records that are stepped over in a slice.
_SLICE = 512
#: Octets of a header frame before its properties, and of a frame before its payload.
_PROPERTIES_AT, _FRAME_HEAD = 19, 7
_U16, _U32 = struct.Struct(">H").unpack_from, struct.Struct(">L").unpack_from


def peek_stream(find: Callable[[], Stream | None], wish: PeekWish) -> PeekSteps:
    """find: the stream as it is now. Raises Damaged."""
    at, step = wish.start, -1 if wish.is_backwards else 1
    while (stream := find()) is not None and stream.next > stream.first and at >= 0:
        offset = min(at, stream.next - 1) if wish.is_backwards else max(at, stream.first)
        if not stream.first <= offset < stream.next:
            return
        try:
            coming = stream.log.coming(offset)
            if coming is not None and not coming.done():
                yield coming
                continue
            stored = stream.log.chunk_at(offset)
        except (StorageError, OSError) as error:
            raise Damaged(str(error)) from None
        assert stored is not None  # the offset is in the stream
        records = yield from _records(stored)
        for found, place in records if step > 0 else reversed(records):
            if found >= stream.first and (found >= offset if step > 0 else found <= offset):
                yield _shown(stored, place, found, wish)
        if stored.first > offset:
            yield None  # backwards, what compaction has taken is passed over one by one
        at = stored.next if step > 0 else min(offset, stored.first) - 1


def _records(stored: Stored) -> Generator[None, None, list[tuple[int, int]]]:
    """The offsets of a chunk's records, and where they begin."""
    records = []
    for record in stored.records():
        records.append(record)
        if len(records) % _SLICE == 0:
            yield None
    return records


def _shown(stored: Stored, at: int, offset: int, wish: PeekWish) -> Peeked:
    octets = stored.chunk.octets
    address = at + RECORD_FIXED
    content = address + _U16(octets, at + 19)[0] + 1
    frame = content + 8 + _U32(octets, content + 3)[0]
    size = body_size_of(octets, at)
    body = frame if octets[at + 16] & APART or not size else frame + _FRAME_HEAD
    begin = min(wish.body_from, size)
    end = min(begin + wish.body_most, size)
    return Peeked(
        offset, octets[address : content - 1], octets[content + _PROPERTIES_AT : frame - 1], size,
        octets[body + begin : body + end], stored.time, 0, False, 0,
    )  # fmt: skip
