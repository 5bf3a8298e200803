"""PriorityReady: one Ready per level, served from the highest (argument x-max-priority)."""

from __future__ import annotations

from collections.abc import Iterable

from queues.message import Entry, Message
from queues.page import Page
from queues.pager import Pager
from queues.ready import Ready


class PriorityReady(Ready):
    """The ready messages of a queue with priorities 0..max_priority; above the maximum counts as the maximum."""

    def __init__(self, pager: Pager, queue_id: int, max_priority: int) -> None:
        super().__init__(pager, queue_id)
        self.max_priority = max_priority
        self.levels = [Ready(pager, queue_id) for _ in range(max_priority + 1)]

    def _level_of(self, message: Message) -> Ready:
        return self.levels[max(0, min(message.priority, self.max_priority))]

    def push(self, message: Message, sequence: int, expires_at: int, journal_segment: int) -> None:
        self._level_of(message).push(message, sequence, expires_at, journal_segment)
        self.count += 1
        self.message_bytes += message.body_size

    def push_entry(self, entry: Entry) -> None:
        self._level_of(entry.message).push_entry(entry)
        self.count += 1
        self.message_bytes += entry.message.body_size

    def place(self, entry: Entry) -> None:
        self._level_of(entry.message).place(entry)
        self.count += 1
        self.message_bytes += entry.message.body_size

    def _highest(self) -> Ready | None:
        for level in reversed(self.levels):
            if level.count:
                return level
        return None

    def pop(self) -> Entry | None:
        level = self._highest()
        if level is None:
            return None
        entry = level.pop()
        if entry is not None:
            self.count -= 1
            self.message_bytes -= entry.message.body_size
        return entry

    def peek(self) -> Entry | None:
        level = self._highest()
        return level.peek() if level is not None else None

    def first_expiry(self) -> int:
        level = self._highest()
        return level.first_expiry() if level is not None else 0

    def first_page(self, most: int, max_bytes: int) -> Page | None:
        return None  # a level's page may be followed by what comes before it

    def put_back(self, entries: list[Entry]) -> None:
        by_level: dict[int, list[Entry]] = {}
        for entry in entries:
            by_level.setdefault(max(0, min(entry.message.priority, self.max_priority)), []).append(entry)
            self.count += 1
            self.message_bytes += entry.message.body_size
        for priority, group in by_level.items():
            self.levels[priority].put_back(group)

    def adopt(self, items: Iterable[Entry | Page]) -> None:
        # A page's priority is that of its messages: pages of a priority queue are filled by one level each.
        for item in items:
            before = self.count
            if isinstance(item, Page):
                self.pager.load(self.queue_id, item)
                entries = item.entries(self.pager.addresses)
                level = self._level_of(entries[0].message) if entries else self.levels[0]
                self.pager.drop(item)
            else:
                level = self._level_of(item.message)
            count, message_bytes = level.count, level.message_bytes
            level.adopt([item])
            self.count = before + level.count - count
            self.message_bytes += level.message_bytes - message_bytes

    def page_out(self, want_bytes: int, keeps_head: bool = True) -> int:
        freed = 0
        for level in self.levels:
            if freed < want_bytes:
                freed += level.page_out(want_bytes - freed, keeps_head)
        return freed

    def ram_page_bytes(self) -> int:
        return sum(level.ram_page_bytes() for level in self.levels)

    def ram_head_bytes(self) -> int:
        return sum(level.ram_head_bytes() for level in self.levels)

    def stored_pages(self) -> list[Page]:
        return [page for level in self.levels for page in level.stored_pages()]

    def leave_origins(self) -> None:
        for level in self.levels:
            level.leave_origins()

    def leave_segment(self, segment: int, most_bytes: int) -> bool:
        return any(level.leave_segment(segment, most_bytes) for level in self.levels)

    def relying(self, segment: int) -> list[Entry]:
        return [entry for level in self.levels for entry in level.relying(segment)]

    def clear(self) -> tuple[list[Entry], list[Page]]:
        entries: list[Entry] = []
        pages: list[Page] = []
        for level in reversed(self.levels):
            found = level.clear()
            entries.extend(found[0])
            pages.extend(found[1])
        self.count = 0
        self.message_bytes = 0
        return entries, pages
