"""StreamLog: the chunks of one stream on one member, by offset: the newest in RAM, the others in pages of the node.

    append -> the tail -> (page_bytes) a page, on the disk at once -> warm: still in RAM -> cold: on the disk alone
                                                                     ^---- read ----------------+

A page is a run of stored chunks, each `u64 first offset, u64 time, u32 octets` and the chunk (chunk.py); or it is one
chunk, which was given its place before offset and time (placement.py): those are the page's. The first octet tells, as
no offset is so high. Pages are those of queues/page.py as far as the pager is concerned: it stores, loads, drops and
releases them.

Invariants:
1. Offsets are dense over pages and the tail; `first` may lie within the oldest page: what is before it is not given to
   anybody.
2. Nothing in here is replicated: which pages there are, and where they begin, differs from member to member.
3. At most WARM_PAGES pages are in RAM, but for those that have found no room on the disk, or whose place is not
   written; `_warm` has exactly those in RAM, who was used last at its end.
4. Of a stream that is compacted, records and whole chunks may be missing within pages (chunks with holes); a page has
   one chunk at least, and its first and last offset are those before and behind which its neighbours begin and end.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from queues.page import Page
from queues.pager import Pager
from queues.stream.chunk import VERSION, Chunk
from queues.stream.compacted import Compacted
from queues.stream.pages import Pages, Part, size_of
from queues.stream.place import Place
from queues.stream.tail import HEAD_BYTES, Stored, Tail, add_chunk, tail_octets
from queues.wire.reader import Malformed
from storage.disk import Pending
from storage.errors import CorruptRecord
from storage.page_store import PageLocation

if TYPE_CHECKING:
    from queues.stream.successors import Successors

_HEAD = struct.Struct(">QQL")
assert _HEAD.size == HEAD_BYTES
#: A tail of a smaller part of a page than this is none for a checkpoint, nor where memory is short.
_LEAST_PART = 16
#: So many pages of a stream stay in RAM.
WARM_PAGES = 16
#: So many pages are given back in a slice: of a log that is gone, and of those that retention takes.
DISCARDED = 128
#: Pages that are fetched while one is read, at least; so many where they are small; and octets of these.
_AHEAD = 2
_MOST_AHEAD = 16
_AHEAD_BYTES = 1024 * 1024


class StreamLog(Tail):
    """queue_id: the stream's, under which its pages lie on the disk. packed: every page before this offset is packed,
    or it does not pay. named_bytes: of the pages that checkpoints name. compacted: what compaction has done to them.
    damaged: the page that could not be read last."""

    def __init__(self, queue_id: int, pager: Pager) -> None:
        super().__init__(pager)
        self.queue_id = queue_id
        self.named_bytes = 0
        self.compacted = Compacted()
        self.packed = 0
        self.damaged: Part | None = None
        self._pages = Pages()
        self._leaving: deque[Iterator[Part]] = deque()  # of which `_pages` has none
        self._warm: dict[Part, None] = {}

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, time: int, chunk: Chunk) -> int:
        """See `add_chunk`."""
        return add_chunk(self, time, chunk)

    def append_placed(self, time: int, chunk: Chunk, place: Place) -> int:
        """As `append`, of a chunk that lies on the disk: its place is a page."""
        self.seal()
        first = self.next
        page = Page(chunk.octets, chunk.records, first, first + chunk.records - 1, 0)
        page.location = place.location
        place.is_taken = True
        self.next += chunk.records
        self.octets += page.location.length
        self._pager.add_used(page.size)
        part = Part(time, page, is_placed=True)
        part.chunks = [Stored(first, time, chunk)]
        self._add(part)
        return first

    def _add_to_tail(self, added: int) -> None:
        self.tail_bytes += added
        self._pager.add_used(added)
        self.octets += added

    def seal(self) -> None:
        """The tail becomes a page."""
        if self._tail:
            first, time = self._tail[0].first, self._tail[0].time
            page = Page(tail_octets(self._tail), self.next - first, first, self.next - 1, 0)
            self._tail = []
            self.tail_bytes = 0
            self._add(Part(time, page))

    def _add(self, part: Part) -> None:
        """There is one page more, in RAM or on the disk."""
        self._pages.add(part)
        if part.page.data is not None:
            self._pager.store(self.queue_id, part.page)
            self._warm_up(part)

    def _warm_up(self, part: Part) -> None:
        """A page was used, or is new."""
        warm = self._warm
        warm.pop(part, None)
        warm[part] = None
        while len(warm) > WARM_PAGES and self._cool(next(iter(warm))):
            pass

    def _cool(self, part: Part) -> int:
        """A page leaves RAM, if it is on the disk or there is room. Returns how many octets that gives."""
        page = part.page
        self._pager.store(self.queue_id, page)
        if page.location is None or self._pager.page_store.is_unwritten(self.queue_id, page.location):
            return 0
        del self._warm[part]
        part.chunks = None
        freed = page.size
        self._pager.drop(page)
        return freed

    def trim(self, first: int) -> None:
        """The stream begins at this offset now; pages that are wholly before it go. However many there are, it gives a
        slice of their places back: `letting_go` follows."""
        self.first = max(self.first, min(first, self.next))
        gone = self._pages.below(self.first)
        if gone:
            self._leaving.append(self._pages.take_off(gone))
            self.let_go(DISCARDED)
        if self.first == self.next:
            self._drop_tail()

    def discarding(self) -> Iterator[None]:
        """The stream is gone: give everything back, so many pages at each step. Nobody may use it from the first one
        on."""
        leaving, self._leaving = self._leaving, deque()
        leaving.append(self._pages.take_off(len(self._pages)))
        self._drop_tail()
        for number, part in enumerate(chain.from_iterable(leaving), 1):
            self._release(part)
            if number % DISCARDED == 0:
                yield

    def forget(self) -> int:
        """The stream is gone, and its files go as a whole: give RAM back. However many pages it has, those in RAM alone
        are looked at. Returns how many octets are in them all."""
        octets = self.octets
        for part in self._warm:
            page = part.page
            if page.data is not None:
                self._pager.add_used(-page.size)
                page.data = None
        self._warm = {}
        self._pages = Pages()
        self._leaving.clear()
        self._drop_tail()
        return octets

    def _drop_tail(self) -> None:
        self._add_to_tail(-self.tail_bytes)
        self._tail = []

    def _release(self, part: Part) -> None:
        page = part.page
        size = size_of(page)
        self.octets -= size
        if page.is_named:
            self.named_bytes -= size
        if part.is_placed:
            page.be_named()  # it goes as what a checkpoint names goes, when the entry is not needed either
        self._warm.pop(part, None)
        part.chunks = None
        if page.location is not None:  # a checkpoint gives it back: until then nobody wants what was fetched there
            self._pager.page_store.drop_ahead(self.queue_id, page.location)
        self._pager.release(self.queue_id, page)

    def page_out(self, want_bytes: int) -> int:
        """Memory is short: bring pages to the disk until so much is free. Returns what was freed, octets."""
        if self.is_tail_a_page:
            self.seal()
        freed = 0
        for part in list(self._warm):
            if freed >= want_bytes:
                break
            freed += self._cool(part)
        return freed

    # -- reading -------------------------------------------------------------------------------------------------------

    def chunk_at(self, offset: int, wait: Callable[[Pending], object] | None = None) -> Stored | None:
        """The chunk that has this offset, or `first` if that is above it; where compaction has taken that, the next one
        there is; None at the end. A page that is not in RAM is read, and those behind it are fetched meanwhile. wait:
        of who can wait, is called with what reads it in the background, and None returned. Raises CorruptRecord,
        OSError."""
        offset = max(offset, self.first)
        if offset >= self.next:
            return None
        chunks = self._tail
        if chunks and offset >= chunks[0].first:
            return chunks[bisect_right(chunks, offset, key=_offset_of) - 1]
        page = self._pages.at(offset)
        if wait is not None and self._pages[page].page.data is None:
            coming = self._coming(page)
            if coming is not None and not coming.done():
                wait(coming)
                return None
        chunks = self._read(page)
        place = bisect_right(chunks, offset, key=_offset_of) - 1
        if place < 0 or offset >= chunks[place].next:
            place += 1
            if place == len(chunks):
                return self.chunk_at(self._pages[page].page.last + 1, wait)
        return chunks[place]

    def is_in_ram(self, offset: int) -> bool:
        """Whether this offset can be had without reading."""
        place = self._pages.at(max(offset, self.first))
        return place < 0 or self._pages[place].page.last < offset or self._pages[place].page.data is not None

    def is_far(self, offset: int, octets: int) -> bool:
        """Whether more than so many octets follow this offset. At the end of the log there is nothing to look for."""
        pages = self._pages
        if len(pages) <= WARM_PAGES or offset >= pages[len(pages) - WARM_PAGES].page.first:
            return False
        return self.octets_from(offset) > octets

    def look_at(self, offset: int) -> int:
        """The page with this offset is read, if it is not in RAM. Returns the offset behind it, or `next`. Raises as
        `chunk_at` does."""
        offset = max(offset, self.first)
        place = self._pages.at(offset)
        if place < 0 or self._pages[place].page.last < offset:
            return self.next
        if self._pages[place].page.data is None:
            self._read(place)
        return self._pages[place].page.last + 1

    def chunks(self, offset: int) -> Iterator[Stored]:
        """The stored chunks from the one with this offset on, and what is appended meanwhile. Raises as `chunk_at`
        does."""
        while (stored := self.chunk_at(offset)) is not None:
            yield stored
            offset = stored.next

    def _read(self, place: int) -> list[Stored]:
        """The chunks of a page."""
        part = self._pages[place]
        page = part.page
        if part.chunks is None:
            if page.data is None:
                self._fetch_ahead(place + 1)
                try:
                    self._pager.load(self.queue_id, page, part.taken)
                except (CorruptRecord, OSError):
                    self.damaged = part
                    raise
            assert page.data is not None
            part.chunks = list(split_page(page.data, page.first, part.time))
        chunks = part.chunks
        self._warm_up(part)
        return chunks

    def _fetch_ahead(self, place: int) -> None:
        """The pages from this one on are wanted soon. Small ones are fetched many at a time, not before half of what
        was fetched last is used: each time takes a thread, and turns in which it has the interpreter."""
        store = self._pager.page_store
        following = self._pages.part_of(place, place + (_AHEAD if store.is_ahead_scarce else _MOST_AHEAD))
        octets = coming = 0
        wanted: list[Part] = []
        for number, part in enumerate(following):
            if number >= _AHEAD and octets >= _AHEAD_BYTES:
                break
            octets += part.taken
            if part.page.data is not None or store.is_coming(self.queue_id, part.page.location):
                coming += part.taken
            else:
                wanted.append(part)
        if following and wanted and wanted[0] is not following[0] and 2 * coming > min(octets, _AHEAD_BYTES):
            return
        store.read_ahead(self.queue_id, [part.page.location for part in wanted if not part.is_packed])
        packed = [(part.page.location, part.taken) for part in wanted if part.is_packed]
        if packed:
            store.read_pages_ahead(self.queue_id, packed)

    def coming(self, offset: int) -> Pending | None:
        """Before `chunk_at`, for who can wait: the page with this offset is read in the background. None where it is in
        RAM, or nothing reads in the background."""
        offset = max(offset, self.first)
        place = self._pages.at(offset)
        if place < 0 or self._pages[place].page.last < offset or self._pages[place].page.data is not None:
            return None
        return self._coming(place)

    def _coming(self, place: int) -> Pending | None:
        """What reads a page that is not in RAM."""
        self._fetch_ahead(place)
        return self._pager.page_store.coming(self.queue_id, self._pages[place].page.location)

    def page_ends(self, offset: int) -> Iterator[tuple[int, int]]:
        """Of the pages from the one with this offset on, and of the tail: the offset behind it, and its octets."""
        place = max(self._pages.at(offset), 0)
        while place < len(self._pages):
            page = self._pages[place].page
            if page.last >= offset:
                yield page.last + 1, self._pages[place].taken
            place += 1
        if self._tail and self.next > offset:
            yield self.next, self.tail_bytes

    def page_of_time(self, time: int) -> int:
        """Where the page begins from which `offset_at` looks on."""
        place = self._pages.of_time(time)
        return max(self.first, self._pages[place].page.first) if place >= 0 else self.first

    def offset_at(self, time: int) -> int:
        """The first offset of the chunk in which the first record of this time, or a later one, is; `next` if there is
        none yet."""
        place = self._pages.of_time(time)
        for stored in self._read(place) if place >= 0 else ():
            if stored.time >= time and stored.next > self.first:
                return max(stored.first, self.first)
        if place + 1 < len(self._pages):  # it begins at that time, or later: there is no need to read it
            return max(self._pages[place + 1].page.first, self.first)
        return next((max(stored.first, self.first) for stored in self._tail if stored.time >= time), self.next)

    # -- where it may begin --------------------------------------------------------------------------------------------

    def page_around(self, time: int, span: int) -> tuple[int, bool]:
        """Where the page begins in which what is before this time ends, and whether that is near enough: all of the
        page came within so much time; or there is nothing to be read to know it exactly."""
        place = self._pages.of_time(time)
        if place < 0:
            return self.offset_at(time), True
        if place == len(self._pages) - 1 and self._tail and self._tail[0].time < time:
            return next((stored.first for stored in self._tail if stored.time >= time), self.next), True
        part, following = self._pages[place], self._time_from(place + 1)
        return max(part.page.first, self.first), following is not None and following - part.time <= span

    def _time_from(self, place: int) -> int | None:
        """When the first chunk of this page came, or of the tail behind the last one; None where there is none."""
        if place < len(self._pages):
            return self._pages[place].time
        return self._tail[0].time if self._tail else None

    def page_before(self, octets: int, span: int) -> tuple[int, int, bool]:
        """The newest page from which on there are so many octets at least: where it begins, how many there are, and
        whether that is near enough: the page has no more than `span`, or there are not so many in all."""
        pages, tail = self._pages, self.tail_bytes
        if tail >= octets:
            return self.tail_begin, tail, False
        end = pages.octets + tail
        place = pages.of_octets(end - octets)
        if place < 0:
            return self.first, 0, True
        part = pages[place]
        return max(part.page.first, self.first), end - pages.before(place), part.taken <= span

    def chunks_of_page(self, offset: int) -> list[Stored]:
        """The chunks of the page with this offset, or of the tail. Raises as `chunk_at` does."""
        if offset >= self.tail_begin:
            return self._tail
        place = self._pages.at(offset)
        return self._read(place) if place >= 0 else []  # it has been trimmed

    # -- looking -------------------------------------------------------------------------------------------------------

    def last_chunk(self) -> int:
        """The offset at which the last chunk begins; `next` in an empty stream."""
        stored = self.chunk_at(max(self.next - 1, self.first))
        return self.next if stored is None else max(stored.first, self.first)

    def segment_count(self) -> int:
        """How many files its pages lie in."""
        return int(self._pager.page_store.segment_count(self.queue_id))

    def is_open(self, file: int) -> bool:
        """Whether more pages may come to this file."""
        return bool(self._pager.page_store.is_open(self.queue_id, file))

    # -- compaction ----------------------------------------------------------------------------------------------------

    def stored_parts(self, offset: int, below: int, most: int) -> list[Part]:
        """The pages from the one with this offset on, so many at most, up to one that does not lie on the disk, or
        begins at `below` or behind it."""
        place = max(self._pages.at(offset), 0)
        found: list[Part] = []
        for part in self._pages.part_of(place, place + most):
            if part.page.first >= below or not self._is_stored(part):
                break
            found.append(part)
        return found

    def _is_stored(self, part: Part) -> bool:
        location = part.page.location
        return location is not None and not self._pager.page_store.is_unwritten(self.queue_id, location)

    def is_on_disk(self, offset: int) -> bool:
        """Whether the page with this offset, or `first` if that is above it, is there and lies on the disk."""
        place = self._pages.at(max(offset, self.first))
        return place >= 0 and self._pages[place].page.last >= offset and self._is_stored(self._pages[place])

    def parts_from(self, offset: int, most: int) -> list[Part]:
        """The pages from the one with this offset on, so many at most."""
        place = max(self._pages.at(offset), 0)
        if place < len(self._pages) and self._pages[place].page.last < offset:
            place += 1
        return self._pages.part_of(place, place + most)

    def octets_from(self, offset: int) -> int:
        """Of the pages from the one with this offset on, and of the tail. It looks at two pages only."""
        if offset >= self.next:
            return 0
        place = max(self._pages.at(offset), 0)
        if place < len(self._pages) and self._pages[place].page.last < offset:
            place += 1
        if place == len(self._pages):
            return self.tail_bytes
        return self._pages.octets - self._pages.before(place) + self.tail_bytes

    def octets_up_to(self, part: Part) -> int:
        """Of all pages up to this one, from the beginning from which pages are counted; 0 where retention has taken it,
        and so all before it."""
        place = self._pages.at(part.page.first)
        return self._pages.before(place) + part.taken if place >= 0 else 0

    @property
    def unpacked_octets(self) -> int:
        """Of all its pages, were none of them packed."""
        return self.octets_from(self.first)

    @property
    def tail_begin(self) -> int:
        """The first offset that is in no page yet."""
        return self._tail[0].first if self._tail else self.next

    @property
    def tail_time(self) -> int:
        """When the first chunk came that is in no page yet, milliseconds since the epoch; 0 where there is none."""
        return self._tail[0].time if self._tail else 0

    def name_some(self, most: int, below: int) -> bool:
        """Name the places of the next pages that begin before this offset, so many at most: they lie on the disk.
        Returns whether there are more."""
        pages = self._pages
        for _ in range(min(most, len(pages) - pages.named)):
            if pages[pages.named].page.first >= below:
                return False
            self._name_next()
        return pages.named < len(pages)

    def succeed(self, end: int, new: Successors) -> None:
        """The oldest pages, up to this offset, are these from now on; they have names. What retention has taken
        meanwhile goes of both. However many there are, nothing is done for each of them: `let_go` follows."""
        pages = self._pages
        count = pages.at(end - 1) + 1
        first = self.first if count else end
        stay = bisect_right(new.parts, first - 1, key=_last_of)
        unwanted = bisect_right(new.written, first - 1, key=_last_of)
        if count:
            replaced = bisect_right(new.replaced, pages[0].page.first - 1, key=_first_of)
            self._leaving.append(islice(new.replaced, replaced, None))
        self._leaving.append(islice(new.written, unwanted))
        if unwanted < len(new.written):
            self.packed = min(self.packed, new.written[unwanted].page.first)
        self.octets += new.octets
        self.named_bytes += new.octets
        pages.succeed(count, *new.from_place(stay))
        self._warm = dict.fromkeys([self._as_it_is(part) for part in self._warm])

    def _as_it_is(self, part: Part) -> Part:
        """A page that is in RAM, as the log has it now."""
        place = self._pages.at(part.page.first)
        if place < 0 or self._pages[place].page is not part.page:
            return part
        self._pages[place].chunks = part.chunks
        return self._pages[place]

    def let_go(self, most: int) -> bool:
        """Give the places of pages back that the log has no more, so many at most. Returns whether there may be
        more."""
        leaving = self._leaving
        while leaving:
            for part in islice(leaving[0], most):
                self._release(part)
                most -= 1
            if not most:
                return True
            leaving.popleft()
        return False

    @property
    def is_letting_go(self) -> bool:
        """Whether there may be pages to let go."""
        return bool(self._leaving)

    def letting_go(self) -> Iterator[None]:
        """Let all go, a slice at each step."""
        while self.let_go(DISCARDED):
            yield

    # -- packing -------------------------------------------------------------------------------------------------------

    def cold_parts(self, most: int) -> list[Part]:
        """Pages from `packed` on, so many at most, that lie on the disk, up to one of the newest that is in RAM. An
        older one is there because somebody has read it, and is cold none the less: whoever keeps looking holds up
        nothing."""
        place = max(self._pages.at(self.packed), 0)
        newest = len(self._pages) - WARM_PAGES
        found: list[Part] = []
        for at, part in enumerate(self._pages.part_of(place, place + most + 1), place):
            if part.page.last < self.packed:
                continue
            if len(found) == most or not self._is_stored(part) or (at >= newest and part.page.data is not None):
                break
            found.append(part)
        return found

    def parts_around(self, offset: int, most: int) -> list[Part]:
        """The page with this offset, so many before it, and as many behind it."""
        place = max(self._pages.at(offset), 0)
        return self._pages.part_of(max(place - most, 0), place + 1 + most)

    def put(self, part: Part, location: PageLocation, first: int = -1, time: int = 0, taken: int = 0) -> bool:
        """A page has this place from now on, where it lies on the disk, packed or as it is. With an offset, a time and
        a number of octets the oldest page begins there, with so many: what is before that is gone. False: the page is
        not there any more."""
        place = self._pages.at(part.page.first)
        if place < 0 or self._pages[place] is not part:
            return False
        if first <= part.page.first:
            first, time, taken = part.page.first, part.time, part.taken
        elif place or first > self.first:
            return False
        page = Page(None, part.page.last + 1 - first, first, part.page.last, 0)
        page.location = location
        new = Part(time, page)
        new.taken = taken
        if self._pages.put(place, new):
            self.named_bytes += location.length
        self.octets += location.length
        self._release(part)
        return True

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    @property
    def is_tail_a_page(self) -> bool:
        """Whether the tail is long enough for a page, if it has to be one."""
        return self.tail_bytes >= self._pager.page_bytes // _LEAST_PART

    def name_pages(self) -> None:
        """A checkpoint that is captured right after this names the place of every page that has found room."""
        for part in self.unnamed():
            self._pager.store(self.queue_id, part.page)
            if part.page.location is None:
                break
            self._name_next()

    def name_next(self) -> None:
        """Name the next page, if it lies on the disk: of a log that is being taken over, so that the checkpoint after
        that has little left to name."""
        pages = self._pages
        if pages.named < len(pages) and pages[pages.named].page.location is not None:
            self._name_next()

    def _name_next(self) -> None:
        self.named_bytes += self._pages.name_next().page.location.length

    @property
    def names(self) -> bytearray:
        """What a checkpoint has of its pages (pages.py)."""
        return self._pages.names

    def parts(self) -> list[Part]:
        """Its pages as of now."""
        return self._pages.part_of(0)

    def noted(self) -> Iterator[Part]:
        """Those of them that checkpoints name, as of now (Pages.noted)."""
        return self._pages.noted()

    def octets_in_ram(self) -> dict[PageLocation, bytes]:
        """Of its pages that are in RAM and have a place."""
        pages = [part.page for part in self._warm]
        return {page.location: page.data for page in pages if page.location is not None and page.data is not None}

    def unreadable(self, noted: Part) -> None:
        """A page that was noted cannot be read: it is the one that is there now, if that lies where it lay."""
        place = self._pages.at(noted.page.first)
        part = self._pages[place] if place >= 0 else noted
        self.damaged = part if part.page.location == noted.page.location else noted

    def unnamed(self) -> list[Part]:
        """Those of them that no checkpoint names."""
        return self._pages.part_of(self._pages.named)

    def tail(self) -> list[Stored]:
        """What is behind them."""
        return list(self._tail)

    def restore_names(self, names: bytes) -> None:
        """Pages of a checkpoint. Raises Malformed."""
        found = self._pages.restore(names)
        if names:
            self.first, self.next = found.first, found.next
        self.octets += found.octets
        self.named_bytes += found.octets
        self._pager.page_store.adopt_places(self.queue_id, found.taken)

    def restore_page(self, time: int, page: Page, taken: int = 0) -> Part:
        """The next page of an image. taken: its octets, where it is on the disk. Raises Malformed."""
        if not self._pages:
            self.first = page.first
        elif page.first != self.next:
            raise Malformed(f"a page from offset {page.first} on behind one up to {self.next}")
        self.next = page.last + 1
        self.octets += size_of(page)
        part = Part(time, page)
        part.taken = taken or part.taken
        self._add(part)
        return part

    def restore_tail(self, octets: bytes) -> None:
        """The tail of an image. Raises Malformed."""
        for stored in split_page(octets, 0, 0, is_sound=False):
            if not self._pages and not self._tail:
                self.first = stored.first
            elif stored.first != self.next:
                raise Malformed(f"a chunk from offset {stored.first} on behind one up to {self.next}")
            chunk = stored.chunk.apart()
            self._tail.append(Stored(stored.first, stored.time, chunk))
            self.next = stored.next
            self._add_to_tail(HEAD_BYTES + len(chunk.octets))


def stored_octets(stored: Stored, octets: bytes | None = None) -> bytes:
    """A chunk with octets of its own, or these in their place, as a page has it."""
    octets = stored.chunk.octets if octets is None else octets
    return _HEAD.pack(stored.first, stored.time, len(octets)) + octets


def split_page(octets: bytes, first: int, time: int, is_sound: bool = True) -> Iterator[Stored]:
    """The chunks of a page that begins with this offset and time. Raises Malformed, unless they are known to be
    sound."""
    if octets[0] == VERSION:
        yield Stored(first, time, Chunk(octets, 0, is_sound))
        return
    start = 0
    while start < len(octets):
        if start + HEAD_BYTES > len(octets):
            raise Malformed("the head of a stored chunk is cut")
        first, time, length = _HEAD.unpack_from(octets, start)
        start += HEAD_BYTES
        chunk = Chunk(octets, start, is_sound)
        start += length
        if chunk.end != start:
            raise Malformed(f"a stored chunk of {length} octets ends at {chunk.end} and not at {start}")
        yield Stored(first, time, chunk)


def _first_of(part: Part) -> int:
    return part.page.first


def _offset_of(stored: Stored) -> int:
    return stored.first


def _last_of(part: Part) -> int:
    return part.page.last
