"""WORKERS: which folders of a data folder are those of its workers, and which of them have logs of groups of queues.

    {"version": 1, "workers": [1, 2, 3], "begun": [1]}
    {"version": 2, "workers": [1, 2, 3], "begun": [1, 2], "groups": {"1": 1, "2": 2}}    groups that are not worker 0's

The data folder itself is worker 0's; DIR/workers/K is like it. `begun` are those that have been ready once: who of them
has no folder any more has lost what it held, and is not to begin anew as if that had never been. Programs of the
version before read version 1, which is written while all groups are worker 0's.

Invariant: a log is where this says, and is never moved.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from amqp_broker.octets.whole_file import sync, write_whole
from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE

WORKERS_FILE: Final = "WORKERS"
_FOLDER: Final = "workers"
_WITHOUT_GROUPS: Final = 1
_VERSION: Final = 2


class StoredWorkers(NamedTuple):
    """numbers: of the workers that have folders, besides worker 0. begun: those of them that have been ready once, as
    far as the version that wrote the file has said so. groups: which of them has the log of a group, for those groups
    that are not worker 0's."""

    numbers: list[int]
    begun: list[int]
    groups: dict[int, int]

    def group_workers(self) -> tuple[int, ...]:
        """The worker of each group, from group 1 to the last that is not worker 0's."""
        return tuple(self.groups.get(group, 0) for group in range(1, max(self.groups, default=0) + 1))


def folder_of(data_dir: Path, number: int) -> Path:
    """Of a worker."""
    return data_dir / _FOLDER / str(number) if number else data_dir


def node_of_folder(folder: Path) -> Path:
    """The data folder of the node that a folder belongs to: its own, unless it is that of a worker."""
    whole = folder.absolute()
    node = whole.parent.parent
    is_workers = whole.parent.name == _FOLDER and (node / WORKERS_FILE).exists()
    return node if is_workers else folder


def has_lost_folder(data_dir: Path, number: int) -> bool:
    """Whether a worker that has been ready once has no folder any more."""
    return not (folder_of(data_dir, number) / FORMAT_FILE).exists()


def why_lost(data_dir: Path, number: int) -> str:
    """What to say of it."""
    return (
        f"{folder_of(data_dir, number)}: worker {number} was served from this folder, and it is gone: bring it back, "
        f"or restore the whole of {data_dir} from a copy, or start with --recover, without what its queues held"
    )


def read_stored(data_dir: Path) -> StoredWorkers:
    """What it says. Raises StorageError for a file that cannot be read."""
    path = data_dir / WORKERS_FILE
    try:
        said = json.loads(path.read_bytes())
        version, workers = said["version"], [int(each) for each in said["workers"]]
        begun = [int(each) for each in said.get("begun", ())]
        groups = {int(group): int(worker) for group, worker in dict(said.get("groups", {})).items()}
    except (FileNotFoundError, NotADirectoryError):  # whoever opens the folder says what is wrong with it
        return StoredWorkers([], [], {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"it does not say which workers there are ({error}): restore it from a copy"
        raise StorageError(f"{path}: {why}") from None
    if version not in (_WITHOUT_GROUPS, _VERSION):
        raise StorageError(f"{path}: version {version}, and this program reads {_VERSION}: start a newer one")
    _check_groups(path, workers, groups)
    return StoredWorkers(workers, begun, groups)


def _check_groups(path: Path, workers: list[int], groups: Mapping[int, int]) -> None:
    for group, worker in groups.items():
        if worker not in workers:
            why = f"group {group} is said to be worker {worker}'s, which is none of {workers}: restore it from a copy"
            raise StorageError(f"{path}: {why}")


def read_workers(data_dir: Path) -> list[int]:
    """The workers that have folders, besides worker 0. Raises StorageError for a file that cannot be read."""
    return read_stored(data_dir).numbers


def write_workers(
    data_dir: Path,
    workers: Collection[int],
    begun: Iterable[int] | None = None,
    groups: Mapping[int, int] | None = None,
) -> None:
    """Have it on the disk. Without workers there is no such file. begun, groups: None: as they are. Raises OSError;
    StorageError where a worker is to go that has the log of a group."""
    path = data_dir / WORKERS_FILE
    known = read_stored(data_dir)
    ready = known.begun if begun is None else begun
    written = StoredWorkers(
        sorted(workers), sorted({*ready} & {*workers}), known.groups if groups is None else dict(groups)
    )
    if written == known:
        return
    _check_groups(path, written.numbers, written.groups)
    said: dict[str, object] = {"version": _WITHOUT_GROUPS, "workers": written.numbers, "begun": written.begun}
    if written.groups:
        said |= {"version": _VERSION, "groups": {str(group): worker for group, worker in written.groups.items()}}
    if written.numbers:
        write_whole(path, json.dumps(said).encode() + b"\n")
    else:
        path.unlink(missing_ok=True)
        sync(data_dir)
