"""The parts of a turn: what the node calls of them, one method for each phase, of the same signature in every part.

    inputs ... -> work(now) -> end_turn(now) -> take...() -> Turn        wants_sync, deadline: read in between
               -> tick(now), when a deadline has come                    synced(position), when a SyncJob has run

A part has the methods of those phases in which it has something to do; the node lists who is called in which order, and
why (`PARTS` and `SYNCED` of node.py). A part that is idle is not called: the node looks at a flag or a container of it.
What a part says to the driver is taken by a method of its own, `take` or `take_...`, which gives a list.

Invariants:
1. Only `work` writes without being asked to: `end_turn` may, where the order of the parts provides for it.
2. What waits for the disk waits for a position, and goes on in `synced`.
"""

from __future__ import annotations

from typing import Protocol


class Works(Protocol):
    """Has work left over for the end of the turn."""

    def work(self, now: int) -> None:
        """Do what is due in this turn, before anything is closed: it may publish, settle, and write."""


class EndsTurn(Protocol):
    """Has something to close."""

    def end_turn(self, now: int) -> None:
        """What this turn wrote is in the journal: say what follows from it, and what has to wait for the disk."""


class Syncs(Protocol):
    """Has something that waits for the disk."""

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""


class WantsSync(Syncs, Protocol):
    """Knows by itself whether somebody waits."""

    @property
    def wants_sync(self) -> bool:
        """Whether somebody waits for the disk."""


class Ticks(Protocol):
    """Has something that happens at a time, or soon."""

    def tick(self, now: int) -> None:
        """Time has passed: what is due happens."""


class HasDeadline(Ticks, Protocol):
    """Knows by itself when that is."""

    @property
    def deadline(self) -> int:
        """When `tick` has something to do, milliseconds since the epoch; 0 for never."""
