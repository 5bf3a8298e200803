"""The blob of docs/leases.md, read and written as that page says, without the broker's own code for it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.state import Violation

_VERSION = 1


class Row(NamedTuple):
    """A message of a blob."""

    offset: int
    enqueued_at: int
    flags: int
    count: int
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes


def read_blob(blob: bytes) -> list[Row]:
    """The messages of a blob. Raises Violation."""
    try:
        version, count = struct.unpack_from(">BI", blob)
        position = 5
        rows = []
        for _ in range(count):
            head = struct.unpack_from(">QQBH", blob, position)
            position += 19
            texts = []
            for size_format in ("B", "B", "I", "I"):
                (size,) = struct.unpack_from(f">{size_format}", blob, position)
                position += struct.calcsize(size_format) + size
                texts.append(blob[position - size : position])
            rows.append(Row(*head, *texts))
    except struct.error as error:
        raise Violation(f"a blob of {len(blob)} octets ends in the midst of a message: {error}") from error
    if version != _VERSION or position != len(blob):
        raise Violation(f"a blob of version {version} has {len(blob)} octets, and its messages take {position}")
    return rows


def write_blob(messages: Iterable[tuple[str, str, bytes, bytes]]) -> bytes:
    """A blob to be staged, of (exchange, routing key, properties, body)."""
    parts = []
    count = 0
    for exchange, routing_key, properties, body in messages:
        count += 1
        parts.append(bytes(19))
        for name in (exchange.encode(), routing_key.encode()):
            parts.append(bytes([len(name)]) + name)
        for octets in (properties, body):
            parts.append(struct.pack(">I", len(octets)) + octets)
    return struct.pack(">BI", _VERSION, count) + b"".join(parts)
