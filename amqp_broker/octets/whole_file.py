"""A file that is there whole or not at all, whatever is cut short."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, octets: bytes) -> None:
    """Written under another name, synced, renamed, and the folder synced. Raises OSError."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """A file, or the names in a folder. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
