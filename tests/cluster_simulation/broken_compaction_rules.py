"""One rule of compaction turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.queue_types.stream.compactor import Compactor
from queues.stream import compaction
from queues.stream.log import StreamLog
from queues.stream.tail import Stored
from storage import page_store

Patch = pytest.MonkeyPatch


def the_newest_goes(patch: Patch) -> None:
    """Keys are taken for the same that are not."""
    patch.setattr(compaction, "_hash_of", lambda key: b"")


def tombstones_go_alone(patch: Patch) -> None:
    """Each node gives them up as soon as it has done its own part."""
    patch.setattr(Compactor, "_agreed", lambda self, stream: stream.next)


def what_is_left_gets_another_offset(patch: Patch) -> None:
    """What stands behind a hole moves down."""
    octets_of = compaction.stored_octets

    def moved(stored: Stored, octets: bytes | None = None) -> bytes:
        return octets_of(Stored(stored.first + (octets is not None), stored.time, stored.chunk), octets)

    patch.setattr(compaction, "stored_octets", moved)


def new_files_are_not_synced(patch: Patch) -> None:
    patch.setattr(page_store, "_sync", lambda disk, paths, folder: b"")


def old_files_go_at_once(patch: Patch) -> None:
    """The checkpoint that names them is the last one still."""
    succeed = StreamLog.succeed

    def succeeded(self: Any, end: int, new: Any) -> None:
        for part in new.replaced:
            part.page.is_named = part.is_placed = False
        succeed(self, end, new)

    patch.setattr(StreamLog, "succeed", succeeded)
