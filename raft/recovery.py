"""What the journal holds of a group, put together again while it is read.

Rules (raft/journal_records.py has the formats):
1. An entry that is there already, with the same term, is the same entry written again: what follows it stays. One
   with another term replaces everything from its index on.
2. A complete checkpoint makes the entries up to its index superfluous. One that replaces the log (an install) makes
   all entries before it in the journal void.
3. The oldest segments may be gone, and with them entries that a later checkpoint has made superfluous, or that were
   written again behind one. So there may be gaps on the way: what was before a gap is not needed. At the end the
   entries follow the last checkpoint without a gap.
4. A checkpoint that lacks parts is the torn end of an earlier run, and counts for nothing.
5. Anything else that does not fit together is refused in the end (CorruptLog), unless something that replaces the log
   comes after it: so is a damaged log written anew by a node that was told to go on with what is left (`salvage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raft.configuration import Configuration, decode_configuration
from raft.entry import MEMBERSHIP, Entry
from raft.errors import CorruptLog
from raft.journal_records import (
    RAFT_CHECKPOINT,
    RAFT_ENTRY,
    RAFT_STATE,
    read_checkpoint,
    read_entry,
    read_state,
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state as of `index`: what Machine.checkpoint gave, and where in the journal it begins."""

    index: int
    term: int
    configuration: Configuration
    chunks: list[bytes]
    segment: int


class _Run(NamedTuple):
    """Entries without a gap, and their journal segments."""

    first: int
    entries: list[Entry]
    segments: list[int]


