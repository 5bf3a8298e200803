"""StreamEnd: what a chunk changes of a stream where nothing is out of the ordinary. Stream is one, with all the rest.

As the tail of its log (tail.py) it is by itself for the sake of many streams: of each of them there is a chunk, and
nothing that is interpreted is called for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from queues.stream.chunk import Chunk
from queues.stream.marks import Marks, Step

if TYPE_CHECKING:
    from queues.stream.tail import Tail

if not cython.compiled:
    from queues.stream.tail import add_chunk


class StreamEnd:
    """followers: the ids of the quorum queues over it. step: how far apart its marks are."""

    def __init__(self, queue_id: int, log: Tail, step: Step) -> None:
        self.queue_id = queue_id
        self.log = log
        self.marks = Marks()
        self.step = step
        self.followers: dict[int, None] = {}


def append_plain(end: StreamEnd, chunk: Chunk, clock: int) -> bool:
    """Stream.append of a chunk of which nothing can be known, as it has no producers, and which lies nowhere yet; but
    for retention. Returns whether there is a new mark."""
    first = add_chunk(end.log, clock, chunk)
    return end.marks.add(first, clock, len(chunk.octets), end.step)
