"""FileDisk on real files: verbs, lock, foreign folders, a failing sync, few descriptors, threads."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from storage.disk import FileDisk, Octets
from storage.errors import FolderInUse, ForeignFolder, SyncFailed
from storage.folder_format import (
    BASE_VERSION,
    FORMAT_FILE,
    FORMAT_NAME,
    FORMAT_VERSION,
    OLDEST_VERSION,
    raise_format,
    read_format,
)
from tests.house.test_compiled import IS_PLAIN
from tests.storage.journal_driver import open_journal, write

ROOT = Path(__file__).parents[2]

HOLD_LOCK = """
import sys
from storage.disk import FileDisk
FileDisk(sys.argv[1]).lock()
print("locked", flush=True)
sys.stdin.read()
"""


class FailingDisk(FileDisk):
    """A FileDisk whose syncs of files fail from the moment it is told to."""

    is_failing = False
    syncs = 0

    def _sync_descriptor(self, number: int) -> None:
        self.syncs += 1
        if self.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        super()._sync_descriptor(number)

    def _write_and_sync_descriptor(self, number: int, offset: int, buffers: Sequence[Octets]) -> bool:
        self.syncs += 1
        if self.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        return super()._write_and_sync_descriptor(number, offset, buffers)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file in a folder with its contents and time of change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# The verbs


def test_append_read_size_truncate(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.append("file", [b"one", bytearray(b"two"), memoryview(b"-three-")[1:-1], b""])
    disk.append("file", [])
    assert disk.size("file") == 11
    assert disk.read("file", 3, 3) == b"two"
    assert disk.read("file", 6, 100) == b"three"
    assert disk.read("file", 11, 10) == b""
    disk.truncate("file", 4)
    disk.append("file", [b"!"])
    disk.sync("file")
    disk.read_ahead("file", 0, 5)
    assert (tmp_path / "file").read_bytes() == b"onet!"
    disk.close()


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    buffers = [b"%d," % number for number in range(3000)]
    disk.append("file", buffers)
    assert (tmp_path / "file").read_bytes() == b"".join(buffers)


def test_short_writes_and_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, writev = os.pread, os.writev

    def short_writev(descriptor: int, buffers: Sequence[memoryview]) -> int:
        count = next(index for index, buffer in enumerate(buffers) if len(buffer))
        return writev(descriptor, [*buffers[:count], buffers[count][:2]])

    def short_pread(descriptor: int, length: int, offset: int) -> bytes:
        return pread(descriptor, min(length, 3), offset)

    monkeypatch.setattr(os, "writev", short_writev)
    monkeypatch.setattr(os, "pread", short_pread)
    disk = FileDisk(tmp_path)
    disk.append("file", [b"abc", b"", b"d", b"efghijk"])
    assert (tmp_path / "file").read_bytes() == b"abcdefghijk"
    assert disk.read("file", 1, 9) == b"bcdefghij"
    assert disk.read("file", 1, 90) == b"bcdefghijk"


def test_folders(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    assert disk.list("queues") == []
    disk.make_folder("queues/7")
    disk.make_folder("queues/7")
    disk.append("queues/7/b", [b"1"])
    disk.append("queues/7/a", [b"2"])
    disk.sync_folder("queues/7")
    disk.sync_folder("")
    assert disk.list("queues/7") == ["a", "b"]
    assert disk.list("") == ["queues"]
    assert disk.exists("queues/7/a")
    disk.rename("queues/7/a", "queues/7/b")
    assert disk.list("queues/7") == ["b"]
    assert disk.read("queues/7/b", 0, 9) == b"2"
    disk.remove("queues/7/b")
    disk.remove_folder("queues/7")
    assert disk.list("queues") == []
    assert disk.free_bytes() > 0


def test_a_missing_file_is_never_made_by_reading(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    reads: list[Callable[[], object]] = [
        lambda: disk.read("none", 0, 1),
        lambda: disk.size("none"),
        lambda: disk.sync("none"),
    ]
    for read in reads:
        with pytest.raises(FileNotFoundError):
            read()
    assert disk.list("") == []


def test_a_name_that_is_used_again_is_a_new_file(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.append("file", [b"old"])
    disk.remove("file")
    disk.append("file", [b"new"])
    assert (tmp_path / "file").read_bytes() == b"new"
    disk.append("draft", [b"newer"])
    disk.rename("draft", "file")
    disk.append("file", [b"!"])
    assert disk.read("file", 0, 9) == b"newer!"
    with pytest.raises(FileNotFoundError):
        disk.read("draft", 0, 1)


def test_a_full_disk_is_reported_and_can_be_waited_out(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        disk.append("file", [b"x"])
    assert raised.value.errno == errno.ENOSPC
    disk.append("other", [b"x"])
    disk.sync("other")


def test_a_disk_for_reading_only_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"contents")
    (tmp_path / "file").chmod(0o400)
    disk = FileDisk(tmp_path, is_read_only=True)
    assert disk.read("file", 0, 100) == b"contents"
    changes: list[Callable[[], object]] = [
        lambda: disk.append("file", [b"x"]),
        lambda: disk.remove("file"),
        lambda: disk.truncate("file", 0),
        lambda: disk.make_folder("folder"),
        disk.lock,
    ]
    for change in changes:
        with pytest.raises(OSError, match="for reading only"):
            change()
    assert disk.list("") == ["file"]


# A failing sync


def test_after_a_failed_sync_everything_that_changes_the_disk_fails(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path)
    disk.append("file", [b"x"])
    disk.append("other", [b"y"])
    disk.sync("other")
    disk.is_failing = True
    with pytest.raises(SyncFailed, match="an earlier sync of file failed"):
        disk.sync("file")
    disk.is_failing = False
    changes: list[Callable[[], object]] = [
        lambda: disk.sync("file"),
        lambda: disk.sync("other"),
        lambda: disk.append("other", [b"z"]),
        lambda: disk.sync_folder(""),
        lambda: disk.truncate("other", 0),
        lambda: disk.remove("other"),
        lambda: disk.rename("other", "another"),
        lambda: disk.make_folder("folder"),
    ]
    for change in changes:
        with pytest.raises(SyncFailed, match=r"sync of file failed.*stop the broker") as raised:
            change()
        assert raised.value.errno == errno.EIO
    assert disk.read("other", 0, 9) == b"y"


def test_the_journal_never_gets_past_a_failed_sync(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path)
    journal, _ = open_journal(disk)
    write(journal, [(1, b"safe")])
    journal.open_entry(2).put_bytes(b"unsafe")
    journal.close_entry()
    batch = journal.take_batch()
    assert batch is not None
    disk.is_failing = True
    with pytest.raises(SyncFailed):
        batch.write_and_sync()
    disk.is_failing = False
    with pytest.raises(SyncFailed):
        batch.write_and_sync()


# Written and synced in one call


@pytest.mark.parametrize("count", [0, 1, 3, 64, 65, 2000])
def test_what_is_written_and_synced_is_there_in_order(tmp_path: Path, count: int) -> None:
    disk = FileDisk(tmp_path)
    disk.append("file", [b"before"])
    made: list[Octets] = [b"%d-" % number for number in range(count)]
    made[::3] = [bytearray(octets) for octets in made[::3]]
    made[1::3] = [memoryview(octets) for octets in made[1::3]]
    disk.write_and_sync("file", 6, made)
    assert (tmp_path / "file").read_bytes() == b"before" + b"".join(made)
    for each in made:
        if isinstance(each, bytearray):
            each.extend(b"it is held no longer")


def test_nothing_is_owed_for_what_was_written_and_synced(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path, max_descriptors=1)
    disk.append("file", [])
    disk.write_and_sync("file", 0, [b"octets"])
    synced = disk.syncs
    disk.append("another", [b"x"])
    assert disk.syncs == synced


@pytest.mark.skipif(IS_PLAIN, reason="plain, it is two calls, and the second syncs what came between")
def test_what_is_appended_during_a_write_and_sync_is_owed_a_sync(tmp_path: Path) -> None:
    class Shared(FailingDisk):
        """Somebody else appends to the file when it was synced, and before that is heard of."""

        def _write_and_sync_descriptor(self, number: int, offset: int, buffers: Sequence[Octets]) -> bool:
            is_synced = super()._write_and_sync_descriptor(number, offset, buffers)
            self.append("file", [b"behind"])
            return is_synced

    disk = Shared(tmp_path, max_descriptors=1)
    disk.append("file", [])
    disk.write_and_sync("file", 0, [b"octets"])
    synced = disk.syncs
    disk.append("another", [b"x"])  # takes its descriptor
    assert disk.syncs == synced + 1


def test_a_write_and_sync_that_fails_is_the_last(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path)
    disk.append("file", [])
    disk.is_failing = True
    with pytest.raises(SyncFailed, match=r"file.*Input/output error"):
        disk.write_and_sync("file", 0, [b"octets"])
    disk.is_failing = False
    with pytest.raises(SyncFailed):
        disk.write_and_sync("file", 0, [b"octets"])


def test_what_has_no_room_is_an_error_of_the_write_and_of_no_sync(tmp_path: Path) -> None:
    script = """
