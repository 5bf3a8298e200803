"""The properties of a message (AMQP 0-9-1 §4.2.6.1): the end of a content header to values and back.

A section is two octets of flags, highest bit first, and then the values of the properties whose bit is set.
Messages pass through the broker as the octets that were published, so besides decoding it all there is
`read_property`, which skips to one value, and `replace_properties`, which leaves every other property's
octets alone.

Invariants:
1. Nothing but PropertyError and FieldError leaves a decoder, nothing but EncodeError an encoder.
2. replace_properties never decodes and encodes again what it was not asked to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from amqp_broker.protocol.errors import EncodeError, PropertyError
from amqp_broker.protocol.fields import (
    MAX_TABLE_BYTES,
    Table,
    decode_table,
    decode_timestamp,
    encode_table,
    encode_timestamp,
)

NO_PROPERTIES: Final = b"\x00\x00"
"""The section of a message without properties."""

# The domain of a property: how its value lies in the section.
_SHORT_STRING, _TABLE, _OCTET, _TIMESTAMP = range(4)
_DOMAINS: Final[Mapping[str, int]] = {
    "content_type": _SHORT_STRING,
    "content_encoding": _SHORT_STRING,
    "headers": _TABLE,
    "delivery_mode": _OCTET,
    "priority": _OCTET,
    "correlation_id": _SHORT_STRING,
    "reply_to": _SHORT_STRING,
    "expiration": _SHORT_STRING,
    "message_id": _SHORT_STRING,
    "timestamp": _TIMESTAMP,
    "type": _SHORT_STRING,
    "user_id": _SHORT_STRING,
    "app_id": _SHORT_STRING,
    "cluster_id": _SHORT_STRING,
}
PROPERTY_NAMES: Final = tuple(_DOMAINS)
_FLAGS: Final = {name: 0x8000 >> position for position, name in enumerate(_DOMAINS)}
_ORDER: Final = tuple((name, _FLAGS[name], domain) for name, domain in _DOMAINS.items())
_UNUSED_FLAGS: Final = (
    0b11  # the lowest bit would announce more flags, which a message of class basic does not have
)


@dataclass(frozen=True, slots=True)
class Properties:
    """The fourteen properties, None where absent. `timestamp` is naive UTC, or seconds if beyond 9999."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: datetime | int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def decode_properties(raw: bytes, max_table_bytes: int = MAX_TABLE_BYTES) -> Properties:
    """All properties of a section; PropertyError, or FieldError for malformed or too large headers."""
    values = {
        name: _decode_value(raw, _DOMAINS[name], start, end, max_table_bytes)
        for name, (start, end) in _spans(raw).items()
    }
    return Properties(**values)  # type: ignore[arg-type]


def read_property(raw: bytes, name: str, max_table_bytes: int = MAX_TABLE_BYTES) -> object | None:
    """One property's value or None; PropertyError or FieldError if it or one before it is malformed."""
    flags = _read_flags(raw)
    if not flags & _FLAGS[name]:
        return None
    position = 2
    for each, flag, domain in _ORDER:
        if flags & flag:
            end = _value_end(raw, each, domain, position)
            if each == name:
                return _decode_value(raw, domain, position, end, max_table_bytes)
            position = end
    raise AssertionError(f"no property is named {name!r}")


def encode_properties(properties: Properties | Mapping[str, object]) -> bytes:
    """The section of these properties, given as Properties or by name; EncodeError for what does not fit."""
    if isinstance(properties, Properties):
        return replace_properties(
            NO_PROPERTIES, **{name: getattr(properties, name) for name in PROPERTY_NAMES}
        )
    return replace_properties(NO_PROPERTIES, **properties)


