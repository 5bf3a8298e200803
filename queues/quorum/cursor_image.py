"""Queues over streams in images of a group (image.py): they have no messages, only offsets.

    CURSOR        what QUEUE has, with the settings of a queue over a stream (cursor_settings.py); u64 next, u64 lost,
                  u8 flags (1 begun, 2 gone), u32 n, n x (u32 key, u32 m, m x u64 offset): what waits for its key
    OFFSET_ENTRY  u32 holder + 1, counted from 0 as they came (0: ready, or resting), u64 delivery id, u64 since (of
                  what rests, until when), u64 offset, u64 expires at, u16 returns, u8 redelivered, u32 key
"""

from __future__ import annotations

from collections import deque

from amqp_broker.octets.buffer import Buffer
from queues.message import Entry, make_entry
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_ready import ABSENT, CursorReady
from queues.wire.reader import Reader

CURSOR, OFFSET_ENTRY = 32, 33
_IS_BEGUN, _IS_GONE = 1, 2


def put_place(buffer: Buffer, place: CursorReady) -> None:
    """Append where a queue is in its stream."""
    buffer.put_u64(place.next)
    buffer.put_u64(place.lost)
    buffer.put_u8((_IS_BEGUN if place.is_begun else 0) | (_IS_GONE if place.is_gone else 0))
    buffer.put_u32(len(place.waiting))
    for key, offsets in sorted(place.waiting.items()):
        buffer.put_u32(key)
        buffer.put_u32(len(offsets))
        for offset in offsets:
            buffer.put_u64(offset)


def get_place(reader: Reader, place: CursorReady) -> None:
    """Take over what is at the reader's position. Raises Malformed."""
    place.next, place.lost = reader.u64(), reader.u64()
    flags = reader.flags(_IS_BEGUN | _IS_GONE)
    place.is_begun, place.is_gone = bool(flags & _IS_BEGUN), bool(flags & _IS_GONE)
    for _ in range(reader.count(16)):
        key = reader.u32()
        place.waiting[key] = deque([reader.u64() for _ in range(reader.count(8))])
        place.waits += len(place.waiting[key])


def offset_parts(queue: CursorQueue) -> list[tuple[int, bytes]]:
    """What is in hand, what rests, and what came back."""
    parts = [
        (OFFSET_ENTRY, offset_octets(number, delivery_id, since, entry))
        for number, owner in enumerate(queue.delivery_owners.values(), 1)
        for delivery_id, (entry, since) in owner.held.items()
    ]
    parts += [(OFFSET_ENTRY, offset_octets(0, 0, until, entry)) for until, _, entry in queue.place.resting.entries]
    return parts + [(OFFSET_ENTRY, offset_octets(0, 0, 0, entry)) for entry in queue.place.head]


def offset_octets(number: int, delivery_id: int, since: int, entry: Entry) -> bytes:
    """One of them. number: of the holder, 0 for none."""
    buffer = Buffer()
    buffer.put_u32(number)
    for value in (delivery_id, since, entry.sequence, entry.expires_at):
        buffer.put_u64(value)
    buffer.put_u16(entry.returns)
    buffer.put_u8(1 if entry.is_redelivered else 0)
    buffer.put_u32(entry.journal_segment)
    return buffer.take()


def get_offset(reader: Reader, place: CursorReady) -> tuple[int, int, int, Entry]:
    """The number of the holder, the delivery id, since when, and the entry. Raises Malformed."""
    number, delivery_id, since, offset, expires_at = (
        reader.u32(), reader.u64(), reader.u64(), reader.u64(), reader.u64()
    )  # fmt: skip
    returns, is_redelivered, key = reader.u16(), bool(reader.flags(1)), reader.u32()
    entry = make_entry(ABSENT, offset, expires_at, key)
    entry.returns, entry.is_redelivered = returns, is_redelivered
    if key:
        place.keys[key] = None
    return number, delivery_id, since, entry
