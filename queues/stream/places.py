"""What a checkpoint names of streams (queues/quorum/places.py says when such places may be given up)."""

from __future__ import annotations

from collections.abc import Iterable

from queues.stream.stream import Stream

#: A checkpoint has tails of so many pages in itself at most; the longest become pages.
TAIL_PAGES = 64


def name_streams(streams: Iterable[Stream], page_bytes: int) -> int:
    """Before a checkpoint: give pages a place, and tails where they are too long for it. Returns the octets of the
    pages that are named."""
    logs = [stream.log for stream in streams]
    tails = sum([log.tail_bytes for log in logs])
    for log in sorted(logs, key=lambda each: -each.tail_bytes):
        if tails <= TAIL_PAGES * page_bytes or not log.is_tail_a_page:
            break
        tails -= log.tail_bytes
        log.seal()
    named = 0
    for log in logs:
        log.name_pages()
        named += log.named_bytes
    return named
