"""Setting files aside in the folder damaged/: nothing that may still be wanted is thrown away.

It knows nothing of what is in them. A name that is taken gets a number.
"""

from __future__ import annotations

from storage.disk import Disk
from storage.segment_files import segment_numbers, segment_path

DAMAGED_FOLDER = "damaged"
COPY_BYTES = 1024 * 1024


class Aside:
    """Files on their way; `finish` makes them durable."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._new: list[str] = []
        self._old: list[str] = []

    def copy(self, path: str, name: str, start: int = 0, end: int | None = None) -> str:
        """Copy a file, or octets start..end of it. Returns the copy's path. Raises OSError."""
        target = self._free(name)
        copy_octets(self._disk, path, start, self._disk.size(path) if end is None else end, target)
        self._disk.sync(target)
        self._new.append(target)
        return target

    def move(self, path: str, name: str) -> str:
        """Copy a file, and have `finish` remove it. Returns the copy's path. Raises OSError."""
        self._old.append(path)
        return self.copy(path, name)

    def finish(self) -> list[str]:
        """Sync the folder. Returns the paths of all that was set aside. Raises OSError."""
        if self._new:
            self._disk.sync_folder(DAMAGED_FOLDER)
            self._disk.sync_folder("")
        for path in self._old:
            self._disk.remove(path)
        new, self._new, self._old = self._new, [], []
        return new

    def _free(self, name: str) -> str:
        """A path in damaged/ that is not taken."""
        self._disk.make_folder(DAMAGED_FOLDER)
        stem = f"{DAMAGED_FOLDER}/{name}"
        target = stem
        attempt = 1
        while self._disk.exists(target):
            attempt += 1
            target = f"{stem}-{attempt}"
        return target


def copy_octets(disk: Disk, source: str, start: int, end: int, target: str) -> None:
    """Append octets start..end of a file to another one. Raises OSError."""
    if start == end:
        disk.append(target, [])
    for offset in range(start, end, COPY_BYTES):
        disk.append(target, [disk.read(source, offset, min(COPY_BYTES, end - offset))])


def copy_journal(disk: Disk, folder: str) -> list[str]:
    """Copy a whole journal, as it is. Returns the paths of the copies. Raises OSError."""
    aside = Aside(disk)
    for number in segment_numbers(disk, folder):
        aside.copy(segment_path(folder, number), f"{folder}-{number:08d}.log")
    return aside.finish()
