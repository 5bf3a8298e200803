"""Queue pages: blobs that a queue has put on disk, each one a record, in segment files of the queue's own.

Files are queues/<queue_id>/<segment>.seg. It knows nothing of what a page holds, and keeps no index of pages:
the caller remembers each PageLocation and tells which ones are live. Nothing but a few integers is kept per
queue.

Invariants:
1. `append` reaches the page cache only, and `place` not even that; a page is durable once a PageSync that was taken
   later has run. What was given a place is in a file of its own kind, at an offset that nothing else gets, and is
   written by the next PageSync, whatever that is taken for.
2. A segment file is removed when no page in it is live any more and whatever says that they are dead is
   durable (`release` takes the journal position of that, `synced` says how far the journal is).
3. A packed page (packed_page.py) is unpacked where it is read, in the thread that reads it; whoever asks for a page
   with `read`, `begin_load` or `read_pages_ahead` does not see the difference, and says how many octets it has: a
   page of any other size is damaged, and no room is made for it. `take` and `begin_read` are for pages that are never
   packed.
4. Segment numbers of a queue are never used twice while a file, a live page or this object remembers them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from storage.aside import DAMAGED_FOLDER, Aside
from storage.checksums import first_wrong
from storage.disk import Disk, Octets, Pending
from storage.errors import CorruptRecord, SyncFailed
from storage.packed_page import pack, unpack
from storage.read_ahead import ReadAhead
from storage.records import (
    HEADER_BYTES,
    PAGE_KINDS,
    Fault,
    RecordKind,
    check_header,
    pack_header,
    payload_length,
)

PAGES_FOLDER = "queues"
SEGMENT_BYTES = 16 * 1024 * 1024
SUFFIX = ".seg"


class PageLocation(NamedTuple):
    """Where a page lies: segment number, offset of its record in that file, length of the page, in octets."""

    segment: int
    offset: int
    length: int

    @property
    def disk_bytes(self) -> int:
        """What it takes on disk."""
        return HEADER_BYTES + self.length


class _SegmentFile:
    """The counts of one segment file."""

    __slots__ = ("disk_bytes", "live_bytes", "live_pages")

    def __init__(self, disk_bytes: int) -> None:
        self.disk_bytes = disk_bytes
        self.live_bytes = 0
        self.live_pages = 0

    @property
    def is_sparse(self) -> bool:
        """Whether something of it is alive, and that is less than half."""
        return self.live_pages > 0 and 2 * self.live_bytes < self.disk_bytes


class _QueueFiles:
    """The segment files of one queue. `active` is the segment that is appended to, `placed` the one that has pages
    whose octets follow; 0 while there is none."""

    __slots__ = ("active", "dirty", "has_new_names", "has_old_folder", "last_segment", "placed", "segments")

    def __init__(self, last_segment: int) -> None:
        self.segments: dict[int, _SegmentFile] = {}
        self.active = 0
        self.placed = 0
        self.last_segment = last_segment
        self.dirty: list[int] = []
        self.has_new_names = False
        self.has_old_folder = False  # its name was synced since this object is there


class _Write(NamedTuple):
    """A page that has a place, and is not written yet."""

    queue_id: int
    location: PageLocation
    header: bytes
    page: Octets


class PageSync:
    """What to write and sync for some queues' pages. `run` does file work only; it may run in another thread. `finish`
    tells the store that it has run."""

    def __init__(self, store: PageStore, writes: list[_Write], files: list[str], folders: list[str]) -> None:
        self._store = store
        self._disk = store.disk
        self._writes = writes
        self._files = files
        self._folders = folders
        self._missing: list[tuple[int, PageLocation]] = []

    def run(self) -> None:
        """Make them durable. Raises OSError; the node must stop then, unless there was no space: then it may be called
        again, and writes everything again."""
        written = self._write()
        for path in self._files:
            if path not in written:
                with suppress(FileNotFoundError):  # its pages were released since: nothing is left to keep
                    self._disk.sync(path)
        for folder in self._folders:
            with suppress(FileNotFoundError):  # its queue was dropped since
                self._disk.sync_folder(folder)

    def finish(self) -> None:
        """It has run: what it has written can be read. Raises CorruptRecord for a file that is gone, though it is
        needed."""
        self._store.written(self._writes)
        for queue_id, location in self._missing:
            if self._store.has_segment(queue_id, location.segment):
                raise CorruptRecord(page_path(queue_id, location.segment), location.offset, "the file is missing")

    def _write(self) -> set[str]:
        """Those of a file, which follow each other there, at once, and the sync with them: after each call this thread
        waits for the interpreter. Returns the files that are synced."""
        written = set()
        files: dict[tuple[int, int], list[_Write]] = {}
        for write in self._writes:
            files.setdefault((write.queue_id, write.location.segment), []).append(write)
        for (queue_id, number), writes in files.items():
            buffers = [octets for write in writes for octets in (write.header, write.page)]
            location = writes[0].location
            path = page_path(queue_id, number)
            try:
                self._disk.write_and_sync(path, location.offset, buffers)
            except FileNotFoundError:  # its queue may have been dropped since
                self._missing.append((queue_id, location))
            written.add(path)
        return written


class _AtOnce:
    """A Pending of a disk that has no background: done when somebody asks for it."""

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        self._fetch = fetch

    def done(self) -> bool:
        """See Pending."""
        return True

    def result(self) -> bytes:
        """See Pending."""
        return self._fetch()


class PageStore:
    """All queues' pages. See the module's docstring."""

    def __init__(self, disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.disk = self._disk = disk
        #: Octets of pages that have a place and are not written.
        self.unwritten_bytes = 0
        #: Octets of all pages that are alive, of all queues.
        self.live_bytes = 0
        self._segment_bytes = segment_bytes
        self._queues: dict[int, _QueueFiles] = {}
        self._dirty_queues: dict[int, None] = {}
        self._writes: list[_Write] = []  # that no PageSync was taken for
        self._writes_of: dict[int, None] = {}  # the queues with such
        self._unwritten: dict[tuple[int, PageLocation], None] = {}
        self._dead: deque[tuple[int, int, int]] = deque()  # (journal position, queue id, segment)
        self._synced_position = 0
        self._orphans_are_gone = False
        self._ahead = ReadAhead(disk)

    # Pages

    def append(self, queue_id: int, page: Octets) -> PageLocation:
        """Put a page at the end of the queue's newest segment. Raises OSError; nothing has been appended
        then.
        """
        queue = self._queues.get(queue_id) or self._open_queue(queue_id)
        if not queue.active or queue.segments[queue.active].disk_bytes >= self._segment_bytes:
            queue.active = self._start_segment(queue_id, queue)
        number = queue.active
        segment = queue.segments[number]
        offset = segment.disk_bytes
        header = pack_header(RecordKind.PAGE, queue_id & 0xFFFFFFFF, page_position(number, offset), page)
        location = PageLocation(number, offset, len(page))
        try:
            self._disk.append(page_path(queue_id, number), [header, page])
        except OSError:
            # A part of the page may be there, so that the end of this file is not known any more.
            queue.active = 0
            if not segment.live_pages:
                self._bury(queue_id, number, 0)
            raise
        self._appended(queue_id, queue, location)
        return location

    def _appended(self, queue_id: int, queue: _QueueFiles, location: PageLocation) -> None:
        """There is a page more at the end of a segment."""
        segment = queue.segments[location.segment]
        segment.disk_bytes += location.disk_bytes
        segment.live_bytes += location.disk_bytes
        self.live_bytes += location.disk_bytes
        segment.live_pages += 1
        if location.segment not in queue.dirty:
            queue.dirty.append(location.segment)
        self._dirty_queues[queue_id] = None

    def place(self, queue_id: int, page: Octets) -> PageLocation:
        """Give a page a place. The next PageSync writes it: until then, `is_unwritten`, `page` is all there is of it,
        and nobody may read it here. Raises OSError; it has no place then.
        """
        queue = self._queues.get(queue_id) or self._open_queue(queue_id)
        if not queue.placed or queue.segments[queue.placed].disk_bytes >= self._segment_bytes:
            queue.placed = self.begin_segment(queue_id)
        location = PageLocation(queue.placed, queue.segments[queue.placed].disk_bytes, len(page))
        self._appended(queue_id, queue, location)
        position = page_position(location.segment, location.offset)
        header = pack_header(RecordKind.PAGE, queue_id & 0xFFFFFFFF, position, page)
        self._writes.append(_Write(queue_id, location, header, page))
        self._writes_of[queue_id] = None
        self._unwritten[queue_id, location] = None
        self.unwritten_bytes += len(page)
        return location

    def begin_segment(self, queue_id: int) -> int:
        """A file for pages that are written beside everything else. Raises OSError."""
        queue = self._queues.get(queue_id) or self._open_queue(queue_id)
        number = self._start_segment(queue_id, queue)
        try:
            self._disk.append(page_path(queue_id, number), [])
        except OSError:
            self._bury(queue_id, number, 0)
            raise
        return number

    def is_full(self, queue_id: int, number: int) -> bool:
        """Whether a file has as much as one should have."""
        return self._queues[queue_id].segments[number].disk_bytes >= self._segment_bytes

    def is_open(self, queue_id: int, number: int) -> bool:
        """Whether `append` or `place` may put more pages into a file."""
        queue = self._queues.get(queue_id)
        if queue is None or number not in queue.segments:
            return False
        return number in (queue.active, queue.placed) and not self.is_full(queue_id, number)

    def file_bytes(self, queue_id: int, number: int) -> int:
        """Octets of a file, what is dead there included."""
        return self._queues[queue_id].segments[number].disk_bytes

    def segment_count(self, queue_id: int) -> int:
        """How many files a queue has."""
        queue = self._queues.get(queue_id)
        return 0 if queue is None else len(queue.segments)

    def page_count(self, queue_id: int, number: int) -> int:
        """Pages of a file that are alive."""
        return self._queues[queue_id].segments[number].live_pages

    def write_beside(
        self, queue_id: int, number: int, page: Octets, is_packed: bool = False
    ) -> tuple[PageLocation, Pending]:
        """Write a page at the end of a file of `begin_segment`, where the disk rewrites files. Nobody may
        read it, and no checkpoint name it, before `sync_beside`. Its result may raise OSError: the page is to be
        released then, and the file has no more of them."""
        segment = self._queues[queue_id].segments[number]
        location = PageLocation(number, segment.disk_bytes, len(page))
        segment.disk_bytes += location.disk_bytes
        segment.live_bytes += location.disk_bytes
        self.live_bytes += location.disk_bytes
        segment.live_pages += 1
        kind = RecordKind.PACKED_PAGE if is_packed else RecordKind.PAGE
        work = partial(_write, self._disk, queue_id, location, kind, page)
        return location, self._disk.rewrite(work) or _AtOnce(work)

    def sync_beside(self, queue_id: int, numbers: Iterable[int]) -> Pending:
        """Make the pages durable that were written so to these files, in the same way."""
        work = partial(_sync, self._disk, [page_path(queue_id, number) for number in numbers], _folder(queue_id))
        return self._disk.rewrite(work) or _AtOnce(work)

    def has_segment(self, queue_id: int, number: int) -> bool:
        """Whether a segment of a queue is there, as far as is known."""
        queue = self._queues.get(queue_id)
        return queue is not None and number in queue.segments

    def is_unwritten(self, queue_id: int, location: PageLocation) -> bool:
        """Whether a page has a place and is not there yet."""
        return (queue_id, location) in self._unwritten

    @property
    def placing(self) -> dict[int, None]:
        """The queues with pages that the next PageSync will write."""
        return self._writes_of

    def written(self, writes: Iterable[_Write]) -> None:
        """For a PageSync: these pages are there."""
        for queue_id, location, _, page in writes:
            self._unwritten.pop((queue_id, location), None)
            self.unwritten_bytes -= len(page)

    def read(self, queue_id: int, location: PageLocation, size: int = 0) -> bytes:
        """The page. size: its octets, which are more than those of its place where it is packed; 0: it never is. Raises
        CorruptRecord when it is not the one that was appended there, OSError."""
        found = self._ahead.take(queue_id, location)
        if found is None:
            return fetch_page(self._disk, queue_id, location, size or location.length)
        data, start = found
        return data[start : start + location.length] if start else data  # it was fetched alone

    def take(self, queue_id: int, location: PageLocation) -> tuple[bytes, int]:
        """The page without a copy: octets, and where among them it begins. Others may lie around it. Raises as
        `read` does.
        """
        found = self._ahead.take(queue_id, location)
        return found or (read_stretch(self._disk, queue_id, [location]), HEADER_BYTES)

    def begin_read(self, queue_id: int, location: PageLocation) -> tuple[Pending, int]:
        """Read a page for who only looks, in the background where the disk has one; nothing that was fetched ahead is
        taken for it. Returns the octets to be, and where among them the page begins. The result raises as `read` does.
        """
        fetch = partial(read_stretch, self._disk, queue_id, [location])
        return self._disk.in_background(fetch) or _AtOnce(fetch), HEADER_BYTES

    def begin_load(self, queue_id: int, location: PageLocation, size: int) -> Pending:
        """As `begin_read`; the result is the page of so many octets and nothing else. What the disk cannot read is
        damage to it, as who asks can leave that page alone: it raises CorruptRecord, and SyncFailed."""
        fetch = partial(_fetch_or_damaged, self._disk, queue_id, location, size)
        return self._disk.in_background(fetch) or _AtOnce(fetch)

    def begin_packing(self, queue_id: int, location: PageLocation) -> Pending:
        """Read a page and pack it, where the disk rewrites files. The result is what `write_beside` takes as
        packed, b"" where it does not pay; it raises as that of `begin_load` does."""
        work = partial(_packed, self._disk, queue_id, location)
        return self._disk.rewrite(work) or _AtOnce(work)

    def verify(self, queue_id: int, location: PageLocation) -> None:
        """Read and check a page, and keep nothing of it: from any thread. Raises as `read` does."""
        read_stretch(self._disk, queue_id, [location])

    def set_aside(self, queue_id: int, location: PageLocation) -> str:
        """Copy the octets of a page that cannot be read to the folder damaged/. Returns the copy's path."""
        path = page_path(queue_id, location.segment)
        copy = f"{DAMAGED_FOLDER}/queue-{queue_id}-{location.segment:08d}-{location.offset}.page"
        try:
            data = self._disk.read(path, location.offset, location.disk_bytes)
        except FileNotFoundError:
            data = b""
        self._disk.make_folder(DAMAGED_FOLDER)
        self._disk.append(copy, [data])
        self._disk.sync(copy)
        self._disk.sync_folder(DAMAGED_FOLDER)
        return copy

    def is_coming(self, queue_id: int, location: PageLocation) -> bool:
        """Whether this page is being fetched ahead, or has been."""
        return self._ahead.has(queue_id, location)

    @property
    def is_ahead_scarce(self) -> bool:
        """Whether much of what may be fetched ahead is: others need the rest."""
        return self._ahead.is_half_full

    def coming(self, queue_id: int, location: PageLocation) -> Pending | None:
        """What fetches this page ahead; None: nothing does."""
        return self._ahead.pending(queue_id, location)

    def read_ahead(self, queue_id: int, locations: Iterable[PageLocation]) -> None:
        """Have pages fetched that are going to be read soon, those that are neighbours in a file together. What is
        wrong with one `read` says. Raises OSError.
        """
        wanted = [location for location in locations if not self._ahead.has(queue_id, location)]
        for stretch in stretches(wanted):
            begin = stretch[0].offset
            places = {location: location.offset - begin + HEADER_BYTES for location in stretch}
            length = stretch[-1].offset + stretch[-1].disk_bytes - begin
            if not self._ahead.start(queue_id, places, length, partial(read_stretch, self._disk, queue_id, stretch)):
                with suppress(FileNotFoundError):
                    self._disk.read_ahead(page_path(queue_id, stretch[0].segment), begin, length)

    def read_pages_ahead(self, queue_id: int, wanted: Iterable[tuple[PageLocation, int]]) -> None:
        """As `read_ahead`, of pages that may be packed: each alone, with the octets that it has in RAM."""
        for location, size in wanted:
            if not self._ahead.has(queue_id, location):
                work = partial(fetch_page, self._disk, queue_id, location, size)
                if not self._ahead.start(queue_id, {location: 0}, size, work):
                    with suppress(FileNotFoundError):
                        path = page_path(queue_id, location.segment)
                        self._disk.read_ahead(path, location.offset, location.disk_bytes)

    def drop_ahead(self, queue_id: int, location: PageLocation) -> None:
        """Nobody reads this page any more, though its place may be kept: forget what was fetched ahead of it."""
        self._ahead.drop(queue_id, location)

    def is_sparse(self, queue_id: int, number: int) -> bool:
        """As `sparse_segments`, of one."""
        queue = self._queues[queue_id]
        return number != queue.active and queue.segments[number].is_sparse

    def release(self, queue_id: int, location: PageLocation, position: int = 0) -> None:
        """The page is dead. `position`: how far the journal must be synced before that is durable (0: it is
        already). A queue that was dropped has taken its pages along.
        """
        self._ahead.drop(queue_id, location)
        queue = self._queues.get(queue_id)
        if queue is None:
            return
        segment = queue.segments[location.segment]
        if segment.live_pages == 0:
            raise ValueError(
                f"page {location} of queue {queue_id} cannot be released: no page of its segment is live"
            )
        segment.live_pages -= 1
        segment.live_bytes -= location.disk_bytes
        self.live_bytes -= location.disk_bytes
        if segment.live_pages:
            return
        if location.segment == queue.active:
            queue.active = 0
        if location.segment == queue.placed:
            queue.placed = 0
        self._bury(queue_id, location.segment, position)

    def synced(self, position: int) -> None:
        """The journal is durable so far: remove the segments that waited for it. Raises OSError."""
        self._synced_position = max(self._synced_position, position)
        while self._dead and self._dead[0][0] <= self._synced_position:
            _, queue_id, number = self._dead.popleft()
            self._remove_segment(queue_id, number)

    # Durability

    def take_writes(self) -> PageSync | None:
        """What to write and sync for pages that have a place only; None: nothing. The caller runs it or stops the
        node."""
        return self.take_sync(list(self._writes_of), only_placed=True) if self._writes else None

    def take_sync(self, queue_ids: Iterable[int] | None = None, only_placed: bool = False) -> PageSync | None:
        """What to sync for these queues (None: all), and what is not written of any; None: nothing. only_placed: of
        their files only those that have pages with a place. The caller runs it or stops the node."""
        files: list[str] = []
        folders: list[str] = []
        has_new_queue = False
        writes, self._writes, self._writes_of = self._writes, [], {}
        placed: dict[int, dict[int, None]] = {}
        for queue_id, location, *_ in writes:
            placed.setdefault(queue_id, {})[location.segment] = None
        for queue_id in list(self._dirty_queues) if queue_ids is None else dict.fromkeys([*queue_ids, *placed]):
            if queue_id not in self._dirty_queues:
                continue
            queue = self._queues[queue_id]
            numbers = list(placed.get(queue_id, ())) if only_placed else queue.dirty
            files += [page_path(queue_id, number) for number in numbers]
            queue.dirty = [number for number in queue.dirty if number not in numbers]
            if not queue.dirty:
                del self._dirty_queues[queue_id]
            if queue.has_new_names:
                folders.append(_folder(queue_id))
                has_new_queue = has_new_queue or not queue.has_old_folder
                queue.has_old_folder = True
                queue.has_new_names = False
        if has_new_queue:
            folders += [PAGES_FOLDER, ""]
        return PageSync(self, writes, files, folders) if files or folders else None

    # Recovery

    def adopt(self, queue_id: int, locations: Iterable[PageLocation]) -> None:
        """At recovery, before `drop_orphans`: these pages are live. May be called again for a queue."""
        taken: dict[int, tuple[int, int]] = {}
        for location in locations:
            pages, octets = taken.get(location.segment, (0, 0))
            taken[location.segment] = pages + 1, octets + location.length
        self.adopt_places(queue_id, taken)

    def adopt_places(self, queue_id: int, taken: Mapping[int, tuple[int, int]]) -> None:
        """As `adopt`, of very many pages. taken: by segment, how many of them, and their octets."""
        if self._orphans_are_gone:
            raise RuntimeError(
                "drop_orphans came first and removed what it did not know; adopt all pages first"
            )
        queue = self._queues.get(queue_id) or self._open_queue(queue_id)
        for number, (pages, octets) in taken.items():
            segment = queue.segments.get(number)
            if segment is None:
                path = page_path(queue_id, number)
                segment = _SegmentFile(self._disk.size(path) if self._disk.exists(path) else 0)
                queue.segments[number] = segment
                queue.last_segment = max(queue.last_segment, number)
            segment.live_pages += pages
            segment.live_bytes += pages * HEADER_BYTES + octets
            self.live_bytes += pages * HEADER_BYTES + octets

    def drop_orphans(self, known: Container[int], spared: Container[int] = ()) -> None:
        """At recovery, after every `adopt`: remove the segments without a live page and the folders of other
        queues, but for those that are spared: that they are gone may not be durable yet.

        Raises OSError.
        """
        self._orphans_are_gone = True
        for name in self._disk.list(PAGES_FOLDER):
            if not name.isdigit():
                continue
            queue_id = int(name)
            if queue_id in spared:
                continue
            if queue_id not in known:
                self.drop_queue(queue_id)
                continue
            queue = self._queues.get(queue_id)
            live = queue.segments if queue is not None else {}
            for number in page_segments(self._disk, queue_id):
                if number not in live:
                    self._disk.remove(page_path(queue_id, number))

    def stored_queues(self) -> list[int]:
        """The ids of all queues that have a folder."""
        return sorted(int(name) for name in self._disk.list(PAGES_FOLDER) if name.isdigit())

    def set_orphans_aside(self, known: Container[int], also: Iterable[int] = ()) -> list[str]:
        """As `drop_orphans`, where something was lost that may have known them: they are moved to the folder damaged/.
        Of the queues in `also`, which are known and go soon, everything is copied there. Returns the new paths."""
        self._orphans_are_gone = True
        aside = Aside(self._disk)
        for queue_id in also:
            for number in page_segments(self._disk, queue_id):
                aside.copy(page_path(queue_id, number), f"queue-{queue_id}-{number:08d}{SUFFIX}")
        for queue_id in self.stored_queues():
            queue = self._queues.get(queue_id)
            live = queue.segments if queue is not None and queue_id in known else {}
            for number in page_segments(self._disk, queue_id):
                if number not in live:
                    aside.move(page_path(queue_id, number), f"queue-{queue_id}-{number:08d}{SUFFIX}")
        copies = aside.finish()
        for queue_id in self.stored_queues():
            if queue_id not in known:
                self.drop_queue(queue_id)
        return copies

    def drop_queue(self, queue_id: int) -> None:
        """Remove all pages of a queue that is durably gone. Raises OSError."""
        self._ahead.drop_all(queue_id)
        if queue_id in self._writes_of:
            self.written([write for write in self._writes if write.queue_id == queue_id])
            self._writes = [write for write in self._writes if write.queue_id != queue_id]
            del self._writes_of[queue_id]
        dropped = self._queues.pop(queue_id, None)
        if dropped is not None:
            self.live_bytes -= sum(segment.live_bytes for segment in dropped.segments.values())
        self._dirty_queues.pop(queue_id, None)
        self._dead = deque(one for one in self._dead if one[1] != queue_id) if self._dead else self._dead
        folder = _folder(queue_id)
        if not self._disk.exists(folder):
            return
        for name in self._disk.list(folder):
            self._disk.remove(f"{folder}/{name}")
        self._disk.remove_folder(folder)

    # Figures

    def sparse_segments(self, queue_id: int) -> list[int]:
        """Segments that are no longer appended to and are less than half live: worth moving their pages.
        Ascending.
        """
        queue = self._queues.get(queue_id)
        if queue is None:
            return []
        return sorted(
            number
            for number, segment in queue.segments.items()
            if number != queue.active and segment.is_sparse
        )

    # Segments

    def _open_queue(self, queue_id: int) -> _QueueFiles:
        numbers = page_segments(self._disk, queue_id)
        queue = self._queues[queue_id] = _QueueFiles(numbers[-1] if numbers else 0)
        return queue

    def _start_segment(self, queue_id: int, queue: _QueueFiles) -> int:
        """The number of a new segment."""
        self._disk.make_folder(_folder(queue_id))
        queue.last_segment += 1
        queue.segments[queue.last_segment] = _SegmentFile(0)
        queue.has_new_names = True
        self._dirty_queues[queue_id] = None
        return queue.last_segment

    def _bury(self, queue_id: int, number: int, position: int) -> None:
        """Remove a dead segment, now or once the journal is synced up to `position`."""
        if position <= self._synced_position:
            self._remove_segment(queue_id, number)
        else:
            self._dead.append((position, queue_id, number))

    def _remove_segment(self, queue_id: int, number: int) -> None:
        queue = self._queues[queue_id]
        del queue.segments[number]
        if number in queue.dirty:
            queue.dirty.remove(number)
        path = page_path(queue_id, number)
        if self._disk.exists(path):
            self._disk.remove(path)


