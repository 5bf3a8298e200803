"""Level: which forms the nodes of a cluster use towards each other, and in their folders.

A version speaks its own level and the one before. Nodes tell each other which they speak (acquaintances.py), and the
cluster is at one of them, which the metadata have: the leader of their group raises it when all members are there and
speak the next one. Until then no node says or writes anything that the level before does not know, so that each of them
may go back to the version before. From then on the folders have a format which that version refuses.

Invariants:
1. It never falls.
2. What a level has brought is said to nodes that speak it, and written when the cluster is at it. Both are asked for
   where the form is used: `FrameKind` has the level of each frame, and whoever writes asks the metadata.
3. A node that does not speak the level of the cluster is not let in, and told of in one sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonValue

#: Of nodes that name none.
FIRST: Final = 1
#: The newest that this version speaks, and the oldest.
LEVEL: Final = 2
LEAST: Final = LEVEL - 1
#: The first with entries in the journal for the dead letters of a queue that is deleted (queues/last_letters.py).
LAST_LETTERS: Final = 2
#: The first with streams in the groups of queues (queues/stream/).
STREAMS: Final = 2
#: The first with messages that rest in a quorum queue before they come again (queues/quorum/resting.py).
DELAYED_RETRY: Final = 2
#: The first in which the single active consumer of a quorum queue gives way to one of a higher priority
#: (queues/quorum/queue.py).
SINGLE_ACTIVE_PRIORITY: Final = 2
#: The first with groups of queues that are on some of the nodes (queue_types/groups/guest.py).
SOME_MEMBERS: Final = 2
#: The first in which the metadata know virtual hosts that are protected from deletion.
DELETION_PROTECTION: Final = 2
#: The first in which the home of a classic queue changes (rehoming/).
REHOMING: Final = 2
#: The first in which nodes of a cluster have several workers (metadata/member_workers.py).
WORKERS: Final = 2
#: The first in which members say in which rack they are (metadata/member_racks.py).
RACKS: Final = 2
#: The first in which a command about a user may say that an administrator has to be left (metadata/access.py).
LAST_ADMINISTRATOR: Final = 2
#: The first in which a command may set a global parameter only where there is none (metadata/cluster_identity.py).
FIRST_ONE_STAYS: Final = 2
#: The first whose delayed messages wait with the keys of their blind copies (routing/delays.py).
BLIND_COPIES: Final = 2
#: The version of the folder's format (storage/folder_format.py), by level.
FOLDER_FORMATS: Final = {1: 5, 2: 6}


class Levels(NamedTuple):
    """What a node speaks: from `least` to `most`."""

    least: int
    most: int


OWN: Final = Levels(LEAST, LEVEL)


def read_levels(said: JsonValue) -> Levels:
    """As a node has said it; None: it has said nothing. Raises ValueError, TypeError."""
    if said is None:
        return Levels(FIRST, FIRST)
    least, most = said
    return Levels(int(least), int(most))


def why_refused(theirs: Levels, level: int, own: Levels) -> str:
    """Why a node that speaks these is not let in by one that speaks `own` in a cluster of this level; "" if it is."""
    if theirs.least > own.most:
        return (
            f"it speaks level {theirs.least} at least, and this node {own.most} at most: it is more than one version "
            f"ahead; start it with a version between the two, and upgrade all members to that first"
        )
    if theirs.most < max(level, own.least):
        return (
            f"it speaks level {theirs.most} at most, and the cluster is at level {max(level, own.least)}: it is of a "
            f"version that is too old now; start it with the version of the other members"
        )
    return ""
