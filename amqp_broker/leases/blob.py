"""Blob: many messages in one body, as lease.fetch and lease.browse answer with them and txn.stage brings them.

    u8 version 1, u32 count, and for each message:
        u64 offset, u64 enqueued_at (milliseconds since the epoch), u8 flags (1 redelivered), u16 delivery count,
        short string exchange, short string routing key,
        u32 length and the property section (2 octets of flags, or more, and the values) as it was published,
        u32 length and the body

Numbers are big endian. A part that was not asked for has length 0, as has a time of 0.

Invariants:
1. A blob that a writer gives holds at most its limit of octets and of messages, or one message.
2. A reader never looks beyond its octets; what does not add up raises MalformedBlob, nothing else.
"""

from __future__ import annotations

import cython

from amqp_broker.octets.buffer import Buffer
from queues.message import Message
from queues.stream.record import APART, RECORD_FIXED

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

BLOB_VERSION = 1
#: What may be asked for by name, and the bit that stands for it.
COLUMNS = {"body": 1, "properties": 2, "address": 4, "enqueued_at": 8}
ALL_COLUMNS = 15
_VERSION = BLOB_VERSION
_BODY = 1
_PROPERTIES = 2
_ADDRESS = 4
_ENQUEUED_AT = 8
#: Octets before the first message, and of a message without its address, properties and body.
HEAD_BYTES = 5
_HEAD_BYTES = HEAD_BYTES
_FIXED = 27
#: Of a packed message before its address (queues/page.py), and where its parts begin.
_PACKED_FIXED = 36
#: Of a page's record before its packed message: u32 length, u64 sequence, u64 expires at, u32 journal segment, u16
#: returns, u8 redelivered.
_RECORD_BYTES = 27
_SEPARATE_BODY = 2
_PERSISTENT = 1
#: Where the property section begins in a header frame, and what a frame has before its payload.
_PROPERTIES_AT = 19
_FRAME_HEAD = 7
_NO_ADDRESS = b"\x00\x00"
#: Of a stream's record: octets before its address, the flag of a body without a frame; where a header frame has the
#: body's size.
_STORED_FIXED = RECORD_FIXED
_BARE_BODY = APART
_BODY_SIZE_AT = 11


#: What has become of a page's messages.
ALL_TAKEN = 0
FULL = 1
BEYOND = 2
_ALL_TAKEN = ALL_TAKEN
_FULL = FULL
_BEYOND = BEYOND


class MalformedBlob(ValueError):
    """Octets that are no blob; the text says where and why."""


