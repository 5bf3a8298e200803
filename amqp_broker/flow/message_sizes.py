"""MessageSizes: how many messages of which size clients have published to this node.

A channel counts its messages by class, and adds them here when somebody asks (`Channel.count_sizes`). The classes are
those that RabbitMQ's dashboards have columns for.
"""

from __future__ import annotations

#: The largest body of each class but the last, octets.
BOUNDS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
CLASSES = len(BOUNDS) + 1


def class_of(size: int) -> int:
    """The class of a body of so many octets: at most four comparisons."""
    if size <= 10_000:
        if size <= 1_000:
            return 0 if size <= 100 else 1
        return 2
    if size <= 1_000_000:
        return 3 if size <= 100_000 else 4
    if size <= 50_000_000:
        return 5 if size <= 10_000_000 else 6
    return 7 if size <= 100_000_000 else 8


class MessageSizes:
    """counts: messages by class. octets: of the bodies of all of them."""

    def __init__(self) -> None:
        self.counts = [0] * CLASSES
        self.octets = 0

    def add(self, size_class: int, messages: int) -> None:
        """So many more of a class."""
        self.counts[size_class] += messages

    def add_octets(self, octets: int) -> None:
        """So many more octets, of all classes together."""
        self.octets += octets
