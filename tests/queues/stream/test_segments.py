"""Segments: a stream as it lies in files, page by page of them, whatever happens to it meanwhile."""

from __future__ import annotations

import random
from collections.abc import Generator
from itertools import pairwise

import pytest

from queues.pager import Pager
from queues.stream import segments
from queues.stream.chunk import Chunk
from queues.stream.place import Place
from queues.stream.segments import Found, Segment, segments_from
from queues.stream.settings import StreamSettings
from queues.stream.stream import Stream
from storage.page_store import PageStore
from tests.queues.stream.test_stream_log import chunk_of
from tests.simulation.simulated_disk import SimulatedDisk

CHUNKS = 30
#: Two pages of a chunk each come to a file.
FILE_BYTES, PAGE_BYTES = 1000, 500


def a_stream(chunks: int = CHUNKS, **settings: object) -> Stream:
    """Of two messages a chunk, each 10 milliseconds after the one before; the last one is in no page."""
    pager = Pager(PageStore(SimulatedDisk(random.Random(1)), FILE_BYTES), 0, PAGE_BYTES, 10, 1000)
    stream = Stream(7, StreamSettings(**settings), pager)  # type: ignore[arg-type]  # as they are
    for number in range(chunks):
        stream.append(Chunk(chunk_of([b"%d" % number * 300, b"b"])), 100 + 10 * number)
    return stream


def listed(stream: Stream, offset: int = 0, most: int = 1000) -> Found:
    return result_of(segments_from(lambda: stream, offset, most))


def result_of(steps: Generator[None, None, Found]) -> Found:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: Found = ended.value
            return found


def test_they_follow_each_other_and_have_all_there_is() -> None:
    stream = a_stream()
    found, following = listed(stream)
    assert following is None
    assert [each.first_offset for each in found] == [0, *[each.next_offset for each in found[:-1]]]
    assert found[-1].next_offset == stream.next == 2 * CHUNKS
    assert sum(each.octets for each in found) == sum(each.uncompressed_octets for each in found) == stream.log.octets
    assert sum(each.pages for each in found) == len(stream.log.parts())
    assert sum(each.messages for each in found) == 2 * CHUNKS
    files = [each.file for each in found]
    assert files == [*sorted({*files} - {0}), 0]
    assert len(files) - 1 == stream.log.segment_count() > 3
    # The last file may get more; what is in RAM alone is in none.
    assert [each.is_sealed for each in found] == [True] * (len(found) - 2) + [stream_is_full(stream, files[-2]), False]
    for before, each in pairwise(found):
        assert before.last_time == each.first_time == 100 + 10 * (each.first_offset // 2) > before.first_time
    assert found[-1].last_time is None
    assert {each.is_compacted for each in found} == {None}


def stream_is_full(stream: Stream, file: int) -> bool:
    return stream.log._pager.page_store.is_full(stream.queue_id, file)


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("slice_", [1, 2, 100])
def test_pages_of_them_have_what_all_have(most: int, slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SLICE", slice_)
    stream = a_stream()
    expected, _ = listed(stream)
    found: list[Segment] = []
    offset: int | None = 0
    while offset is not None:
        page, following = listed(stream, offset, most)
        assert 0 < len(page) <= most
        assert following is None or following > offset
        found, offset = found + page, following
    assert found == expected


def test_an_answer_has_an_end_however_many_pages_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SLICE", 2)
    monkeypatch.setattr(segments, "MOST_SLICES", 3)
    stream = a_stream()
    found, following = listed(stream)
    assert (sum(each.pages for each in found), following) == (6, found[-1].next_offset)


def test_what_is_gone_is_not_there_and_the_rest_of_a_page_is() -> None:
    stream = a_stream()
    stream.trim(5)
    (first, *_), _ = listed(stream)
    assert (first.first_offset, first.is_sealed) == (5, True)
    assert listed(stream, 2 * CHUNKS) == ([], None)
    stream.trim(2 * CHUNKS)
    assert listed(stream) == ([], None)
    assert listed(a_stream(0)) == ([], None)
    assert result_of(segments_from(lambda: None, 0, 10)) == ([], None)


def test_it_goes_on_where_it_was_when_the_stream_is_cut_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SLICE", 2)
    stream = a_stream()
    steps = segments_from(lambda: stream, 0, 1000)
    next(steps)
    stream.trim(40)
    stream.append(Chunk(chunk_of([b"new"])), 1000)
    found, following = result_of(steps)
    assert (found[-1].next_offset, following) == (2 * CHUNKS + 1, None)
    assert all(before.next_offset <= each.first_offset for before, each in pairwise(found))


def test_a_compacted_stream_says_how_far() -> None:
    stream = a_stream(key="routing-key")
    stream.compacted.passed_by_retention(20)
    found, _ = listed(stream)
    assert [each.is_compacted for each in found] == [each.next_offset <= 20 for each in found]
    assert {each.is_compacted for each in found} == {True, False}


def test_what_follows_in_ram_is_one_with_pages_that_found_no_room() -> None:
    stream = a_stream(0)
    log = stream.log
    log.append(100, Chunk(chunk_of([b"a"])))
    found, _ = listed(stream)
    assert found == [Segment(0, 0, 1, 1, 100, None, 0, log.octets, log.octets, False, None)]


def test_what_two_files_have_in_turn_is_a_segment_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SLICE", 3)
    stream = a_stream(0)
    pager = stream.log._pager
    for number in range(12):
        octets = chunk_of([b"x" * 10])
        place = None
        if number % 2:
            location = pager.place(7, octets, 1)
            assert location is not None
            place = Place(0, 7, location)
        stream.append(Chunk(octets), 100 + number, place)
    (filled, placed), following = listed(stream)
    assert (filled.first_offset, filled.next_offset, filled.messages, filled.pages) == (0, 11, 6, 6)
    assert (placed.first_offset, placed.next_offset, placed.messages, placed.pages) == (1, 12, 6, 6)
    assert (filled.last_time, placed.last_time, following) == (111, None, None)
    assert filled.octets + placed.octets == stream.log.octets
    # One at a time: what is behind comes up again, and all of it together is the same.
    parts: list[Segment] = []
    offset: int | None = 0
    while offset is not None:
        found, offset = listed(stream, offset, 1)
        parts += found
    assert len(parts) == 12
    assert sum(each.messages for each in parts) == 12
