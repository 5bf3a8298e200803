"""MessageLog: messages in order, each at an offset from 0, read by range and given up from the front.

    add -> tail (PageBuilder) -> pages (RAM or disk) -> trim

It is what a lease group holds, and whatever else keeps messages of queues apart. Its pages have the octets of a
queue's, and its place in the journal and among the page files is that of a queue with the id `queue_id`; consumers it
has none. The sequence in a record is not the offset: it says where the message comes from, and need not rise.

Invariants:
1. It holds exactly the offsets of [trimmed, next), apart from holes that only damage can leave. A page's `first` and
   `last` are offsets; the tail ends before `next`.
2. Every page in RAM, the tail, and the one page that is kept for the next `read` are counted in `pager.used`.
3. Of a durable log everything is in the journal, or in a stored page that the journal names.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import cython

from queues.message import Entry, Message
from queues.page import Page, PageBuilder
from queues.pager import Pager
from queues.store import MessageStore

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32


class RangeGone(LookupError):
    """Offsets that the log has no more, or not yet."""


class Stretch(NamedTuple):
    """Messages as a page has them: the records in data[start:end], of the offsets from `first` on.

    A record: u32 length of what follows, u64 sequence, u64 expires at, u32 journal segment, u16 returns, u8
    redelivered, packed message (queues/page.py).
    """

    data: bytes
    start: int
    end: int
    first: int
    messages: int


def _last_of(page: Page) -> int:
    return page.last


def _skip(data: bytes, position: int, limit: int, count: int) -> int:
    """The place behind `count` records. Raises ValueError when they end beyond `limit`."""
    octets = data
    while count > 0 and position + 4 <= limit:
        position += 4 + get_u32(octets, position)
        count -= 1
    if count > 0 or position > limit:
        raise ValueError(f"a page of a log ends {position - limit} octets beyond its end, {count} records too early")
    return position


def _take(data: bytes, start: int, limit: int, most: int, max_bytes: int) -> tuple[int, int]:
    """(place behind, count) of at most `most` records from `start` on within max_bytes; one at least."""
    octets = data
    position = start
    count = 0
    while count < most and position + 4 <= limit:
        size = 4 + get_u32(octets, position)
        if count and position + size - start > max_bytes:
            break
        position += size
        count += 1
    if count == 0 or position > limit:
        raise ValueError(f"a page of a log has a record that ends {position - limit} octets beyond its end")
    return position, count


class MessageLog:
    """One log. queue_id: under which it is stored. store: the journal that has it, None for a log that is in none (then
    it is not durable by itself). trimmed, next: its offsets are [trimmed, next)."""

    def __init__(self, queue_id: int, pager: Pager, store: MessageStore | None) -> None:
        self.queue_id = queue_id
        self.is_durable = store is not None
        self.is_deleted = False
        self.last_segment = 0
        self.store: Any = store
        self.pager = pager
        self.trimmed = 0
        self.next = 0
        self.pages: list[Page] = []
        self.tail = PageBuilder()
        self.page_octets = 0
        self._kept_page: Page | None = None
        self._kept: Any = None
        self._kept_size = 0

    @property
    def next_sequence(self) -> int:
        """What the list of its pages says: the offset of the next message."""
        return self.next

    @property
    def count(self) -> int:
        """How many messages it holds."""
        return self.next - self.trimmed

    @property
    def bytes(self) -> int:
        """Octets of what it holds, packed. Of a page of which some is trimmed, by its share of messages."""
        octets = self.page_octets + self.tail.buffer.length
        if self.next == self.trimmed:
            return 0
        if self.pages:
            first: Any = self.pages[0]
            return int(octets - _size_of(first) * max(0, self.trimmed - first.first) // first.count)
        return int(octets * self.count // self.tail.count)

    # -- filling and emptying ----------------------------------------------------------------------------------------

    def add(
        self,
        message: Message,
        sequence: int,
        expires_at: int,
        journal_segment: int,
        returns: int,
        is_redelivered: bool,
    ) -> None:
        """One more message, at offset `next`. journal_segment: where its durable copy is, 0 for nowhere."""
        tail = self.tail
        before = tail.buffer.length
        tail.add(message, sequence, expires_at, journal_segment, returns, is_redelivered)
        size = tail.buffer.length - before
        self.pager.used += size
        self.next += 1
        if tail.buffer.length >= self.pager.page_bytes:
            self._seal()

    def add_page(self, page: Page) -> None:
        """A whole page in RAM, which the budget counts already, of messages from offset `next` on."""
        if self.tail.count:
            self._seal()
        page.is_repacked = False
        page.first = self.next
        page.last = self.next + page.count - 1
        self.next += page.count
        self._append(page)

    def _seal(self) -> None:
        """The tail becomes a page."""
        page = self.tail.seal()
        page.first = self.next - page.count
        page.last = self.next - 1
        self._append(page)

    def _append(self, page: Page) -> None:
        self.pages.append(page)
        self.page_octets += page.size
        if self.pager.used > self.pager.tight_bytes:
            self._store(page)

    def _store(self, page: Page) -> bool:
        """Bring a page to disk and out of RAM. Returns whether that was possible."""
        self.pager.store(self.queue_id, page)
        self.pager.drop(page)
        return page.location is not None

    def adopt(self, items: list[tuple[int, Any]], trimmed: int, end: int) -> None:
        """At a restart: (offset, Entry or Page) in order, of what was found on disk; [trimmed, end) is what it held.

        A page may begin before `trimmed`. Where an offset is missing, the ones around it are in different pages.
        """
        self.trimmed = trimmed
        self.next = trimmed
        for offset, item in items:
            if isinstance(item, Page):
                if self.tail.count:
                    self._seal()
                self.pages.append(item)
                self.page_octets += _size_of(item)
                self.next = item.last + 1
                continue
            if offset != self.next:
                if self.tail.count:
                    self._seal()
                self.next = offset
            if self.is_durable:
                self.store.touch(item.journal_segment, self)
            self.add(
                item.message, item.sequence, item.expires_at, item.journal_segment, item.returns, item.is_redelivered
            )
        if self.tail.count and self.next < end:
            self._seal()
        self.next = max(self.next, end)

    def trim(self, upto: int) -> None:
        """Give up the offsets below `upto`, which is in [trimmed, next]. Nothing is written to the journal."""
        self.trimmed = upto
        gone = 0
        for page in self.pages:
            if page.last >= upto:
                break
            self._give_up(page)
            gone += 1
        del self.pages[:gone]
        if upto == self.next and self.tail.count:
            self.pager.used -= self.tail.buffer.length
            self.tail = PageBuilder()

    def _give_up(self, page: Page) -> None:
        self.page_octets -= _size_of(page)
        if self._kept_page is page:
            self._forget_kept()
        if self.is_deleted:
            page.location = None  # its files go with the log
        self.pager.release(self.queue_id, page)

    def take_last(self, most: int) -> list[Entry]:
        """Take messages off the end, in order, counted in the budget as entries: so many at most, or with 0 those of
        one page. journal_segment says what they rely on, 0 for nothing but the page, which is given up."""
        if self.tail.count:
            self._seal()
        pager = self.pager
        page = self.pages.pop()
        pager.load_to_unpack(self.queue_id, page)
        entries: list[Any] = page.entries(pager.addresses)
        begin = page.first
        if begin < self.trimmed:
            del entries[: self.trimmed - begin]
            begin = self.trimmed
        self._give_up(page)
        self.next = begin
        kept = max(0, len(entries) - most) if most else 0
        for entry in entries[:kept]:
            self.add(
                entry.message, entry.sequence, entry.expires_at, entry.journal_segment, entry.returns,
                entry.is_redelivered,
            )  # fmt: skip
        del entries[:kept]
        for entry in entries:
            entry.page = None
            pager.used += entry.message.size
        return entries

    def clear(self) -> None:
        """Give up everything."""
        self.trim(self.next)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Stretch]:
        """The messages of [first, last) in order, as far as `max_bytes` octets of records go; one at least, if the
        range has one. Nothing that comes from the disk stays in RAM, but for one page.

        Raises RangeGone when the range is not within [trimmed, next).
        """
        if not self.trimmed <= first <= last <= self.next:
            raise RangeGone(f"offsets {first}..{last} are not within {self.trimmed}..{self.next}")
        found: list[Stretch] = []
        index = bisect_left(self.pages, first, key=_last_of)
        while first < last and (max_bytes > 0 or not found):
            if index < len(self.pages):
                page = self.pages[index]
                begin = page.first
                end = page.last + 1
                data, start, size = self._octets(index)
                index += 1
            else:
                end = self.next
                begin = end - self.tail.count
                start = 0
                size = self.tail.buffer.length
                data = self.tail.buffer.get_bytes(0, size)
            if first < begin:
                raise RangeGone(f"offsets {first}..{begin} are missing")
            start_of_records = start
            limit = start_of_records + size
            start = _skip(data, start_of_records, limit, first - begin)
            if first == begin and end <= last and size <= max_bytes:
                stop, count = limit, end - first
            else:
                stop, count = _take(data, start, limit, min(last, end) - first, max_bytes)
            if found and stop - start > max_bytes:
                break
            found.append(Stretch(data, start, stop, first, count))
            max_bytes -= stop - start
            first += count
            if first < min(last, end):
                break
        return found

    def _octets(self, index: int) -> tuple[Any, int, int]:
        """(data, start, size) of a page's records."""
        page = self.pages[index]
        if page.data is not None:
            return page.data, page.start, page.size
        if self._kept_page is not page:
            self._forget_kept()
            data, start = self.pager.page_store.take(self.queue_id, page.location)
            self.pager.read_ahead(self.queue_id, self.pages[index + 1 : index + 2 * self.pager.pages_ahead + 1])
            self._kept_page = page
            self._kept = (data, start, page.location.length)
            self._kept_size = page.location.length
            self.pager.used += self._kept_size
        return self._kept  # type: ignore[no-any-return]

    def _forget_kept(self) -> None:
        self.pager.used -= self._kept_size
        self._kept_size = 0
        self._kept_page = None
        self._kept = None

    # -- memory and the journal ----------------------------------------------------------------------------------------

    def page_out(self, want_bytes: int, keeps_head: bool = True) -> int:
        """Store and drop pages, the newest first, until `want_bytes` are free. Returns what was freed, octets."""
        before = self.pager.used
        self._forget_kept()
        if self.tail.count and before - self.pager.used < want_bytes:
            self._seal()
        for page in reversed(self.pages):
            if before - self.pager.used >= want_bytes:
                break
            if page.data is not None and not self._store(page):
                break
        return int(before - self.pager.used)

    def ram_page_bytes(self) -> int:
        """Octets in RAM that `relieve` can do something about."""
        in_ram = sum(page.size for page in self.pages if page.data is not None)
        return int(in_ram + self.tail.buffer.length + self._kept_size)

    def stored_pages(self) -> list[Page]:
        """The pages that have a place on disk, in order."""
        return [page for page in self.pages if page.location is not None]

    def leave_segment(self, segment: int) -> bool:
        """A slice: store in pages some of what relies on a journal segment up to `segment` (queues/store.py). Returns
        whether there is more."""
        if self.tail.count and 0 < self.tail.oldest_segment <= segment:
            self._seal()
        left = self.store.share_bytes
        for page in self.pages:
            if page.location is None and 0 < page.oldest_segment <= segment:
                if left <= 0:
                    return True
                self.pager.store(self.queue_id, page)
                left -= page.size
        if self.pager.has_no_room:
            return True
        pages = self.stored_pages()
        if self.is_durable and self.store.wants_list(self, pages, segment):
            self.store.append_pages(self, pages)
        return False

    def forget(self) -> None:
        """The log is no more, and its files go: everything in RAM is given back."""
        self.is_deleted = True
        self.clear()
        self._forget_kept()
        if self.is_durable:
            self.store.unlist(self)


def _size_of(page: Page) -> int:
    return int(page.size or page.location.length)
