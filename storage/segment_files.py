"""Names of journal segment files: <folder>/00000001.log, in the order of their numbers."""

from __future__ import annotations

from functools import lru_cache

from storage.disk import Disk

_SUFFIX = ".log"


@lru_cache(maxsize=8)
def segment_path(folder: str, number: int) -> str:
    """The path of a segment file."""
    return f"{folder}/{number:08d}{_SUFFIX}"


def segment_numbers(disk: Disk, folder: str) -> list[int]:
    """The numbers of the segment files in a folder, ascending. Other files are not looked at."""
    names = (name.removesuffix(_SUFFIX) for name in disk.list(folder) if name.endswith(_SUFFIX))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
