"""AuditFiles: the files of the audit log: appended to, followed by a new one when they are long, and read backwards.

    audit/00000001.log, audit/00000002.log, ...     lines of JSON; the highest number is written to

Everything here touches the disk and runs in a thread of the driver, but for `open`. It may be read while it is written:
a reader stops at the last end of a line, and a file that has gone meanwhile has no lines.

Invariants:
1. What `append` has returned from is on the disk.
2. Whatever an append that failed has left is cut off before the next one: a line is whole or is not there.
3. There are at most `most_files` files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from storage.disk import Disk

FOLDER = "audit"
_SUFFIX = ".log"
_DIGITS = 8
#: So much is read at a time; a line is shorter than that.
_BLOCK_BYTES = 64 * 1024


class Place(NamedTuple):
    """Before this octet of this file."""

    file: int
    offset: int


class Found(NamedTuple):
    """lines: newest first, each with its place. next: from where to go on, None at the beginning of the log."""

    lines: list[tuple[Place, bytes]]
    next: Place | None


class AuditFiles:
    """max_file_bytes: a file that has grown to this size is followed by a new one."""

    def __init__(self, disk: Disk, max_file_bytes: int, most_files: int) -> None:
        self._disk = disk
        self._max_file_bytes = max_file_bytes
        self._most_files = most_files
        self._number = 0
        self._size = 0
        self._is_new = True

    def open(self) -> None:
        """Find the end of what is there; a line that a crash has cut is removed. Raises OSError."""
        numbers = self._numbers()
        if not numbers:
            return
        self._number, self._is_new = numbers[-1], False
        path, size = _path(self._number), self._disk.size(_path(self._number))
        self._size = size
        while self._size:
            start = max(0, self._size - _BLOCK_BYTES)
            end = self._disk.read(path, start, self._size - start).rfind(b"\n")
            self._size = start + end + 1 if end >= 0 else start
            if end >= 0:
                break
        if self._size != size:
            self._disk.truncate(path, self._size)

    def append(self, octets: bytes) -> None:
        """Whole lines. Raises OSError, StorageError."""
        disk = self._disk
        if self._is_new or self._size >= self._max_file_bytes:
            self._begin_file()
        path = _path(self._number)
        try:
            disk.append(path, [octets])
        except OSError:
            with suppress(OSError):
                disk.truncate(path, self._size)
            raise
        disk.sync(path)
        self._size += len(octets)

    def _begin_file(self) -> None:
        disk = self._disk
        disk.make_folder(FOLDER)
        disk.append(_path(self._number + 1), [b""])
        disk.sync_folder(FOLDER)
        if self._is_new:
            disk.sync_folder("")
        self._number, self._size, self._is_new = self._number + 1, 0, False
        for number in self._numbers()[: -self._most_files]:
            disk.remove(_path(number))

    def read(
        self, before: Place | None, limit: int, most_bytes: int, is_wanted: Callable[[bytes], bool]
    ) -> Found:
        """Lines before a place (None: the newest), newest first: so many that are wanted, or as many as there are in
        so many octets. Raises OSError."""
        lines: list[tuple[Place, bytes]] = []
        numbers = [number for number in self._numbers() if before is None or number <= before.file]
        left = most_bytes
        for number in reversed(numbers):
            try:
                end = self._disk.size(_path(number))
                if before is not None and number == before.file:
                    end = min(end, before.offset)
                while end > 0:
                    if left <= 0:
                        return Found(lines, Place(number, end))
                    start, block = self._block(number, end)
                    left -= len(block)
                    end = self._take(Place(number, start), block, lines, limit, is_wanted)
                    if len(lines) >= limit:
                        return Found(lines, lines[-1][0])
            except FileNotFoundError:
                break  # it has made room, and all before it
        return Found(lines, None)

    def _block(self, number: int, end: int) -> tuple[int, bytes]:
        """Whole lines up to `end`, and where they begin; octets behind the last end of a line belong to none yet."""
        start = max(0, end - _BLOCK_BYTES)
        block = self._disk.read(_path(number), start, end - start)
        first = 0 if start == 0 else block.find(b"\n") + 1
        return start + first, block[first:]

    @staticmethod
    def _take(
        place: Place, block: bytes, lines: list[tuple[Place, bytes]], limit: int, is_wanted: Callable[[bytes], bool]
    ) -> int:
        """Take lines from the end of a block. Returns where those begin that are left."""
        end = block.rfind(b"\n") + 1
        while end > 0 and len(lines) < limit:
            start = block.rfind(b"\n", 0, end - 1) + 1
            line = block[start : end - 1]
            if line and is_wanted(line):
                lines.append((Place(place.file, place.offset + start), line))
            end = start
        return place.offset

    def _numbers(self) -> list[int]:
        """Of the files that are there, the oldest first; what is called otherwise is somebody else's."""
        names = [name.removesuffix(_SUFFIX) for name in self._disk.list(FOLDER) if name.endswith(_SUFFIX)]
        return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())


def _path(number: int) -> str:
    return f"{FOLDER}/{number:0{_DIGITS}d}{_SUFFIX}"
