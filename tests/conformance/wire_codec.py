"""The wire format of AMQP 0-9-1 as the conformance suite sees it: methods, field tables and content
properties.

Written from the specification and on purpose without the broker's own codec, so that a mistake there cannot
hide itself here. It must not know sockets, tests or brokers.

Invariants:
1. What one function encodes, its sibling decodes to an equal value.
2. Table values keep their type letter when a caller asks for it (`typed=True`): replies are compared by type
   as well as by value.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
BASIC_CLASS = 60

# name, class.method, arguments in the order of the specification; "-" is a reserved argument, named so that a
# test may still set it
_GRAMMAR = """
connection.start 10.10 version_major:octet version_minor:octet server_properties:table mechanisms:longstr \
    locales:longstr
connection.start-ok 10.11 client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure 10.20 challenge:longstr
connection.secure-ok 10.21 response:longstr
connection.tune 10.30 channel_max:short frame_max:long heartbeat:short
connection.tune-ok 10.31 channel_max:short frame_max:long heartbeat:short
connection.open 10.40 virtual_host:shortstr reserved_1:shortstr reserved_2:bit
connection.open-ok 10.41 reserved_1:shortstr
connection.close 10.50 reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok 10.51
connection.blocked 10.60 reason:shortstr
connection.unblocked 10.61
connection.update-secret 10.70 new_secret:longstr reason:shortstr
connection.update-secret-ok 10.71
channel.open 20.10 reserved_1:shortstr
channel.open-ok 20.11 reserved_1:longstr
channel.flow 20.20 active:bit
channel.flow-ok 20.21 active:bit
channel.close 20.40 reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok 20.41
access.request 30.10 realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
access.request-ok 30.11 ticket:short
exchange.declare 40.10 ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit \
    internal:bit nowait:bit arguments:table
exchange.declare-ok 40.11
exchange.delete 40.20 ticket:short exchange:shortstr if_unused:bit nowait:bit
exchange.delete-ok 40.21
exchange.bind 40.30 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit \
    arguments:table
exchange.bind-ok 40.31
exchange.unbind 40.40 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit \
    arguments:table
exchange.unbind-ok 40.51
queue.declare 50.10 ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit \
    nowait:bit arguments:table
queue.declare-ok 50.11 queue:shortstr message_count:long consumer_count:long
queue.bind 50.20 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
queue.bind-ok 50.21
queue.purge 50.30 ticket:short queue:shortstr nowait:bit
queue.purge-ok 50.31 message_count:long
queue.delete 50.40 ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
queue.delete-ok 50.41 message_count:long
queue.unbind 50.50 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok 50.51
basic.qos 60.10 prefetch_size:long prefetch_count:short global_:bit
basic.qos-ok 60.11
basic.consume 60.20 ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit \
    nowait:bit arguments:table
basic.consume-ok 60.21 consumer_tag:shortstr
basic.cancel 60.30 consumer_tag:shortstr nowait:bit
basic.cancel-ok 60.31 consumer_tag:shortstr
basic.publish 60.40 ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return 60.50 reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver 60.60 consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr \
    routing_key:shortstr
basic.get 60.70 ticket:short queue:shortstr no_ack:bit
basic.get-ok 60.71 delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr \
    message_count:long
basic.get-empty 60.72 reserved_1:shortstr
basic.ack 60.80 delivery_tag:longlong multiple:bit
basic.reject 60.90 delivery_tag:longlong requeue:bit
basic.recover-async 60.100 requeue:bit
basic.recover 60.110 requeue:bit
basic.recover-ok 60.111
basic.nack 60.120 delivery_tag:longlong multiple:bit requeue:bit
confirm.select 85.10 nowait:bit
confirm.select-ok 85.11
tx.select 90.10
tx.select-ok 90.11
tx.commit 90.20
tx.commit-ok 90.21
tx.rollback 90.30
tx.rollback-ok 90.31
"""


class Signature(NamedTuple):
    """One method of the specification: its two ids and its arguments as (name, wire type)."""

    class_id: int
    method_id: int
    fields: tuple[tuple[str, str], ...]


def _parse_grammar() -> dict[str, Signature]:
    signatures = {}
    for line in _GRAMMAR.strip().splitlines():
        name, ids, *fields = line.split()
        class_id, method_id = (int(part) for part in ids.split("."))
        pairs = (field.split(":") for field in fields)
        signatures[name] = Signature(class_id, method_id, tuple((field, kind) for field, kind in pairs))
    return signatures


METHODS = _parse_grammar()
NAMES = {(signature.class_id, signature.method_id): name for name, signature in METHODS.items()}
METHODS_WITH_CONTENT = frozenset({"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"})

_STRUCTS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
_TABLE_STRUCTS = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "f": ">f", "d": ">d",
    "T": ">Q",
}  # fmt: skip


class Typed(NamedTuple):
    """A table value with an explicit type letter, such as Typed("u", 7)."""

    kind: str
    value: Any


class Reader:
    """A cursor over received octets; running past the end raises, as it would mean a malformed reply."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._position = 0

    def take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._octets):
            raise ValueError(f"the broker sent {len(self._octets)} octets where {end} are needed: {self._octets!r}")
        piece = self._octets[self._position : end]
        self._position = end
        return piece

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    @property
    def at_end(self) -> bool:
        return self._position == len(self._octets)


