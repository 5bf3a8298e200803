"""Disk: the port through which everything else reaches files, and FileDisk, the real one.

Every path is relative to the root of the disk, with `/` between its parts; "" is the root itself. The verbs
are the least that a log needs: files grow, are cut, removed or renamed; and room that was made in one is
written over. Nothing here knows what the octets mean.

Invariants:
1. What `append` and `write` took is in the page cache only, until `sync` of the same path has returned.
2. A name (created, renamed, removed) is durable only when `sync_folder` of its folder has returned.
3. After a sync has failed, no write and no sync of this disk succeeds any more: the kernel may have thrown
   the dirty pages away, and a second sync would report success for data that is gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import cython

from storage.errors import FolderInUse, ForeignFolder, SyncFailed
from storage.folder_format import check_format, claim_format

Octets = bytes | bytearray | memoryview

LOCK_FILE = "LOCK"
MAX_DESCRIPTORS = 256
MAX_VECTORS = 512  # far below IOV_MAX of every platform
#: What has more pieces is written, and then synced: two calls. As many as _to_disk has room for.
_FEW_VECTORS = 64
#: Behind the name of a file that takes the place of another when it is whole.
_DRAFT = ".new"
_sync_number = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


class Pending(Protocol):
    """Work that runs in the background (a concurrent.futures.Future is one)."""

    def result(self) -> bytes:
        """What it returned, waited for if need be. Raises what it raised."""
        ...

    def done(self) -> bool:
        """Whether `result` does not wait."""
        ...


class Disk(Protocol):
    """What storage asks of a disk. Every verb may raise OSError; offsets, lengths and sizes are in octets."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """At most `length` octets from `offset`: fewer only where the file ends. FileNotFoundError: no such
        file.
        """
        ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted; an absent folder has none."""
        ...

    def append(self, path: str, buffers: Sequence[Octets]) -> None:
        """Write all buffers at the end of the file (created when absent). An error may leave a part of them
        there.
        """
        ...

    def write(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        """Write all buffers at `offset`, over what is there and beyond the end of the file, which is there and not
        shorter than that. Not while something is appended to it. An error may leave a part of them there.
        """
        ...

    def sync(self, path: str) -> None:
        """Make the contents of a file durable (fdatasync)."""
        ...

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        """`write` and `sync` of the same file, in one call: a thread that does it waits for the interpreter once."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable."""
        ...

    def truncate(self, path: str, size: int) -> None: ...

    def remove(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file; one that has the new name is replaced in the same step."""
        ...

    def replace(self, path: str, octets: Octets) -> None:
        """Write a small file anew, in place of what is there, if anything is: who reads it has the old one or the new
        one. It is for what may be lost: nothing of it is synced, an error is no failure of the disk, and nobody else
        waits for it meanwhile.
        """
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder and what lies above it; one that is there already is fine."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def read_ahead(self, path: str, offset: int, length: int) -> None:
        """A hint that this range is going to be read soon."""
        ...

    def in_background(self, work: Callable[[], bytes]) -> Pending | None:
        """Run it beside everything else; None: this disk cannot, or has enough to do."""
        ...

    def rewrite(self, work: Callable[[], bytes]) -> Pending | None:
        """As `in_background`, for what writes files anew and may take long: nobody who reads waits for it."""
        ...

    def free_bytes(self) -> int:
        """Octets that can still be written."""
        ...


class _Descriptor:
    """An open file of the cache. It is closed once it is out of the cache and nobody uses it."""

    __slots__ = ("is_cached", "is_dirty", "number", "users")

    def __init__(self, number: int) -> None:
        self.number = number
        self.users = 0
        self.is_cached = True
        self.is_dirty = False


class FileDisk:
    """A folder of the operating system as a Disk. Safe to use from the loop's and the I/O thread at once.

    `background` runs a piece of work in another thread (an executor's `submit`), `rewriting` what writes files anew.

    At most `max_descriptors` files stay open, however many there are. A file with unsynced octets is synced
    before it loses its descriptor, since the kernel reports a failed write-back only to a descriptor that was
    open then.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        max_descriptors: int = MAX_DESCRIPTORS,
        is_read_only: bool = False,
        background: Callable[[Callable[[], Any]], Pending] | None = None,
        rewriting: Callable[[Callable[[], Any]], Pending] | None = None,
    ) -> None:
        self.root = os.fspath(root)
        self._background = background
        self._rewriting = rewriting
        self.is_read_only = is_read_only
        self._max_descriptors = max_descriptors
        self._descriptors: OrderedDict[str, _Descriptor] = OrderedDict()
        self._guard = threading.Lock()
        self._newest = ""  # the path that was used last
        self._forgotten = 0  # so many files have lost their names
        self._failure: SyncFailed | None = None
        self._lock_descriptor = -1

    # The folder as a whole

    def lock(self) -> None:
        """Take the folder for this process until `close`, and create or check its FORMAT file.

        Raises FolderInUse, ForeignFolder (nothing is touched then), OSError.
        """
        self._check_writable()
        if os.path.exists(self.root) and not os.path.isdir(self.root):
            raise ForeignFolder(self.root, "a file, not a folder")
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        check_format(self, self.root)
        descriptor = os.open(self._full(LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 20, 0).strip()
            os.close(descriptor)
            raise FolderInUse(self.root, int(text) if text.isdigit() else 0) from None
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock_descriptor = descriptor
        claim_format(self, self.root)

    def close(self) -> None:
        """Close every descriptor and give the lock back. Unsynced octets stay unsynced."""
        with self._guard:
            for descriptor in self._descriptors.values():
                descriptor.is_cached = False
                if not descriptor.users:
                    os.close(descriptor.number)
            self._descriptors.clear()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1

    def free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    # Reading

    def read(self, path: str, offset: int, length: int) -> bytes:
        with self._open(path, create=False) as descriptor:
            data = os.pread(descriptor.number, length, offset)
            if len(data) in (0, length):
                return data
            pieces = [data]
            count = len(data)
            while count < length and (data := os.pread(descriptor.number, length - count, offset + count)):
                pieces.append(data)
                count += len(data)
            return b"".join(pieces)

    def size(self, path: str) -> int:
        return os.stat(self._full(path)).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(folder)))
        except FileNotFoundError:
            return []

    def read_ahead(self, path: str, offset: int, length: int) -> None:
        if hasattr(os, "posix_fadvise"):
            with self._open(path, create=False) as descriptor:
                os.posix_fadvise(descriptor.number, offset, length, os.POSIX_FADV_WILLNEED)

    def in_background(self, work: Callable[[], bytes]) -> Pending | None:
        return None if self._background is None else self._background(work)

    def rewrite(self, work: Callable[[], bytes]) -> Pending | None:
        return None if self._rewriting is None else self._rewriting(work)

    # Writing

    def append(self, path: str, buffers: Sequence[Octets]) -> None:
        self._check_writable()
        descriptor = self._acquire(path, create=True)
        try:
            descriptor.is_dirty = True
            _write_all(descriptor.number, os.fstat(descriptor.number).st_size, buffers)
        finally:
            self._release(path, descriptor)

    def write(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self._check_writable()
        descriptor = self._acquire(path, create=False)
        try:
            descriptor.is_dirty = True
            _write_all(descriptor.number, offset, buffers)
        finally:
            self._release(path, descriptor)

    def sync(self, path: str) -> None:
        self._check_writable()
        descriptor = self._acquire(path, create=False)
        try:
            descriptor.is_dirty = False
            self._sync_descriptor(descriptor.number)
        except OSError as error:
            raise self._remember_failure(path, error) from error
        finally:
            self._release(path, descriptor)

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        self._check_writable()
        descriptor = self._acquire(path, create=False)
        try:
            descriptor.is_dirty = False  # before, as somebody else may append meanwhile
            try:
                is_synced = self._write_and_sync_descriptor(descriptor.number, offset, buffers)
            except OSError as error:
                raise self._remember_failure(path, error) from error
            if is_synced:
                return
            descriptor.is_dirty = True
            _write_all(descriptor.number, offset, buffers)
        finally:
            self._release(path, descriptor)
        self.sync(path)

    def sync_folder(self, folder: str) -> None:
        self._check_writable()
        descriptor = self._open_number(self._full(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise self._remember_failure(folder or self.root, error) from error
        finally:
            os.close(descriptor)

    def truncate(self, path: str, size: int) -> None:
        self._check_writable()
        with self._open(path, create=False) as descriptor:
            descriptor.is_dirty = True
            os.ftruncate(descriptor.number, size)

    def remove(self, path: str) -> None:
        self._check_writable()
        os.unlink(self._full(path))
        self._forget(path)

    def rename(self, old: str, new: str) -> None:
        self._check_writable()
        os.replace(self._full(old), self._full(new))
        self._forget(old)
        self._forget(new)

    def replace(self, path: str, octets: Octets) -> None:
        self._check_writable()
        # With a descriptor of its own: nobody waits at the guard while it is opened, and no sync is owed for it.
        full = self._full(path)
        draft = full + _DRAFT
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(number, 0, [octets])
        finally:
            os.close(number)
        os.replace(draft, full)
        self._forget(path)

    def make_folder(self, path: str) -> None:
        self._check_writable()
        os.makedirs(self._full(path), mode=0o700, exist_ok=True)

    def remove_folder(self, path: str) -> None:
        self._check_writable()
        os.rmdir(self._full(path))

    # Descriptors and failures

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root

    def _sync_descriptor(self, number: int) -> None:
        _sync_number(number)

    def _write_and_sync_descriptor(self, number: int, offset: int, buffers: Sequence[Octets]) -> bool:
        """False: neither is done. Raises OSError where the sync has failed."""
        return _to_disk(number, offset, buffers) if cython.compiled else False

    def _remember_failure(self, path: str, error: OSError) -> SyncFailed:
        with self._guard:
            if self._failure is None:
                self._failure = SyncFailed(path, error)
            return self._failure

    def _check_writable(self) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, "this disk was opened for reading only", self.root)
        if self._failure is not None:
            raise SyncFailed(self._failure.path, self._failure)

    @contextmanager
    def _open(self, path: str, create: bool) -> Iterator[_Descriptor]:
        """The file's descriptor, which stays open at least until the block is left."""
        descriptor = self._acquire(path, create)
        try:
            yield descriptor
        finally:
            self._release(path, descriptor)

    def _acquire(self, path: str, create: bool) -> _Descriptor:
        """The file's descriptor, which stays open at least until it is released."""
        if cython.compiled and path == self._newest:
            # The interpreter's lock is kept between these, and whoever takes a file out of the cache does so before he
            # gives it away: the guard would say nothing more.
            known = self._descriptors.get(path)
            if known is not None:
                known.users += 1
                return known
        evicted = None
        while True:
            with self._guard:
                descriptor = self._descriptors.get(path)
                if descriptor is not None:
                    self._newest = path
                    self._descriptors.move_to_end(path)
                    descriptor.users += 1
                    return descriptor
                forgotten = self._forgotten
            # Without the guard, at which everybody else would wait for the disk.
            access = os.O_RDONLY if self.is_read_only else os.O_RDWR
            number = self._open_number(self._full(path), access | os.O_CLOEXEC | (os.O_CREAT if create else 0))
            with self._guard:
                if path not in self._descriptors and self._forgotten == forgotten:
                    descriptor = self._descriptors[path] = _Descriptor(number)
                    self._newest = path
                    descriptor.users += 1
                    if len(self._descriptors) > self._max_descriptors:
                        evicted = self._evict()
                    break
            os.close(number)  # somebody else has opened it, or some name means another file meanwhile
        if evicted is not None:
            try:
                self._release(*evicted)
            except BaseException:
                self._release(path, descriptor)
                raise
        return descriptor

    def _open_number(self, path: str, flags: int) -> int:
        """open(2). Where no descriptor is to be had, files that nobody uses now give theirs: that the process has too
        many is no failure of the disk."""
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_up_one():
                    raise

    def _give_up_one(self) -> bool:
        """Close the idle file that was used least recently, a clean one first. Returns whether there was any."""
        with self._guard:
            idle = [(one.is_dirty, path) for path, one in self._descriptors.items() if not one.users]
            if not idle:
                return False
            path = min(idle, key=lambda item: item[0])[1]
            descriptor = self._descriptors.pop(path)
            descriptor.is_cached = False
            if descriptor.users:  # somebody has it since; he closes it
                return True
            try:
                if descriptor.is_dirty and self._failure is None:
                    self._sync_descriptor(descriptor.number)
            except OSError as error:
                self._failure = self._failure or SyncFailed(path, error)
                raise self._failure from error
            finally:
                os.close(descriptor.number)
        return True

    def _evict(self) -> tuple[str, _Descriptor]:
        """Take the descriptor out of the cache that was used least recently, if possible a clean one."""
        path = next(
            (path for path, one in self._descriptors.items() if not one.is_dirty),
            next(iter(self._descriptors)),
        )
        descriptor = self._descriptors.pop(path)
        descriptor.is_cached = False
        descriptor.users += 1
        return path, descriptor

    def _release(self, path: str, descriptor: _Descriptor) -> None:
        if cython.compiled:  # see `_acquire`
            descriptor.users -= 1
            is_last = not descriptor.users and not descriptor.is_cached
        else:
            with self._guard:
                descriptor.users -= 1
                is_last = not descriptor.users and not descriptor.is_cached
        if not is_last:
            return
        try:
            if descriptor.is_dirty and self._failure is None:
                self._sync_descriptor(descriptor.number)
        except OSError as error:
            raise self._remember_failure(path, error) from error
        finally:
            os.close(descriptor.number)

    def _forget(self, path: str) -> None:
        """Close the descriptor of a file that has lost its name, without a sync.

        After that step and not before it: a reader in between may still get the old file, never a later one.
        """
        with self._guard:
            self._forgotten += 1
            descriptor = self._descriptors.pop(path, None)
            if descriptor is None:
                return
            descriptor.is_cached = False
            descriptor.is_dirty = False
            is_last = not descriptor.users
        if not is_last:
            return
        if self._background is None:
            os.close(descriptor.number)
        else:
            # The kernel frees what it had cached of the file, which takes a millisecond for every few MiB.
            self._background(partial(os.close, descriptor.number))


def _write_all(descriptor: int, offset: int, buffers: Sequence[Octets]) -> None:
    """Write every buffer, in order, however short the single writes are."""
    if not buffers:
        return  # some systems refuse to write nothing
    written = os.pwritev(descriptor, buffers, offset) if len(buffers) <= MAX_VECTORS else 0
    total = 0
    for buffer in buffers:
        total += len(buffer)
    if written == total:
        return  # as nearly always
    waiting = [memoryview(buffer).cast("B") for buffer in buffers]
    try:
        index = 0
        while True:
            offset += written
            while index < len(waiting) and written >= len(waiting[index]):
                written -= len(waiting[index])
                index += 1
            if index == len(waiting):
                break
            if written:
                waiting[index] = waiting[index][written:]
            written = os.pwritev(descriptor, waiting[index : index + MAX_VECTORS], offset)
    finally:
        for view in waiting:
            view.release()


def _to_disk(descriptor: int, offset: int, buffers: Sequence[Octets]) -> bool:
    """pwritev(2) and fdatasync(2) while others have the interpreter's lock, where a few pieces are written whole.
    Returns whether it is done. Raises OSError where the sync has failed. Compiled only."""
    count = len(buffers)
    if count > _FEW_VECTORS:
        return False
    pieces: Any
    held = total = 0
    try:
        for buffer in buffers:
            PyObject_GetBuffer(buffer, cython.address(pieces.views[held]), PyBUF_SIMPLE)  # type: ignore[name-defined]  # noqa: F821
            pieces.vector[held].iov_base = pieces.views[held].buf  # noqa: F821
            pieces.vector[held].iov_len = pieces.views[held].len  # noqa: F821
            total += pieces.views[held].len  # noqa: F821
            held += 1
        with cython.nogil:
            failure = vector_to_disk(descriptor, pieces.vector, count, offset, total)  # type: ignore[name-defined]  # noqa: F821
    finally:
        for place in range(held):
            PyBuffer_Release(cython.address(pieces.views[place]))  # type: ignore[name-defined]  # noqa: F821
    if failure > 0:
        raise OSError(failure, os.strerror(failure))
    return bool(failure == 0)
