"""Pages of a log against a plain list of them, whatever comes from a checkpoint and has not been asked for yet."""

from __future__ import annotations

import random
from array import array

import pytest

from queues.page import Page
from queues.stream.pages import NAME, Pages, Part
from queues.wire.reader import Malformed
from storage.page_store import PageLocation
from tests.example_counts import seeds


def part_of(chance: random.Random, first: int, time: int) -> Part:
    records = chance.randrange(1, 9)
    page = Page(None, records, first, first + records - 1, 0)
    taken = chance.randrange(1, 500)
    page.location = PageLocation(chance.randrange(1, 5), chance.randrange(10_000), chance.randrange(1, taken + 1))
    part = Part(time, page)
    part.taken = taken
    return part


def facts(part: Part) -> tuple[object, ...]:
    page = part.page
    return page.first, page.last, page.count, part.time, part.taken, page.location, page.is_named


class Model:
    """The same as a list, and how many of it have names."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.named = 0

    def next(self) -> tuple[int, int]:
        last = self.parts[-1] if self.parts else None
        return (0, 0) if last is None else (last.page.last + 1, last.time)

    def check(self, pages: Pages, chance: random.Random) -> None:
        parts = self.parts
        assert len(pages) == len(parts)
        assert pages.named == self.named
        assert pages.octets - (pages.before(0) if parts else 0) == sum(each.taken for each in parts)
        begin = parts[0].page.first if parts else 0
        for offset in (begin - 1, begin, chance.randrange(begin, self.next()[0] + 2)):
            assert pages.at(offset) == sum(each.page.first <= offset for each in parts) - 1
            assert pages.below(offset) == sum(each.page.last < offset for each in parts)
        for time in (-1, chance.randrange(self.next()[1] + 2)):
            assert pages.of_time(time) == sum(each.time < time for each in parts) - 1
        if parts:
            place = chance.randrange(len(parts))
            before = pages.before(place)
            assert before - pages.before(0) == sum(each.taken for each in parts[:place])
            assert pages.of_octets(before) == place
            assert facts(pages[place]) == facts(parts[place])
            assert pages[place] is pages[place]
            assert facts(pages[-1]) == facts(parts[-1])

    def change(self, pages: Pages, chance: random.Random) -> Pages:
        what, parts = chance.randrange(6), self.parts
        if what == 0 and self.named < len(parts):
            part = pages.name_next()
            assert facts(part) == facts(parts[self.named])
            self.named += 1
        elif what == 1 and parts:
            count = chance.randrange(len(parts) + 1) // 2
            taken = [facts(each) for each in pages.take_off(count)]
            assert taken == [facts(each) for each in parts[:count]]
            del parts[:count]
            self.named = max(self.named - count, 0)
        elif what == 2 and parts:
            self.put(pages, chance, chance.randrange(len(parts)))
        elif what == 3 and self.named == len(parts):  # a start
            names, pages = bytes(pages.names), Pages()
            found = pages.restore(names)
            assert (found.first, found.next) == ((parts[0].page.first, parts[-1].page.last + 1) if parts else (-1, -1))
            assert found.octets == sum(each.page.location.length for each in parts)
            for segment, (count, octets) in found.taken.items():
                there = [each.page.location.length for each in parts if each.page.location.segment == segment]
                assert (count, octets) == (len(there), sum(there))
            assert sum(count for count, _ in found.taken.values()) == len(parts)
        elif what == 4 and self.named:
            self.succeed(pages, chance, chance.randrange(self.named))
        else:
            first, time = self.next()
            part = part_of(chance, first, time + chance.randrange(3))
            pages.add(part)
            parts.append(part)
        return pages

    def put(self, pages: Pages, chance: random.Random, place: int) -> None:
        part = self.parts[place]
        length = chance.randrange(1, part.taken + 1)
        page = Page(None, part.page.count, part.page.first, part.page.last, 0)
        page.location = PageLocation(7, 0, length)
        new = Part(part.time, page)
        new.taken = part.taken if place else length
        self.parts[place] = new
        assert pages.put(place, new) == (place < self.named)

    def succeed(self, pages: Pages, chance: random.Random, count: int) -> None:
        """One page takes the place of two, here and there."""
        new, old = [], self.parts[:count]
        while old:
            part = old.pop(0)
            if old and chance.random() < 0.5:
                last = old.pop(0).page.last
                page = Page(None, last + 1 - part.page.first, part.page.first, last, 0)
                page.location = PageLocation(8, 1, 5)
                page.be_named()
                part = Part(part.time, page)
            new.append(part)
        behind = pages.before(count - 1) + pages[count - 1].taken if count else 0
        befores = array("q", [behind - sum(each.taken for each in new[place:]) for place in range(len(new))])
        pages.succeed(count, new, bytearray(b"".join(each.name() for each in new)), befores)
        self.parts[:count] = new
        self.named += len(new) - count


@pytest.mark.parametrize("seed", seeds(range(30)))
def test_pages_are_as_a_list_of_them(seed: int) -> None:
    chance = random.Random(seed)
    pages, model = Pages(), Model()
    for _ in range(400):
        pages = model.change(pages, chance)
        model.check(pages, chance)
    assert [facts(each) for each in pages.part_of(0)] == [facts(each) for each in model.parts]


def test_a_start_makes_nothing_of_pages_that_nobody_asks_for() -> None:
    chance, names, first = random.Random(1), bytearray(), 0
    for _ in range(1000):
        part = part_of(chance, first, 5)
        names += part.name()
        first = part.page.last + 1
    pages = Pages()
    pages.restore(bytes(names))
    assert pages.at(first - 1) == 999
    assert pages.of_time(4) == -1
    pages[pages.at(first // 2)]
    assert sum(each is not None for each in pages._parts) == 1


def test_who_reads_on_is_not_searched_for_with_each_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    chance, names, first = random.Random(1), bytearray(), 0
    for _ in range(1000):
        part = part_of(chance, first, 5)
        names += part.name()
        first = part.page.last + 1
    pages, looked_at = Pages(), 0
    pages.restore(bytes(names))
    look = pages._first

    def counted(place: int) -> int:
        nonlocal looked_at
        looked_at += 1
        return look(place)

    monkeypatch.setattr(pages, "_first", counted)
    for offset in range(first):
        for _ in range(4):  # as often as there are chunks in a page, and somebody asks for each
            pages.at(offset)
    assert looked_at < 5 * 4 * first


@pytest.mark.parametrize("cut", [1, 43])
def test_names_that_are_cut_or_leave_a_gap_are_refused(cut: int) -> None:
    chance = random.Random(1)
    first, second = part_of(chance, 0, 0), part_of(chance, 50, 0)
    with pytest.raises(Malformed, match=f"in {NAME.size + cut} octets"):
        Pages().restore(first.name() + second.name()[:cut])
    with pytest.raises(Malformed, match="a page from offset 50 on behind one up to"):
        Pages().restore(first.name() + second.name())


@pytest.mark.parametrize(
    ("records", "first", "length", "size"),
    [(0, 7, 5, 5), (3, 7, 0, 5), (3, 7, 5, 0), (1 << 63, 0, 5, 5), (3, (1 << 63) - 3, 5, 5), ((1 << 64) - 1, 1, 5, 5)],
)
def test_names_of_what_can_be_no_page_are_refused_at_the_start(
    records: int, first: int, length: int, size: int
) -> None:
    """Not when somebody asks for the page."""
    with pytest.raises(Malformed, match=f"offset {first} on|up to offset {first + records}"):
        Pages().restore(NAME.pack(records, first, 0, 1, 0, length, size))


def test_a_page_may_end_with_the_highest_offset() -> None:
    pages = Pages()
    assert pages.restore(NAME.pack(3, (1 << 63) - 4, 0, (1 << 32) - 1, (1 << 64) - 1, 5, 5)).next == (1 << 63) - 1
    assert pages[0].page.last == (1 << 63) - 2
