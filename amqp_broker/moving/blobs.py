"""Blobs of messages (docs/leases.md) as deliveries, for clients: their tags are the offsets."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from amqp_broker.client.messages import Delivery

_HEAD = struct.Struct(">BL")
_VERSION = 1
#: Of a message before its address, of which only the offset is of use here.
_OFFSET = struct.Struct(">Q11x")
_LENGTH = struct.Struct(">L")
_NO_PROPERTIES = b"\0\0"


def deliveries_of(blob: bytes) -> Iterator[Delivery]:
    """All messages of a blob, whose columns body, properties and address were asked for. Raises ValueError."""
    try:
        version, count = _HEAD.unpack_from(blob)
        if version != _VERSION:
            raise ValueError(f"a blob of version {version}; this program reads version {_VERSION}: update it")
        at = _HEAD.size
        for _ in range(count):
            (offset,) = _OFFSET.unpack_from(blob, at)
            exchange, at = _short(blob, at + _OFFSET.size)
            key, at = _short(blob, at)
            properties, at = _long(blob, at)
            body, at = _long(blob, at)
            yield Delivery("", offset, False, exchange, key, body, properties or _NO_PROPERTIES)
    except (struct.error, IndexError) as error:
        raise ValueError(f"a blob of {len(blob)} octets is cut: {error}") from None


def _short(blob: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + blob[at]
    return blob[at + 1 : end].decode("utf-8", "surrogateescape"), end


def _long(blob: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(blob, at)
    begin = at + _LENGTH.size
    return blob[begin : begin + length], begin + length
