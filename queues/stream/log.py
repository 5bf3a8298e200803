"""StreamLog: the chunks of one stream on one member, by offset: the newest in RAM, the others in pages of the node.

    append -> the open page -> (256 KiB) sealed -> the pager: on the disk when memory is tight, or for a checkpoint

A page is a run of stored chunks, each `u64 first offset, u64 time, u32 octets` and the chunk (chunk.py). Pages are those
of queues/page.py as far as the pager is concerned: it stores, loads, drops and releases them.

Invariants:
1. Offsets are dense over pages and the open one; `first` may lie within the oldest page: what is before it is not
   given to anybody.
2. Nothing in here is replicated: which pages there are, and where they begin, differs from member to member.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from queues.page import Page
from queues.pager import Pager
from queues.stream.chunk import Chunk

_HEAD = struct.Struct(">QQL")
HEAD_BYTES = _HEAD.size
#: The size at which a page is sealed, octets.
PAGE_BYTES = 256 * 1024
#: Pages that are fetched while one is read.
_AHEAD = 2


class Stored(NamedTuple):
    """A chunk in its place: its first offset, when it was applied (milliseconds since the epoch), and itself."""

    first: int
    time: int
    chunk: Chunk

    @property
    def next(self) -> int:
        """The offset behind its last record."""
        return self.first + self.chunk.records


class _Part:
    """A page and what readers find it by. time: of its first chunk."""

    __slots__ = ("first", "page", "time")

    def __init__(self, first: int, time: int, page: Page) -> None:
        self.first = first
        self.time = time
        self.page = page


class StreamLog:
    """queue_id: the stream's, under which its pages lie on the disk. octets: of all its pages, heads included."""

    def __init__(self, queue_id: int, pager: Pager, first: int = 0) -> None:
        self.queue_id = queue_id
        self.first = first
        self.next = first
        self.octets = 0
        self._pager = pager
        self._parts: list[_Part] = []
        self._open = bytearray()
        self._open_first = first
        self._open_time = 0

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, time: int, chunk: bytes, records: int) -> int:
        """A chunk that was applied at this time. Returns the offset of its first record."""
        if len(self._open) >= PAGE_BYTES:
            self.seal()
        if not self._open:
            self._open_first, self._open_time = self.next, time
        first = self.next
        before = len(self._open)
        self._open += _HEAD.pack(first, time, len(chunk))
        self._open += chunk
        self.next += records
        added = len(self._open) - before
        self._pager.add_used(added)
        self.octets += added
        return first

    def seal(self) -> None:
        """The open page is full, or is to be named by a checkpoint."""
        if not self._open:
            return
        page = Page(bytes(self._open), self.next - self._open_first, self._open_first, self.next - 1, 0)
        self._parts.append(_Part(self._open_first, self._open_time, page))
        self._open = bytearray()
        if self._pager.used > self._pager.tight_bytes:
            self._pager.store(self.queue_id, page)
            self._pager.drop(page)

    def trim(self, first: int) -> None:
        """The stream begins at this offset now; pages that are wholly before it go."""
        self.first = max(self.first, min(first, self.next))
        gone = 0
        while gone < len(self._parts) and self._parts[gone].page.last < self.first:
            self._release(self._parts[gone].page)
            gone += 1
        del self._parts[:gone]
        if self._open and self.first == self.next:
            self._pager.add_used(-len(self._open))
            self.octets -= len(self._open)
            self._open = bytearray()

    def discard(self) -> None:
        """The stream is gone: give everything back."""
        for part in self._parts:
            self._release(part.page)
        self._parts = []
        self._pager.add_used(-len(self._open))
        self._open = bytearray()
        self.octets = 0

    def _release(self, page: Page) -> None:
        self.octets -= page.size if page.location is None else page.location.length
        self._pager.release(self.queue_id, page)

    def page_out(self, want_bytes: int) -> int:
        """Memory is short: bring pages to the disk until so much is free. Returns what was freed, octets."""
        freed = 0
        for part in self._parts:
            page = part.page
            if freed >= want_bytes:
                break
            if page.data is not None:
                self._pager.store(self.queue_id, page)
                if page.location is not None:
                    freed += page.size
                    self._pager.drop(page)
        return freed

    # -- reading -------------------------------------------------------------------------------------------------------

    def chunks(self, offset: int) -> Iterator[Stored]:
        """The stored chunks from the one with this offset on, or from the first one. What is appended meanwhile comes as
        well; a page that is not in RAM is read, those behind it are fetched meanwhile. Raises CorruptRecord, OSError."""
        offset = max(offset, self.first)
        while offset < self.next:
            octets, start, end = self._octets_with(offset)
            while start < end:
                first, time, length = _HEAD.unpack_from(octets, start)
                body = start + HEAD_BYTES
                chunk = Chunk(octets, body)
                start = body + length
                if first + chunk.records > offset:
                    offset = first + chunk.records
                    yield Stored(first, time, chunk)
                    if offset <= self.first:
                        break  # what follows in this page was trimmed meanwhile
            offset = max(offset, self.first)

    def _octets_with(self, offset: int) -> tuple[bytes, int, int]:
        """The page that has this offset: octets, where in them it begins and ends."""
        if self._open and offset >= self._open_first:
            return bytes(self._open), 0, len(self._open)
        place = bisect_right(self._parts, offset, key=_first_of) - 1
        page = self._parts[place].page
        if page.data is not None:
            return page.data, page.start, page.start + page.size
        following = [each.page for each in islice(self._parts, place + 1, place + 1 + _AHEAD)]
        store = self._pager.page_store
        wanted = [each.location for each in following if each.data is None]
        store.read_ahead(self.queue_id, [each for each in wanted if not store.is_coming(self.queue_id, each)])
        octets, start = store.take(self.queue_id, page.location)
        self._pager.pages_loaded += 1
        return octets, start, start + page.location.length

    def offset_at(self, time: int) -> int:
        """The first offset of the chunk in which the first record of this time, or a later one, is; `next` if there is
        none yet."""
        found = self.first
        place = bisect_right(self._parts, time - 1, key=_time_of) - 1
        if place >= 0:
            found = max(found, self._parts[place].first)
        for stored in self.chunks(found):
            if stored.time >= time:
                return max(stored.first, self.first)
        return self.next

    def last_chunk(self) -> int:
        """The offset at which the last chunk begins; `next` in an empty stream."""
        start = self._parts[-1].first if self._parts and not self._open else self._open_first
        last = self.next
        for stored in self.chunks(max(start, self.first)):
            last = max(stored.first, self.first)
        return last

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def pages(self) -> list[tuple[int, Page]]:
        """Its sealed pages, each with the time of its first chunk."""
        return [(part.time, part.page) for part in self._parts]

    def tail(self) -> tuple[bytes, int]:
        """The octets of the open page, and how many records it has."""
        return bytes(self._open), self.next - self._open_first if self._open else 0

    def begin(self, first: int) -> None:
        """Of an image: the offset of what comes first, if nothing does the next one."""
        self.first = self.next = self._open_first = first

    def restore_page(self, time: int, page: Page) -> None:
        """The next sealed page of an image."""
        if not self._parts:
            self.first = page.first
        self._parts.append(_Part(page.first, time, page))
        self.octets += page.size if page.location is None else page.location.length
        self.next = page.last + 1

    def restore_tail(self, octets: bytes, records: int) -> None:
        """The open page of an image, so many records."""
        self._open = bytearray(octets)
        self._open_first, self._open_time, _ = _HEAD.unpack_from(octets, 0)
        if not self._parts:
            self.first = self._open_first
        self.next = self._open_first + records
        self.octets += len(octets)
        self._pager.add_used(len(octets))


def _first_of(part: _Part) -> int:
    return part.first


def _time_of(part: _Part) -> int:
    return part.time