class RecoveredGroup:
    """One group while its journal entries are read; then `finish`. fault: what did not fit together, "" for nothing."""

    def __init__(self, group_id: int) -> None:
        self.group_id = group_id
        self.term = 0
        self.voted_for: str | None = None
        self.state_segment = 0
        self.checkpoint: Checkpoint | None = None
        self.entries: list[Entry] = []
        self.segments: list[int] = []  # of the entries
        self.fault = ""
        self._first = 1  # the index of entries[0], or of the one expected
        self._parts: list[bytes] = []
        self._parts_of: tuple[int, int, bool, int] | None = None
        self._parts_segment = 0
        self._left: list[_Run] = []  # what was before gaps: only `salvage` makes something of it
        self._highest = 0  # index seen

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        """The next record of this group. What is wrong with it `finish` says."""
        try:
            if kind == RAFT_CHECKPOINT:
                self._take_part(segment, *read_checkpoint(payload))
                return
            self._parts_of = None
            if kind == RAFT_ENTRY:
                self._take_entry(segment, read_entry(payload))
            elif kind == RAFT_STATE:
                term, voted_for = read_state(payload)
                if term < self.term:
                    raise ValueError(f"term {term} after term {self.term}")
                self.term, self.voted_for = term, voted_for
                self.state_segment = segment
            else:
                raise ValueError(f"a record of kind {kind}, written by a newer program")
        except ValueError as error:
            self._parts_of = None
            self.fault = self.fault or f"journal segment {segment}: {error}"

    @property
    def is_nothing(self) -> bool:
        """Whether there is but the torn beginning of the group's first record: nobody was told of it."""
        return self.checkpoint is None and not self.entries and not self.state_segment and not self.fault

    @property
    def is_damaged(self) -> bool:
        """Whether `finish` is going to raise, or leaves out what would be found elsewhere: the one member of a group
        has no reason to take back an entry."""
        return not self.is_nothing and bool(self._damage())

    def _damage(self) -> str:
        try:
            self.finish()
        except CorruptLog as error:
            return error.reason
        end = self._first + len(self.entries) - 1
        if any(run.first + len(run.entries) - 1 > end for run in self._left if run.entries):
            return f"its log ends at {end}, and there were entries above that"
        return ""

    @property
    def configuration(self) -> Configuration:
        """The newest one, committed or not."""
        for data, _, _, kind in reversed(self.entries):
            if kind == MEMBERSHIP:
                return decode_configuration(data)
        return self.checkpoint.configuration if self.checkpoint is not None else Configuration()

    def finish(self) -> Checkpoint:
        """Everything has been read: the checkpoint that the entries follow. Raises CorruptLog."""
        if self.fault:
            raise CorruptLog(self.group_id, self.fault)
        if self.checkpoint is None:
            raise CorruptLog(self.group_id, "its entries are there, but no checkpoint that they follow")
        if self.entries and self._first != self.checkpoint.index + 1:
            raise CorruptLog(
                self.group_id, f"its entries begin at {self._first}, and the checkpoint is at {self.checkpoint.index}"
            )
        last_term = self.entries[-1][2] if self.entries else self.checkpoint.term
        if last_term > self.term:
            raise CorruptLog(
                self.group_id, f"its log ends in term {last_term}, but its state says term {self.term}"
            )
        return self.checkpoint

    def salvage(self, configuration: Configuration, chunks: list[bytes]) -> list[str]:
        """Make what is left fit together: the last whole checkpoint, and the entries that follow it without a gap.
        Only for the one member of a group: what it has is committed, and two entries with an index are the same.

        configuration and chunks: what an empty group begins with. Returns what is lost, a line each; none if nothing
        is. `checkpoint` is None then if nothing is left.
        """
        damage = self._damage()
        if not damage:
            return []
        lines = [f"group {self.group_id}: {damage}"]
        runs = [run for run in (*self._left, _Run(self._first, self.entries, self.segments)) if run.entries]
        self._left = []
        self._void()
        self.fault = ""
        if self.checkpoint is None:
            begin = next((run for run in reversed(runs) if run.first == 1), None)
            if begin is None:
                return [*lines, f"group {self.group_id}: all of it is lost, up to entry {self._highest}"]
            self.checkpoint = Checkpoint(0, 0, configuration, chunks, begin.segments[0])
        index, term = self.checkpoint.index, self.checkpoint.term
        self._first = index + 1
        while (found := _find(runs, index + 1, term)) is not None:
            entry, segment = found
            self.entries.append(entry)
            self.segments.append(segment)
            _, index, term, _ = entry
        self.term = max(self.term, term)
        if index < self._highest:
            lines.append(f"group {self.group_id}: entries {index + 1} to {self._highest} are lost")
        return lines

    def _take_entry(self, segment: int, entry: Entry) -> None:
        data, index, term, kind = entry
        self._highest = max(self._highest, index)
        if kind == MEMBERSHIP:
            decode_configuration(data)
        base = self.checkpoint.index if self.checkpoint is not None else 0
        if index <= base:
            raise ValueError(f"entry {index} after a checkpoint at {base}")
        end = self._first + len(self.entries)
        if not self._first <= index <= end:
            self._left.append(_Run(self._first, self.entries, self.segments))
            self._void()
            self._first = end = index
        place = index - self._first
        if index < end:
            if self.entries[place][2] == term:
                if self.entries[place] != entry:
                    raise ValueError(f"entry {index} of term {term} is there twice, with different contents")
                self.segments[place] = segment
                return
            del self.entries[place:]
            del self.segments[place:]
        before = self.entries[-1][2] if self.entries else 0
        if term < before:
            raise ValueError(f"entry {index} has term {term}, and the one before it {before}")
        self.entries.append(entry)
        self.segments.append(segment)

    def _void(self) -> None:
        self.entries = []
        self.segments = []

    def _take_part(
        self, segment: int, index: int, term: int, replaces: bool, number: int, count: int, data: bytes
    ) -> None:
        self._highest = max(self._highest, index)
        if number == 0:
            self._parts = []
            self._parts_of = (index, term, replaces, count)
            self._parts_segment = segment
        if self._parts_of != (index, term, replaces, count) or number != len(self._parts):
            raise ValueError(f"part {number} of a checkpoint at {index} without those before it")
        self._parts.append(data)
        if len(self._parts) == count:
            configuration = decode_configuration(self._parts[0])
            chunks = self._parts[1:]
            self._parts_of = None
            self._parts = []
            self._accept(Checkpoint(index, term, configuration, chunks, self._parts_segment), replaces)

    def _accept(self, checkpoint: Checkpoint, replaces: bool) -> None:
        index = checkpoint.index
        if replaces:
            self.fault = ""
            self._highest = index
        elif self.checkpoint is not None and index < self.checkpoint.index:
            raise ValueError(f"a checkpoint at {index} after one at {self.checkpoint.index}")
        last = self._first + len(self.entries) - 1
        if replaces or last < index:
            self._void()
        elif self._first <= index:
            known = self.entries[index - self._first][2]
            if known != checkpoint.term:
                raise ValueError(f"a checkpoint at {index} of term {checkpoint.term}; the entry has term {known}")
            del self.segments[: index + 1 - self._first]
            del self.entries[: index + 1 - self._first]
        self.checkpoint = checkpoint
        self._left = [run for run in self._left if not replaces and run.first + len(run.entries) - 1 > index]
        if self._first <= index or not self.entries:
            self._first = index + 1


def _find(runs: list[_Run], index: int, term: int) -> tuple[Entry, int] | None:
    """An entry and its segment, the newest one with that index and at least that term."""
    for run in reversed(runs):
        place = index - run.first
        if 0 <= place < len(run.entries) and run.entries[place][2] >= term:
            return run.entries[place], run.segments[place]
    return None