def stretches(locations: Iterable[PageLocation]) -> list[list[PageLocation]]:
    """Pages that lie in a file one behind the other, put together."""
    found: list[list[PageLocation]] = []
    for location in sorted(locations):
        last = found[-1][-1] if found else None
        if last is not None and location[:2] == (last.segment, last.offset + last.disk_bytes):
            found[-1].append(location)
        else:
            found.append([location])
    return found


def read_stretch(disk: Disk, queue_id: int, stretch: list[PageLocation]) -> bytes:
    """The records of pages that lie one behind the other, each of them checked. It only reads: it may run in any
    thread. Raises CorruptRecord, OSError.
    """
    first, last = stretch[0], stretch[-1]
    path = page_path(queue_id, first.segment)
    try:
        # In one piece: a thread that reads waits for the interpreter after each call.
        data = disk.read(path, first.offset, last.offset + last.disk_bytes - first.offset)
    except FileNotFoundError:
        raise CorruptRecord(path, first.offset, "the file is missing") from None
    for location in stretch:
        start = location.offset - first.offset
        if len(data) < start + location.disk_bytes:
            raise CorruptRecord(path, location.offset, Fault.SHORT_PAYLOAD.value)
        if payload_length(data, start) != location.length:
            raise CorruptRecord(path, location.offset, f"the page does not have the length {location.length}")
    wrong = first_wrong(data, len(stretch))
    if wrong >= 0:
        raise CorruptRecord(path, stretch[wrong].offset, Fault.CRC.value)
    for location in stretch:
        start = location.offset - first.offset
        found = check_header(data[start : start + HEADER_BYTES])
        if isinstance(found, Fault):
            raise CorruptRecord(path, location.offset, found.value)
        place = (queue_id & 0xFFFFFFFF, page_position(location.segment, location.offset))
        if found[0] not in PAGE_KINDS or found[1:] != place:
            raise CorruptRecord(path, location.offset, Fault.MISPLACED.value)
    return data


