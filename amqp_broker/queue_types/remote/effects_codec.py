"""The octets that pass between a node and the home of classic queues that it uses: commands there, effects back.

    to the home      a batch of queues/quorum/commands.py (batch_reader.py), or one of
                     u8 0x81, version u8, session u64, sequence u64, queue id u64                               Count
                     u8 0x82, version u8, session u64, octets u64, u32 n, n (consumer u64, octets u64)          Taken
    from the home    version u8, session u64, u32 n, n effects: u8 kind, u32 length of what follows, fields (put_...)

A batch begins with its version, which is below 0x80. Its time says nothing here: the home's own clock ages messages.
The decoders are strict: what they accept encodes to the same octets. They raise Malformed only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import cython

from amqp_broker.octets.buffer import Buffer
from queues.effects import (
    AttachRefused,
    Cancel,
    Confirmed,
    ConsumerCancelled,
    Counted,
    Delivered,
    GetAnswered,
    Refusal,
    Refused,
    SessionClosed,
    SettleMissed,
    Unreadable,
)
from queues.message import Message
from queues.page import AddressBook, put_message
from queues.wire.codec import FLAG, U32, U64, Field, codec_of, readers_of, writers_of
from queues.wire.reader import Reader

if not cython.compiled:
    from queues.effects import make_delivered
    from queues.wire.reader import open_frame
    from queues.wire.traffic import read_message

VERSION = 2
#: Effects in a frame, octets at most (one larger effect goes alone).
FRAME_BYTES = 256 * 1024
_FRAME_BYTES = FRAME_BYTES

_COUNT = 0x81
_TAKEN = 0x82
_OWN = 0x80

_DELIVERED = 1
_CONFIRMED, _GET_ANSWERED, _COUNTED, _ATTACH_REFUSED, _SETTLE_MISSED, _CANCELLED = range(2, 8)
_QUEUE_COUNTED, _BLOCKED, _SESSION_CLOSED, _UNREADABLE = 16, 17, 18, 19
_COUNT_AT = 9
#: Of an effect: its kind and length.
_EFFECT_HEAD = 5
_HAS_MESSAGE = 1
_IS_REDELIVERED = 2


# -- to the home -------------------------------------------------------------------------------------------------------


class Count(NamedTuple):
    """A command of the stream of its own: how many messages and consumers the queue has. is_use: a client has asked
    for the queue, which is then not unused (x-expires); no use is it where somebody looks at all queues."""

    session: int
    sequence: int
    queue_id: int
    is_use: bool = True


class Taken(NamedTuple):
    """How far deliveries of this session have been taken, in octets (Message.size) since it began: all of them off the
    link, and those of each consumer by its client."""

    session: int
    octets: int
    consumers: tuple[tuple[int, int], ...]


ToHome = Count | Taken


def encode_count(count: Count) -> bytes:
    """The frame."""
    buffer = Buffer(32)
    buffer.put_u8(_COUNT)
    buffer.put_u8(VERSION)
    for number in count[:3]:
        buffer.put_u64(number)
    buffer.put_u8(count.is_use)
    return buffer.take()


def encode_taken(taken: Taken) -> bytes:
    """The frame."""
    buffer = Buffer(64)
    buffer.put_u8(_TAKEN)
    buffer.put_u8(VERSION)
    buffer.put_u64(taken.session)
    buffer.put_u64(taken.octets)
    buffer.put_u32(len(taken.consumers))
    for consumer, octets in taken.consumers:
        buffer.put_u64(consumer)
        buffer.put_u64(octets)
    return buffer.take()


def is_batch(data: bytes) -> bool:
    """Whether a frame to the home is a batch of a node's stream, and none of the above."""
    return not data or data[0] < _OWN


def decode_to_home(data: bytes) -> ToHome:
    """A frame to the home that is no batch. Raises Malformed."""
    reader = Reader(data, "frame to a home node")
    kind = reader.u8()
    reader.check_version(VERSION)
    frame: ToHome
    if kind == _COUNT:
        frame = Count(reader.u64(), reader.u64(), reader.u64(), bool(reader.flags(1)))
    elif kind == _TAKEN:
        session, octets, count = reader.u64(), reader.u64(), reader.count(16)
        frame = Taken(session, octets, tuple([(reader.u64(), reader.u64()) for _ in range(count)]))
    else:
        raise reader.fail(f"unknown kind {kind:#x}: written by a newer version?")
    reader.finish()
    return frame