class BlobWriter:
    """Makes one blob. columns: bits of COLUMNS. limit_bytes, limit_messages: what it takes at most. count: its
    messages; next_offset: above the offset of the last one, 0 while there is none."""

    def __init__(self, columns: int, limit_bytes: int, limit_messages: int) -> None:
        self.count = 0
        self.next_offset = 0
        self._columns = columns
        self._limit_bytes = limit_bytes
        self._limit_messages = limit_messages
        self._buffer = Buffer(min(limit_bytes, 262_144))
        self._buffer.put_u8(_VERSION)
        self._buffer.put_u32(0)

    def __len__(self) -> int:
        """Octets so far."""
        return self._buffer.length

    def room(self) -> int:
        """How many octets it still takes, 0 when it has all its messages."""
        if self.count >= self._limit_messages:
            return 0
        return max(0, self._limit_bytes - self._buffer.length)

    def _has_no_room(self, size: int) -> bool:
        return self.count > 0 and (
            self.count >= self._limit_messages or self._buffer.length + size > self._limit_bytes
        )

    def _put_head(self, offset: int, enqueued_at: int, is_redelivered: bool, delivery_count: int) -> None:
        buffer = self._buffer
        buffer.put_u64(offset)
        buffer.put_u64(enqueued_at if self._columns & _ENQUEUED_AT else 0)
        buffer.put_u8(1 if is_redelivered else 0)
        buffer.put_u16(min(delivery_count, 65_535))
        self.count += 1
        self.next_offset = offset + 1

    def add(self, offset: int, is_redelivered: bool, delivery_count: int, message: Message) -> bool:
        """A message. Returns False, and takes nothing, when the blob is full."""
        columns = self._columns
        content = message.content
        header_end = message.header_end
        raw = message.raw if columns & _ADDRESS else _NO_ADDRESS
        properties_bytes = header_end - 1 - _PROPERTIES_AT if columns & _PROPERTIES else 0
        body_bytes = message.body_size if columns & _BODY else 0
        if self._has_no_room(_FIXED + len(raw) + properties_bytes + body_bytes):
            return False
        self._put_head(offset, message.timestamp, is_redelivered, delivery_count)
        buffer = self._buffer
        buffer.put_bytes(raw)
        buffer.put_u32(properties_bytes)
        if properties_bytes:
            buffer.put_range(content, _PROPERTIES_AT, header_end - 1)
        buffer.put_u32(body_bytes)
        if body_bytes:
            if message.body is None:
                buffer.put_range(content, header_end + _FRAME_HEAD, header_end + _FRAME_HEAD + body_bytes)
            else:
                for chunk in message.body:
                    buffer.put_bytes(chunk)
        return True

    def add_packed(
        self, offset: int, is_redelivered: bool, delivery_count: int, data: bytes, start: int, end: int
    ) -> bool:
        """A message in data[start:end] as pages and the journal have it (queues/page.py): no object is made of it.
        Returns False, and takes nothing, when the blob is full. Raises MalformedBlob."""
        if start < 0 or end > len(data) or end - start < _PACKED_FIXED:
            raise MalformedBlob(f"a packed message of {end - start} octets is shorter than its fixed part")
        octets = data
        columns = self._columns
        body_size = get_u64(octets, start + 18)
        header_end = get_u32(octets, start + 26)
        content_bytes = get_u32(octets, start + 30)
        address_bytes = get_u16(octets, start + 34)
        content = start + _PACKED_FIXED + address_bytes
        is_separate = (octets[start] & _SEPARATE_BODY) != 0
        if (
            content + content_bytes > end
            or header_end > content_bytes
            or header_end <= _PROPERTIES_AT
            or (body_size and not is_separate and header_end + _FRAME_HEAD + body_size > content_bytes)
            or (is_separate and body_size > end - content - content_bytes)
        ):
            raise MalformedBlob(f"a packed message of {end - start} octets does not add up")
        properties_bytes = header_end - 1 - _PROPERTIES_AT if columns & _PROPERTIES else 0
        body_bytes = body_size if columns & _BODY else 0
        if self._has_no_room(
            _FIXED + (address_bytes if columns & _ADDRESS else 2) + properties_bytes + body_bytes
        ):
            return False
        self._put_head(offset, get_u64(octets, start + 10), is_redelivered, delivery_count)
        buffer = self._buffer
        if columns & _ADDRESS:
            buffer.put_range(octets, start + _PACKED_FIXED, content)
        else:
            buffer.put_bytes(_NO_ADDRESS)
        buffer.put_u32(properties_bytes)
        if properties_bytes:
            buffer.put_range(octets, content + _PROPERTIES_AT, content + header_end - 1)
        buffer.put_u32(body_bytes)
        if body_bytes and is_separate:
            self._put_chunks(data, content + content_bytes, end, body_bytes)
        elif body_bytes:
            body = content + header_end + _FRAME_HEAD
            buffer.put_range(octets, body, body + body_bytes)
        return True

    def add_records(self, first: int, data: bytes, start: int, end: int) -> int:
        """Messages as a page has them, whole records in data[start:end], at offsets from `first` on. Returns how many
        were taken. Raises MalformedBlob."""
        octets = data
        position = start
        offset = first
        while position < end:
            size = get_u32(octets, position) if end - position >= _RECORD_BYTES else -1
            if size < _RECORD_BYTES - 4 or size > end - position - 4:
                raise MalformedBlob(f"a record ends beyond the {end - start} octets of its page")
            if not self.add_packed(
                offset,
                octets[position + 26] != 0,
                get_u16(octets, position + 24),
                data,
                position + _RECORD_BYTES,
                position + 4 + size,
            ):
                break
            position += 4 + size
            offset += 1
        return offset - first

    def add_ready(
        self, start_sequence: int, below: int, durable_only: bool, data: bytes, start: int, end: int
    ) -> int:
        """As `add_records`, with the sequences of a queue's page as offsets: those from start_sequence on, and below
        `below`. durable_only: transient messages are passed over. Returns ALL_TAKEN, FULL, or BEYOND when there was one
        at or above `below`."""
        octets = data
        position = start
        while position < end:
            size = get_u32(octets, position) if end - position >= _RECORD_BYTES else -1
            if size < _RECORD_BYTES - 4 or size > end - position - 4:
                raise MalformedBlob(f"a record ends beyond the {end - start} octets of its page")
            sequence = get_u64(octets, position + 4)
            packed = position + _RECORD_BYTES
            is_redelivered = octets[position + 26] != 0
            returns = get_u16(octets, position + 24)
            position += 4 + size
            if sequence < start_sequence or (durable_only and (octets[packed] & _PERSISTENT) == 0):
                continue
            if sequence >= below:
                return _BEYOND
            if not self.add_packed(sequence, is_redelivered, returns, data, packed, position):
                return _FULL
        return _ALL_TAKEN

    def add_stored(self, offset: int, time: int, data: bytes, at: int) -> bool:
        """A message of a stream, in data[at:] as its record (queues/stream/record.py). Returns False, and takes
        nothing, when the blob is full."""
        octets = data
        columns = self._columns
        flags = octets[at + 16]
        address_bytes = get_u16(octets, at + 19)
        address = at + _STORED_FIXED
        content = address + address_bytes + 1
        frame = content + 8 + get_u32(octets, content + 3)
        body_size = get_u64(octets, content + _BODY_SIZE_AT)
        properties_bytes = frame - 1 - content - _PROPERTIES_AT if columns & _PROPERTIES else 0
        body_bytes = body_size if columns & _BODY else 0
        if self._has_no_room(_FIXED + (address_bytes if columns & _ADDRESS else 2) + properties_bytes + body_bytes):
            return False
        self._put_head(offset, time, False, 0)
        buffer = self._buffer
        if columns & _ADDRESS:
            buffer.put_range(octets, address, address + address_bytes)
        else:
            buffer.put_bytes(_NO_ADDRESS)
        buffer.put_u32(properties_bytes)
        if properties_bytes:
            buffer.put_range(octets, content + _PROPERTIES_AT, frame - 1)
        buffer.put_u32(body_bytes)
        if body_bytes:
            body = frame if flags & _BARE_BODY else frame + _FRAME_HEAD
            buffer.put_range(octets, body, body + body_bytes)
        return True

    def add_chunk(self, first: int, time: int, data: bytes, start: int, end: int, low: int, high: int) -> int:
        """The messages with offsets of [low, high) out of a chunk of a stream, whose records are data[start:end], the
        first with the offset `first`, some of which may be missing. Returns `high`, or the offset of the first one for
        which there was no room."""
        octets = data
        while start < end:
            offset = first + get_u32(octets, start + 4)
            if offset >= high:
                break
            if offset >= low and not self.add_stored(offset, time, data, start):
                return offset
            start += 4 + get_u32(octets, start)
        return high

    def _put_chunks(self, data: bytes, position: int, end: int, body_bytes: int) -> None:
        """The chunks of a separate body, which are to be `body_bytes` together."""
        octets = data
        buffer = self._buffer
        begin = buffer.length
        count = get_u32(octets, position) if end - position >= 4 else 0
        position += 4
        for _ in range(count):
            length = get_u32(octets, position) if end - position >= 4 else end
            position += 4
            if length > end - position:
                raise MalformedBlob(f"a chunk of {length} octets ends beyond its record")
            buffer.put_range(octets, position, position + length)
            position += length
        if buffer.length - begin != body_bytes:
            raise MalformedBlob(f"chunks of {buffer.length - begin} octets for a body of {body_bytes}")

    def take(self) -> bytes:
        """The blob; the writer is of no more use."""
        self._buffer.set_u32(1, self.count)
        return self._buffer.take()