def fetch_page(disk: Disk, queue_id: int, location: PageLocation, size: int) -> bytes:
    """A page of so many octets, checked and unpacked. It only reads: it may run in any thread. Raises CorruptRecord,
    OSError."""
    data = read_stretch(disk, queue_id, [location])
    payload = data[HEADER_BYTES:]
    found = check_header(data[:HEADER_BYTES])
    try:
        if not isinstance(found, Fault) and found[0] == RecordKind.PACKED_PAGE:
            return unpack(payload, size)
        if len(payload) != size:
            raise ValueError(f"the page has {len(payload)} octets, and not {size}")
        return payload
    except ValueError as error:
        raise CorruptRecord(page_path(queue_id, location.segment), location.offset, str(error)) from None


def _fetch_or_damaged(disk: Disk, queue_id: int, location: PageLocation, size: int) -> bytes:
    """See `begin_load`."""
    try:
        return fetch_page(disk, queue_id, location, size)
    except SyncFailed:
        raise
    except OSError as error:
        raise CorruptRecord(page_path(queue_id, location.segment), location.offset, str(error)) from error


def _packed(disk: Disk, queue_id: int, location: PageLocation) -> bytes:
    return pack(_fetch_or_damaged(disk, queue_id, location, location.length))


def _write(disk: Disk, queue_id: int, location: PageLocation, kind: RecordKind, page: Octets) -> bytes:
    """From any thread."""
    position = page_position(location.segment, location.offset)
    header = pack_header(kind, queue_id & 0xFFFFFFFF, position, page)
    disk.write(page_path(queue_id, location.segment), location.offset, [header, page])
    return b""


def _sync(disk: Disk, paths: Iterable[str], folder: str) -> bytes:
    """From any thread."""
    for path in paths:
        disk.sync(path)
    disk.sync_folder(folder)
    return b""


def page_position(segment: int, offset: int) -> int:
    """The position of a page record: it names its place."""
    return (segment << 32) | offset


def _folder(queue_id: int) -> str:
    return f"{PAGES_FOLDER}/{queue_id}"


def page_path(queue_id: int, segment: int) -> str:
    return f"{PAGES_FOLDER}/{queue_id}/{segment:08d}{SUFFIX}"


def page_segments(disk: Disk, queue_id: int) -> list[int]:
    """The numbers of the queue's segment files, ascending."""
    names = (name.removesuffix(SUFFIX) for name in disk.list(_folder(queue_id)) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
