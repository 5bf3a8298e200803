"""Codec: how the commands of a class, or its effects, lie in octets. What is written is what is read: both are made of
the same fields, in order.

    codec_of(Trim, U64, U64) -> put(buffer, command), get(reader) -> command
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.wire.reader import Reader, octets_of


class Field(NamedTuple):
    """How a value is appended, and taken off again. `get` raises Malformed."""

    put: Callable[[Buffer, Any], object]  # each takes values of its own class
    get: Callable[[Reader], Any]


class Codec(NamedTuple):
    """of: the class. put appends the fields of one, get makes one of them, and raises Malformed."""

    of: type
    put: Callable[[Buffer, Any], object]  # each takes its own class
    get: Callable[[Reader], Any]


def codec_of(of: type, *fields: Field) -> Codec:
    """Of a NamedTuple whose values lie one behind the other as these fields."""
    puts = [field.put for field in fields]
    gets = [field.get for field in fields]

    def put(buffer: Buffer, value: tuple[object, ...]) -> None:
        for put_field, each in zip(puts, value, strict=True):
            put_field(buffer, each)

    def get(reader: Reader) -> object:
        return of(*[get_field(reader) for get_field in gets])

    return Codec(of, put, get)


def _put_name(buffer: Buffer, name: str) -> None:
    buffer.put_shortstr(octets_of(name))


def _get_flag(reader: Reader) -> bool:
    return bool(reader.flags(1))


U32 = Field(Buffer.put_u32, Reader.u32)
U64 = Field(Buffer.put_u64, Reader.u64)
FLAG = Field(Buffer.put_u8, _get_flag)
NAME = Field(_put_name, Reader.name)


def writers_of(codecs: dict[int, Codec]) -> dict[type, tuple[int, Callable[[Buffer, Any], object]]]:
    """By the class of a command: its kind, and how it is written. Of a class with two kinds it is the first one."""
    return {codec.of: (kind, codec.put) for kind, codec in reversed(codecs.items())}


def readers_of(codecs: dict[int, Codec]) -> dict[int, Callable[[Reader], Any]]:
    """By the kind of a command: how it is read."""
    return {kind: codec.get for kind, codec in codecs.items()}
