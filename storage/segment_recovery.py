"""Reading a journal back after a stop of any kind: what is good, what is a torn tail, what is damage.

What a crash can do follows from how the journal writes (journal.py, invariant 3): a batch is written only
after the one before it has been synced, and a segment is created only by a batch. So, R1 to R7:

R1. What the last batch wrote may be missing, cut short, full of holes or garbled, in any of its records; a
    segment that it created may be missing or empty. Nothing else may be.
R2. A record knows where in its file its batch begins (`context`). A good record of a batch that begins
    *behind* a bad place proves that the bad place was synced once: that is damage. A good record of a batch
    that begins at or before it proves nothing: a disk may well have written the end of a batch and not its
    beginning.
R3. The beginning of a segment proves that all earlier segments were synced: a bad place in any but the last
    segment is damage. So is a missing segment between two others, and a bad head of the oldest segment unless
    it is number 1: segments before it are removed only after it has been synced.
R4. A bad place in the last segment without a proof of R2 is a torn tail. It is cut, synced and told of. What
    is cut was never confirmed, or is the last batch of all, damaged later without a trace of when
    (Journal.mark narrows that).
R5. A record with a good checksum at the wrong position is damage as well, never something to cut, and so is
    one in a version or of a kind that is not known: a newer program wrote that.
R6. Zeroes behind the last record of the last segment, up to its end, are room (journal.py): they are cut, and
    nothing is told, since whatever else may have been there was never confirmed. In any other segment they are
    damage: before the next one is begun the room of the last one is cut, and that is synced.
R7. When reading has ended, the last segment and the folder are synced, so that nothing that was read can
    still get lost, and the last segment has its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from storage.disk import Disk
from storage.errors import CorruptRecord
from storage.record_reader import Damage, RecordReader
from storage.records import (
    SEGMENT_BYTES,
    Fault,
    Record,
    RecordKind,
    pack_segment,
    unpack_gap,
    unpack_segment,
)
from storage.segment_files import segment_numbers, segment_path


class TornTail(NamedTuple):
    """The unfinished end of a journal that was cut off: `bytes` octets of `file` from `offset` on."""

    file: str
    offset: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.bytes} octets of {self.file} from {self.offset} on"


class SetAside(NamedTuple):
    """A damaged part: `bytes` octets of `file` from `offset` on, copied to `copy` ("" where nothing was
    there).
    """

    file: str
    offset: int
    bytes: int
    copy: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.bytes} octets of {self.file} from {self.offset} on" if self.bytes else self.file
        return f"{where}: {self.reason}" + (f"; they are in {self.copy}" if self.copy else "")


class JournalBatch(NamedTuple):
    """A BATCH record of a segment, with where it was found."""

    segment: int
    file: str
    record: Record


class Recovery:
    """One reading of a journal. After `batches` is exhausted: `position`, `segments` (number, start, bytes),
    `torn_tail`.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self.position = 0
        self.segments: list[tuple[int, int, int]] = []
        self.torn_tail: TornTail | None = None
        self._disk = disk
        self._folder = folder

    def batches(self) -> Iterator[JournalBatch]:
        """Every BATCH record in order. Raises CorruptRecord, OSError."""
        self._disk.make_folder(self._folder)
        numbers = segment_numbers(self._disk, self._folder)
        for index, number in enumerate(numbers):
            if index and number != numbers[index - 1] + 1:
                missing = segment_path(self._folder, numbers[index - 1] + 1)
                raise CorruptRecord(missing, 0, "the segment is missing")
            yield from self._segment_batches(number, is_first=not index, is_last=number == numbers[-1])
        if not numbers:
            self._begin(1)
        self._disk.sync(segment_path(self._folder, self.segments[-1][0]))
        self._disk.sync_folder(self._folder)
        self._disk.sync_folder("")

    def _segment_batches(self, number: int, is_first: bool, is_last: bool) -> Iterator[JournalBatch]:
        path = segment_path(self._folder, number)
        reader = RecordReader(self._disk, path, may_have_room=is_last)
        start = self.position
        has_synced_head = head_was_synced(number, is_first)
        while (record := reader.next()) is not None:
            if isinstance(record, Damage):
                may_be_torn = is_last and not (record.offset == 0 and has_synced_head)
                self._cut_or_raise(path, reader, record, may_be_torn)
                break
            if record.offset == 0:
                start = self._open_segment(path, number, record, is_first)
            elif record.position != self.position:
                reason = f"{Fault.MISPLACED.value} (it is at position {record.position}, not {self.position})"
                raise CorruptRecord(path, record.offset, reason)
            elif record.kind == RecordKind.BATCH:
                yield JournalBatch(number, path, record)
                self.position += record.length
            elif record.kind == RecordKind.GAP:
                self.position = self._gap_end(path, record)
            else:
                reason = f"a record of kind {record.kind} does not belong into a journal"
                raise CorruptRecord(path, record.offset, reason)
        if reader.offset and reader.offset < self._disk.size(path):
            self._disk.truncate(path, reader.offset)
        if reader.offset:
            self.segments.append((number, start, reader.offset))
        elif is_last and not has_synced_head:
            self._begin(number)
        else:
            raise CorruptRecord(path, 0, "the segment is empty")

    def _open_segment(self, path: str, number: int, record: Record, is_first: bool) -> int:
        """Check the head of a segment; its start position. The oldest says where the journal begins."""
        if record.kind != RecordKind.SEGMENT:
            raise CorruptRecord(path, 0, "the segment does not begin with its head")
        try:
            found, start = unpack_segment(record.payload)
        except ValueError as error:
            raise CorruptRecord(path, 0, str(error)) from None
        if found != number:
            raise CorruptRecord(path, 0, f"{Fault.MISPLACED.value}: the head of segment {found}")
        if is_first:
            self.position = start
        elif start != self.position:
            raise CorruptRecord(
                path, 0, f"the segment begins at position {start} and the one before ends at {self.position}"
            )
        return start

    def _gap_end(self, path: str, record: Record) -> int:
        """The position at which the log goes on after a damaged part that was set aside."""
        try:
            end = unpack_gap(record.payload)
        except ValueError as error:
            raise CorruptRecord(path, record.offset, str(error)) from None
        if end < record.position:
            raise CorruptRecord(path, record.offset, f"a gap from position {record.position} back to {end}")
        return end

    def _cut_or_raise(self, path: str, reader: RecordReader, damage: Damage, may_be_torn: bool) -> None:
        """A bad place: cut the file there if it is a torn tail (R4), else raise CorruptRecord."""
        if not may_be_torn or not is_torn_tail(reader, damage, self.position):
            raise CorruptRecord(path, damage.offset, damage.fault.value)
        self.torn_tail = TornTail(path, damage.offset, reader.size - damage.offset)
        self._disk.truncate(path, damage.offset)
        self._disk.sync(path)

    def _begin(self, number: int) -> None:
        """Write the head of an empty last segment, or of the very first one."""
        path = segment_path(self._folder, number)
        self._disk.append(path, [pack_segment(number, self.position)])
        self.segments.append((number, self.position, SEGMENT_BYTES))


def head_was_synced(number: int, is_first: bool) -> bool:
    """Whether the head of a segment, at least, is known to have been synced: those before it are gone."""
    return is_first and number > 1


def is_torn_tail(reader: RecordReader, damage: Damage, position: int) -> bool:
    """Whether a bad place in the last segment is a torn tail (R4): nothing behind it proves a sync (R2).

    `position` is where the journal has come to before it.
    """
    if damage.fault in (Fault.VERSION, Fault.KIND):
        return False
    found = reader.find(damage.offset + 1, position, may_skip=False)
    return all(record.offset - record.context <= damage.offset for record in found)
