"""Ready: the messages of a queue that wait for a consumer, in order: head, pages, tail.

    push -> tail (PageBuilder) -> pages (RAM or disk) -> head (entries) -> pop
    put_back ------------------------------------------> head, at the original position

While nothing waits behind it and memory is not short, a short head takes new messages directly. A page is unpacked into
the head when the head runs out. Under memory pressure pages are stored from the newest backwards, so the oldest stay in
RAM the longest.

Invariants:
1. Sequences rise from head to tail (within one priority).
2. `count` is the number of ready messages; `message_bytes` the sum of their body sizes.
3. Entries in the head are counted in `pager.used` by Message.size, pages and tail by their octets; an entry that was
   popped stays counted until its queue settles it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import cython

from queues.message import Entry, Message
from queues.page import Page, PageBuilder
from queues.pager import Pager

if not cython.compiled:
    from queues.message import make_entry


#: So many pages behind the one that is unpacked are fetched from the disk meanwhile.
_PAGES_AHEAD = 4


def _sequence_of(entry: Entry) -> int:
    return entry.sequence


class Ready:
    """The ready messages of one queue, first in first out."""

    def __init__(self, pager: Pager, queue_id: int) -> None:
        self.pager = pager
        self.queue_id = queue_id
        self.head: deque[Entry] = deque()
        self.head_size = 0
        self.pages: Any = None
        self.tail: Any = None
        self.count = 0
        self.message_bytes = 0

    def push(self, message: Message, sequence: int, expires_at: int, journal_segment: int) -> None:
        """A new message, behind all others."""
        pager = self.pager
        if (
            self.pages is None
            and self.head_size < pager.head_bytes
            and self.count < pager.head_messages
            and pager.used < pager.tight_bytes
        ):
            self.head.append(make_entry(message, sequence, expires_at, journal_segment))
            self.head_size += message.size
            pager.used += message.size
        else:
            if self.pages is None:
                self.pages = deque()
                self.tail = PageBuilder()
            tail = self.tail
            before = tail.buffer.length
            tail.add(message, sequence, expires_at, journal_segment, 0, False)
            pager.used += tail.buffer.length - before
            if tail.buffer.length >= pager.page_bytes:
                self._seal()
        self.count += 1
        self.message_bytes += message.body_size

    def _seal(self) -> None:
        """The open page becomes one of the pages."""
        page = self.tail.seal()
        self.pages.append(page)
        if self.pager.used > self.pager.tight_bytes:
            self.pager.store(self.queue_id, page)
            self.pager.drop(page)

    def pop(self) -> Entry | None:
        """The first message; it stays counted in the budget until it is settled or put back."""
        if not self.head and not self._refill():
            return None
        entry = self.head.popleft()
        size = entry.message.size
        self.head_size -= size
        self.count -= 1
        self.message_bytes -= entry.message.body_size
        return entry

    def peek(self) -> Entry | None:
        """The first message, which stays where it is."""
        if not self.head and not self._refill():
            return None
        return self.head[0]

    def _refill(self) -> bool:
        """Unpack the next page into the empty head. Returns whether there is a message."""
        pager = self.pager
        while self.pages is not None:
            if self.pages:
                page = self.pages.popleft()
                pager.load(self.queue_id, page)
                for index in range(min(len(self.pages), _PAGES_AHEAD)):
                    pager.read_ahead(self.queue_id, self.pages[index])
            elif self.tail.count:
                page = self.tail.seal()
            else:
                self.pages = None
                self.tail = None
                return False
            entries = page.entries(pager.addresses)
            pager.used -= page.size
            page.data = None
            for entry in entries:
                self.head_size += entry.message.size
            pager.used += self.head_size
            self.head.extend(entries)
            if entries:
                return True
        return False

    def put_back(self, entries: list[Entry]) -> None:
        """Entries that were popped return to their original positions."""
        for entry in entries:
            entry.consumer = None
            self.head_size += entry.message.size
            self.count += 1
            self.message_bytes += entry.message.body_size
        if len(entries) == 1 and (not self.head or entries[0].sequence < self.head[0].sequence):
            self.head.appendleft(entries[0])
        else:
            self.head = deque(sorted([*entries, *self.head], key=_sequence_of))

    def adopt(self, items: Iterable[Entry | Page]) -> None:
        """At a restart: what was found on disk, in order of sequence; no entry relies on a stored page any more."""
        pager = self.pager
        for item in items:
            if isinstance(item, Page):
                if self.pages is None:
                    self.pages = deque()
                    self.tail = PageBuilder()
                elif self.tail.count:
                    self._seal()
                self.pages.append(item)
                self.count += item.live
                self.message_bytes += item.message_bytes
            elif (
                self.pages is None
                and self.head_size < pager.head_bytes
                and self.count < pager.head_messages
                and pager.used < pager.tight_bytes
            ):
                self.head.append(item)
                self.head_size += item.message.size
                self.count += 1
                self.message_bytes += item.message.body_size
                pager.used += item.message.size
            else:
                self._append_packed(item)

    def _append_packed(self, entry: Entry) -> None:
        if self.pages is None:
            self.pages = deque()
            self.tail = PageBuilder()
        tail = self.tail
        before = tail.buffer.length
        tail.add(
            entry.message,
            entry.sequence,
            entry.expires_at,
            entry.journal_segment,
            entry.returns,
            entry.is_redelivered,
        )
        self.pager.used += tail.buffer.length - before
        self.count += 1
        self.message_bytes += entry.message.body_size
        if tail.buffer.length >= self.pager.page_bytes:
            self._seal()

    def relieve(self, want_bytes: int) -> int:
        """Store and drop pages, the newest first, until `want_bytes` are free. Returns what was freed, octets."""
        if self.pages is None:
            return 0
        freed = 0
        if self.tail.count:
            self.pages.append(self.tail.seal())
        for page in reversed(self.pages):
            if freed >= want_bytes:
                break
            if page.data is not None:
                self.pager.store(self.queue_id, page)
                if page.location is None:
                    break
                self.pager.drop(page)
                freed += page.size
        return freed

    def ram_page_bytes(self) -> int:
        """Octets of pages, the open one included, that are in RAM and could be dropped."""
        if self.pages is None:
            return 0
        in_ram: int = sum(page.size for page in self.pages if page.data is not None)
        return in_ram + int(self.tail.buffer.length)

    def stored_pages(self) -> list[Page]:
        """The whole pages that have a place on disk, in order."""
        if self.pages is None:
            return []
        return [page for page in self.pages if page.location is not None]

    def leave_segment(self, segment: int) -> list[Entry]:
        """Store every page that relies on a journal segment up to `segment`; returns the head's entries that do, and
        those that came out of stored pages."""
        if self.pages is not None:
            if self.tail.count and 0 < self.tail.oldest_segment <= segment:
                page = self.tail.seal()
                self.pages.append(page)
            for page in self.pages:
                if page.location is None and 0 < page.oldest_segment <= segment:
                    self.pager.store(self.queue_id, page)
        return [
            entry for entry in self.head if entry.page is not None or 0 < entry.journal_segment <= segment
        ]

    def clear(self) -> tuple[list[Entry], list[Page]]:
        """Take all messages out: the head's entries (still counted) and the pages, to be released by the caller."""
        entries = list(self.head)
        pages: list[Page] = []
        if self.pages is not None:
            pages = list(self.pages)
            if self.tail.count:
                pages.append(self.tail.seal())
        self.head = deque()
        self.head_size = 0
        self.pages = None
        self.tail = None
        self.count = 0
        self.message_bytes = 0
        return entries, pages
