"""The octets between a node that has no copy of a stream, and reads it, and a member that has one.

    QUESTION   version u8, kind u8, number u64, stream u64, then by the kind
      PLACE    start u8 (StartKind), value u64, index u64                      the offset at which somebody begins
      READ     offset u64, most octets u32                                     chunks from there on, once there are some
      STOP     (nothing)                                                       nobody waits for this number any more
      LOOK     is a share u8, group short string, known u32, index u64         who of a group reads, if that is news
    ANSWER     version u8, kind u8, number u64, then by the kind
      PIECE    octets of stored chunks (queues/stream/log.py), in order, cut anywhere
      END      offset u64, first u64, next u64                                 those were all; or PLACE's answer
      REFUSED  is for good u8, why as UTF-8
      GROUP    index u64, first u64, next u64, digest u32, is there u8, then, if it is: own numbers (u32 n, n u64),
               generation u64, node short string ("": nobody reads), number u64, position u64, delivered u64
      SHARE    the same up to the own numbers, and owners (u32 n, n u64; 0: of another node, or nobody's)

number: of the question, drawn so that an answer to one of an earlier run is known as such. Both raise Malformed where
something is not right.
"""

from __future__ import annotations

from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.stream.groups import Member
from queues.stream.start import Start, StartKind
from queues.wire.reader import I64_MAX, Reader, octets_of, open_frame

VERSION = 1


class Place(NamedTuple):
    """Where somebody begins. at: the index of the log up to which the asking node has heard: what is answered is of
    that or later."""

    start: Start
    at: int


class Read(NamedTuple):
    """The chunk with this offset and those behind it, of so many octets, or one chunk if that has more."""

    offset: int
    most_bytes: int


class Stop(NamedTuple):
    """See the module's docstring."""


class Look(NamedTuple):
    """Who of a group of readers reads (queues/stream/groups.py), or which partitions they have (shares.py); at once, if
    that is not what has this digest, else when it changes. at: see Place."""

    is_share: bool
    group: str
    known: int
    at: int


Asked = Place | Read | Stop | Look


class Question(NamedTuple):
    number: int
    queue_id: int
    asked: Asked


class Piece(NamedTuple):
    octets: bytes


class End(NamedTuple):
    """offset: behind what has come, or where somebody begins. first, next: of the stream, as that node has it."""

    offset: int
    first: int
    next: int


class Refused(NamedTuple):
    """is_for_good: that node will never have it."""

    is_for_good: bool
    why: str


class GroupSeen(NamedTuple):
    """A ReaderGroup. own: the numbers of those members that are of the asking node."""

    own: tuple[int, ...]
    generation: int
    reader: Member | None
    position: int
    delivered: int


class ShareSeen(NamedTuple):
    """A Share. own: as in GroupSeen. owners: by partition, the number of the owner if it is of the asking node, else
    0."""

    own: tuple[int, ...]
    owners: tuple[int, ...]


class Seen(NamedTuple):
    """at: the index up to which the member has applied the log. digest: of what is seen, but for positions; it says
    nothing to another node than the one that has said it. seen: None where there is no such group."""

    at: int
    first: int
    next: int
    digest: int
    seen: GroupSeen | ShareSeen | None
    is_share: bool


Said = Piece | End | Refused | Seen


class Answer(NamedTuple):
    number: int
    said: Said


_ASKED: dict[type, int] = {Place: 1, Read: 2, Stop: 3, Look: 4}
#: What is seen of a group, and of a share.
_GROUP, _SHARE = 4, 5
_SAID: dict[type, int] = {Piece: 1, End: 2, Refused: 3}


def encode_question(question: Question) -> bytes:
    """The frame."""
    number, queue_id, asked = question
    buffer = _head(_ASKED[type(asked)], number)
    buffer.put_u64(queue_id)
    if isinstance(asked, Place):
        buffer.put_u8(asked.start.kind)
        buffer.put_u64(min(asked.start.value, I64_MAX))
        buffer.put_u64(asked.at)
    elif isinstance(asked, Read):
        buffer.put_u64(asked.offset)
        buffer.put_u32(asked.most_bytes)
    elif isinstance(asked, Look):
        buffer.put_u8(asked.is_share)
        buffer.put_shortstr(octets_of(asked.group))
        buffer.put_u32(asked.known)
        buffer.put_u64(asked.at)
    return buffer.take()


