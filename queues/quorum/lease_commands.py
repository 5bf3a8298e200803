"""Commands about lease groups of quorum queues, and their octets (commands.py has the others).

All of them name the queue and the group. What the group is asked for besides its opening goes by its incarnation and
its owner: of another incarnation it is refused with LEASE_GONE, of another owner with FENCED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.quorum.reader import Reader, octets_of

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


def _put_group(buffer: Buffer, command: LeaseCommand) -> None:
    buffer.put_u64(command.queue_id)
    buffer.put_shortstr(octets_of(command.name))
    buffer.put_shortstr(octets_of(command.incarnation))
    buffer.put_shortstr(octets_of(command.owner))


def _put_claim(buffer: Buffer, command: Claim) -> None:
    _put_group(buffer, command)
    buffer.put_u64(command.after)
    buffer.put_u32(command.messages)
    buffer.put_u64(command.octets)
    buffer.put_u8(1 if command.adds else 0)


def _put_ack_lease(buffer: Buffer, command: AckLease) -> None:
    _put_group(buffer, command)
    buffer.put_u64(command.upto)


def _get_group(reader: Reader) -> tuple[int, str, str, str]:
    return reader.u64(), reader.name(), reader.name(), reader.name()


def _get_claim(reader: Reader) -> Claim:
    return Claim(*_get_group(reader), reader.u64(), reader.u32(), reader.u64(), bool(reader.flags(1)))


WRITERS: dict[type, tuple[int, Callable[..., None]]] = {
    OpenLease: (OPEN_LEASE, _put_group),
    Claim: (CLAIM, _put_claim),
    AckLease: (ACK_LEASE, _put_ack_lease),
    ReleaseLease: (RELEASE_LEASE, _put_group),
}

READERS: dict[int, Callable[[Reader], LeaseCommand]] = {
    OPEN_LEASE: lambda reader: OpenLease(*_get_group(reader)),
    CLAIM: _get_claim,
    ACK_LEASE: lambda reader: AckLease(*_get_group(reader), reader.u64()),
    RELEASE_LEASE: lambda reader: ReleaseLease(*_get_group(reader)),
}
