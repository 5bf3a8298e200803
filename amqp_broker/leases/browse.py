"""Browse: the ready messages of a queue, in the order in which they came, for who only looks (lease.browse).

Nothing is taken, marked or moved, and nothing that is read from the disk stays in RAM: consumers do not notice. It goes
for the queue's own Ready, so it serves classic and quorum queues alike; the levels of a priority queue are merged.

Each call sees what is ready when it comes. `from_sequence` leads from one call to the next, and `below` (the
x-next-sequence of the first answer) keeps a reader from running after new messages for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from amqp_broker.leases.blob import ALL_TAKEN, FULL, BlobWriter
from queues.message import Entry
from queues.page import AddressBook, Page
from queues.ready import Ready


class Browsed(NamedTuple):
    """What a call has come to: the next one goes on from `end`; is_more: there was more, below the limit."""

    end: int
    is_more: bool


def browse(levels: list[Ready], from_sequence: int, below: int, writer: BlobWriter) -> Browsed:
    """Put the ready messages with sequences of [from_sequence, below) into the writer, in order, as far as it takes
    them. Raises CorruptRecord, ValueError when a page cannot be read."""
    if len(levels) == 1 and not levels[0].stragglers:
        is_more = _write_run(levels[0], from_sequence, below, writer)
    else:
        addresses = AddressBook()
        entries = merge(*[_entries(level, from_sequence, addresses) for level in levels], key=_sequence_of)
        is_more = _write_entries(entries, below, writer)
    return Browsed(max(from_sequence, writer.next_offset), is_more)


def _sequence_of(entry: Entry) -> int:
    return int(entry.sequence)


def _write_run(ready: Ready, start: int, below: int, writer: BlobWriter) -> bool:
    """One run: what is in pages goes over as octets. Returns whether the writer is full before the end."""
    head = ready.head
    if head and head[-1].sequence >= start:
        first = bisect_left(head, start, key=_sequence_of)
        if _write_entries(islice(head, first, None), below, writer):
            return True
    for page in ready.pages or ():
        if page.last < start:
            continue
        if page.first >= below:
            return False
        data, begin, size = ready.pager.records_of(ready.queue_id, page)
        outcome = writer.add_ready(start, below, page.is_recovered, data, begin, begin + size)
        if outcome != ALL_TAKEN:
            return bool(outcome == FULL)
    tail = ready.tail
    if tail is None or not tail.count:
        return False
    octets = tail.octets()
    return bool(writer.add_ready(start, below, False, octets, 0, len(octets)) == FULL)


def _write_entries(entries: Iterator[Entry], below: int, writer: BlobWriter) -> bool:
    """Returns whether the writer is full before the end."""
    for entry in entries:
        if entry.sequence >= below:
            return False
        if not writer.add(entry.sequence, entry.is_redelivered, entry.returns, entry.message):
            return True
    return False


def _entries(ready: Ready, start: int, addresses: AddressBook) -> Iterator[Entry]:
    """The messages of one run from a sequence on, in order; entries of pages are made for this."""
    both = merge(_in_order(ready, start, addresses), ready.stragglers, key=_sequence_of)
    return (entry for entry in both if entry.sequence >= start)


def _in_order(ready: Ready, start: int, addresses: AddressBook) -> Iterator[Entry]:
    yield from ready.head
    for page in ready.pages or ():
        if page.last >= start:
            yield from ready.pager.entries_of(ready.queue_id, page)
    if ready.tail is not None and ready.tail.count:
        copy = Page(ready.tail.octets(), ready.tail.count, 0, 0, 0)
        yield from copy.entries(addresses)
