"""StreamCounts: what a node that does not keep a stream shows of it: its ends, and what it takes.

They travel as the figures of a queue do (QueueStatistics), in this order: messages, octets, first offset, octets
without compression, groups of readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from queues.stream.stream import Stream


class StreamCounts(NamedTuple):
    """first, next: offsets; equal where it is empty. octets: what it keeps, as it is stored; unpacked_octets: were
    nothing of it compressed. groups: of readers."""

    first: int = 0
    next: int = 0
    octets: int = 0
    unpacked_octets: int = 0
    groups: int = 0

    @classmethod
    def of(cls, stream: Stream) -> StreamCounts:
        """As this node has it."""
        return cls(stream.first, stream.next, stream.log.octets, stream.log.unpacked_octets, len(stream.groups))

    @classmethod
    def read(cls, messages: int, octets: int, first: int, unpacked_octets: int, groups: int) -> StreamCounts:
        """As it was said."""
        return cls(first, first + messages, octets, unpacked_octets, groups)

    def numbers(self) -> tuple[int, int, int, int, int]:
        """To be said."""
        return self.next - self.first, self.octets, self.first, self.unpacked_octets, self.groups