import errno, resource, sys
from storage.disk import FileDisk
disk = FileDisk(sys.argv[1])
disk.append("file", [])
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    disk.write_and_sync("file", 0, [b"x" * 4000, b"y" * 4000])
except OSError as error:
    print(type(error).__name__, errno.errorcode[error.errno])
disk.write_and_sync("file", 0, [b"x" * 4000])
print("goes on")
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == ["OSError EFBIG", "goes on"], done.stderr


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileDisk(tmp_path).write_and_sync("file", 0, [b"octets"])


# Descriptors


def test_few_descriptors_serve_many_files(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, max_descriptors=3)
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(3):
        for number in range(50):
            disk.append(f"file{number}", [b"%d" % turn])
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    assert {(tmp_path / f"file{number}").read_bytes() for number in range(50)} == {b"012"}
    disk.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_with_unsynced_octets_is_synced_before_it_loses_its_descriptor(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path, max_descriptors=2)
    for name in ("clean", "dirty"):
        disk.append(name, [b"x"])
    disk.sync("clean")
    assert disk.syncs == 1
    disk.append("third", [b"x"])  # takes the place of the clean one
    assert disk.syncs == 1
    disk.append("fourth", [b"x"])
    assert disk.syncs == 2
    disk.is_failing = True
    with pytest.raises(SyncFailed):
        disk.append("fifth", [b"x"])
    with pytest.raises(SyncFailed):
        disk.append("fourth", [b"x"])


