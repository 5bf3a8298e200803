"""Commands about lease groups of quorum queues, and their octets (commands.py has the others).

All of them name the queue and the group. What the group is asked for besides its opening goes by its incarnation and
its owner: of another incarnation it is refused with LEASE_GONE, of another owner with FENCED.
"""

from __future__ import annotations

from typing import NamedTuple

from queues.wire.codec import FLAG, NAME, U32, U64, codec_of

OPEN_LEASE = 10
CLAIM = 11
ACK_LEASE = 12
RELEASE_LEASE = 13


class OpenLease(NamedTuple):
    """The group is there, and `owner` owns it; if it is new, it has this incarnation."""

    queue_id: int
    name: str
    incarnation: str
    owner: str


class Claim(NamedTuple):
    """The group takes ready messages, in delivery order: so many at most, and at most so many octets of packed
    messages; one at least, if there is one. Unless `adds`, only while it has none beyond offset `after`."""

    queue_id: int
    name: str
    incarnation: str
    owner: str
    after: int
    messages: int
    octets: int
    adds: bool


class AckLease(NamedTuple):
    """The group's offsets below `upto` are done with."""

    queue_id: int
    name: str
    incarnation: str
    owner: str
    upto: int


class ReleaseLease(NamedTuple):
    """What the group holds goes back to the queue, and the group is gone."""

    queue_id: int
    name: str
    incarnation: str
    owner: str


LeaseCommand = OpenLease | Claim | AckLease | ReleaseLease
LEASE_COMMANDS: tuple[type, ...] = (OpenLease, Claim, AckLease, ReleaseLease)


_GROUP = (U64, NAME, NAME, NAME)

CODECS = {
    OPEN_LEASE: codec_of(OpenLease, *_GROUP),
    CLAIM: codec_of(Claim, *_GROUP, U64, U32, U64, FLAG),
    ACK_LEASE: codec_of(AckLease, *_GROUP, U64),
    RELEASE_LEASE: codec_of(ReleaseLease, *_GROUP),
}
