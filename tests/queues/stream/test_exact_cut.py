"""ExactCut: where a stream is cut, against every chunk of it, whatever lies in pages and whatever is in RAM."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.pager import Pager
from queues.stream.chunk import Chunk
from queues.stream.exact_cut import PARTS, ExactCut
from queues.stream.settings import StreamSettings
from queues.stream.stream import HOLD_FACTOR, Hold, Stream
from queues.stream.tail import HEAD_BYTES
from storage.errors import CorruptRecord
from storage.page_store import PageStore
from tests.queues.stream.test_stream_log import chunk_of
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import sync_pages

PAGE_BYTES = 600


def a_chunk(size: int) -> Chunk:
    return Chunk(chunk_of([b"x" * size]))


def cut_of(stream: Stream, clock: int) -> int:
    steps = ExactCut(stream, clock, lambda: True).steps()
    while True:
        try:
            pending = next(steps)
        except StopIteration as end:
            first, least = end.value
            stream_holds = [hold.offset for hold in stream.holds.values() if hold.until > clock]
            return max(stream.first, least, min([first, *stream_holds]))
        assert isinstance(pending, Future)


def is_near(stream: Stream, clock: int, cut: int, factor: int) -> bool:
    """Whether the limits, times a factor, are kept as exactly as is said, and not more than kept."""
    limit, age = stream.settings.max_length_bytes, stream.settings.max_age
    chunks = list(stream.log.chunks(stream.first))
    kept = [each for each in chunks if each.first >= cut]
    gone = [each for each in chunks if each.next <= cut]
    octets = sum([HEAD_BYTES + each.chunk.length for each in kept])
    head = HEAD_BYTES + (gone[-1].chunk.length if gone else 0)
    oldest = clock - factor * age if age is not None else None
    is_all_old = oldest is not None and all(each.time <= oldest for each in gone)
    least = factor * limit if limit is not None else None
    is_much = least is not None and (octets >= least or len(kept) == 1)
    if gone and not is_all_old and not is_much:
        return False
    if oldest is not None and age is not None and any(each.time <= oldest - factor * age // PARTS for each in kept):
        return False
    return least is None or octets <= max(least + least // PARTS, octets if len(kept) == 1 else 0) + head + max(
        [HEAD_BYTES + each.chunk.length for each in kept], default=0
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 400), st.booleans()), min_size=1, max_size=40),
    st.one_of(st.none(), st.integers(0, 6000)), st.one_of(st.none(), st.integers(1, 1500)), st.integers(0, 2000),
    st.integers(0, 30), st.booleans(),
)  # fmt: skip
def test_what_is_left_is_what_the_limits_say(
    chunks: list[tuple[int, int, bool]], limit: int | None, age: int | None, later: int, trimmed: int, is_cold: bool
) -> None:
    store = PageStore(SimulatedDisk(random.Random(1)), 3000)
    stream = Stream(7, StreamSettings(limit, age), Pager(store, 1 << 20, PAGE_BYTES, 10, 1000))
    now = 10_000
    for pause, size, is_sealed in chunks:
        now += pause
        stream.log.append(now, a_chunk(size))
        if is_sealed:
            stream.log.seal()
    stream.log.trim(min(trimmed, stream.next))
    sync_pages(store)
    if is_cold:
        stream.log.page_out(1 << 20)
    clock = now + later
    cut = cut_of(stream, clock)
    assert stream.first <= cut <= stream.next
    if stream.first < stream.next:
        assert is_near(stream, clock, cut, 1)
    stream.trim(cut)
    assert cut_of(stream, clock) == stream.first  # nothing is proposed twice


def test_holds_keep_it_but_not_for_ever() -> None:
    pager = Pager(PageStore(SimulatedDisk(random.Random(1))), 1 << 20, 1 << 18, 10, 1000)
    stream = Stream(7, StreamSettings(max_age=1000), pager)
    for number in range(10):
        stream.log.append(100 * number, a_chunk(10))
    stream.holds["h"] = Hold(2, 10_000)
    assert cut_of(stream, 1500) == 2
    assert cut_of(stream, 900 + HOLD_FACTOR * 1000) == 10
    assert cut_of(stream, 10_000) == 10
    stream.holds["h"] = Hold(2, 1400)  # it is over
    assert cut_of(stream, 1500) == 6


class _Waits(SimulatedDisk):
    """What it reads in the background is there when somebody says so."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.reads: list[tuple[Future[bytes], Callable[[], bytes]]] = []

    def in_background(self, work: Callable[[], bytes]) -> Future[bytes]:  # type: ignore[override]  # one that does
        self.reads.append((Future(), work))
        return self.reads[-1][0]

    def read_all(self) -> None:
        reads, self.reads = self.reads, []
        for future, work in reads:
            try:
                future.set_result(work())
            except CorruptRecord as error:
                future.set_exception(error)


@pytest.mark.parametrize("gone", ["some", "all"])
def test_what_goes_while_a_page_is_read_is_no_reason_for_more_to_go(gone: str) -> None:
    disk = _Waits()
    store = PageStore(disk, 3000)
    limit = 6_000
    stream = Stream(7, StreamSettings(limit), Pager(store, 1 << 20, PAGE_BYTES, 10, 1000))
    for number in range(100):
        stream.log.append(number, a_chunk(100))
        if number % 5 == 4:
            stream.log.seal()
    sync_pages(store)
    stream.log.page_out(1 << 20)
    disk.read_all()
    steps = ExactCut(stream, 1000, lambda: True).steps()
    waits = 0
    try:
        while True:
            next(steps)
            waits += 1
            if waits == 1:  # others cut it meanwhile: behind the page that is waited for
                before = stream.next
                for number in range(100, 110):
                    stream.log.append(number, a_chunk(100))
                stream.trim(before - 10 if gone == "some" else stream.next)
            disk.read_all()
    except StopIteration as end:
        cut = end.value
    assert waits > 0
    assert cut.first == stream.first  # what is left is less than the limit
    assert stream.log.chunks_of_page(0) == []
    stream.retain_from(*cut, 1000)
    assert stream.first == cut.first


def test_a_hold_that_has_come_meanwhile_keeps_what_limits_would_take() -> None:
    pager = Pager(PageStore(SimulatedDisk(random.Random(1))), 1 << 20, 1 << 18, 10, 1000)
    stream = Stream(7, StreamSettings(max_age=1000), pager)
    for number in range(10):
        stream.log.append(100 * number, a_chunk(10))
    stream.holds["h"] = Hold(3, 10_000)
    stream.retain_from(6, 0, 1500)
    assert stream.first == 3
    stream.retain_from(6, 5, 1500)  # it has been kept for long enough
    assert stream.first == 5
    stream.retain_from(6, 0, 10_000)  # the hold is over
    assert stream.first == 6
    stream.settings = StreamSettings()
    stream.retain_from(8, 8, 10_000)  # there is no limit any more
    assert stream.first == 6