def test_two_threads_with_hardly_any_descriptors(tmp_path: Path) -> None:
    """Each appends to, syncs and reads files of its own, as the loop and the I/O thread do."""
    disk = FileDisk(tmp_path, max_descriptors=2)
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for turn in range(300):
                path = f"{name}{turn % 7}"
                disk.append(path, [path.encode() * 3])
                if turn % 5 == 0:
                    disk.sync(path)
                expected = path.encode() * 3 * (turn // 7 + 1)
                assert disk.read(path, 0, 10_000) == expected
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# The folder as a whole


def test_an_empty_or_absent_folder_is_claimed(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "data"
    disk = FileDisk(root)
    disk.lock()
    assert sorted(os.listdir(root)) == ["FORMAT", "LOCK"]
    assert read_format(disk) == {"format": FORMAT_NAME, "version": BASE_VERSION}
    assert (root / "LOCK").read_text() == f"{os.getpid()}\n"
    disk.close()
    again = FileDisk(root)
    again.lock()
    again.close()


@pytest.mark.parametrize("leftover", ["LOCK", "FORMAT.new", "lost+found"])
def test_an_unfinished_claim_and_a_fresh_volume_are_claimed(tmp_path: Path, leftover: str) -> None:
    (tmp_path / leftover).write_text("{")
    disk = FileDisk(tmp_path)
    disk.lock()
    assert read_format(disk) == {"format": FORMAT_NAME, "version": BASE_VERSION}
    assert not disk.exists("FORMAT.new")
    disk.close()


@pytest.mark.parametrize(
    ("before", "after"), [(4, 5), (5, 5), (6, 6)], ids=["taken over", "as the version before may read it", "raised"]
)
def test_folders_of_three_versions_are_used(tmp_path: Path, before: int, after: int) -> None:
    assert (OLDEST_VERSION, BASE_VERSION, FORMAT_VERSION) == (4, 5, 6)
    (tmp_path / FORMAT_FILE).write_text(json.dumps({"format": FORMAT_NAME, "version": before}))
    (tmp_path / "journal").mkdir()
    disk = FileDisk(tmp_path)
    disk.lock()
    assert read_format(disk) == {"format": FORMAT_NAME, "version": after}
    assert disk.list("") == [FORMAT_FILE, "LOCK", "journal"]
    disk.close()


def test_a_folder_is_raised_and_never_lowered(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.lock()
    for version, expected in ((5, 5), (6, 6), (5, 6)):
        raise_format(disk, version)
        assert read_format(disk) == {"format": FORMAT_NAME, "version": expected}
    assert disk.list("") == [FORMAT_FILE, "LOCK"]
    disk.close()
    again = FileDisk(tmp_path)
    again.lock()
    assert read_format(again) == {"format": FORMAT_NAME, "version": 6}
    again.close()


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("letters.txt", "dear", "not empty .'letters.txt' is there. and without a FORMAT file"),
        (FORMAT_FILE, "not json", "its FORMAT file cannot be read"),
        (FORMAT_FILE, "[1]", "its FORMAT file cannot be read .not a JSON object"),
        (FORMAT_FILE, '{"format": "mp3", "version": 1}', "says 'mp3' instead of"),
        (
            FORMAT_FILE,
            json.dumps({"format": FORMAT_NAME, "version": 1}),
            "in version 1 .*this broker reads 4 to 6: start it with the version",
        ),
        (FORMAT_FILE, json.dumps({"format": FORMAT_NAME, "version": 7}), "in version 7 "),
        (FORMAT_FILE, json.dumps({"format": FORMAT_NAME}), "in version None"),
        (FORMAT_FILE, b"\xff\xfe", "its FORMAT file cannot be read"),
    ],
)
def test_a_foreign_folder_is_refused_and_not_touched(
    tmp_path: Path, name: str, contents: str | bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    before = snapshot(tmp_path)
    with pytest.raises(ForeignFolder, match=reason) as raised:
        FileDisk(tmp_path).lock()
    assert raised.value.folder == str(tmp_path)
    assert snapshot(tmp_path) == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(ForeignFolder, match="a file, not a folder"):
        FileDisk(path).lock()
    assert path.read_text() == "mine"


def test_a_second_process_on_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.lock()
    before = snapshot(tmp_path)
    second = subprocess.run(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode != 0
    assert f"{tmp_path}: in use by process {os.getpid()}; stop that broker" in second.stderr
    assert snapshot(tmp_path) == before
    disk.close()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(FolderInUse) as raised:
            FileDisk(tmp_path).lock()
        assert raised.value.pid == holder.pid
        holder.kill()
    disk = FileDisk(tmp_path)
    disk.lock()
    disk.close()


def test_what_is_written_at_an_offset_replaces_what_is_there_and_goes_on_behind_it(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.append("file", [b"0123456789"])
    disk.write("file", 4, [b"ab", memoryview(b"cd"), b""])
    assert disk.read("file", 0, 99) == b"0123abcd89"
    disk.write("file", 8, [b"efgh"])
    disk.append("file", [b"!"])
    disk.sync("file")
    assert disk.read("file", 0, 99) == b"0123abcdefgh!"
    with pytest.raises(FileNotFoundError):
        disk.write("other", 0, [b"x"])
    disk.close()


def test_nothing_to_write_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems refuse a write without a buffer."""
    disk = FileDisk(str(tmp_path))
    disk.append("a", [])
    calls: list[object] = []
    monkeypatch.setattr(os, "pwritev", lambda *of: calls.append(of) or 0)
    disk.append("a", [])
    disk.write("a", 0, [])
    assert not calls
