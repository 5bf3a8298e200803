"""What a checkpoint names of streams (queues/quorum/places.py says when such places may be given up)."""

from __future__ import annotations

from collections.abc import Iterable

from queues.stream.stream import Stream

#: A checkpoint has tails of so many pages in itself at most; the longest become pages.
TAIL_PAGES = 64


def tails_to_seal(streams: Iterable[Stream], page_bytes: int) -> set[int]:
    """The streams whose tails are too long for the next checkpoint, by id: they become pages."""
    found: set[int] = set()
    tails = [(stream.log.tail_bytes, stream) for stream in streams if stream.log.tail_bytes]
    total = sum([octets for octets, _ in tails])
    if total <= TAIL_PAGES * page_bytes:
        return found
    for octets, stream in sorted(tails, key=lambda each: -each[0]):
        if total <= TAIL_PAGES * page_bytes or not stream.log.is_tail_a_page:
            break
        total -= octets
        found.add(stream.queue_id)
    return found


def name_stream(stream: Stream, seals: bool) -> int:
    """Before a checkpoint has a stream: give its pages a place; seals: its tail becomes one. Returns the octets of the
    pages that are named."""
    log = stream.log
    if seals and log.is_tail_a_page:
        log.seal()
    log.name_pages()
    return log.named_bytes
