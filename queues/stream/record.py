"""Records: messages as a stream keeps them, made so that a delivery is a copy.

    u32 length of what follows; u32 number in its chunk; u32 hash of the key; u32 hash of the filter value (0: none);
    u8 flags; u16 place; u16 octets of the address; address (two short strings) and a frame's end octet; content

The address and the octet behind it are how a basic.deliver frame ends. Content is the header frame as published and,
for a body below SEPARATE_BODY_BYTES, its one body frame; a longer body follows the header frame bare, for frames are
cut for whoever reads it. `place` is where the header `x-stream-offset` is let into the content: the beginning of the
header table's fields or, where there is no table, where one goes.

Invariants:
1. `write_record` puts what a delivery of `get_record`'s message would put.
2. A record is read only behind a chunk's checksum: nothing here checks again what `put_record` has seen to.
"""

from __future__ import annotations

import struct

import cython

from amqp_broker.octets.buffer import Buffer, Pointer
from amqp_broker.octets.checksum import crc32
from queues.message import FRAME_OVERHEAD, PROPERTIES_OFFSET, Message
from queues.page import AddressBook

if cython.compiled:  # pragma: no cover
    from cython.cimports.libc.string import memcpy
else:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64
    from queues.message import make_message

    # Plain, each call is dear: one for all the numbers of a record.
    _NUMBERS = struct.Struct(">LLLLBHH")
    _pack_numbers = _NUMBERS.pack
    _pack_tag = struct.Struct(">Q?").pack
    _pack_size = struct.Struct(">L").pack

#: Octets of a record before its address.
RECORD_FIXED = 21
_FIXED = RECORD_FIXED
#: Bits of a record's flags: it hides what is older of its key; its body is bare; its content has a header table.
TOMBSTONE, APART, HAS_TABLE = 1, 2, 4
_APART, _HAS_TABLE = APART, HAS_TABLE
#: The field that says a message's offset, up to its eight octets: a key and the kind of a signed 64-bit integer.
OFFSET_HEADER = "x-stream-offset"
#: What a delivery from a partition of a stream has besides.
PARTITION_HEADER = "x-stream-partition"
_FIELD = b"\x0fx-stream-offsetl"
FIELD_BYTES = 25
_FIELD_BYTES = FIELD_BYTES
#: Flags of a property section (AMQP 0-9-1 §2.3.5.2): there is a content type, an encoding, a header table. Only the
#: two come before the table.
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x80, 0x40, 0x20
_PROPERTIES_OFFSET = PROPERTIES_OFFSET
_FRAME_OVERHEAD = FRAME_OVERHEAD
#: Where the body size stands in a header frame.
_BODY_SIZE_AT = 11


def place_of_header(content: bytes, header_end: int) -> int:
    """Where `x-stream-offset` goes in a content. Raises ValueError where the properties before it are cut."""
    data = content
    flags = data[_PROPERTIES_OFFSET]
    position = _PROPERTIES_OFFSET + 2
    if flags & _CONTENT_TYPE and position < header_end:
        position += 1 + data[position]
    if flags & _CONTENT_ENCODING and position < header_end:
        position += 1 + data[position]
    if flags & _HEADERS:
        position += 4
    if position >= header_end:
        raise ValueError(f"a header frame of {header_end} octets ends before its properties do")
    return position


def put_record(buffer: Buffer, message: Message, number: int, key_hash: int, filter_hash: int, flags: int) -> None:
    """Append a message as the record of this number. flags: TOMBSTONE or 0; the others follow from the message."""
    raw, content = message.raw, message.content
    place = place_of_header(content, message.header_end)
    table_flags = content[_PROPERTIES_OFFSET]
    if table_flags & _HEADERS:
        flags |= _HAS_TABLE
    length = _FIXED - 4 + len(raw) + 1 + len(content)
    if message.body is not None:
        flags |= _APART
        length += message.body_size
    if cython.compiled:
        buffer.reserve(length + 4)
        position = buffer.length
        buffer.set_u32(position, length)
        buffer.set_u32(position + 4, number)
        buffer.set_u32(position + 8, key_hash)
        buffer.set_u32(position + 12, filter_hash)
        target: Pointer = buffer.data
        target[position + 16] = flags
        buffer.set_u16(position + 17, place)
        buffer.set_u16(position + 19, len(raw))
        position += _FIXED
        source: Pointer = raw
        memcpy(target + position, source, len(raw))
        position += len(raw)
        target[position] = 0xCE
        position += 1
        source = content
        memcpy(target + position, source, len(content))
        buffer.length = position + len(content)
    else:
        numbers = _pack_numbers(length, number, key_hash, filter_hash, flags, place, len(raw))
        buffer.put_joined((numbers, raw, b"\xce", content))
    if message.body is not None:
        for part in message.body:
            buffer.put_bytes(part)


