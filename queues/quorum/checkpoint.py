"""Checkpoint: the state of a group for its journal, made in slices while entries go on being applied.

    begun -> the places that are dead by now, and the queues that are gone, are what it does not name
          -> each queue and stream, right before it is noted, has its pages named (places.py, queues/stream/places.py)
          -> its last chunk is taken: what it does not name goes when that is synced      closed: with the next one

Invariants:
1. It is the state as of when it was begun (capture.py).
2. A page that it names died after that, if at all: it is not among what goes with it, but with a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from queues.pager import Pager
from queues.quorum.capture import Capture, Captured
from queues.quorum.image import chunks_of
from queues.quorum.places import Places, name_places
from queues.quorum.state import GroupState
from queues.stream.compacted import Compacted
from queues.stream.places import name_stream, tails_to_seal
from queues.stream.stream import Stream

#: A slice is about so many octets (chunks_of), which takes some 100 microseconds, and the queue that is noted with it.
SLICE_BYTES = 64 * 1024


class Checkpoint:
    """An iterator of chunks; None: a slice is over. dropped: the queues that are gone."""

    def __init__(
        self, state: GroupState, pager: Pager, places: Places, captures: list[Capture], dropped: list[int]
    ) -> None:
        self._pager = pager
        self._places = places
        self._named = 0
        self._compacted: list[tuple[Compacted, int]] = []
        self._to_seal = tails_to_seal(state.streams.values(), pager.page_bytes)
        places.checkpoint_begun(dropped)
        self._capture = Capture(state, True, captures, self._name)
        self._chunks: Iterator[bytes | None] = chunks_of(self._capture.parts(), pager, SLICE_BYTES)
        self._is_whole = self._is_given_up = False

    def __iter__(self) -> Checkpoint:
        return self

    def __next__(self) -> bytes | None:
        if self._is_given_up:
            raise RuntimeError("a part of a checkpoint that was given up is asked for")
        try:
            return next(self._chunks)
        except StopIteration:
            if not self._is_whole:
                self._is_whole = True
                self._capture.close()
                self._places.checkpoint_captured(self._named, self._compacted)
                self._pager.names_pages()
            raise

    def close(self) -> None:
        """The rest is not wanted, if there is any."""
        self._is_given_up = not self._is_whole
        self._capture.close()

    def _name(self, of: Captured) -> None:
        if isinstance(of, Stream):
            self._named += name_stream(of, of.queue_id in self._to_seal)
            if of.settings.key:
                self._compacted.append((of.compacted, of.compacted.below))
        else:
            self._named += name_places(of, self._pager)
