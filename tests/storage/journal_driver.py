"""Drives a journal as a node does: append, take a batch, write it, report it done."""

from __future__ import annotations

import random
from collections.abc import Iterable

from storage.disk import Disk
from storage.journal import RECORD_BYTES, Journal
from tests.simulation.simulated_disk import SimulatedDisk

Entry = tuple[int, bytes]

SEGMENT_HEAD = 24 + 16
RECORD_HEAD = 24
ENTRY_HEAD = 5


def new_disk(seed: int = 0) -> SimulatedDisk:
    return SimulatedDisk(random.Random(seed))


def joined(batches: Iterable[list[Entry]]) -> list[Entry]:
    """The entries of all batches."""
    return [entry for batch in batches for entry in batch]


def append(journal: Journal, entries: Iterable[Entry]) -> int:
    """Append entries, in memory; the position to sync to."""
    for kind, payload in entries:
        journal.open_entry(kind).put_bytes(payload)
        journal.close_entry()
    return journal.position


def flush(journal: Journal) -> None:
    """Write and sync all that was appended."""
    batch = journal.take_batch()
    assert batch is not None
    batch.write_and_sync()
    journal.batch_done(batch)


def write(journal: Journal, *batches: Iterable[Entry]) -> None:
    """Append and flush, batch by batch."""
    for entries in batches:
        append(journal, entries)
        flush(journal)


def open_journal(
    disk: Disk,
    segment_bytes: int = 1 << 20,
    recover_damaged: bool = False,
    record_bytes: int = RECORD_BYTES,
    room_bytes: int = 0,
) -> tuple[Journal, list[Entry]]:
    """A recovered journal and the entries that were in it. Without room its files are what was appended."""
    journal = Journal(disk, segment_bytes=segment_bytes, record_bytes=record_bytes, room_bytes=room_bytes)
    found = [(kind, bytes(payload)) for _, kind, payload in journal.recover(recover_damaged)]
    return journal, found
