"""WORKERS: which folders of a data folder are those of its workers. JSON: {"version": 1, "workers": [1, 2, 3]}.

The data folder itself is worker 0's; DIR/workers/K is like it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from storage.errors import StorageError

WORKERS_FILE: Final = "WORKERS"
_FOLDER: Final = "workers"
_VERSION: Final = 1


def folder_of(data_dir: Path, number: int) -> Path:
    """Of a worker."""
    return data_dir / _FOLDER / str(number) if number else data_dir


def node_of_folder(folder: Path) -> Path:
    """The data folder of the node that a folder belongs to: its own, unless it is that of a worker."""
    whole = folder.absolute()
    node = whole.parent.parent
    is_workers = whole.parent.name == _FOLDER and (node / WORKERS_FILE).exists()
    return node if is_workers else folder


def read_workers(data_dir: Path) -> list[int]:
    """The workers that have folders, besides worker 0. Raises StorageError for a file that cannot be read."""
    path = data_dir / WORKERS_FILE
    try:
        said = json.loads(path.read_bytes())
        version, workers = said["version"], [int(each) for each in said["workers"]]
    except (FileNotFoundError, NotADirectoryError):  # whoever opens the folder says what is wrong with it
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"it does not say which workers there are ({error}): restore it from a copy"
        raise StorageError(f"{path}: {why}") from None
    if version != _VERSION:
        raise StorageError(f"{path}: version {version}, and this program reads {_VERSION}: start a newer one")
    return workers


def write_workers(data_dir: Path, workers: list[int]) -> None:
    """Have it on the disk. Without workers there is no such file. Raises OSError."""
    path = data_dir / WORKERS_FILE
    if sorted(workers) == read_workers(data_dir):
        return
    if workers:
        new = path.with_suffix(".new")
        with open(new, "wb") as file:
            file.write(json.dumps({"version": _VERSION, "workers": sorted(workers)}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    else:
        path.unlink(missing_ok=True)
    folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
