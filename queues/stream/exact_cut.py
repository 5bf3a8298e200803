"""ExactCut: where a stream should begin, as its limits say and its chunks are: what the leader of its group proposes.

Marks (marks.py) are a part of the state, so that all members cut at the same entry; and so they are few: one for
each `x-stream-max-segment-size-bytes` of what was published before there was a limit, none behind the newest chunk.
Whoever leads looks at its own pages, which may be others than those of other members, and what it finds is a command
of the log (Trim): so all members cut there, also those of the version before, which know the command.

Octets are those of `unpacked_octets`, what compaction has taken left out: a stream that is compacted keeps more than
its limit, until marks say otherwise. By size the newest chunk stays; by age nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from queues.stream.log import HEAD_BYTES
from queues.stream.stream import HOLD_FACTOR

if TYPE_CHECKING:
    from queues.stream.stream import Stream
    from storage.disk import Pending

#: A limit is obeyed to this part of it at least: where pages are smaller, they are cut between.
PARTS = 64
#: What is to be waited for, and in the end an offset.
CutSteps = Generator["Pending | None", None, int]


class ExactCut:
    """clock: the time of the leader, milliseconds. is_live: whether the stream is still the one that counts."""

    def __init__(self, stream: Stream, clock: int, is_live: Callable[[], bool]) -> None:
        self._stream = stream
        self._log = stream.log
        self._clock = clock
        self._is_live = is_live

    def steps(self) -> CutSteps:
        """Returns where it should begin, `first` if it may stay as it is. Raises CorruptRecord, OSError."""
        cut: int = yield from self._cut(1)
        holds = [hold.offset for hold in self._stream.holds.values() if hold.until > self._clock]
        if holds and min(holds) < cut:
            lost = yield from self._cut(HOLD_FACTOR)
            cut = max(min(holds), lost)
        return max(cut, self._stream.first)

    def _cut(self, factor: int) -> CutSteps:
        """For so many times the limits."""
        settings, cut = self._stream.settings, 0
        if settings.max_age is not None:
            cut = yield from self._by_age(factor * settings.max_age)
        if settings.max_length_bytes is not None:
            cut = max(cut, (yield from self._by_size(max(factor * settings.max_length_bytes, 1))))
        return cut

    def _by_age(self, age: int) -> CutSteps:
        """The first chunk that is not too old; `next` where all are."""
        log, oldest = self._log, self._clock - age
        page, is_short = log.page_around(oldest + 1, age // PARTS)
        if is_short:
            return page
        if not (yield from self._has(page)):
            return 0
        return log.offset_at(oldest + 1)

    def _by_size(self, octets: int) -> CutSteps:
        """The newest chunk from which on there are so many octets at least; the newest of all if that has fewer."""
        log = self._log
        page, left, is_small = log.page_before(octets, octets // PARTS)
        if is_small or left < octets:
            return page
        if not (yield from self._has(page)):
            return 0
        cut = page
        for stored in log.chunks_of_page(page):
            left -= HEAD_BYTES + stored.chunk.length
            cut = stored.first
            if left < octets:
                break
        return cut

    def _has(self, offset: int) -> CutSteps:
        """Wait for the page with this offset. Returns 0 where the stream is another one then."""
        coming = self._log.coming(offset)
        if coming is not None:
            yield coming
        return int(self._is_live())
