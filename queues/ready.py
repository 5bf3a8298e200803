"""Ready: the messages of a queue that wait for a consumer, in order: head, pages, tail.

    push -> tail (PageBuilder) -> pages (RAM or disk) -> head (entries) -> pop
    put_back ------------------------------------------> head, at the original position
    relieve                       pages <--------------- head, what is too long of it

While nothing waits behind it and memory is not short, a short head takes new messages directly, and a longer one those
with large bodies that the journal does not have. A page is unpacked into the head when the head runs out. Under memory
pressure pages are stored from the newest backwards, so the oldest stay in RAM the longest; then a head that is long,
with large messages or with what came back, is packed into pages. What comes back later and belongs among those waits
in `stragglers` until its place is unpacked.

Invariants:
1. Sequences rise from head to tail (within one priority); stragglers are above the first page's first.
2. `count` is the number of ready messages; `message_bytes` the sum of their body sizes.
3. Entries in the head and stragglers are counted in `pager.used` by Message.size, pages and tail by their octets; an
   entry that was popped stays counted until its queue settles it.
4. A repacked page gives its messages a place on disk only when the journal names it; until then they rely on what they
   relied on before: the journal, or the one stored page that is its origin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Any

import cython

from queues.message import Entry, Message
from queues.page import Page, PageBuilder, first_record
from queues.pager import Pager

if not cython.compiled:
    from queues.message import make_entry


#: A head is long when it is above what it may hold by so many pages: one page unpacked does not make it so.
_LONG_HEAD_PAGES = 4
#: At most so many pages are unpacked to take in stragglers in one `relieve`.
_STRAGGLER_PAGES = 16

#: Entries that come back stand far apart when there are more than so many others for each between the first and the
#: last.
_FAR = 8


#: What the head and the stragglers are before they have held anything: a deque takes 760 octets, and most queues are
#: empty.
_NOTHING: Any = ()


def _first_of(page: Page) -> int:
    return page.first


def _sequence_of(entry: Entry) -> int:
    return entry.sequence


def _merged(there: deque[Entry], entries: list[Entry]) -> deque[Entry]:
    """Entries put among those that are there, in order of sequence."""
    if len(entries) == 1 and there is not _NOTHING:
        sequence = entries[0].sequence
        if not there or sequence < there[0].sequence:
            there.appendleft(entries[0])
        elif sequence > there[-1].sequence:
            there.append(entries[0])
        else:
            there.insert(bisect_right(there, sequence, key=_sequence_of), entries[0])
        return there
    if not entries:
        return there
    entries = sorted(entries, key=_sequence_of)
    if not there:
        return deque(entries)
    # A long run in front or behind, as a lease group that is released has, costs no more than itself.
    if entries[-1].sequence < there[0].sequence:
        there.extendleft(reversed(entries))
    elif entries[0].sequence > there[-1].sequence:
        there.extend(entries)
    else:
        begin = bisect_right(there, entries[0].sequence, key=_sequence_of)
        end = bisect_right(there, entries[-1].sequence, begin, key=_sequence_of)
        if end - begin > _FAR * len(entries):
            _insert_far_apart(there, entries)
            return there
        # Between others: only those are looked at that stand between the first and the last of them.
        there.rotate(-begin)
        entries += [there.popleft() for _ in range(end - begin)]
        there.extendleft(sorted(entries, key=_sequence_of, reverse=True))
        there.rotate(begin)
    return there


def _insert_far_apart(there: deque[Entry], entries: list[Entry]) -> None:
    """Entries, in order, between so many others that these are not to be looked at one by one: the deque is turned from
    each place to the next, the last first."""
    turned = 0
    for entry in reversed(entries):
        behind = _count_behind(there, len(there) - turned, entry.sequence)
        there.rotate(behind)
        there.appendleft(entry)
        turned += behind + 1
    there.rotate(-turned)


def _count_behind(there: deque[Entry], most: int, sequence: int) -> int:
    """How many of the last ones, of so many at most, are above a sequence. Looks near the end first."""
    low, step = 0, 1
    while low + step <= most and there[-low - step].sequence > sequence:
        low += step
        step *= 2
    high = min(low + step - 1, most)
    while low < high:
        middle = (low + high + 1) // 2
        if there[-middle].sequence > sequence:
            low = middle
        else:
            high = middle - 1
    return low


class Ready:
    """The ready messages of one queue, first in first out."""

    def __init__(self, pager: Pager, queue_id: int) -> None:
        self.pager = pager
        self.queue_id = queue_id
        self.head: deque[Entry] = _NOTHING
        self.head_size = 0
        self.stragglers: deque[Entry] = _NOTHING
        self.stragglers_size = 0
        self.pages: Any = None
        self.tail: Any = None
        self.count = 0
        self.message_bytes = 0

    def push(self, message: Message, sequence: int, expires_at: int, journal_segment: int) -> None:
        """A new message, behind all others."""
        pager = self.pager
        if (
            self.pages is None
            and pager.used < pager.tight_bytes
            and (
                (self.head_size < pager.head_bytes and self.count < pager.head_messages)
                # To pack a large body is to copy it. Of what the journal has the head has little: it is copied forward.
                or (message.body is not None and journal_segment == 0 and self.head_size < pager.large_head_bytes)
            )
        ):
            if self.head is _NOTHING:
                self.head = deque()
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

    def push_entry(self, entry: Entry) -> None:
        """The same for one that was elsewhere before: how often it came back stays known."""
        pager = self.pager
        if (
            self.pages is None
            and self.head_size < pager.head_bytes
            and self.count < pager.head_messages
            and pager.used < pager.tight_bytes
        ):
            if self.head is _NOTHING:
                self.head = deque()
            self.head.append(entry)
            self.head_size += entry.message.size
            self.count += 1
            self.message_bytes += entry.message.body_size
            pager.used += entry.message.size
        else:
            self._append_packed(entry)

    def place(self, entry: Entry) -> None:
        """One that was elsewhere before, at the place among the others that its sequence says."""
        if self.tail is not None and self.tail.count:
            self._seal()  # its messages may stand on both sides
        self.pager.used += entry.message.size
        self.put_back([entry])

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

    def first_expiry(self) -> int:
        """When the first message expires, milliseconds since the epoch, 0 for never; or before that, where it takes
        `pop` to know which one it is."""
        if not self.head and not self._refill():
            return 0
        entry = self.head[0]
        return entry.expires_at

    def has_next(self) -> bool:
        """Whether `pop` has something, or had to look at too much for now to know."""
        return self.count > 0

    def first(self) -> tuple[int, bytes] | None:
        """When the first message came, milliseconds since the epoch, and its property section. It stays where it is;
        None where there is none, or only the disk has it."""
        if self.head or not (self.pages or (self.tail is not None and self.tail.count)):
            entry = self.head[0] if self.head else self.stragglers[0] if self.stragglers else None
            return None if entry is None else (entry.message.timestamp, entry.message.properties())
        if not self.pages:
            with self.tail.buffer.view() as octets:
                return first_record(octets, 0)
        page = self.pages[0]
        return None if page.data is None else first_record(page.data, page.start)

    def _refill(self) -> bool:
        """Unpack the next page into the empty head. Returns whether there is a message."""
        pager = self.pager
        while self.pages is not None:
            if self.pages:
                page = self.pages.popleft()
                pager.load_to_unpack(self.queue_id, page)
                pager.read_ahead(self.queue_id, self.pages)
            elif self.tail.count:
                page = self.tail.seal()
            else:
                self.pages = None
                self.tail = None
                return False
            entries = self._unpack(page)
            if self.stragglers:
                entries = self._with_stragglers(entries)
            for entry in entries:
                self.head_size += entry.message.size
            if self.head is _NOTHING:
                self.head = deque()
            self.head.extend(entries)
            if entries:
                return True
        return False

    def first_page(self, most: int, max_bytes: int) -> Page | None:
        """The whole page that comes next, if one does, with at most so many messages and octets; the caller looks at
        its octets and takes it (`take_first_page`), or takes single messages."""
        if self.head or self.stragglers or not self.pages:
            return None
        page: Page = self.pages[0]
        size = page.size if page.data is not None else page.location.length
        if page.count > most or size > max_bytes or page.live != page.count or page.origin is not None:
            return None
        self.pager.load_to_unpack(self.queue_id, page)
        return page

    def take_first_page(self) -> Page:
        """What `first_page` has returned is the caller's; it stays counted in the budget."""
        page: Page = self.pages.popleft()
        self.pager.read_ahead(self.queue_id, self.pages)
        self.count -= page.count
        self.message_bytes -= page.message_bytes
        return page

    def _unpack(self, page: Page) -> list[Entry]:
        """The entries of a page whose octets are in RAM, counted instead of it."""
        pager = self.pager
        entries = page.entries(pager.addresses)
        pager.used -= page.size
        page.data = None
        for entry in entries:
            pager.used += entry.message.size
        if page.origin is not None:
            # Nothing relies on its own place, and the journal does not name it.
            pager.release(self.queue_id, page)
        return entries

    def _with_stragglers(self, entries: list[Entry]) -> list[Entry]:
        """Entries that were unpacked, and the stragglers before the next page, in order."""
        stragglers = self.stragglers
        while stragglers and (not self.pages or stragglers[0].sequence < self.pages[0].first):
            entry = stragglers.popleft()
            self.stragglers_size -= entry.message.size
            entries.append(entry)
        return sorted(entries, key=_sequence_of)

    def put_back(self, entries: list[Entry]) -> None:
        """Entries that were popped return to their original positions."""
        for entry in entries:
            entry.consumer = None
            self.count += 1
            self.message_bytes += entry.message.body_size
        if self.pages:
            first = self.pages[0].first
            late = [entry for entry in entries if entry.sequence > first]
            if late:
                self.stragglers_size += sum([entry.message.size for entry in late])
                self.stragglers = _merged(self.stragglers, late)
                entries = [entry for entry in entries if entry.sequence <= first]
        for entry in entries:
            self.head_size += entry.message.size
        self.head = _merged(self.head, entries)

    def adopt(self, items: Iterable[Entry | Page]) -> None:
        """At a restart: what was found on disk, in order of sequence; no entry relies on a stored page any more."""
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
            else:
                self.push_entry(item)

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

    def page_out(self, want_bytes: int, keeps_head: bool = True) -> int:
        """Store and drop pages, the newest first, until `want_bytes` are free, then pack what is too long of the head
        (all of it but one message unless `keeps_head`). Returns what was freed, octets."""
        pager = self.pager
        before = pager.used
        if self.pages is not None:
            if self.tail.count:
                self.pages.append(self.tail.seal())
            for page in reversed(self.pages):
                if before - pager.used >= want_bytes:
                    break
                if page.data is not None and not self._store(page):
                    break
        if pager.has_no_room:
            return before - pager.used
        if before - pager.used < want_bytes and self.stragglers_size > (pager.head_bytes if keeps_head else 0):
            self._pack_stragglers(max(want_bytes, pager.page_bytes))
        if before - pager.used < want_bytes and (not keeps_head or self._head_is_long()):
            self._pack_head(max(want_bytes, pager.page_bytes), pager.head_bytes if keeps_head else 0)
        return before - pager.used

    def _store(self, page: Page) -> bool:
        """Bring a page to disk and out of RAM. Returns whether that was possible."""
        self.pager.store(self.queue_id, page)
        self.pager.drop(page)
        return page.location is not None

    def _head_is_long(self) -> bool:
        return self.head_size > self.pager.head_bytes + _LONG_HEAD_PAGES * self.pager.page_bytes

    def shorten_head(self) -> None:
        """Pack the end of a head that is long, also where memory is not short: a small message that is unpacked takes
        more than it is counted for, the journal is not to copy a long head forward, and a head grows without end when
        much is put back."""
        if self._head_is_long() and not self.pager.has_no_room:
            self._shorten_head(self.head_size)

    def _shorten_head(self, most_bytes: int) -> bool:
        """The same, about so many octets of it. Returns whether there were any to pack."""
        pager = self.pager
        last = self.head[-1]
        is_large = last.message.body is not None and last.journal_segment == 0 and last.page is None
        keep_bytes = max(pager.head_bytes, pager.large_head_bytes) if is_large else pager.head_bytes
        return self._pack_head(most_bytes, keep_bytes)

    def _pack_head(self, want_bytes: int, keep_bytes: int) -> bool:
        """Pack the end of the head into pages in front of the others, until it is short enough or enough is free.
        Returns whether there was anything to pack."""
        entries = []
        head = self.head
        while len(head) > 1 and self.head_size > keep_bytes and want_bytes > 0:
            entry = head.pop()
            self.head_size -= entry.message.size
            want_bytes -= entry.message.size
            entries.append(entry)
        if not entries:
            return False
        if self.pages is None:
            self.pages = deque()
            self.tail = PageBuilder()
        entries.reverse()
        self.pages.extendleft(reversed(self._pack(entries)))
        return True

    def _pack_stragglers(self, want_bytes: int, most_pages: int = _STRAGGLER_PAGES) -> None:
        """Pack the last stragglers into the pages among which they belong, so many at most."""
        pages: list[Page] = list(self.pages)
        stragglers = self.stragglers
        for _ in range(most_pages):
            if not stragglers or want_bytes <= 0:
                break
            index = bisect_right(pages, stragglers[-1].sequence, key=_first_of) - 1
            page = pages[index]
            entries = []
            while stragglers and stragglers[-1].sequence > page.first and want_bytes > 0:
                entry = stragglers.pop()
                self.stragglers_size -= entry.message.size
                want_bytes -= entry.message.size
                entries.append(entry)
            entries.reverse()
            if entries[0].sequence > page.last:
                pages[index + 1 : index + 1] = self._pack(entries)
            else:
                self.pager.load(self.queue_id, page)
                entries += self._unpack(page)
                pages[index : index + 1] = self._pack(sorted(entries, key=_sequence_of))
        self.pages = deque(pages)

    def _pack(self, entries: list[Entry]) -> list[Page]:
        """Pack entries, in order, into pages, stored and dropped; what relies on different pages is kept apart."""
        pager = self.pager
        builder = PageBuilder()
        origin: Page | None = None
        pages: list[Page] = []
        for entry in entries:
            if builder.count and (entry.page is not origin or builder.buffer.length >= pager.page_bytes):
                pages.append(self._repacked(builder, origin))
            origin = entry.page
            builder.add(
                entry.message,
                entry.sequence,
                entry.expires_at,
                entry.journal_segment,
                entry.returns,
                entry.is_redelivered,
            )
            pager.used -= entry.message.size
        pages.append(self._repacked(builder, origin))
        return pages

    def _repacked(self, builder: PageBuilder, origin: Page | None) -> Page:
        page = builder.seal()
        page.is_repacked = True
        page.origin = origin
        self.pager.used += page.size
        self._store(page)
        return page

    def leave_origins(self) -> None:
        """The journal names every stored page: repacked ones rely on nothing else any more."""
        for page in self.stored_pages():
            if page.origin is not None:
                self.pager.settle(self.queue_id, page.origin, page.count)
                page.origin = None

    def ram_page_bytes(self) -> int:
        """Octets in RAM that `relieve` can do something about: of pages, the open one included, of a long head, and of
        many stragglers."""
        in_ram = 0
        if self._head_is_long():
            in_ram += self.head_size - self.pager.head_bytes
        if self.stragglers_size > self.pager.head_bytes:
            in_ram += self.stragglers_size
        if self.pages is not None:
            in_ram += sum(page.size for page in self.pages if page.data is not None)
            in_ram += self.tail.buffer.length
        return in_ram

    def ram_head_bytes(self) -> int:
        """Octets in RAM that `relieve` can page out without keeping the head: all but its first message."""
        first = self.head[0].message.size if self.head else 0
        return int(self.head_size - first + self.stragglers_size)

    def stored_pages(self) -> list[Page]:
        """The whole pages that have a place on disk, in order."""
        if self.pages is None:
            return []
        return [page for page in self.pages if page.location is not None]

    def leave_segment(self, segment: int, most_bytes: int) -> bool:
        """A slice of some so many octets: pack what is long, and store pages that rely on a journal segment up to
        `segment`, or on another page. Returns whether there is more; then what `relying` returns is little."""
        pager = self.pager
        if not pager.has_no_room:
            is_in_the_way = self.head_size > pager.head_bytes and (self._head_is_long() or self._head_relies(segment))
            if is_in_the_way and self._shorten_head(max(most_bytes, pager.page_bytes)):
                return True
            if self.stragglers_size > pager.head_bytes and self.pages:
                self._pack_stragglers(max(most_bytes, pager.page_bytes), 1)
                return True
        if self.pages is not None:
            if self.tail.count and 0 < self.tail.oldest_segment <= segment:
                page = self.tail.seal()
                self.pages.append(page)
            for page in self.pages:
                if page.location is None and (0 < page.oldest_segment <= segment or page.origin is not None):
                    if most_bytes <= 0:
                        return True
                    pager.store(self.queue_id, page)
                    if page.location is None:
                        return True
                    most_bytes -= page.size
        return False

    def _head_relies(self, segment: int) -> bool:
        """Whether something at the head relies on the segment itself. What came out of a stored page does not make that
        worth a page: the next one would be unpacked, too."""
        return any(0 < entry.journal_segment <= segment for entry in self.head)

    def relying(self, segment: int) -> list[Entry]:
        """The entries in RAM that rely on a journal segment up to `segment`, and those that came out of stored
        pages."""
        return [
            entry
            for entry in chain(self.head, self.stragglers)
            if entry.page is not None or 0 < entry.journal_segment <= segment
        ]

    def clear(self) -> tuple[list[Entry], list[Page]]:
        """Take all messages out: the head's entries (still counted) and the pages, to be released by the caller."""
        entries = [*self.head, *self.stragglers]
        pages: list[Page] = []
        if self.pages is not None:
            pages = list(self.pages)
            if self.tail.count:
                pages.append(self.tail.seal())
        self.head = _NOTHING
        self.head_size = 0
        self.stragglers = _NOTHING
        self.stragglers_size = 0
        self.pages = None
        self.tail = None
        self.count = 0
        self.message_bytes = 0
        return entries, pages
