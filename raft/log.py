"""GroupLog: the log of one group, in the shape of a pysyncobj Journal, written to the node's journal.

    entries[0]                  stands for everything up to base_index: no data, its index and term
    entries[1:]                 base_index + 1 .. last_index, in RAM
    checkpoint_index            the newest checkpoint; the journal holds it and what follows it
    synced_index                up to here it is on the disk

It knows neither roles nor peers nor what entries mean, but for configurations.

Invariants:
1. base_index <= checkpoint_index <= last_index; indexes have no gaps; terms never fall.
2. What is written to the journal always recovers to what is here, at whichever record the journal ends
   (raft/recovery.py): an entry replaces what follows it only if its term differs from the one it replaces.
3. synced_index covers only entries whose journal position was reached by a sync.
4. An entry that was written in short is written so again, until a checkpoint is above it or it is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import Any

import cython

from raft.configuration import Configuration, decode_configuration
from raft.entry import ENTRY_OVERHEAD_BYTES, MEMBERSHIP, NO_OP, PLACED, REGULAR, Entry
from raft.errors import CorruptLog, RaftStopped
from raft.journal_records import RAFT_CHECKPOINT, RAFT_ENTRY, RAFT_STATE, put_checkpoint, put_state
from raft.machine import LogPort, Placer
from raft.pinned import Journal
from raft.recovery import RecoveredGroup
from raft.settings import NEVER

if not cython.compiled:
    from raft.journal_records import put_entry

_TERM = itemgetter(2)


class EntryLog:
    """See the module's docstring. `owner` is told to leave journal segments. placer: of the group's machine, if it has
    one."""

    def __init__(self, group_id: int, port: LogPort, owner: Any, placer: Placer | None = None) -> None:
        self.group_id = group_id
        self.entries: list[Entry] = [(b"", 0, 0, NO_OP)]
        self.last_index = 0
        self.last_term = 0
        self.current_term = 0
        self.voted_for: str | None = None
        self.position = 0
        self.synced_index = 0
        self.checkpoint_index = 0
        self.synced_checkpoint_index = 0
        self.ram_bytes = 0
        self.appended_bytes = 0
        self.checkpoint_bytes = 0
        self.state_segment = 0
        self.checkpoint_segment = 0
        self._port = port
        self._owner = owner
        self._touched_segment = -1
        self.synced_position = 0
        self._unsynced: deque[tuple[int, int]] = deque()  # (position, index)
        self._unsynced_checkpoints: deque[tuple[int, int]] = deque()
        self._runs: list[tuple[int, int]] = []  # (first index, segment), for entries above the checkpoint
        self._configurations: list[tuple[int, Configuration]] = [(0, Configuration())]
        self._placer: Any = placer
        self._least_placed = placer.least_bytes if placer is not None else NEVER
        self._shorts: dict[int, bytes] = {}  # of entries above the checkpoint, by index
        self._elsewhere_bytes = 0  # of `appended_bytes`, what the journal does not have

    # -- recovery ----------------------------------------------------------------------------------------------------

    def adopt(self, recovered: RecoveredGroup) -> None:
        """Begin with what the journal holds, all of which is on the disk. Raises CorruptLog, CorruptRecord, OSError."""
        checkpoint = recovered.finish()
        entries = [self._put_together(entry) if entry[3] == PLACED else entry for entry in recovered.entries]
        self.entries = [(b"", checkpoint.index, checkpoint.term, NO_OP), *entries]
        self.last_index = self.synced_index = self.entries[-1][1]
        self.last_term = self.entries[-1][2]
        self.current_term = recovered.term
        self.voted_for = recovered.voted_for
        self.checkpoint_index = self.synced_checkpoint_index = checkpoint.index
        self.checkpoint_segment = checkpoint.segment
        self.state_segment = recovered.state_segment
        self._configurations = [(checkpoint.index, checkpoint.configuration)]
        for entry, segment in zip(entries, recovered.segments, strict=True):
            self.ram_bytes += len(entry[0]) + ENTRY_OVERHEAD_BYTES
            self._record_run(entry[1], segment)
            if entry[3] == MEMBERSHIP:
                self._configurations.append((entry[1], decode_configuration(entry[0])))
        self.appended_bytes = self.ram_bytes
        self.checkpoint_bytes = sum(len(chunk) for chunk in checkpoint.chunks)
        segments = {self.checkpoint_segment, *recovered.segments}
        if self.state_segment:
            segments.add(self.state_segment)
        for segment in sorted(segments):
            self._port.touch(segment, self._owner)

    def _put_together(self, entry: Entry) -> Entry:
        short, index, term, _ = entry
        if self._placer is None:
            raise CorruptLog(self.group_id, f"entry {index} has a part elsewhere, and none of its entries can have one")
        try:
            data = self._placer.put_together(index, short)
        except ValueError as error:
            raise CorruptLog(self.group_id, f"entry {index}: {error}") from None
        self._shorts[index] = short
        self._elsewhere_bytes += len(data) - len(short)
        return data, index, term, REGULAR

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def base_index(self) -> int:
        return self.entries[0][1]

    @property
    def configuration(self) -> Configuration:
        """The latest one in the log, committed or not."""
        return self._configurations[-1][1]

    @property
    def configuration_index(self) -> int:
        return self._configurations[-1][0]

    def configuration_at(self, index: int) -> Configuration:
        """The one that counts for a log that ends at `index`."""
        for found, configuration in reversed(self._configurations):
            if found <= index:
                return configuration
        raise ValueError(f"group {self.group_id}: the configuration at {index} is not in the log any more")

    def term_at(self, index: int) -> int | None:
        """The term of an entry; None where there is none in RAM."""
        entries = self.entries
        base = entries[0][1]
        place = index - base
        if 0 <= place < len(entries):
            term: int = entries[place][2]
            return term
        return None

    def entries_from(self, first: int, max_bytes: int) -> list[Entry]:
        """Entries from `first` on, as many as fit into max_bytes, but one at least if there is one."""
        entries = self.entries
        base = entries[0][1]
        place = start = first - base
        size = 0
        while place < len(entries):
            data = entries[place][0]
            size += len(data)
            if size > max_bytes and place > start:
                break
            place += 1
        return entries[start:place]

    def entries_between(self, first: int, last: int) -> list[Entry]:
        """The entries first..last."""
        base = self.entries[0][1]
        return self.entries[first - base : last + 1 - base]

    def last_match(self, index: int, term: int) -> int:
        """The highest index, at most `index` and not below the base, whose term is at most `term`: with a log in which
        `index` has `term`, nothing above can match.
        """
        end = min(index, self.last_index) - self.entries[0][1] + 1
        return self.entries[0][1] + max(0, bisect_right(self.entries, term, 0, max(end, 0), key=_TERM) - 1)

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int, kind: int = REGULAR) -> None:
        """Append an entry."""
        if idx != self.last_index + 1 or term < self.last_term:
            raise ValueError(
                f"group {self.group_id}: entry {idx} of term {term} cannot follow {self.last_index} of {self.last_term}"
            )
        entry = (command, idx, term, kind)
        if kind == MEMBERSHIP:
            self._configurations.append((idx, decode_configuration(command)))
        self.entries.append(entry)
        self.last_index = idx
        self.last_term = term
        size = len(command) + ENTRY_OVERHEAD_BYTES
        self.ram_bytes += size
        self.appended_bytes += size
        if len(command) >= self._least_placed and kind == REGULAR:
            self._place(idx, command)
        self._record_run(idx, self._write_entry(entry))
        self._unsynced.append((self.position, idx))

    def cut_from(self, index: int) -> None:
        """Forget the entries from `index` on. The journal learns of it by what is added there next, which must follow
        at once, with another term.
        """
        place = index - self.entries[0][1]
        if place <= 0 or index <= self.checkpoint_index:
            raise ValueError(f"group {self.group_id}: entry {index} is below the checkpoint: it cannot be cut")
        self._take_back(index)
        self.ram_bytes -= sum(len(entry[0]) + ENTRY_OVERHEAD_BYTES for entry in self.entries[place:])
        del self.entries[place:]
        self.last_index = self.entries[-1][1]
        self.last_term = self.entries[-1][2]
        self.synced_index = min(self.synced_index, self.last_index)
        while self._unsynced and self._unsynced[-1][1] >= index:
            self._unsynced.pop()
        while self._runs and self._runs[-1][0] >= index:
            self._runs.pop()
        while self._configurations[-1][0] >= index:
            self._configurations.pop()

    def set_state(self, term: int, voted_for: str | None) -> None:
        """Term and vote: whoever tells a peer of them waits until `position` is synced."""
        self.current_term = term
        self.voted_for = voted_for
        self.state_segment = self._segment()
        put_state(self._port.open_entry(RAFT_STATE), self.group_id, term, voted_for)
        self.position = self._port.close_entry()

    def write_checkpoint(self, index: int, term: int, chunks: list[bytes], is_carried: bool = False) -> None:
        """The state as of an applied entry; what lies below is not needed in the journal any more. is_carried: it is
        written because a segment of the journal is to be retired."""
        if not self.checkpoint_index <= index <= self.last_index or self.term_at(index) not in (None, term):
            raise ValueError(f"group {self.group_id}: a checkpoint at {index} of term {term} does not fit the log")
        self._write_checkpoint(index, term, self.configuration_at(index), chunks, replaces=False)
        if is_carried:
            self._port.carry(self.checkpoint_bytes)

    def replace(self, index: int, term: int, configuration: Configuration, chunks: list[bytes]) -> None:
        """An installed state takes the place of everything; or nothing does, with an index of 0, where this node has
        left the group."""
        self._take_back(0)
        if index < self.synced_checkpoint_index:
            self.synced_checkpoint_index = 0
            self._unsynced_checkpoints.clear()
        self.entries = [(b"", index, term, NO_OP)]
        self.last_index = index
        self.last_term = term
        self.ram_bytes = 0
        self.synced_index = 0
        self._unsynced.clear()
        self._runs.clear()
        self._configurations = [(index, configuration)]
        self._write_checkpoint(index, term, configuration, chunks, replaces=True)
        self._unsynced.append((self.position, index))

    def begin(self, configuration: Configuration, chunks: list[bytes]) -> None:
        """A new group: its first record."""
        self._configurations = [(0, configuration)]
        self._write_checkpoint(0, 0, configuration, chunks, replaces=True)

    def synced(self, position: int) -> bool:
        """The journal is on the disk up to `position`. Returns whether that moved synced_index."""
        self.synced_position = position
        before = self.synced_index
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= position:
            self.synced_index = unsynced.popleft()[1]
        checkpoints = self._unsynced_checkpoints
        while checkpoints and checkpoints[0][0] <= position:
            self.synced_checkpoint_index = checkpoints.popleft()[1]
        return self.synced_index != before

    @property
    def live_bytes(self) -> int:
        """What the journal has to hold: the last checkpoint, and what was appended since, octets."""
        return self.checkpoint_bytes + self.appended_bytes - self._elsewhere_bytes

    @property
    def has_unsynced(self) -> bool:
        return self.position > self.synced_position

    @property
    def has_unsynced_checkpoint(self) -> bool:
        return bool(self._unsynced_checkpoints)

    # -- keeping it short --------------------------------------------------------------------------------------------

    def trim(self, index: int) -> None:
        """Let go of the entries up to `index` in RAM; not above the synced checkpoint."""
        index = min(index, self.synced_checkpoint_index)
        place = index - self.entries[0][1]
        if place <= 0:
            return
        self.ram_bytes -= sum(len(entry[0]) + ENTRY_OVERHEAD_BYTES for entry in self.entries[1 : place + 1])
        base = (b"", index, self.entries[place][2], NO_OP)
        del self.entries[:place]
        self.entries[0] = base
        while len(self._configurations) > 1 and self._configurations[1][0] <= index:
            del self._configurations[0]

    def index_before(self, index: int, room: int) -> int:
        """The lowest index so that the entries above it up to `index` take `room` octets at most."""
        place = index - self.entries[0][1]
        while place > 0:
            room -= len(self.entries[place][0]) + ENTRY_OVERHEAD_BYTES
            if room < 0:
                break
            place -= 1
        return self.entries[0][1] + max(place, 0)

    def oldest_needed_segment(self) -> int:
        """The oldest journal segment that holds the checkpoint, or an entry above it."""
        oldest = self.checkpoint_segment
        return min(oldest, min((segment for _, segment in self._runs), default=oldest))

    def segment_count(self) -> int:
        """How many segments the journal has from there on: it has what others have written, too."""
        return self._port.current_segment - self.oldest_needed_segment() + 1

    def oldest_entry_segment(self) -> int:
        """The oldest journal segment with an entry above the checkpoint; the current one if there is none."""
        return min((segment for _, segment in self._runs), default=self._port.current_segment)

    def rewrite_state(self) -> None:
        """Write term and vote again."""
        self.set_state(self.current_term, self.voted_for)

    def rewrite_entries(self) -> None:
        """Write every entry above the checkpoint again."""
        self._runs.clear()
        for entry in self.entries_between(self.checkpoint_index + 1, self.last_index):
            self._record_run(entry[1], self._write_entry(entry))

    def write_again(self, chunks: list[bytes]) -> None:
        """Write everything once more, in place of all that the journal has of the group, and whole. chunks: of the
        checkpoint."""
        index = self.checkpoint_index
        self._shorts = {}
        self.rewrite_state()
        self._write_checkpoint(index, self.entries[0][2], self.configuration_at(index), chunks, replaces=True)
        self.rewrite_entries()

    # -- inner workings ----------------------------------------------------------------------------------------------

    def _segment(self) -> int:
        segment = self._port.current_segment
        if segment != self._touched_segment:
            self._touched_segment = segment
            self._port.touch(segment, self._owner)
        return segment

    def _record_run(self, index: int, segment: int) -> None:
        if not self._runs or self._runs[-1][1] != segment:
            self._runs.append((index, segment))

    def _place(self, index: int, command: bytes) -> None:
        """Have parts of a large entry put elsewhere."""
        try:
            short = self._placer.place(index, command)
        except OSError as error:
            raise RaftStopped(self.group_id, f"placing entry {index} failed: {error}") from error
        if short is not None:
            self._shorts[index] = short
            self._elsewhere_bytes += len(command) - len(short)

    def _take_back(self, index: int) -> None:
        """The entries from `index` on go."""
        if self._placer is not None:
            self._placer.take_back(index)
        for each in [each for each in self._shorts if each >= index]:
            del self._shorts[each]

    def _write_entry(self, entry: Entry) -> int:
        segment = self._segment()
        short = self._shorts.get(entry[1]) if self._shorts else None
        if short is not None:
            entry = (short, entry[1], entry[2], PLACED)
        put_entry(self._port.open_entry(RAFT_ENTRY), self.group_id, entry)
        self.position = self._port.close_entry()
        return segment

    def _write_checkpoint(
        self, index: int, term: int, configuration: Configuration, chunks: list[bytes], replaces: bool
    ) -> None:
        self.checkpoint_segment = self._segment()
        count = len(chunks) + 1
        for number, data in enumerate([configuration.encode(), *chunks]):
            buffer = self._port.open_entry(RAFT_CHECKPOINT)
            put_checkpoint(buffer, self.group_id, index, term, replaces, number, count, data)
            self.position = self._port.close_entry()
        self.checkpoint_index = index
        self.checkpoint_bytes = sum(len(chunk) for chunk in chunks)
        if self._shorts:
            self._shorts = {each: short for each, short in self._shorts.items() if each > index}
        self._count_appended(index)
        self._unsynced_checkpoints.append((self.position, index))
        runs = self._runs
        while len(runs) > 1 and runs[1][0] <= index + 1:
            del runs[0]
        if index == self.last_index:
            runs.clear()


    def _count_appended(self, index: int) -> None:
        """Of the entries above a new checkpoint."""
        self.appended_bytes = self._elsewhere_bytes = 0
        for entry in self.entries_between(index + 1, self.last_index):
            self.appended_bytes += len(entry[0]) + ENTRY_OVERHEAD_BYTES
            short = self._shorts.get(entry[1])
            if short is not None:
                self._elsewhere_bytes += len(entry[0]) - len(short)


class GroupLog(EntryLog, Journal):  # type: ignore[misc]  # pysyncobj is not typed
    """The same under the names of pysyncobj's Journal."""

    def __getitem__(self, item: int | slice) -> Any:
        return self.entries[item]

    def __len__(self) -> int:
        return len(self.entries)

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803  # pysyncobj's names
        """Cut at a place in the list."""
        self.cut_from(self.entries[0][1] + entryFrom)

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Trim to a place in the list."""
        self.trim(self.entries[0][1] + entryTo)

    def clear(self) -> None:
        """Only an install replaces the log."""
        raise RuntimeError(f"group {self.group_id}: the log is never cleared")

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        self.set_state(term, votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self.current_term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self.voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Not stored: a commit index from the disk could be ahead of the log (S6)."""

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """What is committed for certain: a checkpoint holds applied entries only."""
        return self.checkpoint_index

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Nothing is stored lazily."""

    def _destroy(self) -> None:
        """The journal belongs to the node."""
