"""Packing: pages of a stream that have left RAM are compressed where they lie on the disk.

    pages on the disk alone -> read and compressed in the background -> new files, synced -> the log's pages are these
    (StreamLog.put_packed) -> a checkpoint names them -> the old places go

Invariants:
1. What a page has is not touched: whoever reads it gets what was there before, octet for octet.
2. A packed page is on the disk before the log has it, and its old place stays until a checkpoint without it is there.
3. A pass looks at MOST_PAGES pages, and has one of them in RAM; the loop does nothing to their octets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from queues.pager import Pager
from queues.stream.log import Part, StreamLog
from storage.disk import Pending
from storage.page_store import PageLocation

#: Pages of one pass: their files are synced together.
MOST_PAGES = 64


class Packed(NamedTuple):
    """pages: how many were looked at. before, after: octets of those that are packed now. has_more: a pass that comes
    at once finds something to do."""

    pages: int
    before: int
    after: int
    has_more: bool


class Packing:
    """is_live: whether the log is still the one that counts."""

    def __init__(self, log: StreamLog, pager: Pager, is_live: Callable[[], bool]) -> None:
        self._log = log
        self._store = pager.page_store
        self._is_live = is_live
        self._files: list[int] = []
        self._written: list[tuple[Part, PageLocation]] = []

    def steps(self) -> Generator[Pending, None, Packed | None]:
        """A pass. Returns None where the log is another one by now, which is as it was then. Raises CorruptRecord,
        OSError."""
        log, store = self._log, self._store
        parts = log.cold_parts(MOST_PAGES)
        try:
            for part in parts:
                if not (yield from self._pack(part)):
                    return None
            if self._written:
                pending = store.sync_beside(log.queue_id, self._files)
                yield pending
                if not self._is_live():
                    return None
                pending.result()
            before = after = 0
            while self._written:
                part, location = self._written.pop()
                if log.put_packed(part, location):
                    before, after = before + part.taken, after + location.length
                else:  # retention, or compaction, was quicker
                    store.release(log.queue_id, location)
        finally:
            self._give_up()
        if parts:
            log.packed = max(log.packed, parts[-1].page.last + 1)
        return Packed(len(parts), before, after, len(parts) == MOST_PAGES)

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
        packed = pending.result()
        if not packed:
            return True
        if not self._files or store.is_full(log.queue_id, self._files[-1]):
            self._files.append(store.begin_segment(log.queue_id))
        written, pending = store.write_beside(log.queue_id, self._files[-1], packed, is_packed=True)
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
