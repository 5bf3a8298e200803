"""Generation: which life of the cluster a folder belongs to. `amqp-broker cluster restore` begins another one, out of
one folder; nothing that was promised in an earlier generation counts in it. The operator says whether it replaces the
cluster that it was made of. Without that word the two refuse each other: a copy that was started by mistake stops
nobody.

The number is in the MEMBERS file, is handed to whoever joins, and is the first thing that a node says on a link. A
folder that belongs to no cluster yet has none: it takes the first that it hears.

Invariants:
1. It never falls.
2. What a node of another generation says, of whomever, counts for nothing; a node that meets a later one that replaces
   its own is over.
"""

from __future__ import annotations

import enum

#: Of a cluster that was never restored, and of nodes of the versions that knew no generations.
FIRST = 0


class Standing(enum.Enum):
    """How another node's generation is to this one's."""

    SAME = enum.auto()
    EARLIER = enum.auto()
    LATER = enum.auto()


def next_generation(generation: int, now_ms: int) -> int:
    """That of a cluster that is restored at this time from a folder of that one: later than it, and than all that were
    begun before this time from other copies of it."""
    return max(generation + 1, now_ms)


def compare(own: int, theirs: int) -> Standing:
    """What another node's generation is to this one's."""
    if theirs == own:
        return Standing.SAME
    return Standing.EARLIER if theirs < own else Standing.LATER


def why_refused(own: int, theirs: int) -> str:
    """Of a node of an earlier generation."""
    return (
        f"it belongs to generation {theirs} of the cluster, and this node to {own}: it is from before `amqp-broker "
        f"cluster restore`; stop it, and have it rejoin with `amqp-broker cluster rejoin`"
    )


def why_strange(own: int, theirs: int) -> str:
    """Of a node of a later generation that does not replace this one."""
    return (
        f"it belongs to generation {theirs} of the cluster, and this node to {own}: it is of a copy that `amqp-broker "
        f"cluster restore` has made a cluster of its own. Stop it; or, if it is to replace this cluster, restore it "
        f"with --replace"
    )


def why_over(node: str, own: int, other: str, theirs: int) -> str:
    """Of the folder of a node that has met another one of a later generation."""
    return (
        f"this folder belongs to generation {own} of the cluster, and node {other} to {theirs}: the cluster was "
        f"restored from another folder since. Bring the node into that with `amqp-broker cluster rejoin --node-name "
        f"{node} ...`, which sets this folder aside; or, if this folder is what everything is to begin from, "
        f"`amqp-broker cluster restore --data-dir ...`"
    )
