"""Packing: pages of a stream that have left RAM are compressed where they lie on the disk.

    pages on the disk alone -> read and compressed in the background -> new files, synced -> the log's pages are these
    (StreamLog.put) -> a checkpoint names them -> the old places go

Invariants:
1. What a page has is not touched: whoever reads it gets what was there before, octet for octet.
2. A packed page is on the disk before the log has it, and its old place stays until a checkpoint without it is there.
3. A pass looks at MOST_PAGES pages, and has one of them in RAM; the loop does nothing to their octets.
4. A page that does not pay to be packed keeps no file alive of which it is a part: what is left in such a file is
   written into the new one as it is, in the pass that has looked at the last page there, if that gives back enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import NamedTuple

from queues.pager import Pager
from queues.stream.log import StreamLog
from queues.stream.pages import Part
from storage.disk import Pending
from storage.errors import CorruptRecord
from storage.page_store import PageLocation

#: Pages of one pass: their files are synced together.
MOST_PAGES = 64
#: What is left in a file is looked for among so many pages on either side: most files have fewer
#: (page_store.SEGMENT_BYTES).
_NEIGHBOURS = 512
#: So many pages get their new places in one slice.
_SLICE = 32
#: The rest of a file is written anew if it is at most this part of it: as much as a page has to gain (packed_page.py).
_WORTH = (7, 8)


class Packed(NamedTuple):
    """pages: how many were looked at. before, after: octets of those that are packed now. moved: pages that lie
    elsewhere, as they were. has_more: a pass that comes at once finds something to do."""

    pages: int
    before: int
    after: int
    moved: int
    has_more: bool

    @property
    def has_old_places(self) -> bool:
        """Whether there are some that a checkpoint lets go of."""
        return bool(self.after or self.moved)


class Packing:
    """is_live: whether the log is still the one that counts."""

    def __init__(self, log: StreamLog, pager: Pager, is_live: Callable[[], bool]) -> None:
        self._log = log
        self._store = pager.page_store
        self._is_live = is_live
        self._files: list[int] = []
        self._written: list[tuple[Part, PageLocation]] = []

    def steps(self) -> Generator[Pending | None, None, Packed | None]:
        """A pass; None ends a slice. Returns None where the log is another one by now, which is as it was then, but
        for pages that it has in their new places. Raises CorruptRecord, OSError."""
        log, store = self._log, self._store
        parts = log.cold_parts(MOST_PAGES)
        try:
            for part in parts:
                if not (yield from self._pack(part)):
                    return None
            for part in self._left_behind(parts):
                if not (yield from self._move(part)):
                    return None
            if self._written:
                pending = store.sync_beside(log.queue_id, self._files)
                yield pending
                if not self._is_live():
                    return None
                pending.result()
            before = after = moved = 0
            while self._written:
                if len(self._written) % _SLICE == 0:
                    yield None
                    if not self._is_live():
                        return None
                part, location = self._written.pop()
                if log.put(part, location):
                    if location.length == part.taken:
                        moved += 1
                    else:
                        before, after = before + part.taken, after + location.length
                else:  # retention, or compaction, was quicker
                    store.release(log.queue_id, location)
        finally:
            self._give_up()
        if parts:
            log.packed = max(log.packed, parts[-1].page.last + 1)
        return Packed(len(parts), before, after, moved, len(parts) == MOST_PAGES)

    def _pack(self, part: Part) -> Generator[Pending, None, bool]:
        """Returns whether to go on."""
        log, store, location = self._log, self._store, part.page.location
        if part.is_packed or location is None:
            return True
        pending = store.begin_packing(log.queue_id, location)
        yield pending
        if not self._is_live():
            return False
        if part.page.location is None:  # retention has taken it
            return True
        packed = self._result(part, pending)
        return not packed or (yield from self._write(part, packed, is_packed=True))

    def _left_behind(self, parts: list[Part]) -> list[Part]:
        """Pages for which files are kept that could go otherwise: nothing there is packed, and nothing comes."""
        log, store = self._log, self._store
        moving: list[Part] = []
        if not parts:
            return moving
        end = parts[-1].page.last + 1
        leaving = {part for part, _ in self._written}
        known: Counter[int] = Counter()  # pages by file, those that leave it too
        left: dict[int, list[Part]] = {}
        for part in parts:
            if part.page.location is not None:
                left[part.page.location.segment] = []
        for part in log.parts_around(parts[0].page.first, _NEIGHBOURS):
            found = left.get(part.page.location.segment) if part.page.location is not None else None
            if found is not None:
                known[part.page.location.segment] += 1
                if part not in leaving:
                    found.append(part)
        most, of = _WORTH
        for segment, found in left.items():
            if not found or any(part.is_packed or part.page.last >= end for part in found):
                continue
            if known[segment] < store.page_count(log.queue_id, segment):
                continue  # of so many pages that some are far away, and would keep the file
            octets = sum(part.page.location.disk_bytes for part in found)
            if of * octets <= most * store.file_bytes(log.queue_id, segment):
                moving += found
        return moving

    def _move(self, part: Part) -> Generator[Pending, None, bool]:
        """Returns whether to go on."""
        location = part.page.location
        if location is None:  # retention has taken it
            return True
        pending = self._store.begin_load(self._log.queue_id, location, part.taken)
        yield pending
        if not self._is_live():
            return False
        if part.page.location is None:
            return True
        return (yield from self._write(part, self._result(part, pending), is_packed=False))

    def _result(self, part: Part, pending: Pending) -> bytes:
        """Of a page that was read."""
        try:
            return pending.result()
        except CorruptRecord:
            self._log.damaged = part
            raise

    def _write(self, part: Part, octets: bytes, is_packed: bool) -> Generator[Pending, None, bool]:
        """Returns whether to go on."""
        log, store = self._log, self._store
        if not self._files or store.is_full(log.queue_id, self._files[-1]):
            self._files.append(store.begin_segment(log.queue_id))
        written, pending = store.write_beside(log.queue_id, self._files[-1], octets, is_packed)
        self._written.append((part, written))
        yield pending
        if not self._is_live():
            return False
        pending.result()
        return True

    def _give_up(self) -> None:
        """What the log has not taken."""
        for _, location in self._written:
            if self._store.has_segment(self._log.queue_id, location.segment):
                self._store.release(self._log.queue_id, location)
        self._written = []
