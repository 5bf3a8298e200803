"""StreamSource: what tools ask of a stream, wherever its log is: figures, offsets by time, the end of what is old,
where groups of readers go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from queues.stream.settings import StreamSettings
from queues.stream.stream import Hold, Stream

if TYPE_CHECKING:
    from queues.queue import Queue

#: Why not, or None; and the stream's first offset, or that of a group, then.
Changed = Callable[[Exception | None, int], None]


class TooManyHolds(Exception):
    """A stream is held by so many names already."""


class GroupFigures(NamedTuple):
    """position: everything before it is settled. reader: the node of who reads, "" for nobody. members: how many
    consumers would."""

    position: int
    reader: str
    members: int


class ShareFigures(NamedTuple):
    """Of a group that reads all partitions: members: how many consumers. owners: the node of who is to read each."""

    members: int
    owners: tuple[str, ...]


class CompactionFigures(NamedTuple):
    """On the node that is asked: below: up to which offset the stream is compacted. dirty_percent: how much of it in
    octets is not. tombstones: how many are in the part that is. agreed: up to where all members have compacted it."""

    below: int
    dirty_percent: int
    tombstones: int
    agreed: int


class StreamFigures(NamedTuple):
    """first, next: offsets; equal where it is empty. octets: what it keeps, as it is stored; unpacked_octets: were
    nothing of it compressed. first_time, last_time: of its oldest and
    its newest chunk, milliseconds since the epoch, 0 where it is empty. producers: how many are remembered. holds: by
    name. groups: the same. leader: of its log, "" while there is none. shares: by group, of partition 0. compaction: of
    one that is compacted."""

    first: int
    next: int
    octets: int
    unpacked_octets: int
    first_time: int
    last_time: int
    settings: StreamSettings
    producers: int
    holds: Mapping[str, Hold]
    groups: Mapping[str, GroupFigures]
    leader: str
    shares: Mapping[str, ShareFigures]
    compaction: CompactionFigures | None


class StreamSource(Protocol):
    """One stream, as far as this node has applied its log."""

    def figures(self) -> StreamFigures | None:
        """None where nobody has used it yet. Raises CorruptRecord, OSError."""

    def find(self, time: int) -> int:
        """The first offset from a time on, milliseconds since the epoch; the next one if there is none. It may be a
        little earlier. Raises CorruptRecord, OSError."""

    def trim(self, first: int, then: Changed) -> None:
        """What is before this offset goes, on all members."""

    def seek(self, group: str, position: int, then: Changed) -> None:
        """A group goes on there, whether or not it was there before; at the end, if it is beyond that."""

    def forget(self, group: str, then: Changed) -> None:
        """Nobody will go on with this group. Refused while it has members, and where there is none."""

    def hold(self, name: str, hold: Hold | None, then: Changed) -> None:
        """Retention stops at an offset for this name, or from now on does not. Refused where there are too many."""

    def is_compacted(self) -> bool:
        """Whether it was declared so."""

    def compact(self, then: Changed) -> None:
        """All members compact it now; it is told when they know, not when they have. Refused where it is not declared
        so."""

    def catch_up(self, then: Changed) -> None:
        """Call `then` when this node has applied all that was committed by now; or with why nobody knows."""

    def mend(self, error: Exception) -> bool:
        """A page could not be read. Returns whether it is had from another node, so that it can be read soon."""

    def stream(self) -> Stream | None:
        """What there is to be read; None where nobody has used it yet. Not to be kept."""


def source_of(queue: Queue) -> StreamSource | None:
    """A queue's messages by offset; None where its type has no offsets."""
    return cast("StreamSource | None", queue.capability(StreamSource))