def replace_properties(raw: bytes, **changes: object) -> bytes:
    """The section with these properties set, or removed where the change is None; the others octet for octet.

    Raises PropertyError where `raw` is malformed, EncodeError for an unknown name or a value that does not
    fit.
    """
    for name in changes:
        if name not in _DOMAINS:
            raise EncodeError(f"no property is named {name!r}: use one of {', '.join(PROPERTY_NAMES)}")
    spans = _spans(raw)
    flags = 0
    out = bytearray(NO_PROPERTIES)
    for name, flag, domain in _ORDER:
        if name in changes:
            if changes[name] is not None:
                flags |= flag
                out += _encode_value(name, domain, changes[name])
        elif name in spans:
            flags |= flag
            start, end = spans[name]
            out += raw[start:end]
    out[0:2] = flags.to_bytes(2)
    return bytes(out)


def _read_flags(raw: bytes) -> int:
    if len(raw) < 2:
        raise PropertyError(f"property section of {len(raw)} octets: its flags alone need 2")
    flags = raw[0] << 8 | raw[1]
    if flags & _UNUSED_FLAGS:
        raise PropertyError(
            f"property flags {flags:#06x}: the two lowest bits announce properties that do not exist"
        )
    return flags


def _spans(raw: bytes) -> dict[str, tuple[int, int]]:
    """Where each present property's octets lie, the length of a string or table included."""
    flags = _read_flags(raw)
    position = 2
    spans: dict[str, tuple[int, int]] = {}
    for name, flag, domain in _ORDER:
        if flags & flag:
            end = _value_end(raw, name, domain, position)
            spans[name] = (position, end)
            position = end
    if position != len(raw):
        raise PropertyError(f"{len(raw) - position} octets follow the last property")
    return spans


def _value_end(raw: bytes, name: str, domain: int, position: int) -> int:
    """Where the value at `position` ends; PropertyError unless the section holds all of it."""
    size = len(raw)
    if domain == _SHORT_STRING:
        end = position + 1 + raw[position] if position < size else size + 1
    elif domain == _OCTET:
        end = position + 1
    elif domain == _TIMESTAMP:
        end = position + 8
    else:
        end = position + 4
        if end <= size:
            end += int.from_bytes(raw[position:end])
    if end > size:
        raise PropertyError(f"property '{name}' runs past the end of the {size} octets of properties")
    return end


def _decode_value(raw: bytes, domain: int, start: int, end: int, max_table_bytes: int) -> object:
    if domain == _SHORT_STRING:
        return raw[start + 1 : end].decode("utf-8", "surrogateescape")
    if domain == _OCTET:
        return raw[start]
    if domain == _TIMESTAMP:
        return decode_timestamp(int.from_bytes(raw[start:end]))
    return decode_table(raw[start + 4 : end], max_bytes=max_table_bytes)


def _encode_value(name: str, domain: int, value: object) -> bytes:
    """The octets of a property's value, the length of a string or table included."""
    if domain == _SHORT_STRING and isinstance(value, str):
        try:
            octets = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise EncodeError(f"property '{name}' cannot carry {value!r}: {error}") from None
        if len(octets) > 255:
            raise EncodeError(f"property '{name}' of {len(octets)} octets: at most 255 fit; shorten it")
        return bytes([len(octets)]) + octets
    if domain == _OCTET and isinstance(value, int):
        if not 0 <= value <= 255:
            raise EncodeError(f"property '{name}' cannot carry {value}: give 0 to 255")
        return bytes([value])
    if domain == _TIMESTAMP and isinstance(value, datetime | int):
        return encode_timestamp(value).to_bytes(8)
    if domain == _TABLE and isinstance(value, Mapping):
        octets = encode_table(value)
        return len(octets).to_bytes(4) + octets
    wanted = {
        _SHORT_STRING: "a str",
        _OCTET: "an int",
        _TIMESTAMP: "a datetime or seconds",
        _TABLE: "a mapping",
    }
    raise EncodeError(
        f"property '{name}' cannot carry {value!r} ({type(value).__name__}): give {wanted[domain]}"
    )