class BlobReader:
    """Goes through a blob: after each `advance` that returns True, the attributes tell of one message, as places in
    `data`. address: exchange and routing key as two short strings. Raises MalformedBlob when it is made, too."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.count = 0
        self.index = -1
        self.offset = 0
        self.enqueued_at = 0
        self.is_redelivered = False
        self.delivery_count = 0
        self.address = b""
        self.properties_start = 0
        self.properties_end = 0
        self.body_start = 0
        self.body_end = 0
        self._end = len(data)
        self._position = _HEAD_BYTES
        if self._end < _HEAD_BYTES:
            raise MalformedBlob(f"a blob of {self._end} octets is shorter than its head of {_HEAD_BYTES}")
        octets = data
        if octets[0] != _VERSION:
            raise MalformedBlob(f"a blob of version {octets[0]}; this program reads version {_VERSION}")
        self.count = get_u32(octets, 1)
        if self.count * _FIXED > self._end:
            raise MalformedBlob(f"a blob of {self._end} octets announces {self.count} messages")

    def _fail(self, reason: str) -> MalformedBlob:
        return MalformedBlob(f"message {self.index} of a blob of {self.count}: {reason}")

    def advance(self) -> bool:
        """Go to the next message. Returns False when there is none. Raises MalformedBlob."""
        self.index += 1
        octets = self.data
        position = self._position
        end = self._end
        if self.index >= self.count:
            if position != end:
                raise MalformedBlob(f"{end - position} octets behind the last message of a blob")
            return False
        if end - position < _FIXED + 2:
            raise self._fail(f"{end - position} octets are left")
        self.offset = get_u64(octets, position)
        self.enqueued_at = get_u64(octets, position + 8)
        self.is_redelivered = (octets[position + 16] & 1) != 0
        self.delivery_count = get_u16(octets, position + 17)
        position += 19
        key = position + 1 + octets[position]
        if key >= end or key + 1 + octets[key] > end - 8:
            raise self._fail("its exchange or routing key ends beyond the blob")
        self.address = self.data[position : key + 1 + octets[key]]
        position = key + 1 + octets[key]
        size = get_u32(octets, position)
        position += 4
        if size > end - position - 4:
            raise self._fail(f"{size} octets of properties end beyond the blob")
        self.properties_start = position
        position += size
        self.properties_end = position
        size = get_u32(octets, position)
        position += 4
        if size > end - position:
            raise self._fail(f"a body of {size} octets ends beyond the blob")
        self.body_start = position
        position += size
        self.body_end = position
        self._position = position
        return True

    def properties(self) -> bytes:
        """The property section; an empty one stands for no properties."""
        if self.properties_start == self.properties_end:
            return b"\x00\x00"
        return self.data[self.properties_start : self.properties_end]

    def body(self) -> bytes:
        return self.data[self.body_start : self.body_end]