def encode_shortstr(text: str | bytes) -> bytes:
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return bytes([len(octets)]) + octets


def encode_longstr(text: str | bytes) -> bytes:
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return struct.pack(">I", len(octets)) + octets


def encode_value(value: Any) -> bytes:
    """One table value with its type letter; plain Python values take their usual letter, Typed values their
    own.
    """
    if isinstance(value, Typed):
        return value.kind.encode() + _encode_payload(value.kind, value.value)
    kind = _natural_kind(value)
    return kind.encode() + _encode_payload(kind, value)


def _natural_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        return "I" if -(2**31) <= value < 2**31 else "l"
    if value is None:
        return "V"
    kinds: list[tuple[type, str]] = [
        (str, "S"),
        (bytes, "x"),
        (float, "d"),
        (Decimal, "D"),
        (list, "A"),
        (dict, "F"),
    ]
    for python_type, kind in kinds:
        if isinstance(value, python_type):
            return kind
    raise TypeError(f"no table type for {value!r}: wrap it in Typed")


def _encode_payload(kind: str, value: Any) -> bytes:
    if kind in _TABLE_STRUCTS:
        return struct.pack(_TABLE_STRUCTS[kind], value)
    if kind == "t":
        return bytes([bool(value)])
    if kind in "Sx":
        return encode_longstr(value)
    if kind == "D":
        sign, digits, exponent = Decimal(value).as_tuple()
        number = int("".join(map(str, digits)))
        return struct.pack(">Bi", -int(exponent), -number if sign else number)
    if kind == "A":
        return encode_longstr(b"".join(encode_value(item) for item in value))
    if kind == "F":
        return encode_table(value)
    if kind == "V":
        return b""
    raise TypeError(f"unknown table type letter {kind!r}")


def encode_table(table: Mapping[str, Any] | bytes) -> bytes:
    """A field table with its 4-octet length; bytes are taken as the table's raw content."""
    if isinstance(table, bytes):
        return encode_longstr(table)
    return encode_longstr(b"".join(encode_shortstr(key) + encode_value(value) for key, value in table.items()))


def decode_value(reader: Reader, typed: bool) -> Any:
    kind = reader.take(1).decode("latin-1")
    value = _decode_payload(reader, kind, typed)
    return Typed(kind, value) if typed else value


def _decode_payload(reader: Reader, kind: str, typed: bool) -> Any:
    if kind in _TABLE_STRUCTS:
        return reader.number(_TABLE_STRUCTS[kind])
    if kind == "t":
        return bool(reader.number(">B"))
    if kind == "S":
        return decode_text(reader.take(reader.number(">I")))
    if kind == "x":
        return reader.take(reader.number(">I"))
    if kind == "D":
        scale = reader.number(">B")
        return Decimal(reader.number(">i")).scaleb(-scale)
    if kind == "A":
        inner = Reader(reader.take(reader.number(">I")))
        items = []
        while not inner.at_end:
            items.append(decode_value(inner, typed))
        return items
    if kind == "F":
        return decode_table(reader.take(reader.number(">I")), typed)
    if kind == "V":
        return None
    raise ValueError(f"the broker sent a table value of unknown type {kind!r}")


def decode_table(octets: bytes, typed: bool = False) -> dict[str, Any]:
    """A field table's content (without its length); with `typed` every value is a Typed."""
    reader = Reader(octets)
    table: dict[str, Any] = {}
    while not reader.at_end:
        key = decode_text(reader.take(reader.number(">B")))
        table[key] = decode_value(reader, typed)
    return table


