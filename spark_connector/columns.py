"""Blobs of messages to columns: walks the octets once and keeps of every message only what is asked for.

    blob      u8 version 1, u32 count, and of each message
              u64 offset, u64 enqueued_at (ms), u8 flags (1: redelivered), u16 delivery count, short exchange,
              short routing key, u32 length + property section, u32 length + body

Arrow's layout is written directly: values one behind the other, 32-bit ends of them, and a bit for each that is there.
It knows neither Arrow's library nor Spark; `decode` makes arrays of it.

Invariants:
1. Every row puts exactly one value, or none, into every wanted column.
2. Nothing is read behind the end of the blob: MalformedBlob, before a column is used.
"""

from __future__ import annotations

from array import array

import cython

from amqp_broker.octets.buffer import Buffer
from spark_connector.errors import MalformedBlob

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

_VERSION = 1
_HEAD_BYTES = 5
_FIXED_BYTES = 19
#: The properties in the order of their flags, highest bit first, and how each lies in the section.
PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_HEADERS = 2
_DELIVERY_MODE = 3
_PRIORITY = 4
_TIMESTAMP = 9
_COUNT = 14
#: The last second that a timestamp of Spark can have (31 December 9999).
_LAST_SECOND = 253402300799
#: What 64 bits with a sign hold of an offset, and of milliseconds that become microseconds.
_OFFSET_BITS = 0x7FFFFFFFFFFFFFFF
_TIME_BITS = 0xFFFFFFFFFFFF


