"""Peeking: the messages of a queue for who only looks, in the order in which they came.

Nothing is taken, marked, moved or unpacked, and what is read from the disk goes nowhere but to who looks: consumers,
counts and expiries do not notice. It goes for a queue's Ready, so it serves every host of QueueRules.

    peek_ready -> Peeked, ...  one message, in order of position
               -> None         a slice is over
               -> Pending      a page is being read in the background: go on when it is there

A position is a queue's own number of a message, its sequence, which it keeps until it leaves. The steps keep a position
and nothing else that others could make wrong: after each message that they have given they look anew.

Invariant: what is ready from the first step to the last is given once, in order, whatever comes and goes between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from queues.message import Delivery, Message
from queues.packed_records import PackedRecords
from storage.disk import Pending
from storage.errors import StorageError

if TYPE_CHECKING:
    from queues.page import Page
    from queues.ready import Ready

#: Above every position.
LAST_POSITION = (1 << 63) - 1
#: So many messages of one run are found at once.
_RUN = 16


class PeekWish(NamedTuple):
    """start: the first position that is looked at. is_backwards: from there to the oldest. body_from, body_most: which
    octets of a body are wanted."""

    start: int
    is_backwards: bool
    body_from: int
    body_most: int


class Peeked(NamedTuple):
    """One message. raw: its address (queues/message.py). properties: the section as it was published. body: the octets
    that were asked for. arrived: when the broker took it, expires_at: when it goes, milliseconds since the epoch, 0 for
    never. returns: how often it came back."""

    position: int
    raw: bytes
    properties: bytes
    body_size: int
    body: bytes
    arrived: int
    expires_at: int
    is_redelivered: bool
    returns: int


#: See the module's docstring.
PeekSteps: TypeAlias = Generator[Peeked | Pending | None, None, None]


class Damaged(ValueError):
    """A page cannot be read. Who only looks is told so; whoever needs the messages finds out in its own way."""


class _Place(NamedTuple):
    """A message that was found: an Entry, or the place of a record."""

    position: int
    entry: Delivery | None
    records: PackedRecords | None
    place: int


def peek_ready(levels: Callable[[], list[Ready]], wish: PeekWish) -> PeekSteps:
    """See the module's docstring. levels: the runs of ready messages now. Raises Damaged."""
    look = _Look(levels, wish)
    return look.steps()


class _Look:
    """pages: of each level, the page that was looked at last, how many messages it had, and its octets."""

    def __init__(self, levels: Callable[[], list[Ready]], wish: PeekWish) -> None:
        self._levels = levels
        self._wish = wish
        self._backwards = wish.is_backwards
        self._pages: dict[int, tuple[object, int, PackedRecords]] = {}

    def steps(self) -> PeekSteps:
        at = self._wish.start
        while True:
            found: list[_Place] = []
            limits: list[int] = []
            for number, ready in enumerate(self._levels()):
                if not ready.count:
                    continue
                for entries in (ready.head, ready.stragglers):
                    run = _run_of(entries, at, self._backwards)
                    found += run
                    if len(run) == _RUN:
                        limits.append(run[-1].position)
                run, has_more = yield from self._packed(number, ready, at)
                found += run
                if run and has_more:
                    limits.append(run[-1].position)
                if number:
                    yield None
            found.sort(key=_position_of, reverse=self._backwards)
            limit = (max(limits) if self._backwards else min(limits)) if limits else None
            for each in found:
                if limit is not None and (each.position < limit if self._backwards else each.position > limit):
                    break
                yield _shown(each, self._wish)
                at = _behind(each.position, self._backwards)
            if limit is None:
                return
            yield None

    # -- pages and tail ------------------------------------------------------------------------------------------------

    def _packed(self, number: int, ready: Ready, at: int) -> Generator[Pending | None, None, tuple[list[_Place], bool]]:
        """Those of the first page that has one from `at` on, and whether there may be more behind them."""
        passed: dict[int, object] = {}
        while True:
            page = _page_from(ready, at, self._backwards, passed)
            if page is None:
                return [], False
            records = yield from self._records(number, ready, page)
            if records is None:
                continue  # it has just been unpacked, or dropped
            if run := _places_of(records, at, self._backwards):
                return run, True
            passed[id(page)] = page
            yield None

    def _records(self, number: int, ready: Ready, page: Any) -> Generator[Pending | None, None, PackedRecords | None]:
        """All places in a page, or in the open one; None where that is not there any more."""
        count = page.count
        known = self._pages.get(number)
        if known is not None and known[0] is page and known[1] == count:
            return known[2]
        try:
            records = yield from self._read(ready, page)
            while records is not None and records.find_some():
                yield None
        except (StorageError, OSError, ValueError) as error:
            raise Damaged(f"its pages are damaged: {error}") from error
        if records is not None:
            self._pages[number] = (page, count, records)
        return records

    @staticmethod
    def _read(ready: Ready, page: Any) -> Generator[Pending | None, None, PackedRecords | None]:
        if page is ready.tail:
            size = page.buffer.length
            return PackedRecords(page.buffer.get_bytes(0, size), 0, size, False)
        if page.data is not None:
            return PackedRecords(page.data, page.start, page.start + page.size, page.is_recovered)
        location, is_recovered = page.location, page.is_recovered
        pending, begin = ready.pager.page_store.begin_read(ready.queue_id, location)
        yield pending
        try:
            data = pending.result()
        except (StorageError, OSError):
            if page.location == location:
                raise
            return None
        return PackedRecords(data, begin, begin + location.length, is_recovered)


