"""SimulatedDisk: a Disk in memory which forgets at a crash what a real one may forget, from a seed.

What survives a crash: everything that was synced; of what was not, in each file a random prefix of the
writes, the last of them torn anywhere (a long one mostly near its beginning), with sectors of it missing or
bits of it flipped; and of the names that were created, renamed or removed without a sync of their folder, a
random choice. Nothing else is ever lost or changed.

It can crash at the n-th change, be full, fail a sync (and from then on every one), and be stalled.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from storage.disk import Octets
from storage.errors import SyncFailed

SECTOR_BYTES = 512
#: A write of more octets is long, and is mostly torn in the first ones.
LONG_BYTES, FIRST_BYTES = 2048, 512
UNLIMITED = 1 << 62

Paths = list[str]  # inside the class `list` is the verb


class SimulatedCrash(Exception):
    """The machine went down in the middle of an operation; `SimulatedDisk.crash` brings it back."""


class _Write(NamedTuple):
    """A change of a file that has not been synced: octets at `place`, or (octets is None) a cut to that size."""

    octets: bytes | None
    place: int


class _File:
    """What a file holds for the running system, what of it is durable, and the changes between."""

    __slots__ = ("contents", "durable", "waiting")

    def __init__(self) -> None:
        self.contents = bytearray()
        self.durable = bytearray()
        self.waiting: list[_Write] = []


class _Folder:
    """A folder; it has no contents of its own."""

    __slots__ = ()


_Node = _File | _Folder


class _Change(NamedTuple):
    """A change of names in `folder` that has not been synced: `node` goes from `old` ("": it is new) to
    `new`.
    """

    folder: str
    node: _Node
    old: str
    new: str


class SimulatedDisk:
    """See the module's docstring. `capacity` is in octets."""

    def __init__(self, chance: random.Random, capacity: int = UNLIMITED) -> None:
        self.capacity = capacity
        self.crash_at: int | None = None  # crash in the n-th change from now, counted from 1
        self.fail_sync_at: int | None = None  # fail the n-th sync of a file from now, counted from 1
        self.is_stalled = False  # a sync would not return: the simulator's driver must not ask for one
        self.sync_count = 0
        self.append_count = 0
        self.is_down = False
        self._chance = chance
        self._names: dict[str, _Node] = {"": _Folder()}
        self._durable_names: dict[str, _Node] = dict(self._names)
        self._changes: list[_Change] = []
        self._failure: SyncFailed | None = None

    # The port

    def read(self, path: str, offset: int, length: int) -> bytes:
        return bytes(memoryview(self._file(path).contents)[offset : offset + length])

    def size(self, path: str) -> int:
        return len(self._file(path).contents)

    def exists(self, path: str) -> bool:
        self._check_up()
        return path in self._names

    def list(self, folder: str) -> Paths:
        self._check_up()
        prefix = f"{folder}/" if folder else ""
        found = (name[len(prefix) :] for name in self._names if name and name.startswith(prefix))
        return sorted(name for name in found if "/" not in name)

    def append(self, path: str, buffers: Sequence[Octets]) -> None:
        self._begin_change()
        node = self._names.get(path)
        if node is None:
            self._check_parent(path)
            node = _File()
            self._rename(node, "", path)
        file = self._file(path)
        self._write(path, file, len(file.contents), b"".join(buffers))

    def write(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self._begin_change()
        file = self._file(path)
        if offset > len(file.contents):
            raise ValueError(f"{path} has {len(file.contents)} octets: a write at {offset} would leave a hole")
        self._write(path, file, offset, b"".join(buffers))

    def sync(self, path: str) -> None:
        self._begin_change()
        file = self._file(path)
        self.sync_count += 1
        if self.is_stalled:
            raise RuntimeError(
                f"sync of {path} on a stalled disk: the driver has to wait until it is not stalled"
            )
        self._fail_if_due(path)
        if self._end_change():
            file.durable[:] = file.contents
            file.waiting.clear()

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self.write(path, offset, buffers)
        self.sync(path)

    def sync_folder(self, folder: str) -> None:
        self._begin_change()
        if not isinstance(self._names.get(folder), _Folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder on the simulated disk", folder)
        if self._end_change():
            for change in self._changes:
                if change.folder == folder:
                    self._make_durable(change)
            self._changes = [change for change in self._changes if change.folder != folder]

    def truncate(self, path: str, size: int) -> None:
        self._begin_change()
        file = self._file(path)
        if size > len(file.contents):
            raise ValueError(f"{path} has {len(file.contents)} octets: truncate cannot make them {size}")
        del file.contents[size:]
        file.waiting.append(_Write(None, size))
        self._end_change()

    def remove(self, path: str) -> None:
        self._begin_change()
        self._rename(self._file(path), path, "")
        self._end_change()

    def rename(self, old: str, new: str) -> None:
        self._begin_change()
        if _parent(old) != _parent(new):
            raise ValueError(f"{old} and {new} are in two folders: the simulation knows no such rename")
        self._rename(self._file(old), old, new)
        self._end_change()

    def replace(self, path: str, octets: Octets) -> None:
        draft = f"{path}.new"
        if self.exists(draft):
            self.remove(draft)
        self.append(draft, [octets])
        self.rename(draft, path)

    def make_folder(self, path: str) -> None:
        self._begin_change()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if folder not in self._names:
                self._rename(_Folder(), "", folder)
        self._end_change()

    def remove_folder(self, path: str) -> None:
        self._begin_change()
        node = self._names.get(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder on the simulated disk", path)
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "Folder of the simulated disk is not empty", path)
        self._rename(node, path, "")
        self._end_change()

    def read_ahead(self, path: str, offset: int, length: int) -> None:
        self._file(path)

    def in_background(self, work: Callable[[], bytes]) -> None:
        """Nothing runs beside the simulation."""

    def rewrite(self, work: Callable[[], bytes]) -> None:
        """See in_background."""

    def free_bytes(self) -> int:
        return self.capacity - self._used_bytes()

    # What a simulation does to it

    @property
    def has_failed(self) -> bool:
        """Whether a sync has failed, so that every one fails."""
        return self._failure is not None

    def crash(self) -> None:
        """The machine goes down and comes up again: only what may survive is still there."""
        for change in self._changes:
            if self._chance.random() < 0.5:
                self._make_durable(change)
        self._changes.clear()
        while True:  # what lies in a folder that did not survive is gone with it
            lost = [path for path in self._durable_names if path and _parent(path) not in self._durable_names]
            if not lost:
                break
            for path in lost:
                del self._durable_names[path]
        self._names = dict(self._durable_names)
        for node in self._names.values():
            if isinstance(node, _File):
                self._tear(node)
        self._failure = None
        self.come_back()

    def come_back(self) -> None:
        """Only the process has died, and a new one begins: the page cache is still there."""
        self.is_down = False
        self.crash_at = None
        self.fail_sync_at = None
        self.is_stalled = False

    def contents(self, path: str) -> bytes:
        """The whole file, as the running system sees it."""
        return bytes(self._file(path).contents)

    def overwrite(self, path: str, octets: bytes) -> None:
        """Replace what a file durably holds, as decay or an operator's hand would."""
        file = self._file(path)
        file.contents[:] = octets
        file.durable[:] = octets
        file.waiting.clear()

    def files(self) -> Paths:
        """The paths of all files, sorted."""
        return sorted(path for path, node in self._names.items() if isinstance(node, _File))

    def unsynced(self) -> Paths:
        """The paths of files that a crash might change now, sorted."""
        return sorted(path for path, node in self._names.items() if isinstance(node, _File) and node.waiting)

    # Inner workings

    def _file(self, path: str) -> _File:
        self._check_up()
        node = self._names.get(path)
        if not isinstance(node, _File):
            raise FileNotFoundError(errno.ENOENT, "No such file on the simulated disk", path)
        return node

    def _check_up(self) -> None:
        if self.is_down:
            raise RuntimeError("the simulated disk is down: call crash() before it is used again")

    def _check_parent(self, path: str) -> None:
        if not isinstance(self._names.get(_parent(path)), _Folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder on the simulated disk", _parent(path))

    def _write(self, path: str, file: _File, offset: int, octets: bytes) -> None:
        kept = octets
        if self.capacity != UNLIMITED:
            kept = octets[: max(0, len(file.contents) - offset + self.capacity - self._used_bytes())]
        file.contents[offset : offset + len(kept)] = kept
        file.waiting.append(_Write(kept, offset))
        self.append_count += 1
        self._end_change()
        if len(kept) < len(octets):
            raise OSError(errno.ENOSPC, "No space left on the simulated disk", path)

    def _begin_change(self) -> None:
        self._check_up()
        if self._failure is not None:
            raise SyncFailed(self._failure.path, self._failure)

    def _end_change(self) -> bool:
        """Count a change; raises SimulatedCrash when it is the one to crash in."""
        if self.crash_at is not None:
            self.crash_at -= 1
            if self.crash_at == 0:
                self.is_down = True
                raise SimulatedCrash
        return True

    def _fail_if_due(self, path: str) -> None:
        if self.fail_sync_at is not None:
            self.fail_sync_at -= 1
            if self.fail_sync_at == 0:
                self._failure = SyncFailed(
                    path, OSError(errno.EIO, "Input/output error of the simulated disk")
                )
                raise self._failure

    def _used_bytes(self) -> int:
        return sum(len(node.contents) for node in self._names.values() if isinstance(node, _File))

    def _rename(self, node: _Node, old: str, new: str) -> None:
        """Change the names; "" as `old` creates, as `new` removes."""
        if old:
            del self._names[old]
        if new:
            self._names[new] = node
        self._changes.append(_Change(_parent(new or old), node, old, new))

    def _make_durable(self, change: _Change) -> None:
        names = self._durable_names
        if change.old:
            if names.get(change.old) is not change.node:
                return  # what it builds upon did not survive
            del names[change.old]
        if change.new:
            names[change.new] = change.node

    def _tear(self, file: _File) -> None:
        """Keep a random prefix of the unsynced writes, and damage what is left of the last of them."""
        kept = self._chance.randint(0, len(file.waiting))
        for count, write in enumerate(file.waiting):
            if count == kept and (write.octets is None or not write.octets):
                break
            if write.octets is None:
                del file.durable[write.place :]
                continue
            start = write.place
            if count < kept:
                file.durable[start : start + len(write.octets)] = write.octets
            else:
                before = bytes(file.durable[start : start + len(write.octets)])
                length = self._torn_length(len(write.octets))
                file.durable[start : start + length] = write.octets[:length]
                self._damage(file.durable, start, start + length, before)
                break
        file.contents[:] = file.durable
        file.waiting.clear()

    def _torn_length(self, length: int) -> int:
        """How much is left of a torn write. Anywhere in a long one would be almost always behind the records that the
        journal writes before the zeroes of its room: those would survive without a sync as if there were one."""
        if length > LONG_BYTES and self._chance.random() < 0.8:
            return self._chance.randint(0, FIRST_BYTES)
        return self._chance.randint(0, length)

    def _damage(self, octets: bytearray, start: int, end: int, before: bytes) -> None:
        """Leave out sectors, or flip bits, of what was written from `start` to `end`; or leave it alone. A sector that
        was left out has what was there `before`, or zeroes where nothing was."""
        if start == end:
            return
        kind = self._chance.randrange(3)
        if kind == 0:
            for _ in range(self._chance.randint(1, 4)):
                octets[self._chance.randrange(start, end)] ^= 1 << self._chance.randrange(8)
        elif kind == 1:
            for sector in range(start, end, SECTOR_BYTES):
                if self._chance.random() < 0.5:
                    there = min(sector + SECTOR_BYTES, end) - sector
                    old = before[sector - start : sector - start + there]
                    octets[sector : sector + there] = old + bytes(there - len(old))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
