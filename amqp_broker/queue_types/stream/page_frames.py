"""The octets between two members of a queue group of which one cannot read a page of a stream, and asks the other.

    REQUEST    version u8, number u64, stream u64, first offset u64, offset behind the last u64, most octets u32
    ANSWER     version u8, number u64, kind u8, then by the kind
      PIECE    octets of stored chunks (queues/stream/log.py), in order, cut anywhere
      END      (nothing)                                   that were all
      REFUSED  why, as UTF-8

number: of the question, drawn so that an answer to one of an earlier run is known as such. Both raise Malformed where
something is not right.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.wire.reader import open_frame

VERSION = 1


class Request(NamedTuple):
    """The chunks from `first` on before `below`, which have `most_bytes` at most."""

    number: int
    queue_id: int
    first: int
    below: int
    most_bytes: int


class AnswerKind(IntEnum):
    """See the module's docstring."""

    PIECE = 1
    END = 2
    REFUSED = 3


class Answer(NamedTuple):
    number: int
    kind: AnswerKind
    octets: bytes


def encode_request(frame: Request) -> bytes:
    """The frame."""
    buffer = Buffer(64)
    buffer.put_u8(VERSION)
    for number in frame[:-1]:
        buffer.put_u64(number)
    buffer.put_u32(frame.most_bytes)
    return buffer.take()


def decode_request(data: bytes) -> Request:
    """Raises Malformed."""
    reader = open_frame(data, "request for a page of a stream", VERSION)
    frame = Request(reader.u64(), reader.u64(), reader.u64(), reader.u64(), reader.u32())
    reader.finish()
    return frame


def encode_answer(frame: Answer) -> bytes:
    """The frame."""
    buffer = Buffer(64)
    buffer.put_u8(VERSION)
    buffer.put_u64(frame.number)
    buffer.put_u8(frame.kind)
    buffer.put_bytes(frame.octets)
    return buffer.take()


def decode_answer(data: bytes) -> Answer:
    """Raises Malformed."""
    reader = open_frame(data, "answer with a page of a stream", VERSION)
    number, kind = reader.u64(), reader.u8()
    if not AnswerKind.PIECE <= kind <= AnswerKind.REFUSED:
        raise reader.fail(f"unknown kind {kind}: written by a newer version?")
    return Answer(number, AnswerKind(kind), reader.rest())
