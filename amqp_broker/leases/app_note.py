"""AppNote: what the journal says of an app: which epoch was committed last, and what is staged; all but the blobs.

    u8 version (1, or 2 with positions), 16 octets incarnation, short string virtual host, short string app, u64 last
    epoch + 1, u64 next serial, u64 next ordinal, u64 called_at, u32 n, n x (u64 epoch, u64 partition, u64 attempt, u64
    serial, u64 opened_at, u64 ordinal of its first blob + 1 if it is committed, or 0); committed parts in the order of
    publication; of version 2 u32 n, n x (u64 stream, short string group, u64 position): what is to follow what is
    committed

The blobs of a part are the messages of a hidden queue, whose id follows from the incarnation and the part's serial.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.wire.reader import Reader, octets_of

#: Ids of the queues of staged parts lie above this, and below it, by 2**56, the ids of notes.
STAGED_IDS = 0x31 << 56
NOTE_IDS = 0x32 << 56
INCARNATION_BYTES = 16
_VERSION = 1
_VERSION_WITH_POSITIONS = 2
_PART_BYTES = 48
_POSITION_BYTES = 17


class PartNote(NamedTuple):
    """A part. ordinal: of its first blob among all that the app has ever committed, -1 while it is not committed."""

    epoch: int
    partition: int
    attempt: int
    serial: int
    opened_at: int
    ordinal: int


class Position(NamedTuple):
    """Everything before this offset of a stream is done for a group of readers."""

    queue_id: int
    group: str
    offset: int


class AppNote(NamedTuple):
    """An app. last_epoch: -1 for none; called_at: when it last committed something, ms since the epoch. positions: of
    what is committed and not done."""

    incarnation: bytes
    vhost: str
    name: str
    last_epoch: int
    next_serial: int
    next_ordinal: int
    called_at: int
    parts: tuple[PartNote, ...]
    positions: tuple[Position, ...] = ()

    def queue_id(self, part: PartNote) -> int:
        """The id of the queue that has the part's blobs."""
        return staged_queue_id(self.incarnation, part.serial)


def _id_of(base: int, text: bytes) -> int:
    return base + int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def staged_queue_id(incarnation: bytes, serial: int) -> int:
    """The id of the queue of an app's part."""
    return _id_of(STAGED_IDS, incarnation + serial.to_bytes(8, "big"))


def note_id(vhost: str, name: str) -> int:
    """The id of an app's notes."""
    return _id_of(NOTE_IDS, octets_of(vhost) + b"\0" + octets_of(name))


def encode_note(note: AppNote) -> bytes:
    """Its octets."""
    buffer = Buffer(256)
    buffer.put_u8(_VERSION_WITH_POSITIONS if note.positions else _VERSION)
    buffer.put_bytes(note.incarnation)
    buffer.put_shortstr(octets_of(note.vhost))
    buffer.put_shortstr(octets_of(note.name))
    for number in (note.last_epoch + 1, note.next_serial, note.next_ordinal, note.called_at):
        buffer.put_u64(number)
    buffer.put_u32(len(note.parts))
    for part in note.parts:
        for number in (*part[:5], part.ordinal + 1):
            buffer.put_u64(number)
    if note.positions:
        buffer.put_u32(len(note.positions))
        for position in note.positions:
            buffer.put_u64(position.queue_id)
            buffer.put_shortstr(octets_of(position.group))
            buffer.put_u64(position.offset)
    return buffer.take()


def decode_note(octets: bytes) -> AppNote:
    """A note of these octets. Raises Malformed."""
    reader = Reader(octets, "note of an app")
    version = reader.u8()
    if version not in (_VERSION, _VERSION_WITH_POSITIONS):
        raise reader.fail(f"version {version}; this program reads up to {_VERSION_WITH_POSITIONS}: update it")
    incarnation = reader.octets(INCARNATION_BYTES)
    vhost, name = reader.name(), reader.name()
    last_epoch, next_serial, next_ordinal, called_at = reader.u64() - 1, reader.u64(), reader.u64(), reader.u64()
    parts = []
    for _ in range(reader.count(_PART_BYTES)):
        epoch, partition, attempt, serial, opened_at, ordinal = (reader.u64() for _ in range(6))
        parts.append(PartNote(epoch, partition, attempt, serial, opened_at, ordinal - 1))
    count = reader.count(_POSITION_BYTES) if version == _VERSION_WITH_POSITIONS else 0
    positions = [Position(reader.u64(), reader.name(), reader.u64()) for _ in range(count)]
    reader.finish()
    return AppNote(
        incarnation, vhost, name, last_epoch, next_serial, next_ordinal, called_at, tuple(parts), tuple(positions)
    )
