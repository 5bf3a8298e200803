"""StreamLog: whatever is sealed, stored, dropped and trimmed, who reads gets what was appended, from wherever."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.message import Address, build_message
from queues.page import AddressBook
from queues.pager import Pager
from queues.stream import log as log_module
from queues.stream.chunk import Chunk, ChunkBuilder, records_of
from queues.stream.log import StreamLog
from queues.stream.marks import Marks, Step
from queues.stream.place import Place
from queues.stream.record import get_record
from storage.page_store import PageStore, fetch_page
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import sync_pages


def chunk_of(bodies: list[bytes]) -> bytes:
    builder = ChunkBuilder(16)
    for body in bodies:
        builder.add(build_message(Address(b"\0\1q"), b"\0\0", body, True, -1, -1, 0), 0, 0)
    return builder.seal()


def read(log: StreamLog, offset: int) -> list[tuple[int, bytes]]:
    """Every record from the offset on."""
    found = []
    for stored in log.chunks(offset):
        for number, at in enumerate(stored.chunk.places()):
            at_offset = stored.first + number
            if at_offset >= max(offset, log.first):
                message = get_record(stored.chunk.octets, at, at_offset, stored.time, AddressBook())
                found.append((at_offset, message.body_bytes()))
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.binary(max_size=30), min_size=1, max_size=5)),
        st.tuples(st.just("place"), st.lists(st.binary(max_size=30), min_size=1, max_size=5)),
        st.tuples(st.just("sync"), st.none()),
        st.tuples(st.just("seal"), st.none()),
        st.tuples(st.just("page_out"), st.integers(0, 2000)),
        st.tuples(st.just("trim"), st.integers(0, 40)),
        st.tuples(st.just("read"), st.integers(0, 60)),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS, st.integers(0, 1000))
def test_readers_get_what_was_appended(steps: list[tuple[str, object]], budget: int) -> None:
    disk = SimulatedDisk(random.Random(1))
    store = PageStore(disk, 3000)
    pager = Pager(store, budget, 1000, 10, 1000)
    log = StreamLog(7, pager)
    model: list[bytes] = []
    times: list[int] = []
    now = 100
    for what, value in steps:
        now += 5
        if what == "append" and isinstance(value, list):
            assert log.append(now, Chunk(chunk_of(value))) == len(model)
            model += value
            times += [now] * len(value)
        elif what == "place" and isinstance(value, list):
            chunk = Chunk(chunk_of(value))
            location = pager.place(7, chunk.octets, records_of(chunk.octets, 0))
            assert location is not None
            assert log.append_placed(now, chunk, Place(0, 7, location)) == len(model)
            model += value
            times += [now] * len(value)
        elif what == "sync":
            sync_pages(store)
        elif what == "seal":
            log.seal()
        elif what == "page_out" and isinstance(value, int):
            log.page_out(value)
        elif what == "trim" and isinstance(value, int):
            log.trim(log.first + value)
        elif isinstance(value, int):
            begin = max(value, log.first)
            assert read(log, value) == [(each, model[each]) for each in range(begin, len(model))]
    assert log.next == len(model)
    for time in (0, 101, now - 5, now, now + 1):
        expected = next((each for each in range(log.first, len(model)) if times[each] >= time), log.next)
        found = log.offset_at(time)
        assert found <= expected
        assert found == log.next or times[found] >= time or found == log.first
    assert log.last_chunk() <= log.next
    log.seal()
    sync_pages(store)
    log.name_pages()
    again = StreamLog(7, Pager(PageStore(disk), 0, 1000, 10, 1000))
    again.restore_names(bytes(log.names))
    assert read(again, log.first) == read(log, log.first)
    assert [each.time for each in again.chunks(log.first)] == [each.time for each in log.chunks(log.first)]
    held = pager.used
    for _ in log.discarding():
        assert pager.used <= held
    assert pager.used == 0


def test_pages_are_sealed_by_size() -> None:
    page_bytes = 256 * 1024
    pager = Pager(PageStore(SimulatedDisk(random.Random(1))), 1 << 30, page_bytes, 10, 1000)
    log = StreamLog(7, pager)
    for _ in range(40):
        log.append(5, Chunk(chunk_of([b"x" * 15_000])))
    assert len(log.parts()) >= 40 * 15_000 // (page_bytes + 20_000)
    assert [offset for offset, _ in read(log, 11)] == list(range(11, 40))


def test_marks_cut_by_size_and_age() -> None:
    marks = Marks()
    for number in range(100):
        marks.add(10 * number, 1000 + number, 50, Step.of(1000, None, 100))
    assert marks.octets == 5000
    cut = marks.cut(1000, None)
    assert cut is not None
    behind = next(mark for mark in marks.marks if mark.offset == cut)
    assert 1000 <= marks.octets - behind.octets <= 1000 + 2 * 50
    assert marks.cut(None, 1050) is not None
    assert all(mark.time <= 1050 for mark in marks.marks if mark.offset <= (marks.cut(None, 1050) or 0))
    assert marks.cut(10_000, 900) is None
    marks.trimmed(cut)
    assert marks.marks[0].offset == cut
    assert marks.due_at(10) == marks.marks[1].time + 10


class _Slow(SimulatedDisk):
    """Reads in the background, which is done when somebody says so."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.reads: list[Future[bytes]] = []
        self._work: list[Callable[[], bytes]] = []

    def in_background(self, work: Callable[[], bytes]) -> Future[bytes]:  # type: ignore[override]  # one that does
        self.reads.append(Future())
        self._work.append(work)
        return self.reads[-1]

    def read_all(self) -> None:
        for read, work in zip(self.reads, self._work, strict=True):
            if not read.done():
                read.set_result(work())


