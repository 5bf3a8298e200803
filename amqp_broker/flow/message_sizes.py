"""MessageSizes: how many messages of which size clients have published to this node.

Nobody counts a message for that: a channel counts what it has published when a body of another class follows, and adds
that here when somebody asks (`Channel.count_sizes`). The classes are
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


def bound_of(number: int) -> int:
    """The largest body of a class."""
    if number > 5:
        return 50_000_000 if number == 6 else 100_000_000 if number == 7 else 1 << 62
    bound = 100
    while number > 0:
        bound *= 10
        number -= 1
    return bound


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
