"""Compaction: a pass over the pages of a stream on this member, which leaves of each key its newest record.

    the new part of the log -> the newest offset of each key -> all pages up to there, without what is superseded
    -> new files, synced -> the log's pages are these (StreamLog.succeed) -> a checkpoint names them -> the old ones go

It is done in slices on the loop; pages are read, written and synced in the background, where the disk has one.

Invariants:
1. A record goes only if one of the same key with a higher offset is in the log, or if it is a tombstone that may go.
   Offsets, octets and order of the others stay as they are.
2. Nothing is touched that is not on the disk, nor from `Rules.below` on, which may be within a page; and the last
   record before that stays, whatever it is, so that the log ends where it did.
3. New pages are on the disk before the log has them, and the old ones stay until a checkpoint without them is there: a
   crash at any time leaves the pages of the last checkpoint. What retention takes meanwhile is passed over.
4. In RAM are a page, a page that is being made, and the keys: at most `Rules.most_keys`, and those of one page more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from queues.page import Page
from queues.pager import Pager
from queues.stream.keys import find_key, is_empty
from queues.stream.log import StreamLog, split_page, stored_octets
from queues.stream.pages import Part
from queues.stream.successors import Successors
from queues.stream.tail import Stored
from storage.disk import Pending
from storage.errors import CorruptRecord

#: Records that are looked at in a slice: some 100 microseconds.
_SLICE = 32
#: Pages that are looked at in a slice of which nothing is read.
_PAGES = 256
#: Octets of a hash that stands for a key: two keys with the same are not to be met with.
_HASH_BYTES = 16
#: What a key takes in RAM at most, octets: its hash, an offset, and their place in a dictionary.
KEY_BYTES = 200

#: What is to be waited for, or None at the end of a slice.
Steps = Generator[Pending | None, None, Any]


class Rules(NamedTuple):
    """below: only what is before this offset. most_keys: kept in RAM. Tombstones go that are before the offset
    `gone_below` and came before `gone_before`, milliseconds since the epoch."""

    below: int
    most_keys: int
    gone_below: int
    gone_before: int


class Outcome(NamedTuple):
    """below: up to where the log is compacted now. records: how many are gone; octets: how many fewer it has."""

    below: int
    records: int
    octets: int


class Overtaken(Exception):
    """The log is another one by now, or is gone, or has lost what the pass was about."""


class Pass:
    """is_live: whether the log is still the one that counts."""

    def __init__(self, log: StreamLog, key: str, pager: Pager, rules: Rules, is_live: Callable[[], bool]) -> None:
        self._log = log
        self._key_of = find_key(key)
        self._store = pager.page_store
        self._page_bytes = pager.page_bytes
        self._rules = rules
        self._is_live = is_live
        self._newest: dict[bytes, int] = {}
        self._looked = 0
        # What is made.
        self._end = 0
        self._begin = 0
        self._pieces: list[bytes] = []
        self._size = self._time = self._next = 0
        self._new = Successors()
        self._files: list[int] = []
        # What is found.
        self._records = self._tombstones = self._first = self._first_time = 0

    def steps(self) -> Steps:
        """The whole of it. Returns an Outcome, or None where there was nothing to do. Raises Overtaken, CorruptRecord,
        OSError; the log is as it was then."""
        log = self._log
        try:
            parts = yield from self._stored_parts()
            if not parts or self._end_of(parts) < log.compacted.below:
                return None
            parts = parts[: (yield from self._gather(parts))]
            self._begin, self._end = parts[0].page.first, self._end_of(parts)
            for part in parts:
                yield from self._rewrite(part)
                yield from self._pause()
            yield from self._flush(parts[-1].page.last + 1)
            if self._new.written:
                yield from self._wait(self._store.sync_beside(log.queue_id, self._files))
            before = log.octets
            if self._new.written:
                yield from self._succeed(parts)
        except (Overtaken, CorruptRecord, OSError):
            yield from self._give_up()
            raise
        except BaseException:
            deque(self._give_up(), 0)
            raise
        compacted = log.compacted
        compacted.below = max(self._end, compacted.below)
        compacted.tombstones, compacted.first, compacted.time = self._tombstones, self._first, self._first_time
        return Outcome(compacted.below, self._records, before - log.octets)

    def _end_of(self, parts: list[Part]) -> int:
        return min(self._rules.below, parts[-1].page.last + 1)

    def _stored_parts(self) -> Generator[None, None, list[Part]]:
        """The oldest pages that lie on the disk."""
        log, below = self._log, self._rules.below
        parts = found = log.stored_parts(log.first, below, _PAGES)
        while len(found) == _PAGES:
            yield from self._slice()
            found = log.stored_parts(parts[-1].page.last + 1, below, _PAGES)
            if found and found[0].page.first != parts[-1].page.last + 1:  # there is no page with that offset
                break
            parts += found
        return parts

    def _succeed(self, parts: list[Part]) -> Steps:
        """The log's pages are the new ones, and those of which they are made go."""
        log, last = self._log, parts[-1]
        for _ in self._new.count_octets(log.octets_up_to(last)):
            yield from self._pause()
        while log.name_some(_PAGES, last.page.last + 1):
            yield from self._slice()
        log.succeed(last.page.last + 1, self._new)
        self._new = Successors()  # they are the log's, which is so whatever comes now
        while log.let_go(_SLICE):
            yield None
        while parts:  # to forget them takes time, too
            del parts[-_PAGES:]
            yield None

    def _give_up(self) -> Iterator[None]:
        for number, part in enumerate(self._new.written):
            location = part.page.location
            if self._store.has_segment(self._log.queue_id, location.segment):
                self._store.release(self._log.queue_id, location)
            if number % _SLICE == _SLICE - 1:
                yield None

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait(self, pending: Pending) -> Generator[Pending, None, bytes]:
        """Its result."""
        yield pending
        if not self._is_live():
            raise Overtaken
        return pending.result()

    def _pause(self) -> Iterator[None]:
        """The end of a slice, now and then."""
        self._looked += 1
        if self._looked % _SLICE == 0:
            yield from self._slice()

    def _slice(self) -> Iterator[None]:
        """The end of one."""
        yield None
        if not self._is_live():
            raise Overtaken

    def _octets_of(self, part: Part) -> Generator[Pending, None, bytes | None]:
        """None: retention has taken the page."""
        page = part.page
        if page.data is not None:
            return page.data
        location = page.location
        if location is not None:
            pending = self._store.begin_load(self._log.queue_id, location, part.taken)
            yield pending
            if not self._is_live():
                raise Overtaken
            if page.location is not None:
                try:
                    return pending.result()
                except CorruptRecord:
                    self._log.damaged = part
                    raise
        if page.last < self._log.first:
            return None
        raise Overtaken

    # -- what there is -------------------------------------------------------------------------------------------------

    def _gather(self, parts: list[Part]) -> Generator[Pending | None, None, int]:
        """The newest offset of each key in what is not compacted yet, as far as there is room. Returns how many pages
        that makes."""
        newest, key_of, compacted = self._newest, self._key_of, self._log.compacted
        begin = bisect_left(parts, compacted.below, key=lambda part: part.page.last)
        for number in range(begin, len(parts)):
            part = parts[number]
            page = part.page
            if number > begin and len(newest) >= self._rules.most_keys:
                return number
            yield from self._pause()
            octets = yield from self._octets_of(part)
            if octets is None:
                continue
            for stored in split_page(octets, page.first, part.time):
                for offset, at in stored.records():
                    key = key_of(stored.chunk.octets, at) if offset < self._rules.below else b""
                    if key:
                        newest[_hash_of(key)] = offset
                    yield from self._pause()
        return len(parts)

    # -- what is left --------------------------------------------------------------------------------------------------

    def _rewrite(self, part: Part) -> Steps:
        octets = yield from self._octets_of(part)
        page = part.page
        if octets is None:
            self._new.replace(part)
            if not self._pieces:
                self._begin = page.last + 1
            return
        pieces: list[tuple[Stored, bytes]] = []
        is_changed = False
        for stored in split_page(octets, page.first, part.time):
            left: list[int] = []
            count = 0
            for offset, at in stored.records():
                count += 1
                if self._stays(stored, offset, at):
                    left.append(at)
                yield from self._pause()
            self._records += count - len(left)
            if len(left) == count:
                pieces.append((stored, stored_octets(stored.apart())))
                continue
            is_changed = True
            if left:
                chunk = stored.chunk
                pieces.append((stored, stored_octets(stored, chunk.keeping(left, len(chunk.bloom)))))
        has_gap = not self._pieces and self._begin != page.first
        is_large = 2 * len(octets) >= self._page_bytes
        if is_large and not is_changed and not has_gap and not self._keeps_a_file(page):
            yield from self._flush(page.first)
            if page.location is None:  # retention has taken it meanwhile
                self._new.replace(part)
            else:
                self._new.keep(part)
            self._begin = page.last + 1
            return
        self._new.replace(part)
        for stored, piece in pieces:
            if self._size >= self._page_bytes:
                yield from self._flush(self._next)
            if not self._pieces:
                self._time = stored.time
            self._pieces.append(piece)
            self._size += len(piece)
            self._next = stored.next

    def _keeps_a_file(self, page: Page) -> bool:
        """Whether it lies in a file of which little is alive, and which can go when it is written anew."""
        location = page.location
        return location is not None and self._store.is_sparse(self._log.queue_id, location.segment)

    def _stays(self, stored: Stored, offset: int, at: int) -> bool:
        """Whether a record is needed; tombstones that are, are counted."""
        if offset >= self._end:
            return True
        octets = stored.chunk.octets
        key = self._key_of(octets, at)
        if not key:
            return True
        if self._newest.get(_hash_of(key), -1) > offset:
            return False
        if not is_empty(octets, at):
            return True
        rules = self._rules
        if offset < rules.gone_below and stored.time <= rules.gone_before and offset != self._end - 1:
            return False
        if not self._tombstones:
            self._first, self._first_time = offset, stored.time
        self._tombstones += 1
        return True

    def _flush(self, end: int) -> Steps:
        """What is made so far is a page, which goes up to this offset."""
        if not self._pieces:
            assert self._begin == end  # the last record before that stays
            return
        queue_id, store = self._log.queue_id, self._store
        data = b"".join(self._pieces)
        if not self._files or store.is_full(queue_id, self._files[-1]):
            self._files.append(store.begin_segment(queue_id))
        location, pending = store.write_beside(queue_id, self._files[-1], data)
        page = Page(None, end - self._begin, self._begin, end - 1, 0)
        page.location = location
        self._new.write(Part(self._time, page))
        self._begin, self._pieces, self._size = end, [], 0
        yield from self._wait(pending)


def _hash_of(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_BYTES).digest()
