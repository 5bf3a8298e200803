"""A report on a data folder, made without a running broker and without changing anything, however damaged it
is.

It knows nothing of what entries and pages hold; a caller that does may pass a callable to look at each
journal entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from storage.disk import Disk
from storage.entries import entries_of
from storage.folder_format import read_format
from storage.page_store import PAGES_FOLDER, page_path, page_position, page_segments
from storage.record_reader import Damage, RecordReader
from storage.records import PAGE_KINDS, Fault, Record, RecordKind, unpack_gap, unpack_segment
from storage.segment_files import segment_numbers, segment_path
from storage.segment_recovery import head_was_synced, is_torn_tail

EntryLook = Callable[[int, int, memoryview], None]


@dataclass(frozen=True, slots=True)
class BadRecord:
    """Octets at `offset` of `file` that are not the record that should be there.

    A torn tail is the normal trace of a crash: the next start cuts it off. Anything else needs --recover.
    """

    file: str
    offset: int
    reason: str
    is_torn_tail: bool = False


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """One journal segment: octets, intact records, entries by kind (ascending), and the first bad record."""

    file: str
    bytes: int
    records: int
    entries: dict[int, int]
    first_bad: BadRecord | None


@dataclass(frozen=True, slots=True)
class LogReport:
    """The journal. `first_bad` is the first bad record of all, or a missing segment."""

    segments: tuple[SegmentReport, ...]
    first_bad: BadRecord | None

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The pages of one queue, dead ones included: segment files, intact pages, octets, and what is bad."""

    queue_id: int
    segments: int
    pages: int
    bytes: int
    bad: tuple[BadRecord, ...]


@dataclass(frozen=True, slots=True)
class FolderReport:
    """All of it. `format` is what FORMAT says (None: nothing), `format_error` what is wrong with it."""

    format: dict[str, object] | None
    format_error: str
    journal: LogReport
    queues: tuple[QueueReport, ...]
    damaged_parts: tuple[str, ...]


def inspect_folder(disk: Disk, on_entry: EntryLook | None = None, journal: str = "journal") -> FolderReport:
    """Read everything in a data folder and report. Raises OSError where the system cannot read at all.

    `on_entry(segment number, kind, payload)` is called for every entry of the journal that can be read, in
    order.
    """
    try:
        contents, format_error = read_format(disk), ""
    except ValueError as error:
        contents, format_error = None, str(error)
    queue_ids = sorted(int(name) for name in disk.list(PAGES_FOLDER) if name.isascii() and name.isdigit())
    return FolderReport(
        format=contents,
        format_error=format_error,
        journal=_inspect_log(disk, journal, on_entry),
        queues=tuple(_inspect_queue(disk, queue_id) for queue_id in queue_ids),
        damaged_parts=tuple(disk.list("damaged")),
    )


@dataclass(slots=True)
class _Progress:
    """Where a log has come to while it is read; `position` is None while that is not known."""

    position: int | None
    is_last: bool
    has_synced_head: bool
    records: int = 0
    entries: dict[int, int] = field(default_factory=dict)
    first_bad: BadRecord | None = None


def _inspect_log(disk: Disk, folder: str, on_entry: EntryLook | None) -> LogReport:
    reports: list[SegmentReport] = []
    first_bad: BadRecord | None = None
    position: int | None = None
    previous: int | None = None
    numbers = segment_numbers(disk, folder)
    for number in numbers:
        if previous is not None and number != previous + 1:
            missing = segment_path(folder, previous + 1)
            first_bad = first_bad or BadRecord(missing, 0, "the segment is missing")
            position = None
        previous = number
        is_synced = head_was_synced(number, is_first=number == numbers[0])
        progress = _Progress(position, number == numbers[-1], is_synced)
        report = _inspect_segment(disk, folder, number, progress, on_entry)
        reports.append(report)
        first_bad = first_bad or report.first_bad
        position = progress.position
    return LogReport(tuple(reports), first_bad)


def _inspect_segment(
    disk: Disk, folder: str, number: int, progress: _Progress, on_entry: EntryLook | None
) -> SegmentReport:
    """Read a segment to its end, and behind a bad record go on at the next intact one."""
    path = segment_path(folder, number)
    reader = RecordReader(disk, path, may_have_room=progress.is_last)
    if reader.size == 0 and not (progress.is_last and not progress.has_synced_head):
        progress.first_bad = BadRecord(path, 0, "the segment is empty")
    while (record := reader.next()) is not None:
        if isinstance(record, Damage):
            reason = record.fault.value
            may_be_torn = progress.is_last and not (record.offset == 0 and progress.has_synced_head)
            is_torn = may_be_torn and is_torn_tail(reader, record, progress.position or 0)
            found = next(reader.find(record.offset + 1, progress.position or 0, may_skip=True), None)
            reader.offset = found.offset if found is not None else reader.size
            progress.position = found.position if found is not None else None
        else:
            is_torn = False
            reason = _judge(record, number, progress)
            if not reason:
                progress.records += 1
                reason = _look_at_entries(record, number, progress, on_entry)
        if reason and progress.first_bad is None:
            progress.first_bad = BadRecord(path, record.offset, reason, is_torn)
    entries = dict(sorted(progress.entries.items()))
    return SegmentReport(path, reader.size, progress.records, entries, progress.first_bad)


def _judge(record: Record, number: int, progress: _Progress) -> str:
    """Why an intact record does not belong where it stands ("": it does); `progress` moves behind it."""
    expected = progress.position if progress.position is not None else record.position
    progress.position = record.position + (record.length if record.kind == RecordKind.BATCH else 0)
    if record.position != expected:
        return f"{Fault.MISPLACED.value} (it is at position {record.position}, not {expected})"
    try:
        if record.kind == RecordKind.GAP:
            progress.position = unpack_gap(record.payload)
        elif record.kind == RecordKind.SEGMENT and unpack_segment(record.payload)[0] != number:
            return Fault.MISPLACED.value
    except ValueError as error:
        return str(error)
    if (record.kind == RecordKind.SEGMENT) != (record.offset == 0) or record.kind in PAGE_KINDS:
        return f"a record of kind {record.kind} does not belong there"
    return ""


def _look_at_entries(record: Record, number: int, progress: _Progress, on_entry: EntryLook | None) -> str:
    """Count the entries of a record and show them to the caller; why they cannot be read ("": they can)."""
    if record.kind != RecordKind.BATCH:
        return ""
    try:
        entries = entries_of(number, record.data, record.start, record.start + record.length)
    except ValueError as error:
        return str(error)
    for segment, kind, payload in entries:
        progress.entries[kind] = progress.entries.get(kind, 0) + 1
        if on_entry is not None:
            on_entry(segment, kind, payload)
    return ""


def _inspect_queue(disk: Disk, queue_id: int) -> QueueReport:
    """Read every page of a queue. Behind a bad one the rest of its file is not looked at."""
    pages = 0
    octets = 0
    bad: list[BadRecord] = []
    numbers = page_segments(disk, queue_id)
    for number in numbers:
        path = page_path(queue_id, number)
        reader = RecordReader(disk, path)
        octets += reader.size
        while (record := reader.next()) is not None:
            if isinstance(record, Damage):
                bad.append(BadRecord(path, record.offset, record.fault.value))
                break
            place = (queue_id & 0xFFFFFFFF, page_position(number, record.offset))
            if record.kind not in PAGE_KINDS or (record.context, record.position) != place:
                bad.append(BadRecord(path, record.offset, Fault.MISPLACED.value))
            else:
                pages += 1
    return QueueReport(queue_id, len(numbers), pages, octets, tuple(bad))
