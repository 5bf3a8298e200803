"""StagingLog: messages of a foreign broker in files of a folder that all machines share (`mode=staged`).

    FOLDER/incarnation                  drawn by lot when the folder was made
    FOLDER/lock                         held by the driver that writes
    FOLDER/FIRST-END.blob               the messages [FIRST, END), as a blob (docs/leases.md)

A file appears whole, synced, under its name, or not at all; so what the folder holds is an unbroken log from its first
file to its last. It knows nothing of Spark and AMQP.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

from amqp_broker.octets.whole_file import write_whole
from spark_connector.errors import ConnectorError


class StagingLog:
    """The log of one queue and group. Reading needs no lock; `lock` comes before `append` and `trim`."""

    def __init__(self, folder: str, group: str, queue: str) -> None:
        self._folder = Path(folder, quote(group, safe=""), quote(queue, safe=""))
        self._lock: IO[bytes] | None = None
        self.incarnation = ""
        self.first = 0
        self.next = 0

    def lock(self) -> None:
        """Makes the folder if need be, and takes it for this process. Raises ConnectorError if another one has it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / "lock").open("wb")
        except OSError as error:
            raise ConnectorError(f"option 'stagingDir': cannot write to {self._folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConnectorError(
                f"option 'stagingDir': another query stages into {self._folder}: give each query a 'group' of its own"
            ) from None
        name = self._folder / "incarnation"
        if not name.exists():
            write_whole(name, uuid.uuid4().hex.encode())
        self.incarnation = name.read_text(encoding="ascii")
        files = self._files()
        self.first = files[0][0] if files else self._floor()
        self.next = files[-1][1] if files else self.first

    def append(self, blob: bytes, count: int) -> None:
        """The next `count` messages, durable when this returns. Raises OSError."""
        end = self.next + count
        write_whole(self._folder / f"{self.next:020d}-{end:020d}.blob", blob)
        self.next = end

    def trim(self, upto: int) -> None:
        """Drops the files whose messages are all before `upto`."""
        if upto > self._floor():
            write_whole(self._folder / "trimmed", str(upto).encode())
        for first, end, path in self._files():
            if end > upto:
                self.first = max(upto, first)
                return
            path.unlink(missing_ok=True)
        self.first = max(self.first, upto)

    def read(self, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
        """The blobs that hold [start, end), in order, each with how many of its messages come before and how many of it
        belong to the range. Raises ConnectorError if one is missing."""
        at = start
        for first, behind, path in self._files():
            if behind <= at or first >= end:
                continue
            if first > at:
                break
            yield path.read_bytes(), at - first, min(behind, end) - at
            at = min(behind, end)
        if at < end:
            raise ConnectorError(f"{self._folder} does not hold messages {at} to {end}: option 'stagingDir' has to be "
                                 "the same folder on the driver and on all executors, and be left alone")  # fmt: skip

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _floor(self) -> int:
        path = self._folder / "trimmed"
        return int(path.read_text(encoding="ascii")) if path.exists() else 0

    def _files(self) -> list[tuple[int, int, Path]]:
        found = []
        for path in self._folder.glob("*.blob"):
            first, _, end = path.stem.partition("-")
            found.append((int(first), int(end), path))
        return sorted(found)
