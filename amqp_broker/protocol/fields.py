"""Field tables (AMQP 0-9-1 §4.2.5.5, with the type letters of RabbitMQ): octets to values and back.

This is hot: a headers exchange decodes a table per message, so the module has a .pxd and is written as
position arithmetic over one bytes object. It knows nothing of methods, properties or what a key means.

What a value becomes: t bool; b B s u I i l L int (8, 16, 32, 64 bits; B u i unsigned); f d float; D Decimal
(signed, as every client sends it); S str, or bytes where it is not UTF-8; x bytes; T naive UTC datetime, or
int beyond the year 9999; A list; F dict; V None. Keys are UTF-8 with surrogateescape. Of two equal keys the
later one counts.

L is a second letter for l: py-amqp writes it, RabbitMQ reads it, most clients do not know it. It is read wherever a
value may stand, and never written.

Invariants:
1. A value is decoded only after `_value_end` has found all of its octets inside its container.
2. `Table.raw` always says the same as the table's contents: a Table cannot be changed.
3. Memory stays within a small multiple of the octets: nested tables are not copied, and nesting is limited.
4. Nothing but FieldError leaves a decoder, nothing but EncodeError an encoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NoReturn

from amqp_broker.protocol.errors import EncodeError, FieldError

MAX_DEPTH = 128
"""How many tables and arrays may lie inside one another, the outermost included."""
MAX_TABLE_BYTES = 131072
"""The largest table that is decoded unless the caller says otherwise: a frame of default size."""

KIND_NAMES: Final[Mapping[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "T": "timestamp",
    "A": "array",
    "F": "table",
    "V": "void",
}
"""The words that RabbitMQ's error texts use for the type letters."""

_WRITTEN: Final = {"L": "l"}
_LENGTH_PREFIXED = 254
_UNKNOWN = 255
_FIXED_WIDTHS: Final = {
    "t": 1,
    "b": 1,
    "B": 1,
    "s": 2,
    "u": 2,
    "I": 4,
    "i": 4,
    "l": 8,
    "L": 8,
    "f": 4,
    "d": 8,
    "D": 5,
    "T": 8,
    "V": 0,
}
_WIDTHS = bytes(
    _LENGTH_PREFIXED if chr(octet) in "SxAF" else _FIXED_WIDTHS.get(chr(octet), _UNKNOWN)
    for octet in range(256)
)
"""By type octet: how many octets of value follow it."""

_NUMBERS: Final = {
    kind: struct.Struct(form)
    for kind, form in {
        "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "f": ">f", "d": ">d",
    }.items()
}  # fmt: skip
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_DECIMAL: Final = struct.Struct(">Bi")
_EPOCH: Final = datetime(1970, 1, 1)
_LAST_SECOND: Final = 253402300799  # of the year 9999
_NO_FIELDS: Final[Mapping[str, object]] = {}


class RawValue(bytes):
    """A type letter and the octets of a value, which encoders copy. Made by `typed` and `split_table`."""

    __slots__ = ()


class Table(dict):  # type: ignore[type-arg]  # compiled, the base must be a bare dict
    """A decoded field table that keeps its octets. It cannot be changed: `dict(table)` is a copy that can.

    `raw` holds the octets without the four of the table's length. Made from a mapping alone, it encodes it.
    """

    __slots__ = ("raw",)

    def __init__(self, fields: Mapping[str, object] = _NO_FIELDS, raw: bytes | None = None) -> None:
        dict.__init__(self, fields)
        self.raw = encode_table(fields) if raw is None else raw

    def kind(self, key: str) -> str:
        """The type letter of a key's value, such as "I" ("l" for L); KeyError when the table has no such key."""
        found = ""
        for name, value in split_table(self.raw):
            if name == key:
                found = _WRITTEN.get(chr(value[0]), chr(value[0]))
        if not found:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: object) -> NoReturn:
        raise TypeError(
            f"a decoded table cannot be changed (field {key!r}): change a copy made with dict(table)"
        )

    def __delitem__(self, key: str) -> NoReturn:
        raise TypeError(
            f"a decoded table cannot be changed (field {key!r}): change a copy made with dict(table)"
        )

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        raise TypeError("a decoded table cannot be changed: change a copy made with dict(table)")

    clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type[Table], tuple[dict[str, object], bytes]]:
        return Table, (dict(self), self.raw)