# -- from the home -----------------------------------------------------------------------------------------------------


class QueueCounted(NamedTuple):
    """The answer to a Count."""

    sequence: int
    messages: int
    unacked: int
    consumers: int
    leased: int


class Blocked(NamedTuple):
    """The home is short of memory or disk, or it is no longer: who publishes has to wait meanwhile."""

    is_blocked: bool


HomeEffect = (
    Delivered
    | Confirmed
    | GetAnswered
    | Counted
    | AttachRefused
    | SettleMissed
    | ConsumerCancelled
    | QueueCounted
    | Blocked
    | SessionClosed
    | Unreadable
)


class EffectsWriter:
    """Packs the effects of one session into frames, in order."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._buffer = Buffer(4096)
        self._count = 0
        self._full: list[bytes] = []

    @property
    def is_split(self) -> bool:
        """Whether what was put since the last call of `take` is more than one frame."""
        return bool(self._full)

    def take(self) -> list[bytes]:
        """The frames of everything that was put since the last call."""
        if self._count:
            self._seal()
        frames, self._full = self._full, []
        return frames

    def _seal(self) -> None:
        self._buffer.set_u32(_COUNT_AT, self._count)
        self._full.append(self._buffer.take())
        self._count = 0

    def _open(self, kind: int) -> int:
        """Begin an effect. Returns where its length stands."""
        buffer = self._buffer
        if buffer.length >= _FRAME_BYTES:
            self._seal()
        if not buffer.length:
            buffer.put_u8(VERSION)
            buffer.put_u64(self._session)
            buffer.put_u32(0)
        self._count += 1
        buffer.put_u8(kind)
        buffer.put_u32(0)
        return buffer.length - 4

    def _close(self, start: int) -> None:
        self._buffer.set_u32(start, self._buffer.length - start - 4)

    def put_delivered(
        self, consumer: int, delivery_id: int, message: Message, is_redelivered: bool, delivery_count: int
    ) -> None:
        """Delivered, in its parts: there are many of them."""
        start = self._open(_DELIVERED)
        buffer = self._buffer
        buffer.put_u64(consumer)
        buffer.put_u64(delivery_id)
        buffer.put_u8(_IS_REDELIVERED if is_redelivered else 0)
        buffer.put_u32(delivery_count)
        put_message(buffer, message)
        self._close(start)

    def put(self, effect: HomeEffect) -> None:
        """Any other effect. Its session, where it has one, is the writer's."""
        kind, put = _WRITERS[type(effect)]
        start = self._open(kind)
        put(self._buffer, effect)
        self._close(start)


def _put_confirmed(buffer: Buffer, effect: Confirmed) -> None:
    buffer.put_u64(effect.first)
    buffer.put_u64(effect.last)
    buffer.put_u32(len(effect.refused))
    for sequence, refusal in effect.refused:
        buffer.put_u64(sequence)
        buffer.put_u8(refusal)


def _put_get_answered(buffer: Buffer, effect: GetAnswered) -> None:
    buffer.put_u64(effect.sequence)
    buffer.put_u64(effect.consumer)
    buffer.put_u64(effect.ready)
    if effect.message is None:
        buffer.put_u8(0)
        return
    buffer.put_u8(_HAS_MESSAGE | (_IS_REDELIVERED if effect.redelivered else 0))
    buffer.put_u64(effect.delivery_id)
    buffer.put_u32(effect.delivery_count)
    put_message(buffer, effect.message)


class FromHome(NamedTuple):
    """What a frame from the home says of this session of the node."""

    session: int
    effects: list[HomeEffect]


