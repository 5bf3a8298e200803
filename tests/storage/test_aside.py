"""Setting aside: it is durable before anything is removed, whenever a crash comes, and no name is taken twice."""

from __future__ import annotations

import random

import pytest

from storage.aside import Aside
from storage.journal import Journal
from storage.page_store import PageStore
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.journal_driver import new_disk, open_journal, write
from tests.storage.page_files import sync_pages


def test_a_copy_leaves_the_file_and_takes_a_name_that_is_free() -> None:
    disk = new_disk()
    disk.make_folder("pages")
    disk.append("pages/1", [b"0123456789"])
    aside = Aside(disk)
    assert aside.copy("pages/1", "one") == "damaged/one"
    assert aside.copy("pages/1", "one", 2, 5) == "damaged/one-2"
    assert aside.copy("pages/1", "one", 10) == "damaged/one-3"
    assert aside.finish() == ["damaged/one", "damaged/one-2", "damaged/one-3"]
    assert [disk.contents(f"damaged/{name}") for name in ("one", "one-2", "one-3")] == [b"0123456789", b"234", b""]
    assert disk.contents("pages/1") == b"0123456789"
    assert aside.finish() == []


@pytest.mark.parametrize("crash_at", range(1, 9))
def test_whenever_a_crash_comes_a_page_is_here_or_there(crash_at: int) -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=100)
    for queue_id in (7, 8):
        for number in range(3):
            store.append(queue_id, bytes([number]) * 90)
    sync_pages(store)
    before = {path: disk.contents(path) for path in disk.files()}
    disk.crash_at = crash_at
    try:
        PageStore(disk, segment_bytes=100).set_orphans_aside({8})
    except SimulatedCrash:
        disk.crash()
    disk.crash_at = None
    copies = [disk.contents(path) for path in disk.files() if path.startswith("damaged/")]
    for path, octets in before.items():
        assert octets in copies or (path in disk.files() and disk.contents(path) == octets), path


def test_pages_that_nobody_knows_are_moved_and_those_that_go_soon_are_copied() -> None:
    disk = new_disk()
    store = PageStore(disk, segment_bytes=100)
    kept = [store.append(7, b"x" * 90), store.append(7, b"y" * 90)]
    store.append(8, b"z" * 90)
    store.append(9, b"w" * 90)
    sync_pages(store)
    again = PageStore(disk, segment_bytes=100)
    assert again.stored_queues() == [7, 8, 9]
    again.adopt(7, kept[1:])
    again.adopt(9, [])
    copies = again.set_orphans_aside({7, 9}, [9])
    assert copies == [
        "damaged/queue-9-00000001.seg",
        "damaged/queue-7-00000001.seg",
        "damaged/queue-8-00000001.seg",
        "damaged/queue-9-00000001.seg-2",
    ]
    assert again.read(7, kept[1]) == b"y" * 90
    assert [path for path in disk.files() if path.startswith("queues/")] == ["queues/7/00000002.seg"]
    with pytest.raises(RuntimeError, match="adopt all pages first"):
        again.adopt(7, kept[:1])


def test_a_journal_is_copied_as_it_is() -> None:
    disk = SimulatedDisk(random.Random(1))
    journal, _ = open_journal(disk, segment_bytes=1)
    write(journal, [(1, b"a")], [(2, b"b")])
    copies = journal.copy_aside()
    assert copies == ["damaged/journal-00000001.log", "damaged/journal-00000002.log"]
    disk.crash()
    for number in (1, 2):
        path = f"journal/0000000{number}.log"
        assert disk.contents(f"damaged/{path.replace('/', '-')}") == disk.contents(path)
    assert [kind for _, kind, _ in Journal(disk).recover()] == [1, 2]
