"""ExactCut: where a stream should begin, as its limits say and its chunks are: what the leader of its group proposes.

Marks (marks.py) are a part of the state, so that all members cut at the same entry; and so they are few: one for
each `x-stream-max-segment-size-bytes` of what was published before there was a limit, none behind the newest chunk.
Whoever leads looks at its own pages, which may be others than those of other members, and what it finds is a command
of the log (Retain): so all members cut there.

Octets are those of `unpacked_octets`, what compaction has taken left out: a stream that is compacted keeps more than
its limit, until marks say otherwise. By size the newest chunk stays; by age nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple

from queues.stream.stream import HOLD_FACTOR
from queues.stream.tail import HEAD_BYTES

if TYPE_CHECKING:
    from queues.stream.stream import Stream
    from storage.disk import Pending

#: A limit is obeyed to this part of it at least: where pages are smaller, they are cut between.
PARTS = 64
#: What is to be waited for, and in the end an offset.
_OffsetSteps = Generator["Pending | None", None, int]


class Cut(NamedTuple):
    """Where a stream should begin by its limits, and where it has to whoever holds it; 0: that was not looked for, as
    nobody does."""

    first: int
    least: int


CutSteps = Generator["Pending | None", None, Cut]


class ExactCut:
    """clock: the time of the leader, milliseconds. is_live: whether the stream is still the one that counts."""

    def __init__(self, stream: Stream, clock: int, is_live: Callable[[], bool]) -> None:
        self._stream = stream
        self._log = stream.log
        self._clock = clock
        self._is_live = is_live

    def steps(self) -> CutSteps:
        """Returns where it should begin: `first` is the stream's if it may stay as it is. Raises CorruptRecord,
        OSError."""
        first = yield from self._cut(1)
        least = 0
        if any(hold.offset < first and hold.until > self._clock for hold in self._stream.holds.values()):
            least = yield from self._cut(HOLD_FACTOR)
        return Cut(max(first, self._stream.first), least)

    def _cut(self, factor: int) -> _OffsetSteps:
        """For so many times the limits."""
        settings, cut = self._stream.settings, 0
        if settings.max_age is not None:
            cut = yield from self._by_age(factor * settings.max_age)
        if settings.max_length_bytes is not None:
            cut = max(cut, (yield from self._by_size(max(factor * settings.max_length_bytes, 1))))
        return cut

    def _by_age(self, age: int) -> _OffsetSteps:
        """The first chunk that is not too old; `next` where all are."""
        log, oldest = self._log, self._clock - age
        while True:
            page, is_short = log.page_around(oldest + 1, age // PARTS)
            if is_short:
                return page
            if (yield from self._has(page)):
                return log.offset_at(oldest + 1) if self._is_live() else 0

    def _by_size(self, octets: int) -> _OffsetSteps:
        """The newest chunk from which on there are so many octets at least; the newest of all if that has fewer."""
        log = self._log
        while True:
            page, left, is_small = log.page_before(octets, octets // PARTS)
            if is_small or left < octets:
                return page
            if (yield from self._has(page)):
                break
        if not self._is_live():
            return 0
        cut = page
        for stored in log.chunks_of_page(page):
            left -= HEAD_BYTES + stored.chunk.length
            cut = stored.first
            if left < octets:
                break
        return cut

    def _has(self, offset: int) -> Generator[Pending | None, None, bool]:
        """Whether the page with this offset can be looked at. False: it was waited for, and which page it is has to be
        asked anew: the stream may begin behind it by now."""
        coming = self._log.coming(offset)
        if coming is None or coming.done() or not self._is_live():
            return True
        yield coming
        return False
