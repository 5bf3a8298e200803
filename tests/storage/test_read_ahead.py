"""Pages are fetched ahead a stretch at a time: within the limit, given back, and never an error too early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from storage.disk import FileDisk
from storage.errors import CorruptRecord
from storage.page_store import PageLocation, PageStore, stretches
from storage.read_ahead import PATIENCE, ReadAhead
from storage.records import HEADER_BYTES


class Background:
    """An executor that works when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, work))
        return future

    def run(self) -> int:
        """Does what waits. Returns how much it was."""
        waiting, self.waiting = self.waiting, []
        for future, work in waiting:
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001  # whoever takes the result gets it
                future.set_exception(error)
        return len(waiting)


@pytest.fixture
def background() -> Background:
    return Background()


@pytest.fixture
def disk(tmp_path: Path, background: Background) -> Iterator[FileDisk]:
    disk = FileDisk(tmp_path, background=background.submit)
    yield disk
    disk.close()


def fill(store: PageStore, queue_id: int, *pages: bytes) -> list[PageLocation]:
    return [store.append(queue_id, page) for page in pages]


def damage(root: Path, queue_id: int, location: PageLocation) -> None:
    path = root / "queues" / str(queue_id) / f"{location.segment:08d}.seg"
    with path.open("r+b") as file:
        file.seek(location.offset + HEADER_BYTES)
        file.write(b"?")


def test_neighbours_are_one_stretch() -> None:
    here = [PageLocation(1, 0, 10), PageLocation(1, 34, 20), PageLocation(1, 78, 5)]
    elsewhere = [PageLocation(1, 200, 5), PageLocation(2, 229, 5)]
    assert stretches([here[2], elsewhere[1], here[0], elsewhere[0], here[1]]) == [here, *([each] for each in elsewhere)]
    assert stretches([]) == []


def test_neighbours_are_fetched_with_one_piece_of_work(disk: FileDisk, background: Background) -> None:
    store = PageStore(disk)
    pages = [b"first", b"second", b"third", b"fourth"]
    locations = fill(store, 7, *pages)
    store.read_ahead(7, locations[:3])
    assert [store.is_coming(7, location) for location in locations] == [True, True, True, False]
    assert background.run() == 1
    assert [store.read(7, location) for location in locations] == pages
    assert not any(store.is_coming(7, location) for location in locations)


def test_what_is_coming_is_not_asked_for_again(disk: FileDisk, background: Background) -> None:
    store = PageStore(disk)
    locations = fill(store, 7, b"first", b"second", b"third")
    store.read_ahead(7, locations[:2])
    store.read_ahead(7, locations)
    assert background.run() == 2
    store.read_ahead(7, locations)
    assert background.run() == 0


def test_a_page_is_taken_without_a_copy(disk: FileDisk, background: Background) -> None:
    store = PageStore(disk)
    locations = fill(store, 7, b"first", b"second")
    store.read_ahead(7, locations)
    background.run()
    (octets, start), (same, behind) = store.take(7, locations[0]), store.take(7, locations[1])
    assert octets is same
    assert (start, behind) == (HEADER_BYTES, 2 * HEADER_BYTES + 5)
    assert octets[behind:] == b"second"


def test_damage_is_told_by_the_page_that_has_it_alone(
    disk: FileDisk, background: Background, tmp_path: Path
) -> None:
    store = PageStore(disk)
    locations = fill(store, 7, b"first", b"second", b"third")
    damage(tmp_path, 7, locations[1])
    store.read_ahead(7, locations)
    background.run()
    assert store.read(7, locations[0]) == b"first"
    with pytest.raises(CorruptRecord, match=f"offset {locations[1].offset}"):
        store.read(7, locations[1])
    assert store.read(7, locations[2]) == b"third"