def decode_text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


_DEFAULTS: dict[str, Any] = {"bit": False, "shortstr": "", "longstr": b"", "table": {}}


def encode_method(name: str, **arguments: Any) -> bytes:
    """The payload of a method frame; arguments that are left out are empty, zero or false."""
    signature = METHODS[name]
    unknown = set(arguments) - {field for field, _ in signature.fields}
    if unknown:
        raise TypeError(f"{name} has no argument {sorted(unknown)}: it has {[field for field, _ in signature.fields]}")
    pieces = [struct.pack(">HH", signature.class_id, signature.method_id)]
    bits: list[bool] = []
    for field, kind in signature.fields:
        value = arguments.get(field, _DEFAULTS.get(kind, 0))
        if kind == "bit":
            bits.append(bool(value))
            continue
        if bits:
            pieces.append(_pack_bits(bits))
            bits = []
        pieces.append(_encode_argument(kind, value))
    if bits:
        pieces.append(_pack_bits(bits))
    return b"".join(pieces)


def _pack_bits(bits: list[bool]) -> bytes:
    return bytes([sum(1 << index for index, bit in enumerate(bits) if bit)])


def _encode_argument(kind: str, value: Any) -> bytes:
    if kind == "shortstr":
        return encode_shortstr(value)
    if kind == "longstr":
        return encode_longstr(value)
    if kind == "table":
        return encode_table(value)
    return struct.pack(_STRUCTS[kind], value)


def decode_method(payload: bytes) -> tuple[str, dict[str, Any]]:
    """(name, arguments) of a method frame's payload; octets left over are an error."""
    reader = Reader(payload)
    ids = (reader.number(">H"), reader.number(">H"))
    name = NAMES[ids]
    arguments: dict[str, Any] = {}
    bit = 8
    octet = 0
    for field, kind in METHODS[name].fields:
        if kind == "bit":
            if bit == 8:
                octet, bit = reader.number(">B"), 0
            arguments[field] = bool(octet >> bit & 1)
            bit += 1
            continue
        bit = 8
        if kind == "shortstr":
            arguments[field] = decode_text(reader.take(reader.number(">B")))
        elif kind == "longstr":
            arguments[field] = reader.take(reader.number(">I"))
        elif kind == "table":
            arguments[field] = decode_table(reader.take(reader.number(">I")))
        else:
            arguments[field] = reader.number(_STRUCTS[kind])
    if not reader.at_end:
        raise ValueError(f"{name} came with octets left over: {payload!r}")
    return name, arguments


# the 14 properties in flag order, highest bit first
PROPERTIES = (
    ("content_type", "shortstr"), ("content_encoding", "shortstr"), ("headers", "table"),
    ("delivery_mode", "octet"), ("priority", "octet"), ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"), ("expiration", "shortstr"), ("message_id", "shortstr"),
    ("timestamp", "longlong"), ("type", "shortstr"), ("user_id", "shortstr"),
    ("app_id", "shortstr"), ("cluster_id", "shortstr"),
)  # fmt: skip


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    """The property section of a content header: the flags and the values present."""
    flags = 0
    pieces = []
    for index, (name, kind) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - index)
            pieces.append(_encode_argument(kind, properties[name]))
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"no such properties: {sorted(unknown)}")
    return struct.pack(">H", flags) + b"".join(pieces)


def decode_properties(section: bytes, typed: bool = False) -> dict[str, Any]:
    """The properties that are present; headers as a plain table, or a typed one."""
    reader = Reader(section)
    flags = reader.number(">H")
    properties: dict[str, Any] = {}
    for index, (name, kind) in enumerate(PROPERTIES):
        if not flags >> (15 - index) & 1:
            continue
        if kind == "shortstr":
            properties[name] = decode_text(reader.take(reader.number(">B")))
        elif kind == "table":
            properties[name] = decode_table(reader.take(reader.number(">I")), typed)
        else:
            properties[name] = reader.number(_STRUCTS[kind])
    if not reader.at_end:
        raise ValueError(f"the property section has octets left over: {section!r}")
    return properties


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


def encode_content_header(body_size: int, section: bytes, class_id: int = BASIC_CLASS) -> bytes:
    """The payload of a content header frame; section is an encoded property section."""
    return struct.pack(">HHQ", class_id, 0, body_size) + section
