"""The journal: one log for a whole node. What is appended during a turn is written and synced as one batch.

It knows nothing of what an entry means: a kind (0 to 255) and octets. It runs without threads and without a
clock: `append` is memory only; a Batch does the file work, wherever its driver likes; `batch_done` brings the
result back.

Invariants:
1. A position counts the octets of entries since the journal began; it never falls and survives retirement of
   segments.
2. Everything appended between two `take_batch` goes to the same segment, and `current_segment` tells which
   before it is appended. A batch never spans segments.
3. At most one batch is in flight, and the next is written only after it has been synced. So whatever a crash
   can damage lies in the last batch: segment_recovery.py builds on this.
4. Room is zeroes behind what was written, which the next batches write over: a sync that need not make the file
   longer is quicker by a third. A small batch for which there is none makes it, in its own write, so that a batch in
   dozens takes longer; larger batches make none, as everything would be written twice. Only the last segment has
   room, which ends where the segment is full; a clean stop cuts it, and that is synced.
5. A segment file is removed only by a batch, after its own sync, the oldest first, with a sync of the folder
   after each one. So a gap in the segment numbers is never the work of a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from amqp_broker.octets.buffer import Buffer
from storage.aside import copy_journal
from storage.disk import Disk, Octets
from storage.entries import ENTRY_HEADER_BYTES, entries_of
from storage.errors import CorruptRecord
from storage.records import HEADER_BYTES, SEGMENT_BYTES, RecordKind, pack_header, pack_segment
from storage.segment_files import segment_path
from storage.segment_recovery import Recovery, SetAside, TornTail
from storage.segment_repair import repair_segments

SEGMENT_FILE_BYTES = 64 * 1024 * 1024
RECORD_BYTES = 8 * 1024 * 1024
#: How much room a batch makes behind itself, and what a batch is at most that does; octets.
ROOM_BYTES = 256 * 1024
ROOM_BATCH_BYTES = 8 * 1024
BUFFER_BYTES = 64 * 1024
KEPT_BUFFER_BYTES = 4 * 1024 * 1024
# Names of others as integers of this module, which a compiled one compares in C.
_BATCH = int(RecordKind.BATCH)
_HEADER_BYTES = HEADER_BYTES
_SEGMENT_BYTES = SEGMENT_BYTES
_ROOM_BATCH_BYTES = ROOM_BATCH_BYTES


class Segment:
    """A segment file: number, position of its first entry; bytes: octets once all is written."""

    def __init__(self, folder: str, number: int, start_position: int, octets: int) -> None:
        self.path = segment_path(folder, number)
        self.number = number
        self.start_position = start_position
        self.bytes = octets


@lru_cache(maxsize=1)
def _zeroes(count: int) -> bytes:
    """So many. Kept, as made anew each time they cost as much as the call that writes them."""
    return bytes(count)


class Batch:
    """Entries on their way to the disk. Only `write_and_sync` touches files; it may run in another thread.

    `position` is the journal position that is durable once it has returned.
    """

    def __init__(
        self, disk: Disk, folder: str, segment: Segment, offset: int, buffer: Buffer, start_position: int
    ) -> None:
        self.position = start_position + buffer.length
        self.buffer = buffer
        self.is_mark = False
        self.splits: list[int] = []
        self.removals: list[int] = []
        #: So many zeroes are written behind it.
        self.room_bytes = 0
        #: The room of its segment is cut off.
        self.cuts_room = False
        self._disk = disk
        self._folder = folder
        self._segment = segment
        self._offset = offset
        self._start_position = start_position
        self._was_tried = False
        self._is_durable = False

    def size(self) -> int:
        """What it adds to the segment file, octets, the head of a new segment included."""
        if not self.buffer.length and not self.is_mark:
            return 0
        head = 0 if self._offset else _SEGMENT_BYTES
        return head + self.buffer.length + _HEADER_BYTES * (len(self.splits) + 1)

    def is_small_append(self, most_bytes: int) -> bool:
        """Whether no file is made or removed, and so much at most is appended."""
        return self._offset > 0 and not self.splits and not self.removals and self.size() <= most_bytes

    def write_and_sync(self) -> None:
        """Write all of it, sync it, then remove the retired segments. Raises OSError.

        After an error that was not a failed sync (the disk is full) it may be called again: it first cuts off
        what the attempt before has left. After a failed sync the disk refuses, and the node must stop.
        """
        if (self.buffer.length or self.is_mark) and not self._is_durable:
            path = self._segment.path
            if self._was_tried and self._disk.exists(path):
                self._disk.truncate(path, self._offset)
                self.room_bytes = 0  # it may be what there was no space for
            self._was_tried = True
            self._write(path)
            if not self._offset:
                self._disk.sync_folder(self._folder)
            self._is_durable = True
        while self.removals:
            self._disk.remove(segment_path(self._folder, self.removals[0]))
            self._disk.sync_folder(self._folder)
            del self.removals[0]

    def _write(self, path: str) -> None:
        """Write the batch as one record, or as several where it was split, and the room behind it, and sync it."""
        octets = self.buffer.view()
        views = [octets]
        pieces: list[Octets] = []
        if not self._offset:
            pieces.append(pack_segment(self._segment.number, self._segment.start_position))
        written = _SEGMENT_BYTES if pieces else 0
        start = 0
        try:
            for end in [*self.splits, self.buffer.length]:
                payload = octets
                if self.splits:
                    payload = octets[start:end]
                    views.append(payload)
                pieces.append(pack_header(_BATCH, written, self._start_position + start, payload))
                pieces.append(payload)
                written += _HEADER_BYTES + end - start
                start = end
            if not self._offset:
                self._disk.append(path, pieces)
            elif self.cuts_room:
                self._disk.write(path, self._offset, pieces)
                self._disk.truncate(path, self._offset + self.size())
            else:
                if self.room_bytes:
                    pieces.append(_zeroes(self.room_bytes))
                self._disk.write_and_sync(path, self._offset, pieces)
                return
            self._disk.sync(path)
        finally:
            # A bytearray with a view cannot grow, and an error would keep the views alive.
            for view in views:
                view.release()


class Journal:
    """A log of entries in segment files; see the module's docstring. `recover` comes before all else."""

    def __init__(
        self,
        disk: Disk,
        folder: str = "journal",
        segment_bytes: int = SEGMENT_FILE_BYTES,
        record_bytes: int = RECORD_BYTES,
        room_bytes: int = ROOM_BYTES,
    ) -> None:
        self.buffer = Buffer(BUFFER_BYTES)
        self.position = 0
        self.current_segment = 0
        self.torn_tail: TornTail | None = None
        self.set_aside: list[SetAside] = []
        #: Octets of all segments that have not been retired, pending entries not included.
        self.total_bytes = 0
        self._disk = disk
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._record_bytes = record_bytes
        self._room_bytes = room_bytes
        self._spare = Buffer(BUFFER_BYTES)
        self._taken = 0  # the position at which the pending buffer begins
        self._entry_start = -1
        self._record_start = 0
        self._splits: list[int] = []
        self._mark_is_wanted = False
        self._room_end = 0  # in the file of the last segment; not after what was written: it has no room
        self._is_ending = False
        self._in_flight: Batch | None = None
        self._segments: list[Segment] = []
        self._retired: list[int] = []
        self._is_recovered = False

    # Recovery

    def recover(self, recover_damaged: bool = False) -> Iterator[tuple[int, int, memoryview]]:
        """Every entry as (segment number, kind, payload), in order. It must be exhausted before anything is
        appended.

        When it ends, all that it yielded is durable. A torn tail is cut and described in `torn_tail`. Raises
        CorruptRecord for any other damage; with `recover_damaged` the damaged parts are first copied to the
        folder damaged/ and replaced by a note that something is missing, and listed in `set_aside`. Raises
        OSError.
        """
        if self._is_recovered:
            raise RuntimeError("the journal has been recovered already; make a new Journal to read it again")
        if recover_damaged:
            self.set_aside = repair_segments(self._disk, self._folder)
        recovery = Recovery(self._disk, self._folder)
        for segment, file, record in recovery.batches():
            try:
                entries = entries_of(segment, record.data, record.start, record.start + record.length)
            except ValueError as error:
                raise CorruptRecord(file, record.offset, str(error)) from None
            yield from entries
        self.torn_tail = recovery.torn_tail
        self._segments = [Segment(self._folder, *segment) for segment in recovery.segments]
        self.total_bytes = sum([segment.bytes for segment in self._segments])
        self._taken = self.position = recovery.position
        self._is_recovered = True
        self.current_segment = self._segments[-1].number
        self._rotate_if_full()

    def copy_aside(self) -> list[str]:
        """Copy all that is on the disk to the folder damaged/. Returns the paths of the copies. Raises OSError."""
        return copy_journal(self._disk, self._folder)

    # Appending

    def open_entry(self, kind: int) -> Buffer:
        """Begin an entry: the caller puts its payload into this buffer, then calls `close_entry`."""
        if self._entry_start >= 0:
            raise RuntimeError("an entry is open already: close it first")
        buffer = self.buffer
        self._entry_start = buffer.length
        buffer.put_u8(kind)
        buffer.put_u32(0)
        return buffer

    def close_entry(self) -> int:
        """End the entry; the journal position that a sync has to reach to cover it."""
        buffer = self.buffer
        start = self._entry_start
        if start < 0:
            raise RuntimeError("no entry is open: open_entry comes first")
        end = buffer.length
        buffer.set_u32(start + 1, end - start - ENTRY_HEADER_BYTES)
        self._entry_start = -1
        if end - self._record_start > self._record_bytes:
            self._split(start)
        self.position = self._taken + end
        return self.position

    def mark(self) -> None:
        """Have the next batch say that everything before it was synced, even if it has no entries.

        Damage to the last batch cannot be told from a torn write; once a mark follows, it can. For a clean
        stop: from now on there is no room.
        """
        self._mark_is_wanted = True
        self._is_ending = True

    # Writing

    @property
    def has_pending(self) -> bool:
        """Whether `take_batch` has something to hand out (once no batch is in flight)."""
        return bool(self.buffer.length or self._retired or self._mark_is_wanted)

    def take_batch(self) -> Batch | None:
        """What was appended since the last batch. None: there is nothing, or a batch is in flight."""
        if not self._is_recovered:
            raise RuntimeError("the journal has not been recovered: exhaust recover() first")
        if self._entry_start >= 0:
            raise RuntimeError("an entry is open: close it before the batch is taken")
        if self._in_flight is not None or not self.has_pending:
            return None
        segment = self._segments[-1]
        batch = Batch(self._disk, self._folder, segment, segment.bytes, self.buffer, self._taken)
        # Were all files removed before the next is begun, nothing would tell where the journal has come to.
        batch.is_mark = self._mark_is_wanted or (bool(self._retired) and not segment.bytes)
        batch.splits = self._splits
        batch.removals = self._retired
        size = batch.size()
        if size:
            segment.bytes += size
            self.total_bytes += size
            self._plan_room(batch, segment.bytes, size)
        self._taken = self.position
        self.buffer = self._spare
        self._record_start = 0
        self._splits = []
        self._retired = []
        self._mark_is_wanted = False
        self._in_flight = batch
        self._rotate_if_full()
        return batch

    def _plan_room(self, batch: Batch, end: int, size: int) -> None:
        """What the batch, of `size` octets up to `end` of its file, does about room."""
        if self._is_ending:
            batch.cuts_room = self._room_end > end
            self._room_end = 0
        elif end > self._room_end and size <= _ROOM_BATCH_BYTES and end > size:
            # A segment that is full has none: the last batch goes past it.
            batch.room_bytes = max(0, min(self._room_bytes, self._segment_bytes - end))
            self._room_end = end + batch.room_bytes

    @property
    def is_writing(self) -> bool:
        """Whether a batch is on its way to the disk: what is appended now waits for the next one."""
        return self._in_flight is not None

    def batch_done(self, batch: Batch) -> None:
        """The batch is written and synced: its buffer is used again, the next batch may be taken."""
        if batch is not self._in_flight:
            raise RuntimeError("this batch is not the one in flight")
        self._in_flight = None
        buffer = batch.buffer
        if buffer.length > KEPT_BUFFER_BYTES:
            buffer = Buffer(BUFFER_BYTES)
        else:
            buffer.clear()
        self._spare = buffer

    # Segments

    @property
    def oldest_segment(self) -> int:
        return self._segments[0].number

    def retire(self, segment_number: int) -> None:
        """Have the oldest segment removed: nothing in it is needed any more. The next batch does it, after
        its sync.
        """
        if segment_number != self.oldest_segment or segment_number >= self.current_segment:
            raise ValueError(
                f"segment {segment_number} cannot be retired: the oldest is {self.oldest_segment} "
                f"and {self.current_segment} is being written; retire the oldest first"
            )
        self.total_bytes -= self._segments[0].bytes
        del self._segments[0]
        self._retired.append(segment_number)

    def _split(self, entry_start: int) -> None:
        """The entry that was just closed does not fit into the record any more: it begins a new one."""
        if entry_start > self._record_start:
            self._splits.append(entry_start)
            self._record_start = entry_start

    def _rotate_if_full(self) -> None:
        if self._segments[-1].bytes >= max(self._segment_bytes, SEGMENT_BYTES + 1):
            self._room_end = 0
            self.current_segment += 1
            self._segments.append(Segment(self._folder, self.current_segment, self._taken, 0))