def decode_table(raw: bytes, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_TABLE_BYTES) -> Table:
    """The table in `raw` (its octets without the four of its length). Nested tables become plain dicts.

    Raises FieldError for anything malformed, larger than `max_bytes`, or nested deeper than `max_depth`.
    """
    if len(raw) > max_bytes:
        raise FieldError(f"field table of {len(raw)} octets: at most {max_bytes} are accepted")
    table = Table.__new__(
        Table
    )  # not Table(...): this is hot, and an __init__ would cost as much as two fields
    table.raw = raw
    dict.update(table, _decode_pairs(raw, 0, len(raw), max_depth))
    return table


def _decode_pairs(data: bytes, position: int, end: int, depth: int) -> dict[str, object]:
    """The pairs of name and value in data[position:end], nested no deeper than `depth`."""
    if depth <= 0:
        raise FieldError(f"tables and arrays are nested too deeply at octet {position}")
    source = data
    pairs: dict[str, object] = {}
    while position < end:
        key_end = _key_end(data, position, end)
        value_end = _value_end(data, key_end, end)
        key = source[position + 1 : key_end].decode("utf-8", "surrogateescape")
        pairs[key] = _decode_value(data, key_end, value_end, depth)
        position = value_end
    return pairs


def _decode_items(data: bytes, position: int, end: int, depth: int) -> list[object]:
    """The values of an array that fills data[position:end], nested no deeper than `depth`."""
    if depth <= 0:
        raise FieldError(f"tables and arrays are nested too deeply at octet {position}")
    items: list[object] = []
    while position < end:
        value_end = _value_end(data, position, end)
        items.append(_decode_value(data, position, value_end, depth))
        position = value_end
    return items


def _u32(source: bytes, position: int) -> int:
    return (
        source[position] << 24 | source[position + 1] << 16 | source[position + 2] << 8 | source[position + 3]
    )


def _key_end(data: bytes, position: int, end: int) -> int:
    """Where the name at `position` ends; FieldError unless a type octet follows it before `end`."""
    source = data
    key_end = position + 1 + source[position]
    if key_end >= end:
        raise FieldError(
            f"field table ends inside a field's name or before its type (octet {position} of {end})"
        )
    return key_end


def _value_end(data: bytes, position: int, end: int) -> int:
    """Where the value ends whose type is at `position`; FieldError unless all of it lies before `end`."""
    source = data
    width = _WIDTHS[source[position]]
    if width == _LENGTH_PREFIXED:
        value_end = position + 5
        if value_end <= end:
            value_end += _u32(source, position + 1)
    elif width == _UNKNOWN:
        raise FieldError(f"unknown type {chr(source[position])!r} of a field value at octet {position}")
    else:
        value_end = position + 1 + width
    if value_end > end:
        kind = chr(source[position])
        raise FieldError(
            f"field value of type {kind!r} at octet {position} runs past its table's end at {end}"
        )
    return value_end


def _decode_value(data: bytes, position: int, end: int, depth: int) -> object:
    """The value whose type octet is at `position` and that ends at `end`; the commonest types come first."""
    source = data
    kind = source[position]
    if kind == 83:  # S
        try:
            return source[position + 5 : end].decode("utf-8")
        except UnicodeDecodeError:
            return data[position + 5 : end]
    if kind == 73:  # I
        number = _u32(source, position + 1)
        return number - 0x1_0000_0000 if number > 0x7FFF_FFFF else number
    if kind == 116:  # t
        return source[position + 1] != 0
    if kind == 70:  # F
        return _decode_pairs(data, position + 5, end, depth - 1)
    if kind == 65:  # A
        return _decode_items(data, position + 5, end, depth - 1)
    if kind == 86:  # V
        return None
    if kind == 120:  # x
        return data[position + 5 : end]
    return _decode_rare(data, chr(kind), position + 1)


def _decode_rare(data: bytes, kind: str, position: int) -> object:
    """A number, a timestamp or a decimal whose octets begin at `position`."""
    if kind == "T":
        return decode_timestamp(_U64.unpack_from(data, position)[0])
    if kind == "D":
        scale, unscaled = _DECIMAL.unpack_from(data, position)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    number: object = _NUMBERS[kind].unpack_from(data, position)[0]
    return number