def decode_question(data: bytes) -> Question:
    """Raises Malformed."""
    reader, kind = _open(data, "question about a stream")
    number, queue_id = reader.u64(), reader.u64()
    asked: Asked
    if kind == _ASKED[Place]:
        start, value = reader.u8(), reader.u64()
        if start > max(StartKind):
            raise reader.fail(f"start {start} is not known")
        asked = Place(Start(StartKind(start), value), reader.u64())
    elif kind == _ASKED[Read]:
        asked = Read(reader.u64(), reader.u32())
    elif kind == _ASKED[Stop]:
        asked = Stop()
    elif kind == _ASKED[Look]:
        asked = Look(bool(reader.flags(1)), reader.name(), reader.u32(), reader.u64())
    else:
        raise reader.fail(f"unknown kind {kind}: written by a newer version?")
    reader.finish()
    return Question(number, queue_id, asked)


def encode_answer(answer: Answer) -> bytes:
    """The frame."""
    number, said = answer
    if isinstance(said, Seen):
        return _encode_seen(number, said)
    buffer = _head(_SAID[type(said)], number)
    if isinstance(said, Piece):
        buffer.put_bytes(said.octets)
    elif isinstance(said, End):
        for each in said:
            buffer.put_u64(each)
    else:
        buffer.put_u8(said.is_for_good)
        buffer.put_bytes(said.why.encode())
    return buffer.take()


def decode_answer(data: bytes) -> Answer:
    """Raises Malformed."""
    reader, kind = _open(data, "answer about a stream")
    number = reader.u64()
    said: Said
    if kind == _SAID[Piece]:
        said = Piece(reader.rest())
    elif kind == _SAID[End]:
        said = End(reader.u64(), reader.u64(), reader.u64())
    elif kind in (_GROUP, _SHARE):
        said = _read_seen(reader, kind == _SHARE)
    elif kind == _SAID[Refused]:
        said = Refused(bool(reader.flags(1)), reader.rest().decode("utf-8", "replace"))
    else:
        raise reader.fail(f"unknown kind {kind}: written by a newer version?")
    reader.finish()
    return Answer(number, said)


def _encode_seen(number: int, said: Seen) -> bytes:
    buffer = _head(_SHARE if said.is_share else _GROUP, number)
    for each in (said.at, said.first, said.next):
        buffer.put_u64(each)
    buffer.put_u32(said.digest)
    buffer.put_bytes(encode_seen(said.seen))
    return buffer.take()


def encode_seen(seen: GroupSeen | ShareSeen | None) -> bytes:
    """What of a SEEN says what was seen."""
    buffer = Buffer(64)
    buffer.put_u8(seen is not None)
    if seen is not None:
        _put_numbers(buffer, seen.own)
    if isinstance(seen, GroupSeen):
        node, reader = seen.reader or ("", 0)
        buffer.put_u64(seen.generation)
        buffer.put_shortstr(octets_of(node))
        for each in (reader, seen.position, seen.delivered):
            buffer.put_u64(each)
    elif seen is not None:
        _put_numbers(buffer, seen.owners)
    return buffer.take()


def _put_numbers(buffer: Buffer, numbers: tuple[int, ...]) -> None:
    buffer.put_u32(len(numbers))
    for number in numbers:
        buffer.put_u64(number)


def _read_seen(reader: Reader, is_share: bool) -> Seen:
    index, first, following, digest = reader.u64(), reader.u64(), reader.u64(), reader.u32()
    seen: GroupSeen | ShareSeen | None = None
    if reader.flags(1):
        own = _numbers(reader)
        if is_share:
            seen = ShareSeen(own, _numbers(reader))
        else:
            generation, node, number = reader.u64(), reader.name(), reader.u64()
            seen = GroupSeen(own, generation, Member(node, number) if node else None, reader.u64(), reader.u64())
    return Seen(index, first, following, digest, seen, is_share)


def _numbers(reader: Reader) -> tuple[int, ...]:
    return tuple([reader.u64() for _ in range(reader.count(8))])


def _head(kind: int, number: int) -> Buffer:
    buffer = Buffer(64)
    buffer.put_u8(VERSION)
    buffer.put_u8(kind)
    buffer.put_u64(number)
    return buffer


def _open(data: bytes, what: str) -> tuple[Reader, int]:
    reader = open_frame(data, what, VERSION)
    return reader, reader.u8()