def _page_from(ready: Ready, at: int, is_backwards: bool, passed: dict[int, object]) -> Any:
    """The first page from `at` on, in the direction that is looked; the open one is a PageBuilder. None: there is
    none. passed: those that have none of theirs there."""
    pages = ready.pages
    if pages is None:
        return None
    tail = ready.tail if ready.tail.count else None
    if is_backwards:
        if tail is not None and tail.first <= at and id(tail) not in passed:
            return tail
        index = bisect_right(pages, at, key=_first_of) - 1
        while index >= 0 and id(pages[index]) in passed:
            index -= 1
        return pages[index] if index >= 0 else None
    index = bisect_left(pages, at, key=_last_of)
    while index < len(pages) and id(pages[index]) in passed:
        index += 1
    if index < len(pages):
        return pages[index]
    return tail if tail is not None and tail.last >= at and id(tail) not in passed else None


def _run_of(entries: Sequence[Delivery], at: int, is_backwards: bool) -> list[_Place]:
    if is_backwards:
        end = bisect_right(entries, at, key=_sequence_of)
        numbers = range(end - 1, max(-1, end - 1 - _RUN), -1)
    else:
        begin = bisect_left(entries, at, key=_sequence_of)
        numbers = range(begin, min(len(entries), begin + _RUN))
    found = [entries[number] for number in numbers]
    return [_Place(entry.sequence, entry, None, 0) for entry in found]


def _places_of(records: PackedRecords, at: int, is_backwards: bool) -> list[_Place]:
    places = records.places
    if is_backwards:
        end = bisect_right(places, at, key=_first_item)
        run = places[max(0, end - _RUN) : end][::-1]
    else:
        begin = bisect_left(places, at, key=_first_item)
        run = places[begin : begin + _RUN]
    return [_Place(position, None, records, place) for position, place in run]


def _behind(position: int, is_backwards: bool) -> int:
    return position - 1 if is_backwards else position + 1


def _shown(found: _Place, wish: PeekWish) -> Peeked:
    if found.entry is not None:
        return peeked(found.entry, wish)
    records: Any = found.records
    raw, properties, size, body, arrived = records.message_at(found.place, wish.body_from, wish.body_most)
    expires_at, returns, is_redelivered = records.entry_at(found.place)
    return Peeked(found.position, raw, properties, size, body, arrived, expires_at, is_redelivered, returns)


def peeked(entry: Delivery, wish: PeekWish) -> Peeked:
    """What is seen of a message that is in RAM."""
    message = entry.message
    return Peeked(
        entry.sequence, message.raw, message.properties(), message.body_size,
        part_of_body(message, wish.body_from, wish.body_most), message.timestamp, getattr(entry, "expires_at", 0),
        bool(entry.is_redelivered), entry.returns,
    )  # fmt: skip


def part_of_body(message: Message, body_from: int, body_most: int) -> bytes:
    """So many octets of a body, from there on; nothing else is copied."""
    if message.body is None:
        start = message.header_end + 7
        end = start + message.body_size
        return message.content[min(end, start + body_from) : min(end, start + body_from + body_most)]
    parts = []
    for chunk in message.body:
        if body_from < len(chunk):
            parts.append(chunk[body_from : body_from + body_most])
            body_most -= len(parts[-1])
            if body_most <= 0:
                break
        body_from = max(0, body_from - len(chunk))
    return b"".join(parts)


def _first_of(page: Page) -> int:
    return page.first


def _last_of(page: Page) -> int:
    return page.last


def _first_item(place: tuple[int, int]) -> int:
    return place[0]


def _position_of(found: _Place) -> int:
    return found.position


def _sequence_of(entry: Delivery) -> int:
    return entry.sequence