def next_record(octets: bytes, at: int) -> int:
    """Where the record behind the one at `at` begins."""
    return at + 4 + get_u32(octets, at)


def number_of(octets: bytes, at: int) -> int:
    """The number in its chunk of the record at `at`."""
    return get_u32(octets, at + 4)


def hash_of(value: bytes) -> int:
    """Of a value to filter by, as records keep it, and of a key: never 0, which says that there is none."""
    return crc32(value) or 1


def filter_hash_of(octets: bytes, at: int) -> int:
    """The hash of the filter value of the record at `at`, 0 for none."""
    return get_u32(octets, at + 12)


def check_record(octets: bytes, at: int, limit: int) -> None:
    """Whether the parts of a record that comes from elsewhere fit together: `write_record` patches them unseen. Raises
    ValueError."""
    size, flags = get_u32(octets, at), octets[at + 16]
    place, address = get_u16(octets, at + 17), get_u16(octets, at + 19)
    start = at + _FIXED
    content, end = start + address + 1, at + 4 + size
    if end > limit or address < 2 or content + _PROPERTIES_OFFSET + 3 > end or flags & ~7:
        raise ValueError(f"a record of {size} octets, flags {flags:#x}, with an address of {address}")
    exchange = octets[start]
    if exchange + 2 > address or exchange + 2 + octets[start + exchange + 1] != address or octets[content - 1] != 0xCE:
        raise ValueError("an address of a record is two short strings and a frame's end")
    frame = content + 8 + get_u32(octets, content + 3)
    if frame > end or place < _PROPERTIES_OFFSET + 2 or content + place >= frame:
        raise ValueError(f"a record's header frame of {frame - content} octets, with its header at {place}")
    body_size = get_u64(octets, content + _BODY_SIZE_AT)
    is_bare = bool(flags & _APART) or not body_size
    if end - frame != (body_size if is_bare else body_size + _FRAME_OVERHEAD):
        raise ValueError(f"a record's body of {body_size} octets in {end - frame}")
    if bool(flags & _HAS_TABLE) != bool(octets[content + _PROPERTIES_OFFSET] & _HEADERS):
        raise ValueError("a record's flags and its properties differ about a header table")


def is_framed(octets: bytes, at: int, frame_max: int) -> bool:
    """Whether the record at `at` can be copied by `write_record`: its body is framed, or empty, and the frame is not
    too long."""
    if octets[at + 16] & _APART:
        return False
    return body_size_of(octets, at) + 8 <= frame_max


def body_size_of(octets: bytes, at: int) -> int:
    """How long the body of the message in the record at `at` is."""
    return get_u64(octets, at + _FIXED + get_u16(octets, at + 19) + 1 + _BODY_SIZE_AT)


def get_record(octets: bytes, at: int, offset: int, timestamp: int, addresses: AddressBook) -> Message:
    """The message of the record at `at`, as it is delivered: with its offset in a header. timestamp: when it came."""
    size, flags = get_u32(octets, at), octets[at + 16]
    place, address = get_u16(octets, at + 17), get_u16(octets, at + 19)
    start = at + _FIXED
    content_at = start + address + 1
    end = at + 4 + size
    frame = content_at + 7 + get_u32(octets, content_at + 3) + 1
    body_size = get_u64(octets, content_at + _BODY_SIZE_AT)
    header = _with_offset(octets, content_at, frame, place, bool(flags & _HAS_TABLE), offset, b"")
    raw = addresses.find_in(octets, start, start + address)
    body: list[bytes] | None = None
    content = header
    if flags & _APART:
        body = [octets[frame:end]]
    else:
        content = header + octets[frame:end]
    return make_message(raw, content, len(header), body, body_size, True, -1, -1, timestamp)


