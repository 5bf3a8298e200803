"""The octets between a node that is no member of a queue group, a guest, and the member that leads it.

    guest -> member    version u8, kind u8, group u32, number u64, then by the kind
      FIND             (nothing)                                       who leads, and is this node still a member?
      OPEN             index u64, session u64, last sequence u64, next notice u64, u32 n, n (consumer u64, next u64)
      TAKEN            octets u64                                      of effects that were taken, since OPEN
      COUNT            queue u64
      CLOSE            (nothing)
    member -> guest    version u8, kind u8, group u32, number u64, then by the kind
      FOUND            standing u8, term u64, leader short string      the answer to FIND, and to an OPEN that cannot be
      OPENED           newest session u64                              the newest that the log knows of this node
      EFFECTS          index u64 (0: the entry's effects go on in the next one), a frame of remote/effects_codec.py
      CLOSED           leader short string                             nothing more comes
      COUNTED          is there u8, seven times u64 (QueueStatistics, or StreamCounts.numbers and zeros)

number: of the feed that the guest has asked for, or of its question. It is drawn: what is left of an earlier feed, or
an earlier run, is of another number. Everything of this raises Malformed where it is not right.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.quorum.feed import Heard
from queues.quorum.queue import QueueStatistics
from queues.wire.reader import Reader, octets_of, open_frame

VERSION = 1
#: The index of an EFFECTS whose entry goes on in the next one. Who does not know that hears the parts one by one.
GOES_ON = 0


class Standing(IntEnum):
    """What a member says of itself, and of who asks. The term is its own."""

    FOLLOWS = 1
    LEADS = 2
    """It leads, and who asks is no member by a configuration that is committed."""
    LEADS_MEMBER = 3
    """It leads, and who asks is a member still."""
    NOT_READY = 4
    """It leads, and does not know enough yet: ask again."""


class Find(NamedTuple):
    group: int
    number: int


class Open(NamedTuple):
    """at: what the guest has heard is of entries up to this index."""

    group: int
    number: int
    at: int
    heard: Heard


class Taken(NamedTuple):
    group: int
    number: int
    octets: int


class Count(NamedTuple):
    group: int
    number: int
    queue_id: int


class Close(NamedTuple):
    group: int
    number: int


class Found(NamedTuple):
    group: int
    number: int
    standing: Standing
    term: int
    leader: str


class Opened(NamedTuple):
    group: int
    number: int
    newest_session: int


class Effects(NamedTuple):
    """at: the effects are of entries up to this index; GOES_ON: the effects of an entry go on in the next frame, and
    nothing of them counts before that is there. octets: see effects_codec.decode_from_home."""

    group: int
    number: int
    at: int
    octets: bytes


class Closed(NamedTuple):
    group: int
    number: int
    leader: str


class Counted(NamedTuple):
    group: int
    number: int
    figures: QueueStatistics | None


Request = Find | Open | Taken | Count | Close
Answer = Found | Opened | Effects | Closed | Counted

_REQUESTS: dict[type, int] = {Find: 1, Open: 2, Taken: 3, Count: 4, Close: 5}
_ANSWERS: dict[type, int] = {Found: 1, Opened: 2, Effects: 3, Closed: 4, Counted: 5}
_FIGURES = 7


def _head(kind: int, frame: Request | Answer) -> Buffer:
    buffer = Buffer(64)
    buffer.put_u8(VERSION)
    buffer.put_u8(kind)
    buffer.put_u32(frame.group)
    buffer.put_u64(frame.number)
    return buffer


def encode_request(frame: Request) -> bytes:
    """The frame."""
    buffer = _head(_REQUESTS[type(frame)], frame)
    if isinstance(frame, Open):
        session, last_sequence, next_notice, consumers = frame.heard
        for number in (frame.at, session, last_sequence, next_notice):
            buffer.put_u64(number)
        buffer.put_u32(len(consumers))
        for consumer, following in consumers.items():
            buffer.put_u64(consumer)
            buffer.put_u64(following)
    elif isinstance(frame, Taken):
        buffer.put_u64(frame.octets)
    elif isinstance(frame, Count):
        buffer.put_u64(frame.queue_id)
    return buffer.take()


def encode_answer(frame: Answer) -> bytes:
    """The frame."""
    buffer = _head(_ANSWERS[type(frame)], frame)
    if isinstance(frame, Found):
        buffer.put_u8(frame.standing)
        buffer.put_u64(frame.term)
        buffer.put_shortstr(octets_of(frame.leader))
    elif isinstance(frame, Opened):
        buffer.put_u64(frame.newest_session)
    elif isinstance(frame, Effects):
        buffer.put_u64(frame.at)
        buffer.put_bytes(frame.octets)
    elif isinstance(frame, Closed):
        buffer.put_shortstr(octets_of(frame.leader))
    else:
        found = frame.figures
        buffer.put_u8(found is not None)
        numbers = (0,) * _FIGURES if found is None else _numbers(found)
        for number in numbers:
            buffer.put_u64(number)
    return buffer.take()


def _numbers(found: QueueStatistics) -> tuple[int, ...]:
    return (
        found.ready, found.ready_bytes, found.unacked, found.consumers, found.dead_letters, found.leased, found.delayed
    )  # fmt: skip


def _open(data: bytes, what: str) -> tuple[Reader, int, int, int]:
    reader = open_frame(data, what, VERSION)
    return reader, reader.u8(), reader.u32(), reader.u64()


def decode_request(data: bytes) -> Request:
    """A frame of a guest. Raises Malformed."""
    reader, kind, group, number = _open(data, "frame of a guest")
    frame: Request
    if kind == _REQUESTS[Find]:
        frame = Find(group, number)
    elif kind == _REQUESTS[Open]:
        index, session, last_sequence, next_notice = reader.u64(), reader.u64(), reader.u64(), reader.u64()
        consumers = {reader.u64(): reader.u64() for _ in range(reader.count(16))}
        frame = Open(group, number, index, Heard(session, last_sequence, next_notice, consumers))
    elif kind == _REQUESTS[Taken]:
        frame = Taken(group, number, reader.u64())
    elif kind == _REQUESTS[Count]:
        frame = Count(group, number, reader.u64())
    elif kind == _REQUESTS[Close]:
        frame = Close(group, number)
    else:
        raise reader.fail(f"unknown kind {kind}: written by a newer version?")
    reader.finish()
    return frame


def decode_answer(data: bytes) -> Answer:
    """A frame of a member. Raises Malformed."""
    reader, kind, group, number = _open(data, "frame for a guest")
    frame: Answer
    if kind == _ANSWERS[Found]:
        standing = reader.u8()
        if not Standing.FOLLOWS <= standing <= Standing.NOT_READY:
            raise reader.fail(f"standing {standing} is not known")
        frame = Found(group, number, Standing(standing), reader.u64(), reader.name())
    elif kind == _ANSWERS[Opened]:
        frame = Opened(group, number, reader.u64())
    elif kind == _ANSWERS[Effects]:
        frame = Effects(group, number, reader.u64(), reader.rest())
    elif kind == _ANSWERS[Closed]:
        frame = Closed(group, number, reader.name())
    elif kind == _ANSWERS[Counted]:
        is_there = bool(reader.flags(1))
        numbers = [reader.u64() for _ in range(_FIGURES)]
        frame = Counted(group, number, QueueStatistics(*numbers) if is_there else None)
    else:
        raise reader.fail(f"unknown kind {kind}: written by a newer version?")
    reader.finish()
    return frame