class Texts:
    """A column of octets of any length: `data`, `ends` (from 0) and `bits` (1: there is a value). room: as many octets
    as are to be expected."""

    def __init__(self, rows: int, room: int = 1024) -> None:
        self.data = Buffer(room)
        self.ends = array("i", bytes(4 * (rows + 1)))
        self.bits = array("B", bytes((rows + 7) // 8))
        self.nulls = 0
        self.row = 0
        self.length = 0

    def put(self, blob: bytes, start: int, end: int) -> None:
        """A row that is blob[start:end]."""
        self.data.put_range(blob, start, end)
        row = self.row
        self.bits[row >> 3] |= 1 << (row & 7)
        self.length += end - start
        row += 1
        self.ends[row] = self.length
        self.row = row

    def put_null(self) -> None:
        """A row without a value."""
        self.nulls += 1
        self.row += 1
        self.ends[self.row] = self.length


class Numbers:
    """A column of whole numbers, with `bits` as in Texts."""

    def __init__(self, rows: int) -> None:
        self.values = array("q", bytes(8 * rows))
        self.bits = array("B", bytes((rows + 7) // 8))
        self.nulls = 0
        self.row = 0

    def put(self, value: int) -> None:
        row = self.row
        self.values[row] = value
        self.bits[row >> 3] |= 1 << (row & 7)
        self.row = row + 1

    def put_null(self) -> None:
        self.nulls += 1
        self.row += 1


class Columns:
    """The columns of one blob; those that are not wanted are None. `properties` are in the order of PROPERTIES."""

    def __init__(self, blob: bytes, wanted: frozenset[str]) -> None:
        if len(blob) < _HEAD_BYTES or blob[0] != _VERSION:
            raise MalformedBlob(f"{len(blob)} octets that begin with {blob[:1].hex() or 'nothing'} are no blob")
        self.rows = int.from_bytes(blob[1:5])
        if self.rows * (_FIXED_BYTES + 10) > len(blob):
            raise MalformedBlob(f"a blob of {len(blob)} octets cannot hold {self.rows} messages")
        rows = self.rows
        self.body = Texts(rows, len(blob) - rows * (_FIXED_BYTES + 10)) if "body" in wanted else None
        self.exchange = Texts(rows) if "exchange" in wanted else None
        self.routing_key = Texts(rows) if "routing_key" in wanted else None
        self.offset = Numbers(rows) if "offset" in wanted else None
        self.enqueued_at = Numbers(rows) if "enqueued_at" in wanted else None
        self.redelivered = Numbers(rows) if "redelivered" in wanted else None
        self.delivery_count = Numbers(rows) if "delivery_count" in wanted else None
        self.delivery_mode = Numbers(rows) if "delivery_mode" in wanted else None
        self.priority = Numbers(rows) if "priority" in wanted else None
        self.timestamp = Numbers(rows) if "timestamp" in wanted else None
        self.texts: list[Texts | None] = [
            Texts(rows) if name in wanted and name not in ("delivery_mode", "priority", "timestamp") else None
            for name in PROPERTIES
        ]
        self.wants_properties = any(name in wanted for name in PROPERTIES)
        self._fill(blob, len(blob))

    def _fill(self, blob: bytes, size: int) -> None:
        position = _HEAD_BYTES
        for _ in range(self.rows):
            if position + _FIXED_BYTES + 1 > size:
                raise _truncated(size)
            if self.offset is not None:
                self.offset.put(get_u64(blob, position) & _OFFSET_BITS)
            if self.enqueued_at is not None:
                self.enqueued_at.put((get_u64(blob, position + 8) & _TIME_BITS) * 1000)
            if self.redelivered is not None:
                self.redelivered.put(blob[position + 16] & 1)
            if self.delivery_count is not None:
                self.delivery_count.put(get_u16(blob, position + 17))
            position = self._fill_address(blob, position + _FIXED_BYTES, size)
            length = get_u32(blob, position)
            position += 4
            if position + length + 4 > size:
                raise _truncated(size)
            if self.wants_properties:
                self._fill_properties(blob, position, position + length)
            position += length
            length = get_u32(blob, position)
            position += 4
            if position + length > size:
                raise _truncated(size)
            if self.body is not None:
                self.body.put(blob, position, position + length)
            position += length
        if position != size:
            raise MalformedBlob(f"{size - position} octets follow the last of {self.rows} messages")

    def _fill_address(self, blob: bytes, position: int, size: int) -> int:
        """Exchange and routing key; the position behind them, with four octets to come."""
        length = blob[position]
        position += 1
        if position + length + 1 > size:
            raise _truncated(size)
        if self.exchange is not None:
            self.exchange.put(blob, position, position + length)
        position += length
        length = blob[position]
        position += 1
        if position + length + 4 > size:
            raise _truncated(size)
        if self.routing_key is not None:
            self.routing_key.put(blob, position, position + length)
        return position + length

    def _fill_properties(self, blob: bytes, position: int, end: int) -> None:
        """One message's property section; every wanted property gets a value or none."""
        flags = 0
        if end - position >= 2:
            flags = get_u16(blob, position)
            position += 2
        for which in range(_COUNT):
            is_there = flags & (0x8000 >> which)
            if which == _DELIVERY_MODE or which == _PRIORITY:  # noqa: SIM109 - compared in C
                if is_there and position >= end:
                    raise _malformed_properties()
                self._put_octet(which, blob[position] if is_there else -1)
                position += 1 if is_there else 0
            elif which == _TIMESTAMP:
                if is_there and position + 8 > end:
                    raise _malformed_properties()
                self._put_timestamp(get_u64(blob, position) if is_there else _LAST_SECOND + 1)
                position += 8 if is_there else 0
            else:
                position = self._fill_text(blob, position, end, which, is_there)
        if position != end:
            raise _malformed_properties()

    def _fill_text(self, blob: bytes, position: int, end: int, which: int, is_there: int) -> int:
        """A short string, or the table of headers; the position behind it."""
        column = self.texts[which]
        if not is_there:
            if column is not None:
                column.put_null()
            return position
        width = 4 if which == _HEADERS else 1
        if position + width > end:
            raise _malformed_properties()
        length = get_u32(blob, position) if which == _HEADERS else blob[position]
        position += width
        if position + length > end:
            raise _malformed_properties()
        if column is not None:
            column.put(blob, position, position + length)
        return position + length

    def _put_octet(self, which: int, value: int) -> None:
        column = self.delivery_mode if which == _DELIVERY_MODE else self.priority
        if column is None:
            return
        if value < 0:
            column.put_null()
        else:
            column.put(value)

    def _put_timestamp(self, seconds: int) -> None:
        if self.timestamp is None:
            return
        if seconds > _LAST_SECOND:
            self.timestamp.put_null()
        else:
            self.timestamp.put(seconds * 1000000)


def _truncated(size: int) -> MalformedBlob:
    return MalformedBlob(f"a blob of {size} octets ends inside a message")


def _malformed_properties() -> MalformedBlob:
    return MalformedBlob("a message's property section does not end where it should")