def test_a_defect_of_the_work_is_not_hidden(disk: FileDisk, background: Background) -> None:
    ahead = ReadAhead(disk)

    def fail() -> bytes:
        raise ZeroDivisionError

    ahead.start("queue", {"page": 0}, 10, fail)
    background.run()
    with pytest.raises(ZeroDivisionError):
        ahead.take("queue", "page")


def test_the_limit_is_free_again_when_all_parts_are_taken_or_dropped(disk: FileDisk, background: Background) -> None:
    ahead = ReadAhead(disk, limit_bytes=10)
    assert ahead.start("queue", {1: 0, 2: 5}, 10, lambda: b"0123456789")
    assert not ahead.start("other", {3: 0}, 1, lambda: b"x")
    background.run()
    assert ahead.take("queue", 2) == (b"0123456789", 5)
    assert not ahead.start("other", {3: 0}, 1, lambda: b"x")
    ahead.drop("queue", 1)
    assert ahead.take("queue", 1) is None
    assert ahead.start("other", {3: 0, 4: 1}, 10, lambda: b"0123456789")
    ahead.drop_all("other")
    assert not ahead.has("other", 3)
    assert ahead.start("queue", {1: 0}, 10, lambda: b"0123456789")


def test_a_dropped_queue_holds_nothing_of_the_limit(disk: FileDisk, background: Background) -> None:
    store = PageStore(disk)
    page = bytes(3 * 1024 * 1024)
    for queue_id in range(1, 6):
        (location,) = fill(store, queue_id, page)
        store.read_ahead(queue_id, [location])
        assert store.is_coming(queue_id, location)
        background.run()
        store.drop_queue(queue_id)
        assert not store.is_coming(queue_id, location)


def test_without_a_background_pages_are_read_when_they_are_wanted(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    store = PageStore(disk)
    locations = fill(store, 7, b"first", b"second")
    store.read_ahead(7, locations)
    assert not store.is_coming(7, locations[0])
    assert [store.read(7, location) for location in locations] == [b"first", b"second"]
    disk.close()


def test_who_reads_does_not_wait_for_what_is_written_anew(tmp_path: Path, background: Background) -> None:
    rewriting = Background()
    disk = FileDisk(tmp_path, background=background.submit, rewriting=rewriting.submit)
    store = PageStore(disk)
    (location,) = fill(store, 7, bytes(10_000))
    packed = store.begin_packing(7, location)
    assert rewriting.run() == 1
    segment = store.begin_segment(7)
    beside, written = store.write_beside(7, segment, packed.result(), is_packed=True)
    synced = store.sync_beside(7, [segment])
    assert not background.waiting
    assert not written.done()
    read = store.begin_load(7, location, 10_000)
    assert background.run() == 1
    assert read.result() == bytes(10_000)
    assert rewriting.run() == 2
    assert synced.done()
    assert store.read(7, beside, 10_000) == bytes(10_000)
    disk.close()


def test_what_nobody_takes_makes_room_after_a_while(disk: FileDisk, background: Background) -> None:
    ahead = ReadAhead(disk, 100)
    assert ahead.start("left", {0: 0, 1: 30}, 60, lambda: b"")
    assert not ahead.start("other", {0: 0}, 60, lambda: b"")
    assert not ahead.start("other", {0: 0}, 101, lambda: b"")  # there will never be so much
    background.run()
    for _ in range(PATIENCE - 2):
        assert not ahead.start("other", {0: 0}, 60, lambda: b"")
        assert ahead.has("left", 1)
    assert ahead.start("other", {0: 0}, 60, lambda: b"")
    assert not ahead.has("left", 0)
    assert not ahead.has("left", 1)
    assert ahead.has("other", 0)
    for _ in range(2 * PATIENCE):  # it is under way still: nobody is told that it has come, and is not there
        assert not ahead.start("third", {0: 0}, 60, lambda: b"")
    assert ahead.has("other", 0)
    background.run()
    assert ahead.take("other", 0) == (b"", 0)
    assert ahead.start("third", {0: 0}, 100, lambda: b"")