def decode_timestamp(seconds: int) -> datetime | int:
    """A naive UTC datetime, or `seconds` themselves where they lie beyond the year 9999."""
    return _EPOCH + timedelta(seconds=seconds) if seconds <= _LAST_SECOND else seconds


def encode_timestamp(value: datetime | int) -> int:
    """Seconds since the epoch of a datetime (naive: UTC) or an int; EncodeError outside 64 unsigned bits."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    elif isinstance(value, int):
        seconds = int(value)
    else:
        raise EncodeError(f"timestamp {value!r}: give a datetime or whole seconds since the epoch")
    if not 0 <= seconds < 1 << 64:
        raise EncodeError(f"timestamp {value!r} is before 1970 or beyond 64 bits of seconds")
    return seconds


def table_fields(raw: bytes, position: int, end: int) -> list[tuple[bytes, bytes]]:
    """The fields in raw[position:end] as (name, all of the field's octets), in order: to write some of them anew.

    Raises FieldError where a name or value runs past the end; nested tables are not looked into.
    """
    fields = []
    while position < end:
        key_end = _key_end(raw, position, end)
        value_end = _value_end(raw, key_end, end)
        fields.append((raw[position + 1 : key_end], raw[position:value_end]))
        position = value_end
    return fields


def array_values(raw: bytes, position: int, end: int) -> list[bytes]:
    """The values of the array in raw[position:end], each with its type letter.

    Raises FieldError where a value runs past the end; what is nested is not looked into.
    """
    values = []
    while position < end:
        value_end = _value_end(raw, position, end)
        values.append(raw[position:value_end])
        position = value_end
    return values


def plain_longs(raw: bytes) -> bytes:
    """The octets of a table with every L in it written as l, at any depth: the same length, and nothing else changes.

    Raises FieldError where `raw` is malformed.
    """
    out = bytearray(raw)
    places = [(0, len(raw), True)]
    while places:
        position, end, has_keys = places.pop()
        while position < end:
            if has_keys:
                position = _key_end(raw, position, end)
            value_end = _value_end(raw, position, end)
            kind = raw[position]
            if kind == 76:  # L
                out[position] = 108
            elif kind == 70 or kind == 65:  # F, A
                places.append((position + 5, value_end, kind == 70))
            position = value_end
    return bytes(out)


def split_table(raw: bytes) -> list[tuple[str, RawValue]]:
    """The fields as (name, type letter and octets of the value), in order: to edit one and keep the others.

    Raises FieldError where a name or value runs past the end; nested tables are not looked into.
    """
    pairs = []
    position = 0
    end = len(raw)
    while position < end:
        key_end = _key_end(raw, position, end)
        value_end = _value_end(raw, key_end, end)
        key = raw[position + 1 : key_end].decode("utf-8", "surrogateescape")
        pairs.append((key, RawValue(raw[key_end:value_end])))
        position = value_end
    return pairs


def join_table(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """The octets of a table with these names and raw values: the inverse of `split_table`."""
    out = bytearray()
    for key, value in pairs:
        _put_key(out, key)
        out += value
    return bytes(out)


def encode_table(fields: Mapping[str, object]) -> bytes:
    """The octets of a table, without the four of its length; EncodeError for what no type letter can carry.

    The type letter follows the value: bool t, int I or (beyond 32 bits) l, float d, Decimal D, str S, bytes
    x, datetime T, list A, mapping F, None V. `typed` asks for another one.
    """
    if isinstance(fields, Table):
        return fields.raw
    out = bytearray()
    _put_pairs(out, fields, MAX_DEPTH)
    return bytes(out)


def encode_value(value: object) -> RawValue:
    """The type letter and the octets of one value, chosen as `encode_table` does."""
    out = bytearray()
    _put_value(out, value, MAX_DEPTH)
    return RawValue(out)


def typed(kind: str, value: object) -> RawValue:
    """A value with the type letter of one's choice, as in `encode_table({"count": typed("l", 3)})`."""
    if len(kind) != 1 or _WIDTHS[ord(kind) & 0xFF] == _UNKNOWN or ord(kind) > 0xFF:
        raise EncodeError(f"unknown field type {kind!r}: one of {' '.join(KIND_NAMES)}")
    out = bytearray()
    _put_typed(out, kind, value, MAX_DEPTH)
    return RawValue(out)


def _put_key(out: bytearray, key: str) -> None:
    try:
        octets = key.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError):
        raise EncodeError(f"field name {key!r}: give a str that UTF-8 can carry") from None
    if len(octets) > 255:
        raise EncodeError(f"field name {key[:40]!r}... of {len(octets)} octets: at most 255 fit; shorten it")
    out.append(len(octets))
    out += octets


