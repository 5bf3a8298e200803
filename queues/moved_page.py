"""MovedPage: the journal entry by which a whole page of ready messages leaves its queue and is in a log.

    MOVED_PAGE  u64 source id, u64 log id, u64 offset of the first message in the log, u32 n,
                n x (u64 first sequence in the source, u32 how many follow one another), and then nothing,
                or where the log has them in a stored page: u32 segment, u64 offset, u32 length, u64 octets of bodies

A page that is plain (`look`) says of its messages all that MOVED would say of each: none of them was ever returned, or
expires. So nothing is unpacked, and a claim costs by the page.

Invariants:
1. Without a stored page the messages are what the journal holds of the source: the copies there are the log's from now
   on, and it is noted as having something in their segments (`MessageStore.touch`).
2. A stored page is named by the entry as by PAGES: it is synced before (queues/store.py, 4).
"""

from __future__ import annotations

from typing import Any

import cython

from queues.page import Page
from queues.store import MOVED_PAGE, MessageStore

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

#: A page's record: u32 length of what follows, u64 sequence, u64 expires at, u32 journal segment, u16 returns, u8
#: redelivered, and the packed message, which begins with its flags (queues/page.py).
_RECORD_BYTES = 27
_EXPIRES_AT = 12
_SEGMENT = 20
_RETURNS = 24
_REDELIVERED = 26
_PERSISTENT = 1


class PlainPage:
    """What `look` finds. runs: (first sequence, count) in order; segments: the journal segments that the records name,
    each once in a row; is_in_journal: none of them names none. count, persistent_count: messages."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []
        self.segments: list[int] = []
        self.is_in_journal = True
        self.count = 0
        self.persistent_count = 0


def look(data: bytes, start: int, end: int) -> PlainPage | None:
    """The records in data[start:end], or None where one is not plain or not whole."""
    found = PlainPage()
    octets = data
    position = start
    first = 0
    after = 0
    named = 0
    if end > len(data):
        return None
    while position < end:
        size = 4 + get_u32(octets, position) if end - position > _RECORD_BYTES else 0
        if size <= _RECORD_BYTES or size > end - position:
            return None
        if (
            get_u64(octets, position + _EXPIRES_AT)
            or get_u16(octets, position + _RETURNS)
            or octets[position + _REDELIVERED]
        ):
            return None
        sequence = get_u64(octets, position + 4)
        if found.count == 0 or sequence != after:
            if found.count:
                found.runs.append((first, after - first))
            first = sequence
        after = sequence + 1
        segment = get_u32(octets, position + _SEGMENT)
        if segment == 0:
            found.is_in_journal = False
        elif segment != named:
            found.segments.append(segment)
            named = segment
        found.persistent_count += octets[position + _RECORD_BYTES] & _PERSISTENT
        found.count += 1
        position += size
    if found.count:
        found.runs.append((first, after - first))
    return found


def append_moved_page(store: MessageStore, source: Any, log: Any, plain: PlainPage, page: Page) -> None:
    """Write that this page of the source, of which `plain` tells, is the next one of the log. Where it has a place on
    disk, which is the log's, its messages are there from now on."""
    store.segment(source)
    store.segment(log)
    buffer = store.journal.open_entry(MOVED_PAGE)
    buffer.put_u64(source.queue_id)
    buffer.put_u64(log.queue_id)
    buffer.put_u64(log.next)
    buffer.put_u32(len(plain.runs))
    for first, count in plain.runs:
        buffer.put_u64(first)
        buffer.put_u32(count)
    location = page.location
    if location is not None:
        buffer.put_u32(location.segment)
        buffer.put_u64(location.offset)
        buffer.put_u32(location.length)
        buffer.put_u64(page.durable_bytes)
        store.name_page(page)
    store.position = store.journal.close_entry()
