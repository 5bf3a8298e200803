"""RecoveredLease: what the journal says of one lease group, and how it is put together at a restart."""

from __future__ import annotations

from typing import Any

from queues.lease import OPEN
from queues.page import Page

#: Above every offset.
NEVER = 1 << 63


class RecoveredLease:
    """One group. group_id: under which it is stored. state_segment, pages_segment: the journal segments of its last
    LEASE and PAGES entries, 0 for none.

    items: (offset, Entry or Page) in order, of [trimmed, next) (after `gather`). is_whole: none of these is missing.
    """

    def __init__(self, group_id: int, queue_id: int, name: str, incarnation: str, owner: str) -> None:
        self.group_id = group_id
        self.queue_id = queue_id
        self.name = name
        self.incarnation = incarnation
        self.owner = owner
        self.state = OPEN
        self.trimmed = 0
        self.next = 0
        self.state_segment = 0
        self.pages_segment = 0
        self.items: list[tuple[int, Any]] = []
        self.is_whole = True

    def gather(self, entries: dict[int, Any], pages: list[Page], seen: int, moved_from: int) -> list[Page]:
        """Merge what was found of it: single messages by offset, stored pages; offsets below `seen` were given, those
        from `moved_from` on have gone back to the queue. Returns the pages that are live."""
        end = min(max(self.next, seen), max(moved_from, self.trimmed))
        live = [page for page in pages if self.trimmed < end and page.first < end and page.last >= self.trimmed]
        live.sort(key=lambda page: page.first)
        items: list[tuple[int, Any]] = []
        expected = self.trimmed
        wanted = iter(sorted(offset for offset in entries if self.trimmed <= offset < end))
        offset = next(wanted, NEVER)
        for page in (*live, None):
            limit = page.first if page is not None else end
            while offset < limit:
                if offset >= expected:
                    self.is_whole = self.is_whole and offset == expected
                    items.append((offset, entries[offset]))
                    expected = offset + 1
                offset = next(wanted, NEVER)
            if page is not None:
                self.is_whole = self.is_whole and page.first <= expected
                items.append((page.first, page))
                expected = page.last + 1
        self.is_whole = self.is_whole and expected >= end
        self.items = items
        self.next = end
        return live
