"""What a checkpoint names of streams (queues/quorum/places.py says when such places may be given up)."""

from __future__ import annotations

from collections.abc import Iterable

from queues.stream.log import LEAST_PAGE_BYTES
from queues.stream.stream import Stream

#: A checkpoint has so many octets of tails in itself at most; the longest become pages.
TAILS_BYTES = 16 * 1024 * 1024


def name_streams(streams: Iterable[Stream]) -> int:
    """Before a checkpoint: give pages a place, and tails where they are too long for it. Returns the octets of the
    pages that are named."""
    logs = [stream.log for stream in streams]
    tails = sum([log.tail_bytes for log in logs])
    for log in sorted(logs, key=lambda each: -each.tail_bytes):
        if tails <= TAILS_BYTES or log.tail_bytes < LEAST_PAGE_BYTES:
            break
        tails -= log.tail_bytes
        log.seal()
    named = 0
    for log in logs:
        log.name_pages()
        named += log.named_bytes
    return named
