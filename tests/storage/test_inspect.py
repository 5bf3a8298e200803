"""The report on a data folder: counts, the first bad record, and nothing is ever changed."""

from __future__ import annotations

from pathlib import Path

from storage.disk import FileDisk
from storage.folder_format import BASE_VERSION
from storage.inspect import BadRecord, inspect_folder
from storage.journal import Journal
from storage.page_store import PageStore
from storage.records import HEADER_BYTES
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.journal_driver import flush, new_disk, open_journal, write
from tests.storage.page_files import sync_pages

FIRST = "journal/00000001.log"
SECOND = "journal/00000002.log"


def written() -> SimulatedDisk:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"x" * 100), (2, b"y")], [(1, b"z")])
    store = PageStore(disk, segment_bytes=100)
    for queue_id, size in ((7, 100), (7, 50), (12, 10)):
        store.append(queue_id, bytes(size))
    sync_pages(store)
    return disk


def test_a_folder_in_health() -> None:
    disk = written()
    seen: list[tuple[int, int, bytes]] = []
    report = inspect_folder(disk, lambda segment, kind, payload: seen.append((segment, kind, bytes(payload))))
    assert seen == [(1, 1, b"x" * 100), (1, 2, b"y"), (2, 1, b"z")]
    assert [(one.file, one.records, one.entries) for one in report.journal.segments] == [
        (FIRST, 2, {1: 1, 2: 1}),
        (SECOND, 2, {1: 1}),
    ]
    assert report.journal.records == 4
    assert report.journal.bytes == disk.size(FIRST) + disk.size(SECOND)
    assert [(one.queue_id, one.segments, one.pages, one.bytes, one.bad) for one in report.queues] == [
        (7, 2, 2, 150 + 2 * HEADER_BYTES, ()),
        (12, 1, 1, 10 + HEADER_BYTES, ()),
    ]
    assert report.journal.first_bad is None
    assert report.damaged_parts == ()


def test_an_empty_folder() -> None:
    report = inspect_folder(new_disk())
    assert report.format is None
    assert report.format_error == ""
    assert report.journal.segments == ()
    assert report.queues == ()
    assert report.journal.first_bad is None


def test_the_first_bad_record_is_named_and_what_follows_is_still_read() -> None:
    disk = written()
    octets = bytearray(disk.contents(FIRST))
    octets[50] ^= 1
    disk.overwrite(FIRST, bytes(octets))
    seen: list[bytes] = []
    report = inspect_folder(disk, lambda segment, kind, payload: seen.append(bytes(payload)))
    assert report.journal.first_bad == BadRecord(FIRST, 40, "the checksum does not match")
    assert report.journal.segments[0].first_bad == report.journal.first_bad
    assert report.journal.segments[1].first_bad is None
    assert seen == [b"z"]


def test_a_torn_tail_is_told_from_damage() -> None:
    disk = written()
    disk.overwrite(SECOND, disk.contents(SECOND)[:-1])
    bad = inspect_folder(disk).journal.first_bad
    assert bad == BadRecord(SECOND, 40, "the file ends inside the record", is_torn_tail=True)


def test_a_missing_and_an_empty_segment_are_named() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=1)
    write(journal, [(1, b"a")], [(1, b"b")], [(1, b"c")])
    whole = disk.contents(SECOND)
    disk.overwrite(SECOND, b"")
    assert inspect_folder(disk).journal.first_bad == BadRecord(SECOND, 0, "the segment is empty")
    disk.overwrite(SECOND, whole)
    disk.remove(SECOND)
    assert inspect_folder(disk).journal.first_bad == BadRecord(SECOND, 0, "the segment is missing")


def test_bad_pages_are_named() -> None:
    disk = written()
    page_file = "queues/7/00000002.seg"
    disk.overwrite(page_file, disk.contents("queues/7/00000001.seg"))
    report = inspect_folder(disk)
    assert report.queues[0].bad == (
        BadRecord(page_file, 0, "an intact record that belongs to another place"),
    )
    disk.overwrite(page_file, b"garbage" * 10)
    report = inspect_folder(disk)
    assert [(bad.file, bad.offset) for bad in report.queues[0].bad] == [(page_file, 0)]


def test_a_real_folder_is_read_while_a_broker_holds_it_and_not_changed(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.lock()
    journal = Journal(disk)
    list(journal.recover())
    write(journal, [(1, b"x")])
    journal.open_entry(1).put_bytes(b"y")
    journal.close_entry()
    flush(journal)
    (tmp_path / "journal" / "00000001.log").chmod(0o400)
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    reader = FileDisk(tmp_path, is_read_only=True)
    report = inspect_folder(reader)
    reader.close()
    assert report.format == {"format": "amqp-broker data folder", "version": BASE_VERSION}
    assert [one.entries for one in report.journal.segments] == [{1: 2}]
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))} == before
    (tmp_path / "FORMAT").write_text("nonsense")
    report = inspect_folder(reader)
    assert report.format is None
    assert "Expecting value" in report.format_error
    assert [one.entries for one in report.journal.segments] == [{1: 2}]
    reader.close()
    disk.close()
