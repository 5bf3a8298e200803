"""MessageSizes: how many messages of which size clients have published to this node.

Nobody counts a message for that: a channel adds what it has published when a body of another class follows, and when
somebody asks (`Channel.count_sizes`). The classes are those that RabbitMQ's dashboards have columns for.
"""

from __future__ import annotations

from bisect import bisect_left

#: The largest body of each class but the last, octets.
BOUNDS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
_NO_BOUND = 1 << 62


def class_of(size: int) -> int:
    """The class of a body of so many octets."""
    return bisect_left(BOUNDS, size)


def bounds_of(size_class: int) -> tuple[int, int]:
    """The smallest and the largest body of a class."""
    first = BOUNDS[size_class - 1] + 1 if size_class else 0
    return first, BOUNDS[size_class] if size_class < len(BOUNDS) else _NO_BOUND


class MessageSizes:
    """counts: messages by class. octets: of the bodies of all of them."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.octets = 0

    def add(self, size_class: int, messages: int, octets: int) -> None:
        """So many more of a class, with so many octets together."""
        self.counts[size_class] += messages
        self.octets += octets
