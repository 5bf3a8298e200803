"""Queue pages: what was synced reads back, what is dead goes, no page is taken for another."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.disk import FileDisk
from storage.errors import CorruptRecord
from storage.page_store import PageLocation, PageStore
from storage.records import HEADER_BYTES
from tests.example_counts import examples
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.journal_driver import new_disk
from tests.storage.page_files import disk_bytes, live_bytes, sync_pages


def fill(store: PageStore, queue_id: int, *sizes: int) -> list[PageLocation]:
    return [store.append(queue_id, bytes([number]) * size) for number, size in enumerate(sizes)]


def test_a_page_reads_back_before_and_after_its_sync() -> None:
    store = PageStore(new_disk())
    location = store.append(7, b"page")
    assert location == PageLocation(1, 0, 4)
    assert store.read(7, location) == b"page"
    sync_pages(store, [7])
    store.read_ahead(7, [location])
    assert store.read(7, location) == b"page"
    assert store.append(7, bytearray(b"next")) == PageLocation(1, HEADER_BYTES + 4, 4)


def test_segments_fill_one_after_the_other() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=200)
    locations = fill(store, 7, 100, 100, 100, 100)
    assert [location.segment for location in locations] == [1, 1, 2, 2]
    assert disk.list("queues/7") == ["00000001.seg", "00000002.seg"]
    assert live_bytes(store, 7) == disk_bytes(store, 7) == 4 * (100 + HEADER_BYTES)
    assert live_bytes(store, 8) == disk_bytes(store, 8) == 0


def test_a_segment_goes_with_its_last_live_page() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=200)
    first, second, third = fill(store, 7, 100, 100, 100)
    store.release(7, first)
    assert disk.list("queues/7") == ["00000001.seg", "00000002.seg"]
    assert live_bytes(store, 7) == 2 * (100 + HEADER_BYTES)
    assert disk_bytes(store, 7) == 3 * (100 + HEADER_BYTES)
    store.release(7, second)
    assert disk.list("queues/7") == ["00000002.seg"]
    store.release(7, third)
    assert disk.list("queues/7") == []
    assert disk_bytes(store, 7) == 0
    assert store.append(7, b"x").segment == 3
    with pytest.raises(KeyError):
        store.release(7, first)


def test_a_page_is_not_released_twice() -> None:
    store = PageStore(new_disk())
    (location,) = fill(store, 7, 10)
    store.release(7, location, position=100)
    with pytest.raises(ValueError, match="no page of its segment is live"):
        store.release(7, location, position=100)


def test_a_dead_segment_stays_until_the_journal_says_so_durably() -> None:
    """Were it removed at once, a crash could bring back a message whose page is gone."""
    disk = new_disk()
    store = PageStore(disk)
    (location,) = fill(store, 7, 100)
    (other,) = fill(store, 8, 100)
    store.release(7, location, position=500)
    store.release(8, other, position=600)
    store.synced(499)
    assert store.read(7, location) == bytes(100)
    store.synced(500)
    assert disk.list("queues/7") == []
    assert store.read(8, other) == bytes(100)
    store.synced(1000)
    assert disk.list("queues/8") == []


def test_a_dropped_queue_is_gone_with_what_waited() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=100)
    first, _ = fill(store, 7, 100, 100)
    store.release(7, first, position=5)
    store.drop_queue(7)
    store.drop_queue(7)
    assert disk.list("queues") == []
    store.synced(10)
    assert live_bytes(store, 7) == 0
    assert store.append(7, b"again").segment == 1


def test_sparse_segments_are_those_less_than_half_live() -> None:
    store = PageStore(new_disk(), segment_bytes=400)
    locations = fill(store, 7, *[100] * 12)
    assert [location.segment for location in locations] == [1] * 4 + [2] * 4 + [3] * 4
    assert store.sparse_segments(7) == []
    for index in (0, 1, 4, 5, 6, 8, 9, 10):
        store.release(7, locations[index])
    assert store.sparse_segments(7) == [2]  # 1 is half live, 3 is still appended to
    store.append(7, bytes(400))
    assert store.sparse_segments(7) == [2, 3]
    assert store.sparse_segments(99) == []


def test_a_sync_touches_only_what_is_new() -> None:
    disk = new_disk()
    store = PageStore(disk)
    fill(store, 7, 10)
    fill(store, 8, 10)
    sync_pages(store, [7])
    assert disk.sync_count == 1
    sync_pages(store, [7])
    sync_pages(store, [99])
    assert disk.sync_count == 1
    fill(store, 7, 10)
    sync_pages(store)
    assert disk.sync_count == 3
    assert store.take_sync() is None
    assert disk.unsynced() == []


def test_a_page_with_a_place_is_written_by_the_next_sync() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=300)
    fill(store, 7, 10)
    first, second = store.place(7, b"first" * 20), store.place(7, b"second" * 30)
    assert (first.segment, second.offset) == (2, HEADER_BYTES + 100)  # not among pages that are written at once
    third = store.place(8, b"third")
    assert [disk.size(path) for path in disk.files() if path.endswith(".seg")] == [HEADER_BYTES + 10, 0, 0]
    assert store.unwritten_bytes == 285
    assert store.is_unwritten(7, first)
    work = store.take_writes()
    assert work is not None
    later = store.place(7, b"later")
    assert later.segment == 3  # the file is full
    work.run()
    assert [path[-8:] for path in disk.unsynced() if path.endswith(".seg")] == ["0001.seg", "0003.seg"]
    assert store.read(7, second) == b"second" * 30
    assert store.read(8, third) == b"third"
    work.finish()
    assert store.unwritten_bytes == 5
    assert [store.is_unwritten(7, each) for each in (first, second, later)] == [False, False, True]
    sync_pages(store)
    assert store.read(7, later) == b"later"
    assert store.take_writes() is None
    assert disk.unsynced() == []


def test_places_that_did_not_fit_are_written_again() -> None:
    disk = new_disk()
    store = PageStore(disk)
    locations = [store.place(7, bytes([number]) * 100) for number in range(3)]
    work = store.take_writes()
    assert work is not None
    for room in (0, 50, 200):
        disk.capacity = -disk.free_bytes() + disk.capacity + room
        with pytest.raises(OSError, match="No space left"):
            work.run()
    disk.capacity = 1 << 62
    work.run()
    assert [store.read(7, each) for each in locations] == [bytes([number]) * 100 for number in range(3)]
    assert disk.unsynced() == []


def test_a_file_that_is_gone_is_noticed_unless_its_queue_is() -> None:
    for is_dropped in (False, True):
        disk = new_disk()
        store = PageStore(disk)
        store.place(7, b"page")
        work = store.take_writes()
        assert work is not None
        if is_dropped:
            store.drop_queue(7)
        else:
            disk.remove("queues/7/00000001.seg")
        work.run()
        if is_dropped:
            work.finish()
        else:
            with pytest.raises(CorruptRecord, match="the file is missing"):
                work.finish()


def test_places_of_a_queue_that_is_dropped_are_not_written() -> None:
    disk = new_disk()
    store = PageStore(disk)
    store.place(7, b"page")
    kept = store.place(8, b"kept")
    store.drop_queue(7)
    assert store.unwritten_bytes == 4
    sync_pages(store)
    assert store.read(8, kept) == b"kept"
    assert disk.list("queues") == ["8"]


def test_a_crash_leaves_no_place_that_is_given_again() -> None:
    disk = new_disk()
    store = PageStore(disk)
    kept = store.place(7, b"kept")
    sync_pages(store)
    store.place(7, b"lost")
    work = store.take_writes()
    assert work is not None
    disk.fail_sync_at = 1
    with pytest.raises(OSError, match="Input/output"):
        work.run()
    disk.crash()
    store = PageStore(disk)
    store.adopt(7, [kept])
    store.drop_orphans([7])
    assert store.place(7, b"next").segment > kept.segment
    sync_pages(store)
    assert store.read(7, kept) == b"kept"


def test_a_sync_that_was_taken_survives_that_its_pages_are_dropped() -> None:
    disk = new_disk()
    store = PageStore(disk)
    (location,) = fill(store, 7, 10)
    fill(store, 8, 10)
    work = store.take_sync()
    assert work is not None
    store.release(7, location)
    store.drop_queue(8)
    fill(store, 9, 10)
    work.run()
    assert disk.unsynced() == ["queues/9/00000001.seg"]


def test_a_full_disk_leaves_no_trace() -> None:
    disk = new_disk()
    disk.capacity = 300
    store = PageStore(disk)
    first, second = fill(store, 7, 100, 100)
    with pytest.raises(OSError, match="No space left") as raised:
        store.append(7, b"x" * 100)
    assert raised.value.errno == errno.ENOSPC
    assert live_bytes(store, 7) == 2 * (100 + HEADER_BYTES)
    disk.capacity = 1000
    third = store.append(7, b"x" * 100)
    assert third.segment == 2
    for location in (first, second, third):
        assert len(store.read(7, location)) == 100


def test_a_full_disk_at_the_start_of_a_segment_leaves_no_file() -> None:
    disk = new_disk()
    disk.capacity = 30
    store = PageStore(disk)
    with pytest.raises(OSError, match="No space left"):
        store.append(7, b"x" * 100)
    assert disk.list("queues/7") == []
    assert disk_bytes(store, 7) == 0


def test_adopted_pages_are_live_and_orphans_are_dropped() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=100)
    kept = fill(store, 7, 100, 100, 100)
    fill(store, 8, 100)
    fill(store, 9, 100)
    disk.make_folder("queues/notes")
    again = PageStore(disk, segment_bytes=100)
    again.adopt(7, kept[:1])
    again.adopt(7, kept[2:])
    again.drop_orphans({7: None, 8: None})
    assert disk.list("queues") == ["7", "8", "notes"]
    assert disk.list("queues/7") == ["00000001.seg", "00000003.seg"]
    assert disk.list("queues/8") == []
    assert live_bytes(again, 7) == disk_bytes(again, 7) == 2 * (100 + HEADER_BYTES)
    assert again.read(7, kept[2]) == b"\2" * 100
    assert again.append(7, b"x").segment == 4
    again.release(7, kept[0])
    assert disk.list("queues/7") == ["00000003.seg", "00000004.seg"]


def test_a_queue_whose_end_is_not_durable_is_no_orphan_yet() -> None:
    disk = new_disk()
    fill(PageStore(disk), 7, 100)
    fill(PageStore(disk), 8, 100)
    store = PageStore(disk)
    store.drop_orphans({}, [7])
    assert disk.list("queues") == ["7"]
    assert disk.list("queues/7") == ["00000001.seg"]
    store.drop_queue(7)
    assert disk.list("queues") == []


def test_adopting_after_the_orphans_were_dropped_is_refused() -> None:
    # Done the wrong way round, every stored page of every queue would be removed at each start.
    store = PageStore(new_disk())
    store.drop_orphans({7: None})
    with pytest.raises(RuntimeError, match="adopt all pages first"):
        store.adopt(7, [])


def test_a_queue_that_is_first_used_before_its_orphans_are_dropped_takes_no_used_number() -> None:
    disk = new_disk()
    fill(PageStore(disk, segment_bytes=10), 7, 100, 100)
    store = PageStore(disk)
    location = store.append(7, b"new")
    assert location.segment == 3
    store.drop_orphans({7: None})
    assert disk.list("queues/7") == ["00000003.seg"]
    assert store.read(7, location) == b"new"


def test_a_changed_bit_anywhere_in_a_page_is_seen() -> None:
    disk = new_disk()
    store = PageStore(disk)
    fill(store, 7, 20)
    location = store.append(7, b"the page")
    path = "queues/7/00000001.seg"
    whole = disk.contents(path)
    for bit in range(8 * location.offset, 8 * len(whole)):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(path, bytes(octets))
        with pytest.raises(CorruptRecord) as raised:
            store.read(7, location)
        assert (raised.value.file, raised.value.offset) == (path, location.offset)


def test_another_page_is_never_taken_for_one() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=100)
    first, second = fill(store, 7, 100, 100)
    (other,) = fill(store, 8, 100)
    paths = ["queues/7/00000001.seg", "queues/7/00000002.seg", "queues/8/00000001.seg"]
    octets = [disk.contents(path) for path in paths]
    for path, wrong in zip(paths, [octets[1], octets[2], octets[0]], strict=True):
        disk.overwrite(path, wrong)
    for queue_id, location in ((7, first), (7, second), (8, other)):
        with pytest.raises(CorruptRecord, match="belongs to another place"):
            store.read(queue_id, location)


def test_a_page_that_is_not_there_is_named() -> None:
    disk = new_disk()
    store = PageStore(disk)
    (location,) = fill(store, 7, 100)
    with pytest.raises(CorruptRecord, match="the file ends inside"):
        store.read(7, location._replace(length=101))
    with pytest.raises(CorruptRecord, match="does not have the length 99"):
        store.read(7, location._replace(length=99))
    disk.remove("queues/7/00000001.seg")
    with pytest.raises(CorruptRecord, match=r"queues/7/00000001\.seg at offset 0: the file is missing"):
        store.read(7, location)


def test_a_hint_about_a_page_that_is_not_there_is_no_error() -> None:
    disk = new_disk()
    store = PageStore(disk)
    (location,) = fill(store, 7, 100)
    disk.remove("queues/7/00000001.seg")
    store.read_ahead(7, [location])
    with pytest.raises(CorruptRecord, match="the file is missing"):
        store.read(7, location)


def test_many_queues_need_few_descriptors(tmp_path_factory: pytest.TempPathFactory) -> None:
    disk = FileDisk(tmp_path_factory.mktemp("data"), max_descriptors=64)
    store = PageStore(disk)
    pages = {queue_id: store.append(queue_id, b"page %d" % queue_id) for queue_id in range(1, 151)}
    assert all(
        store.read(queue_id, location) == b"page %d" % queue_id for queue_id, location in pages.items()
    )
    for queue_id in pages:
        store.drop_queue(queue_id)
    assert disk.list("queues") == []
    disk.close()


@settings(deadline=None, max_examples=examples(200))
@given(st.integers(0, 2**64))
def test_against_a_dictionary_with_crashes(seed: int) -> None:
    """Pages come, are synced and released; whenever a crash comes, what was synced is there."""
    chance = random.Random(seed)
    disk = SimulatedDisk(chance)
    durable: dict[tuple[int, PageLocation], bytes] = {}
    for _ in range(4):
        store = PageStore(disk, segment_bytes=300)
        for queue_id, location in durable:
            store.adopt(queue_id, [location])
        live = dict(durable)
        try:
            store.drop_orphans({1: None, 2: None, 3: None})
            disk.crash_at = chance.randint(1, 40)
            position = 0
            waiting: list[tuple[int, PageLocation]] = []
            while True:
                queue_id = chance.randint(1, 3)
                page = chance.randbytes(chance.randrange(150))
                live[queue_id, store.append(queue_id, page)] = page
                if chance.random() < 0.4:
                    key = chance.choice(list(live))
                    position += 1
                    store.release(*key, position=position)
                    del live[key]
                    waiting.append(key)
                if chance.random() < 0.3:
                    sync_pages(store)
                    durable.update(live)
                    # The releases are durable as well, so that from now on nobody asks for those pages.
                    for key in waiting:
                        durable.pop(key, None)
                    waiting.clear()
                    store.synced(position)
                for key, contents in live.items():
                    assert store.read(*key) == contents
                assert live_bytes(store, 1) == sum(one.disk_bytes for queue, one in live if queue == 1)
                assert live_bytes(store, 1) <= disk_bytes(store, 1)
        except SimulatedCrash:
            disk.crash()
        store = PageStore(disk, segment_bytes=300)
        for key, contents in durable.items():
            assert store.read(*key) == contents