def _with_offset(
    octets: bytes, start: int, end: int, place: int, has_table: bool, offset: int, more: bytes
) -> bytes:
    """The header frame octets[start:end] with the header let in, and the fields `more` behind it."""
    field = _FIELD + offset.to_bytes(8, "big") + more
    at = start + place
    if has_table:
        added = len(field)
        table = get_u32(octets, at - 4) + added
        before, inserted = octets[start + 7 : at - 4], table.to_bytes(4, "big") + field
    else:
        added = 4 + len(field)
        flags = octets[start + _PROPERTIES_OFFSET] | _HEADERS
        before = octets[start + 7 : start + _PROPERTIES_OFFSET] + bytes([flags]) + octets[start + 20 : at]
        inserted = len(field).to_bytes(4, "big") + field
    size = get_u32(octets, start + 3) + added
    return b"".join((octets[start : start + 3], size.to_bytes(4, "big"), before, inserted, octets[at:end]))


def write_record(
    buffer: Buffer, prefix: bytes, prefix_size: int, tag: int, octets: bytes, at: int, offset: int, channel_id: int,
    more: bytes,
) -> int:  # fmt: skip
    """Append a delivery of the record at `at`, whose body has to fit into one frame and be framed already:
    basic.deliver with this tag, header frame, body frame. `prefix`: as in Output.put_deliver. more: fields that go into
    the header table behind the offset. Compiled, `prefix` and `octets` are pointers. Returns where the next record
    begins."""
    size, flags = get_u32(octets, at), octets[at + 16]
    place, address = get_u16(octets, at + 17), get_u16(octets, at + 19)
    start = at + _FIXED
    content = start + address + 1
    end = at + 4 + size
    frame = content + 8 + get_u32(octets, content + 3)
    if not cython.compiled:
        method = _pack_size(prefix_size + address + 2)
        header = _with_offset(octets, content, frame, place, bool(flags & _HAS_TABLE), offset, more)
        tagged = _pack_tag(tag, False)
        length = buffer.put_joined(
            (prefix[:3], method, prefix[7:prefix_size], tagged, octets[start:content], header, octets[frame:end])
        )
        buffer.set_u16(length - (end - frame) - len(header) + 1, channel_id)
        if frame < end:
            buffer.set_u16(length - (end - frame) + 1, channel_id)
        return end
    fields = _FIELD_BYTES + len(more)
    added = fields if flags & _HAS_TABLE else 4 + fields
    begin = buffer.length
    buffer.reserve(prefix_size + 9 + size + added)
    target: Pointer = buffer.data
    source: Pointer = octets
    # The method frame: its address and its end octet are in the record.
    memcpy(target + begin, prefix, prefix_size)
    buffer.set_u32(begin + 3, prefix_size + address + 2)
    position = begin + prefix_size
    buffer.set_u32(position, tag >> 32)
    buffer.set_u32(position + 4, tag)
    target[position + 8] = 0
    position += 9
    memcpy(target + position, source + start, content - start + place)
    header_at = position + content - start
    position = header_at + place
    buffer.set_u16(header_at + 1, channel_id)
    buffer.set_u32(header_at + 3, frame - content - 8 + added)
    if flags & _HAS_TABLE:
        buffer.set_u32(position - 4, get_u32(octets, content + place - 4) + fields)
    else:
        target[header_at + _PROPERTIES_OFFSET] |= _HEADERS
        buffer.set_u32(position, fields)
        position += 4
    field: Pointer = _FIELD
    memcpy(target + position, field, _FIELD_BYTES - 8)
    position += _FIELD_BYTES - 8
    buffer.set_u32(position, offset >> 32)
    buffer.set_u32(position + 4, offset)
    position += 8
    if fields > _FIELD_BYTES:
        field = more
        memcpy(target + position, field, fields - _FIELD_BYTES)
        position += fields - _FIELD_BYTES
    memcpy(target + position, source + content + place, end - content - place)
    position += end - content - place
    if frame < end:
        buffer.set_u16(position - (end - frame) + 1, channel_id)
    buffer.length = position
    return end