class EffectsReader:
    """Takes effects off a frame from the home, one by one as they are handed on (`next`).

    message: of the effect at hand if it is a Delivered, which is not made, with its parts; None of any other, which
    `effect` is then. Raises Malformed where it is made, and by `next`: what was taken before stands."""

    def __init__(self, data: bytes, addresses: AddressBook) -> None:
        reader = self._reader = open_frame(data, "frame from a home node", VERSION)
        self._fields = Reader(data, "effect")
        self._addresses = addresses
        self.session = reader.u64()
        self._left = reader.count(_EFFECT_HEAD)
        if not self._left:
            raise reader.fail("a frame without effects")
        self.effect: HomeEffect | None = None
        self.message: Message | None = None
        self.consumer = 0
        self.delivery_id = 0
        self.is_redelivered = False
        self.delivery_count = 0

    def next(self) -> bool:
        """Go on to the next effect. Returns whether there is one."""
        reader = self._reader
        if not self._left:
            reader.finish()
            return False
        self._left -= 1
        fields = self._fields
        kind = fields.enter(reader)
        if kind == _DELIVERED:
            self.consumer = fields.u64()
            self.delivery_id = fields.u64()
            self.is_redelivered = fields.flags(_IS_REDELIVERED) != 0
            self.delivery_count = fields.u32()
            self.message = read_message(fields, self._addresses)
            self.effect = None
            return True
        self.message = None
        if kind == _CONFIRMED:
            self.effect = _get_confirmed(fields, self.session)
        elif kind == _GET_ANSWERED:
            self.effect = _get_get_answered(fields, self._addresses)
        else:
            read = _READERS.get(kind)
            if read is None:
                raise reader.fail(f"effect of unknown kind {kind}: written by a newer version?")
            self.effect = read(fields)
        fields.finish()
        return True


def decode_from_home(data: bytes, addresses: AddressBook) -> FromHome:
    """A frame from the home, with everything in it. Raises Malformed."""
    reader = EffectsReader(data, addresses)
    effects: list[HomeEffect] = []
    while reader.next():
        if reader.effect is not None:
            effects.append(reader.effect)
        elif reader.message is not None:
            effects.append(
                make_delivered(
                    reader.consumer, reader.delivery_id, reader.message, reader.is_redelivered, reader.delivery_count
                )
            )
    return FromHome(reader.session, effects)


def _get_confirmed(reader: Reader, session: int) -> Confirmed:
    first, last = reader.u64(), reader.u64()
    if not 0 < first <= last:
        raise reader.fail(f"commands from {first} to {last}")
    refused = []
    before = first - 1
    for _ in range(reader.count(9)):
        sequence = reader.u64()
        if not before < sequence <= last:
            raise reader.fail(f"command {sequence} is refused after {before}, of {first} to {last}")
        refused.append(Refused(sequence, _refusal(reader)))
        before = sequence
    return Confirmed(session, first, last, tuple(refused))


def _refusal(reader: Reader) -> Refusal:
    value = reader.u8()
    if not Refusal.FULL <= value <= Refusal.LEASE_GONE:
        raise reader.fail(f"refusal {value} is not known")
    return Refusal(value)


def _get_get_answered(reader: Reader, addresses: AddressBook) -> GetAnswered:
    sequence, consumer, ready = reader.u64(), reader.u64(), reader.u64()
    flags = reader.flags(_HAS_MESSAGE | _IS_REDELIVERED)
    if not flags:
        return GetAnswered(sequence, consumer, 0, None, False, 0, ready)
    if not flags & _HAS_MESSAGE:
        raise reader.fail("no message, and it was redelivered")
    delivery_id, delivery_count = reader.u64(), reader.u32()
    message = read_message(reader, addresses)
    is_redelivered = bool(flags & _IS_REDELIVERED)
    return GetAnswered(sequence, consumer, delivery_id, message, is_redelivered, delivery_count, ready)


def _get_cancel(reader: Reader) -> Cancel:
    why = reader.u8()
    if not Cancel.QUEUE_GONE <= why <= Cancel.TIMEOUT:
        raise reader.fail(f"reason {why} of a cancel is not known")
    return Cancel(why)


_REFUSAL = Field(Buffer.put_u8, _refusal)
_CANCEL = Field(Buffer.put_u8, _get_cancel)

#: Of all that have no message; of a Confirmed, too, its session is not among its octets.
_CODECS = {
    _COUNTED: codec_of(Counted, U64, U64),
    _ATTACH_REFUSED: codec_of(AttachRefused, U64, U64, _REFUSAL),
    _SETTLE_MISSED: codec_of(SettleMissed, U64, U64, U64),
    _CANCELLED: codec_of(ConsumerCancelled, U64, _CANCEL),
    _QUEUE_COUNTED: codec_of(QueueCounted, U64, U64, U64, U32, U64),
    _BLOCKED: codec_of(Blocked, FLAG),
    _SESSION_CLOSED: codec_of(SessionClosed, U64),
    _UNREADABLE: codec_of(Unreadable, U64, U64),
}
_READERS: dict[int, Callable[[Reader], HomeEffect]] = readers_of(_CODECS)
_WRITERS = writers_of(_CODECS) | {
    Confirmed: (_CONFIRMED, _put_confirmed),
    GetAnswered: (_GET_ANSWERED, _put_get_answered),
}