def _put_pairs(out: bytearray, fields: Mapping[str, object], depth: int) -> None:
    if depth <= 0:
        raise EncodeError(f"tables and arrays nested deeper than {MAX_DEPTH}: a value that contains itself?")
    for key, value in fields.items():
        _put_key(out, key)
        _put_value(out, value, depth)


def _put_items(out: bytearray, items: Iterable[object], depth: int) -> None:
    if depth <= 0:
        raise EncodeError(f"tables and arrays nested deeper than {MAX_DEPTH}: a value that contains itself?")
    for value in items:
        _put_value(out, value, depth)


def _put_value(out: bytearray, value: object, depth: int) -> None:
    if isinstance(value, RawValue):
        out += value
    else:
        _put_typed(out, _kind_of(value), value, depth)


def _kind_of(value: object) -> str:
    """The type letter for a value; bool before int, because a bool is an int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "I" if -0x8000_0000 <= value <= 0x7FFF_FFFF else "l"
    exact = _KINDS.get(type(value))
    if exact is not None:
        return exact
    for python_type, kind in _KINDS.items():
        if isinstance(value, python_type):
            return kind
    raise EncodeError(
        f"no field type can carry {value!r} ({type(value).__name__}): use a str, a number, a list or a dict"
    )


_KINDS: Final[Mapping[type, str]] = {
    str: "S",
    bool: "t",
    float: "d",
    type(None): "V",
    bytes: "x",
    bytearray: "x",
    memoryview: "x",
    datetime: "T",
    Decimal: "D",
    dict: "F",
    list: "A",
    tuple: "A",
    Mapping: "F",
}


def _put_typed(out: bytearray, kind: str, value: object, depth: int) -> None:
    out += _WRITTEN.get(kind, kind).encode("ascii")
    number = _NUMBERS.get(kind)
    try:
        if number is not None:
            out += number.pack(value)
        elif kind in "SxFA":
            start = len(out)
            out += b"\x00\x00\x00\x00"
            _put_sized(out, kind, value, depth)
            _U32.pack_into(out, start, len(out) - start - 4)
        elif kind in _PLAIN_VALUES:
            out += _PLAIN_VALUES[kind](value)
    except (struct.error, OverflowError, TypeError, AttributeError, UnicodeEncodeError) as error:
        name = KIND_NAMES[kind]
        raise EncodeError(
            f"field type {kind!r} ({name}) cannot carry {value!r} ({type(value).__name__}): {error}"
        ) from None


def _put_sized(out: bytearray, kind: str, value: object, depth: int) -> None:
    """The octets of a value that carries its length: a string, a byte array, a table or an array."""
    if kind == "F":
        if isinstance(value, Table):
            out += value.raw
        elif isinstance(value, Mapping):
            _put_pairs(out, value, depth - 1)
        else:
            raise TypeError("not a mapping")
    elif kind == "A":
        if not isinstance(value, list | tuple):
            raise TypeError("not a list")
        _put_items(out, value, depth - 1)
    elif isinstance(value, str):
        out += value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytes | bytearray | memoryview):
        out += value
    else:
        raise TypeError("neither str nor bytes")


def _encode_decimal(value: object) -> bytes:
    """Scale and unscaled value (§4.2.5.5) of a finite decimal of not too many digits."""
    if not isinstance(value, Decimal):
        raise TypeError("not a Decimal")
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise TypeError("not a finite number")
    if len(digits) + max(exponent, 0) > 11:
        raise OverflowError("more than 32 bits of digits")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return _DECIMAL.pack(max(-exponent, 0), -unscaled if sign else unscaled)


def _encode_time(value: object) -> bytes:
    return _U64.pack(encode_timestamp(value))  # type: ignore[arg-type]


_PLAIN_VALUES: Final[Mapping[str, Callable[[object], bytes]]] = {
    "t": lambda value: b"\x01" if value else b"\x00",
    "V": lambda value: b"",
    "D": _encode_decimal,
    "T": _encode_time,
}
