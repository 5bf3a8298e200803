"""The metadata log: JSON commands, in the order in which they were decided, in a journal of their own.

It knows nothing of what a command means. It is a Journal with three kinds of entry: a command, and the
beginning and the end of a snapshot, which is a list of commands that recreates the state.

Invariants:
1. What `recover` gives is the newest whole snapshot, then every command after it. A snapshot without its end
   (a crash while it was written) counts for nothing: the segments before it are removed only after it has
   been synced.
2. The log stays below twice the snapshot plus a constant, if the caller rewrites whenever `wants_rewrite`
   says so.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable

from storage.disk import Disk
from storage.errors import CorruptRecord
from storage.journal import Batch, Journal
from storage.segment_files import segment_path
from storage.segment_recovery import SetAside, TornTail

SEGMENT_BYTES = 16 * 1024 * 1024
SPARE_BYTES = 1024 * 1024

Command = dict[str, object]


class MetadataEntry(enum.IntEnum):
    """The kinds of entry."""

    COMMAND = 1
    SNAPSHOT_BEGIN = 2
    SNAPSHOT_END = 3
    SNAPSHOT_ABANDONED = 4


class MetadataLog:
    """The log of commands. `recover` comes first; then it is driven like a Journal: take_batch, write,
    batch_done.
    """

    def __init__(self, disk: Disk, folder: str = "metadata", segment_bytes: int = SEGMENT_BYTES) -> None:
        self.journal = Journal(disk, folder, segment_bytes)
        self._folder = folder
        self._snapshot_bytes = 0

    def recover(self, recover_damaged: bool = False) -> list[Command]:
        """The commands that recreate the state. Raises CorruptRecord, OSError; see Journal.recover."""
        commands: list[Command] = []
        snapshot: list[Command] | None = None
        octets = 0
        for segment, kind, payload in self.journal.recover(recover_damaged):
            if kind == MetadataEntry.SNAPSHOT_BEGIN:
                snapshot = []
                octets = 0
            elif kind == MetadataEntry.SNAPSHOT_END:
                if snapshot is not None:
                    commands = snapshot
                    self._snapshot_bytes = octets
                snapshot = None
            elif kind == MetadataEntry.SNAPSHOT_ABANDONED:
                snapshot = None
            elif kind == MetadataEntry.COMMAND:
                octets += len(payload)
                (commands if snapshot is None else snapshot).append(json.loads(bytes(payload)))
            else:
                path = segment_path(self._folder, segment)
                raise CorruptRecord(path, 0, f"an entry of kind {kind} does not belong into a metadata log")
        if snapshot is not None:
            # A crash has left its first records. What is appended from now on must not count as a part of it.
            self.journal.open_entry(MetadataEntry.SNAPSHOT_ABANDONED)
            self.journal.close_entry()
        return commands

    def append(self, command: Command) -> int:
        """Append, in memory; the position that must be synced to cover it. Raises TypeError: not JSON."""
        self._put(_encode(command))
        return self.position

    def wants_rewrite(self) -> bool:
        """Whether the log has outgrown its last snapshot."""
        return self.journal.total_bytes > 2 * self._snapshot_bytes + SPARE_BYTES

    def rewrite(self, snapshot: Iterable[Command]) -> int:
        """Begin the log anew with the commands that recreate the state, everything appended so far included.

        In memory only, like `append`; the old segments go with the batch that makes the new one durable. The
        position that must be synced to cover it is returned.
        """
        texts = [_encode(command) for command in snapshot]
        journal = self.journal
        journal.start_segment()
        journal.open_entry(MetadataEntry.SNAPSHOT_BEGIN)
        start = journal.close_entry()
        for text in texts:
            self._put(text)
        self._snapshot_bytes = journal.position - start
        journal.open_entry(MetadataEntry.SNAPSHOT_END)
        journal.close_entry()
        for segment in journal.segments()[:-1]:
            journal.retire(segment.number)
        return journal.position

    def take_batch(self) -> Batch | None:
        """See Journal.take_batch."""
        return self.journal.take_batch()

    def batch_done(self, batch: Batch) -> None:
        """See Journal.batch_done."""
        self.journal.batch_done(batch)

    def mark(self) -> None:
        """See Journal.mark."""
        self.journal.mark()

    @property
    def has_pending(self) -> bool:
        return self.journal.has_pending

    @property
    def position(self) -> int:
        return self.journal.position

    @property
    def total_bytes(self) -> int:
        return self.journal.total_bytes

    @property
    def torn_tail(self) -> TornTail | None:
        return self.journal.torn_tail

    @property
    def set_aside(self) -> list[SetAside]:
        return self.journal.set_aside

    def _put(self, text: bytes) -> None:
        self.journal.open_entry(MetadataEntry.COMMAND).put_bytes(text)
        self.journal.close_entry()


def _encode(command: Command) -> bytes:
    """JSON in ASCII, so that lone surrogates (octets of a name that are not UTF-8) survive."""
    return json.dumps(command, separators=(",", ":")).encode("ascii")
