"""Part: what takes part in a turn. The node calls its parts in the order of `node.PARTS`, and leaves out who is idle.

A part has of this what it needs; `now` is the time of the turn's clock, and `position` how far the journal goes.
"""

from __future__ import annotations

from typing import Protocol


class Beginning(Protocol):
    """Something to do while this turn can still write to the journal, and give others something to do."""

    def begin_end_of_turn(self, now: int) -> None: ...


class Ending(Protocol):
    """Something to say of what the turn has written: the journal ends at `position`."""

    def end_turn(self, position: int) -> None: ...


class Synced(Protocol):
    """Something that waits for the disk. wants_sync: it does, so that a sync is due."""

    @property
    def wants_sync(self) -> bool: ...

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""


class Timed(Protocol):
    """Something to be done at a time, apart from timers."""

    def deadline(self) -> int:
        """When `tick` is due, 0: never."""

    def tick(self, now: int) -> None: ...


class Linked(Protocol):
    """Something that other nodes have a part in."""

    def peer_connected(self, name: str, now: int) -> None: ...
    def peer_disconnected(self, name: str, now: int) -> None: ...
