"""Pages: the pages of a stream's log, oldest first, and where readers find an offset, a time or a number of octets.

What checkpoints have of the oldest pages is encoded once, 44 octets for each (`names`). A page that comes from a
checkpoint is no more than that until somebody asks for it: so a start does next to nothing for each page of a long
stream, and most pages of one never cost more memory than their names.

Invariants:
1. `names` has an item for each of the oldest pages, in their order, without a gap: so many are `named`.
2. A page that somebody has been given is the same object as long as it is here.
3. `_befores` has a number for each page: the octets of all pages before it, from some beginning that is the same for
   all.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from queues.page import Page
from queues.wire.reader import Malformed
from storage.page_store import PageLocation

if TYPE_CHECKING:
    from queues.stream.tail import Stored

#: Of a page in a checkpoint: offsets, first offset, time; segment, offset and length of its place; its octets, which
#: are more than that where it is packed.
NAME = struct.Struct(">QQQLQLL")
_NAME_BYTES = NAME.size
#: Clients know of no higher offset, and a page can count no more of them.
_MOST_OFFSET = (1 << 63) - 1


class Part:
    """A page and what readers find it by. time: of its first chunk. chunks: of a warm page, once somebody has read
    it. is_placed: an entry of the log may name its place. taken: its own octets, however few its place has."""

    __slots__ = ("chunks", "is_placed", "page", "taken", "time")

    def __init__(self, time: int, page: Page, is_placed: bool = False) -> None:
        self.taken = size_of(page)
        self.time = time
        self.page = page
        self.is_placed = is_placed
        self.chunks: list[Stored] | None = None

    @property
    def is_packed(self) -> bool:
        """Whether its place has it compressed (packing.py)."""
        location = self.page.location
        return location is not None and location.length != self.taken

    def name(self) -> bytes:
        """What a checkpoint has of it, once it has a place."""
        page = self.page
        return NAME.pack(page.count, page.first, self.time, *page.location, self.taken)


class Named:
    """What a start learns from the names of a log's pages. first: the offset with which the oldest begins. next: the
    one behind the newest. octets: of their places. taken: by segment, how many pages lie in it, and their octets."""

    def __init__(self) -> None:
        self.first = self.next = -1
        self.octets = 0
        self.taken: dict[int, tuple[int, int]] = {}


class Pages:
    """See the module's docstring. Pages have places from 0, the oldest one's; -1 is the newest one."""

    def __init__(self) -> None:
        self.names = bytearray()
        self._parts: list[Part | None] = []  # None: its name is all that there is of it so far
        self._befores = array("q")
        self._near = 0  # whoever reads asks for many offsets of one page: it may be this one

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, place: int) -> Part:
        part = self._parts[place]
        if part is None:
            place %= len(self._parts)
            part = self._parts[place] = _part_named(self.names, place)
        return part

    @property
    def named(self) -> int:
        """How many of the oldest ones have names."""
        return len(self.names) // _NAME_BYTES

    @property
    def octets(self) -> int:
        """Of all pages, counted from the beginning from which `before` counts."""
        return self.before(-1) + self[-1].taken if self._parts else 0

    def part_of(self, begin: int, end: int | None = None) -> list[Part]:
        """The pages from one place on, up to another."""
        return [self[place] for place in range(*slice(begin, end).indices(len(self._parts)))]

    def noted(self) -> Iterator[Part]:
        """Those with names as of now, whatever becomes of them: each is made anew when it is asked for, and nothing is
        done for any of them before."""
        return _each([None] * self.named, bytes(self.names))

    # -- where something is --------------------------------------------------------------------------------------------

    def at(self, offset: int) -> int:
        """The place of the last page that begins at this offset or before it; -1 where none does."""
        last = len(self._parts) - 1
        if last < 0 or self._first(last) <= offset:
            return last
        near = self._near
        if near < last and self._first(near) <= offset < self._first(near + 1):
            return near
        place = bisect_right(range(last), offset, key=self._first) - 1
        self._near = max(place, 0)
        return place

    def below(self, offset: int) -> int:
        """How many pages end before this offset."""
        return bisect_left(range(len(self._parts)), offset, key=self._last)

    def of_time(self, time: int) -> int:
        """The place of the last page that began before this time; -1 where none did."""
        return bisect_left(range(len(self._parts)), time, key=self._time) - 1

    def of_octets(self, before: int) -> int:
        """The place of the last page that has no more than so many octets before it; -1 where none has."""
        return bisect_right(self._befores, before) - 1

    def before(self, place: int) -> int:
        """The octets of all pages before the one at a place, from some beginning that is the same for all."""
        return self._befores[place]

    def _first(self, place: int) -> int:
        part = self._parts[place]
        return self._number(place, 8) if part is None else part.page.first

    def _last(self, place: int) -> int:
        part = self._parts[place]
        return self._number(place, 8) + self._number(place, 0) - 1 if part is None else part.page.last

    def _time(self, place: int) -> int:
        part = self._parts[place]
        return self._number(place, 16) if part is None else part.time

    def _number(self, place: int, at: int) -> int:
        begin = place * _NAME_BYTES + at
        return int.from_bytes(self.names[begin : begin + 8], "big")

    # -- changes -------------------------------------------------------------------------------------------------------

    def add(self, part: Part) -> None:
        """There is one more, the newest."""
        self._befores.append(self.octets)
        self._parts.append(part)

    def name_next(self) -> Part:
        """The oldest one without a name gets one. It has a place."""
        part = self[self.named]
        part.page.be_named()
        self.names += part.name()
        return part

    def put(self, place: int, part: Part) -> bool:
        """One takes another's place, and ends where that ended. Returns whether checkpoints name it."""
        self._befores[place] += self[place].taken - part.taken
        self._parts[place] = part
        if place >= self.named:
            return False
        part.page.be_named()
        self.names[place * _NAME_BYTES : (place + 1) * _NAME_BYTES] = part.name()
        return True

    def take_off(self, count: int) -> Iterator[Part]:
        """So many of the oldest ones are not here any more. Returns them, each forgotten when the next one is asked
        for: to forget very many at once takes time, too."""
        parts, names = self._parts[:count], bytes(self.names[: count * _NAME_BYTES])
        del self._parts[:count], self._befores[:count], self.names[: count * _NAME_BYTES]
        return _each(parts, names)

    def succeed(self, count: int, parts: list[Part], names: bytearray, befores: array[int]) -> None:
        """So many of the oldest ones, which have names, are these from now on."""
        self._parts[:count] = parts
        self._befores[:count] = befores
        self.names[: count * _NAME_BYTES] = names

    def restore(self, names: bytes) -> Named:
        """The first pages that there are, as a checkpoint has them. Raises Malformed."""
        if len(names) % _NAME_BYTES or self._parts:
            raise Malformed(f"the pages of a stream in {len(names)} octets behind {len(self._parts)} pages")
        found = Named()
        befores, taken, behind, following, octets = self._befores, found.taken, 0, -1, 0
        for records, first, _, segment, _, length, size in NAME.iter_unpack(names):
            if not (records and length and size):
                raise Malformed(f"a page from offset {first} on of {records} offsets, in {length} octets for {size}")
            if first != following:
                if following >= 0:
                    raise Malformed(f"a page from offset {first} on behind one up to {following}")
                found.first = first
            following = first + records
            befores.append(behind)
            behind += size
            octets += length
            pages, before = taken.get(segment, (0, 0))
            taken[segment] = pages + 1, before + length
        if following > _MOST_OFFSET:
            raise Malformed(f"pages up to offset {following}, which is above {_MOST_OFFSET}")
        self.names += names
        self._parts = [None] * len(befores)
        found.next, found.octets = following, octets
        return found


def _part_named(names: bytearray | bytes, place: int) -> Part:
    records, first, time, segment, offset, length, taken = NAME.unpack_from(names, place * _NAME_BYTES)
    page = Page(None, records, first, first + records - 1, 0)
    page.location = PageLocation(segment, offset, length)
    page.be_named()
    part = Part(time, page)
    part.taken = taken
    return part


def _each(parts: list[Part | None], names: bytes) -> Iterator[Part]:
    for place, part in enumerate(parts):
        parts[place] = None
        yield _part_named(names, place) if part is None else part


def size_of(page: Page) -> int:
    """Octets of a page, or of its place."""
    return page.size if page.location is None else page.location.length
