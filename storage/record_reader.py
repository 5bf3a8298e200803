"""Reading a file of records one after the other, and finding the next intact one behind a damaged part.

It judges a record by its envelope alone; whether it belongs where it stands is the caller's question. It
never writes.

Room (journal.py) is zeroes up to the end of the file, behind the last record. No record begins with a whole
header of zeroes: its checksum would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from storage.disk import Disk
from storage.records import HEADER_BYTES, Fault, Record, check_record, payload_length, position_of

WINDOW_BYTES = 1024 * 1024

# Version, kind (BATCH or GAP) and the reserved zeros, which lie at octet 8 of a header.
_HEADER_MIDDLE = re.compile(rb"\x01(?=[\x01\x02]\x00\x00)")
_MIDDLE_OFFSET = 8


class Damage(NamedTuple):
    """Octets at `offset` of a file which are not the record that should be there."""

    offset: int
    fault: Fault


class RecordReader:
    """Walks the records of one file. Payloads are views of what was read and stay valid.

    `may_have_room`: there may be room behind the last record. Where it is found the records end, and `offset` stays
    there.
    """

    def __init__(self, disk: Disk, path: str, offset: int = 0, may_have_room: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._window = b""
        self._window_start = 0
        self._may_have_room = may_have_room
        self.offset = offset
        self.size = disk.size(path)

    def next(self) -> Record | Damage | None:
        """The next record; Damage, and `offset` stays where it is; None at the end of the file, or of its records."""
        if self.offset == self.size:
            return None
        record = self._record_at(self.offset)
        if isinstance(record, Fault):
            return None if self._is_at_room() else Damage(self.offset, record)
        self.offset = record.end
        return record

    def find(self, offset: int, position: int, may_skip: bool) -> Iterator[Record]:
        """Every intact BATCH or GAP record from `offset` on that is at `position` of its log or later, in
        order.

        Octets of a payload that happen to look like a header are weeded out by the position and the checksum.
        With `may_skip` False a record counts only when no more of the log lies before it than octets of the
        file do: that holds in every segment without a GAP, and it bounds the work that made-up headers can
        cause.
        """
        data = self._disk.read(self._path, offset, self.size - offset)
        start = 0
        for match in _HEADER_MIDDLE.finditer(data, _MIDDLE_OFFSET):
            candidate = match.start() - _MIDDLE_OFFSET
            if candidate < start or len(data) - candidate < HEADER_BYTES:
                continue
            ahead = position_of(data, candidate) - position
            if ahead < 0 or (ahead > candidate and not may_skip):
                continue
            if len(data) - candidate - HEADER_BYTES < payload_length(data, candidate):
                continue
            record = check_record(data, candidate, offset + candidate)
            if isinstance(record, Record):
                yield record
                start = candidate + HEADER_BYTES + record.length

    def _is_at_room(self) -> bool:
        """Whether nothing but zeroes follows, behind the head of the file."""
        if not self._may_have_room or not self.offset:
            return False
        for offset in range(self.offset, self.size, WINDOW_BYTES):
            octets = self._disk.read(self._path, offset, WINDOW_BYTES)
            if octets.count(0) != len(octets):
                return False
        return True

    def _record_at(self, offset: int) -> Record | Fault:
        if self.size - offset < HEADER_BYTES:
            return Fault.SHORT_HEADER
        start = self._load(offset, HEADER_BYTES)
        length = payload_length(self._window, start)
        if self.size - offset - HEADER_BYTES < length:
            return Fault.SHORT_PAYLOAD
        start = self._load(offset, HEADER_BYTES + length)
        return check_record(self._window, start, offset)

    def _load(self, offset: int, length: int) -> int:
        """Have `length` octets of the file in the window, which are known to be in the file; where they begin
        there.
        """
        start = offset - self._window_start
        if start < 0 or start + length > len(self._window):
            self._window = self._disk.read(self._path, offset, max(length, WINDOW_BYTES))
            self._window_start = offset
            start = 0
        return start