def test_a_page_that_is_cold_is_waited_for_and_not_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_MOST_AHEAD", 2)
    disk = _Slow()
    log = StreamLog(7, Pager(PageStore(disk, 3000), 1 << 30, 100, 10, 1000))
    for number in range(40):
        log.append(100, Chunk(chunk_of([b"%d" % number + b"x" * 100])))
    log.seal()
    assert log.coming(39) is None  # it is in RAM
    coming = log.coming(0)
    assert coming is not None
    assert not coming.done()
    assert log.coming(0) is coming
    disk.read_all()
    assert coming.done()
    reads = len(disk.reads)
    stored = log.chunk_at(0)
    assert stored is not None
    assert stored.first == 0
    assert log.coming(0) is None
    assert len(disk.reads) > reads  # who reads on has the next ones fetched
    assert log.coming(log.next) is None


def test_small_pages_are_fetched_many_at_a_time_and_others_are_left_some_room() -> None:
    disk = _Slow()
    store = PageStore(disk, 1 << 20)
    log = StreamLog(7, Pager(store, 1 << 30, 100, 10, 1000))
    for number in range(400):
        log.append(100, Chunk(chunk_of([b"%d" % number + b"x" * 100])))
    log.seal()
    log.page_out(1 << 40)
    taken = []
    for stored in log.chunks(0):
        taken.append(stored.first)
        disk.read_all()
    assert taken == list(range(400))
    assert len(log.parts()) > 100
    assert len(disk.reads) < len(log.parts()) / 4
    # Somebody else has fetched much: two pages are, and no more.
    log.page_out(1 << 40)
    ahead = store._ahead
    assert ahead.start("other", {0: 0}, ahead._limit_bytes // 2 + 1, lambda: b"")
    before = len(disk.reads)
    assert log.coming(0) is not None
    assert len(disk.reads) == before + 1
    coming = [part for part in log.parts() if store.is_coming(7, part.page.location)]
    assert [part.page.first for part in coming] == [part.page.first for part in log.parts()[:2]]


def test_pages_say_how_far_so_many_octets_reach() -> None:
    log = StreamLog(7, Pager(PageStore(SimulatedDisk(random.Random(1)), 3000), 1 << 30, 100, 10, 1000))
    for number in range(40):
        log.append(100, Chunk(chunk_of([b"%02d" % number + b"x" * 100])))
    for start in (0, 1, 20, 39):
        ends = list(log.page_ends(start))
        assert [end for end, _ in ends] == sorted({end for end, _ in ends})
        assert ends[-1][0] == 40
        assert ends[0][0] > start
    assert sum(size for _, size in log.page_ends(0)) == log.octets
    assert list(log.page_ends(40)) == []


def test_what_was_fetched_ahead_goes_with_its_place() -> None:
    disk = _Slow()
    store = PageStore(disk, 3000)
    log = StreamLog(7, Pager(store, 1 << 30, 100, 10, 1000))
    for number in range(40):
        log.append(100, Chunk(chunk_of([b"%d" % number + b"x" * 100])))
    log.seal()
    log.page_out(1 << 40)
    assert log.coming(0) is not None
    disk.read_all()
    part = log.parts()[1]
    before = part.page.location
    assert store.is_coming(7, before)
    assert log.put(part, store.append(7, fetch_page(disk, 7, before, part.taken)))
    assert not store.is_coming(7, before)  # though its place is kept until a checkpoint
