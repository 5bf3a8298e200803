"""StreamSource: what tools ask of a stream, wherever its log is: figures, offsets by time, the end of what is old."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from queues.stream.settings import StreamSettings
from queues.stream.stream import Hold

#: Why not, or None; and the first offset then.
Trimmed = Callable[[Exception | None, int], None]


class StreamFigures(NamedTuple):
    """first, next: offsets; equal where it is empty. octets: what it keeps. first_time, last_time: of its oldest and
    its newest chunk, milliseconds since the epoch, 0 where it is empty. producers: how many are remembered. holds: by
    name."""

    first: int
    next: int
    octets: int
    first_time: int
    last_time: int
    settings: StreamSettings
    producers: int
    holds: Mapping[str, Hold]


class StreamSource(Protocol):
    """One stream, as far as this node has applied its log."""

    def figures(self) -> StreamFigures | None:
        """None where nobody has used it yet. Raises CorruptRecord, OSError."""

    def find(self, time: int) -> int:
        """The first offset from a time on, milliseconds since the epoch; the next one if there is none. It may be a
        little earlier. Raises CorruptRecord, OSError."""

    def trim(self, first: int, then: Trimmed) -> None:
        """What is before this offset goes, on all members."""
