"""Setting the damaged parts of a journal aside, so that it can be read again without them. Nothing is thrown
away.

A damaged part is copied to damaged/, and its segment is rewritten: a GAP record stands where octets are
missing. The new file replaces the old one in one step, after both copies are durable, so that a crash at any
time only means that the repair is done again. A torn tail is left to the recovery proper
(segment_recovery.py, R4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from storage.aside import Aside, copy_octets
from storage.disk import Disk
from storage.entries import entries_of
from storage.record_reader import Damage, RecordReader
from storage.records import (
    Fault,
    Record,
    RecordKind,
    pack_gap,
    pack_segment,
    unpack_gap,
    unpack_segment,
)
from storage.segment_files import segment_numbers, segment_path
from storage.segment_recovery import SetAside, head_was_synced, is_torn_tail


class _Good(NamedTuple):
    """Intact records in a row: octets offset..end of the file, position..next_position of the log."""

    offset: int
    end: int
    position: int
    next_position: int


class _Bad(NamedTuple):
    """Octets offset..end of the file that are not what they should be."""

    offset: int
    end: int
    reason: str


@dataclass(slots=True)
class _Plan:
    """What is in a segment. `start` is None where it has no good head to say where it begins."""

    number: int
    start: int | None = None
    good: list[_Good] = field(default_factory=list)
    bad: list[_Bad] = field(default_factory=list)
    has_torn_tail: bool = False

    @property
    def first_position(self) -> int | None:
        """Where its first intact records are in the log, None where it has none."""
        return self.good[0].position if self.good else None


def repair_segments(disk: Disk, folder: str) -> list[SetAside]:
    """Make the journal in `folder` readable; what was set aside. Raises OSError."""
    plans = _plans(disk, folder)
    reports: list[SetAside] = []
    starts = (plan.start if plan.start is not None else plan.first_position for plan in plans)
    position = next((start for start in starts if start is not None), 0)
    for index, plan in enumerate(plans):
        end = plan.good[-1].next_position if plan.good else position
        following = plans[index + 1].start if index + 1 < len(plans) else None
        target = following if following is not None else end
        damage = plan.bad[:-1] if plan.has_torn_tail else plan.bad
        if damage or target != end:
            reports += [_set_aside(disk, folder, plan.number, bad) for bad in plan.bad]
            if not plan.bad:
                path = segment_path(folder, plan.number)
                reports.append(SetAside(path, 0, 0, "", f"positions {end} to {target} are missing"))
            if plan is plans[-1]:
                _begin_after(disk, folder, plan.number, target)
            _rewrite(disk, folder, plan, position, target)
        position = target
    return reports


def _plans(disk: Disk, folder: str) -> list[_Plan]:
    """A plan for every segment from the first to the last, those whose file is missing included."""
    numbers = segment_numbers(disk, folder)
    plans: list[_Plan] = []
    position = 0
    for number in range(numbers[0], numbers[-1] + 1) if numbers else ():
        if number not in numbers:
            plans.append(_Plan(number, bad=[_Bad(0, 0, "the segment is missing")]))
            continue
        is_last = number == numbers[-1]
        reader = RecordReader(disk, segment_path(folder, number), may_have_room=is_last)
        plan = _survey(reader, number, position, not plans, is_last)
        plans.append(plan)
        if plan.good:
            position = plan.good[-1].next_position
        elif plan.start is not None:
            position = plan.start
    return plans


def _survey(reader: RecordReader, number: int, position: int, is_first: bool, is_last: bool) -> _Plan:
    """Tell the good from the bad in one segment. `position` is where the segments before it end."""
    plan = _Plan(number)
    may_be_torn = is_last and not head_was_synced(number, is_first)
    head = reader.next()
    if isinstance(head, Record) and _is_head(head, number, position):
        plan.start = position = head.position
        may_be_torn = is_last
    elif head is None and not may_be_torn:
        plan.bad.append(_Bad(0, 0, "the segment is empty"))
    elif head is not None:
        reader.offset = 0
    while reader.offset < reader.size:
        offset = reader.offset
        record = reader.next()
        if record is None:
            break  # what follows is room, which the recovery proper cuts
        if isinstance(record, Record) and _is_intact(record, position):
            if record.position > position and not (plan.bad and plan.bad[-1].end == offset):
                plan.bad.append(
                    _Bad(offset, offset, f"positions {position} to {record.position} are missing")
                )
            position = _record_good(plan, record)
            continue
        if may_be_torn and isinstance(record, Damage) and is_torn_tail(reader, record, position):
            plan.bad.append(_Bad(offset, reader.size, record.fault.value))
            plan.has_torn_tail = True
            break
        later = reader.find(offset + 1, position, may_skip=True)
        found = next((one for one in later if _is_intact(one, position)), None)
        end = found.offset if found is not None else reader.size
        reason = record.fault.value if isinstance(record, Damage) else Fault.MISPLACED.value
        plan.bad.append(_Bad(offset, end, reason))
        reader.offset = end
    return plan


def _is_head(record: Record, number: int, position: int) -> bool:
    if record.kind != RecordKind.SEGMENT or record.position < position:
        return False
    try:
        return unpack_segment(record.payload) == (number, record.position)
    except ValueError:
        return False


def _is_intact(record: Record, position: int) -> bool:
    """Whether the record can follow in a log that has come to `position`, or further on in it."""
    if record.position < position:
        return False
    try:
        if record.kind == RecordKind.GAP:
            return unpack_gap(record.payload) >= record.position
        if record.kind == RecordKind.BATCH:
            entries_of(0, record.data, record.start, record.start + record.length)
            return True
    except ValueError:
        return False
    return False


def _record_good(plan: _Plan, record: Record) -> int:
    """Add the record to the plan; the position after it."""
    if record.kind == RecordKind.GAP:
        after = unpack_gap(record.payload)
    else:
        after = record.position + record.length
    last = plan.good[-1] if plan.good else None
    if last is not None and last.end == record.offset and last.next_position == record.position:
        plan.good[-1] = last._replace(end=record.end, next_position=after)
    else:
        plan.good.append(_Good(record.offset, record.end, record.position, after))
    return after


def _set_aside(disk: Disk, folder: str, number: int, bad: _Bad) -> SetAside:
    """Copy a damaged part to damaged/, durably, under a name that is still free."""
    path = segment_path(folder, number)
    if bad.end == bad.offset:
        return SetAside(path, bad.offset, 0, "", bad.reason)
    aside = Aside(disk)
    copy = aside.copy(path, f"{folder}-{number:08d}-{bad.offset}", bad.offset, bad.end)
    aside.finish()
    return SetAside(path, bad.offset, bad.end - bad.offset, copy, bad.reason)


def _rewrite(disk: Disk, folder: str, plan: _Plan, start: int, target: int) -> None:
    """Replace the segment by its intact parts, from `start` to `target`, and gaps where any is missing."""
    path = segment_path(folder, plan.number)
    draft = f"{path}.repaired"
    if disk.exists(draft):
        disk.remove(draft)
    disk.append(draft, [pack_segment(plan.number, start)])
    position = start
    for part in plan.good:
        if part.position != position:
            disk.append(draft, [pack_gap(position, part.position)])
        copy_octets(disk, path, part.offset, part.end, draft)
        position = part.next_position
    if position != target:
        disk.append(draft, [pack_gap(position, target)])
    disk.sync(draft)
    disk.rename(draft, path)
    disk.sync_folder(folder)


def _begin_after(disk: Disk, folder: str, number: int, position: int) -> None:
    """Begin the segment after `number`: a segment with a GAP must never be the last (RecordReader.find)."""
    path = segment_path(folder, number + 1)
    disk.append(path, [pack_segment(number + 1, position)])
    disk.sync(path)
    disk.sync_folder(folder)
