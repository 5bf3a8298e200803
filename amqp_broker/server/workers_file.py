"""WORKERS: which folders of a data folder are its workers'. JSON: {"version": 1, "workers": [1, 2], "begun": [1]}.

The data folder itself is worker 0's; DIR/workers/K is like it. `begun` are those that have been ready once: who of them
has no folder any more has lost what it held, and is not to begin anew as if that had never been.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE

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
    return _numbers(data_dir, "workers")


def read_begun(data_dir: Path) -> list[int]:
    """Those of them that have been ready once, as far as the version that wrote the file has said so. Raises
    StorageError."""
    return _numbers(data_dir, "begun", ())


def has_lost_folder(data_dir: Path, number: int) -> bool:
    """Whether a worker that has been ready once has no folder any more."""
    return not (folder_of(data_dir, number) / FORMAT_FILE).exists()


def why_lost(data_dir: Path, number: int) -> str:
    """What to say of it."""
    return (
        f"{folder_of(data_dir, number)}: worker {number} was served from this folder, and it is gone: bring it back, "
        f"or restore the whole of {data_dir} from a copy, or start with --recover, without what its queues held"
    )


def _numbers(data_dir: Path, key: str, default: Iterable[int] | None = None) -> list[int]:
    path = data_dir / WORKERS_FILE
    try:
        said = json.loads(path.read_bytes())
        version = said["version"]
        workers = [int(each) for each in (said[key] if default is None else said.get(key, default))]
    except (FileNotFoundError, NotADirectoryError):  # whoever opens the folder says what is wrong with it
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"it does not say which workers there are ({error}): restore it from a copy"
        raise StorageError(f"{path}: {why}") from None
    if version != _VERSION:
        raise StorageError(f"{path}: version {version}, and this program reads {_VERSION}: start a newer one")
    return workers


def write_workers(data_dir: Path, workers: Collection[int], begun: Iterable[int] = ()) -> None:
    """Have it on the disk. Without workers there is no such file. Raises OSError."""
    path = data_dir / WORKERS_FILE
    wanted, ready = sorted(workers), sorted({*begun} & {*workers})
    if (wanted, ready) == (read_workers(data_dir), read_begun(data_dir)):
        return
    if wanted:
        new = path.with_suffix(".new")
        with open(new, "wb") as file:
            file.write(json.dumps({"version": _VERSION, "workers": wanted, "begun": ready}).encode() + b"\n")
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
