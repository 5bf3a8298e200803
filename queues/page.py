"""Page: a run of ready messages of one queue, packed into one blob.

What a queue holds beyond its head lives in pages: no Python object for a message, one write to put it on disk, one
read to get it back. A page in RAM and a page on disk have the same octets. The same packing of a message is the
payload of a journal entry (`put_message`, `get_message`).

A packed message: flags u8, priority u8, expiration + 1 u64, timestamp u64, body size u64, header end u32, content
length u32, address length u16; address, content; for a separate body: count u32 and each chunk as a long string.
A page: per message u32 length of what follows, sequence u64, expires_at u64, journal segment u32, returns u16,
redelivered u8, and the packed message.

Invariants:
1. Sequences rise within a page; a page is unpacked whole.
2. `live` counts the messages that are not settled; a page with a location is released when it reaches 0.
"""

from __future__ import annotations

import struct
from typing import Any

import cython

from amqp_broker.octets.buffer import Buffer, Pointer
from queues.message import FRAME_OVERHEAD, PROPERTIES_OFFSET, Address, Entry, Message

#: Flags, priority, expiration, timestamp, body size, header end, content length, address length.
MESSAGE_NUMBERS = struct.Struct(">BBQQQLLH")
#: Length of what follows, sequence, expires_at, journal segment, returns, redelivered.
ENTRY_NUMBERS = struct.Struct(">LQQLHB")

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64
    from amqp_broker.octets.index import is_same
    from queues.message import make_entry, make_message

    # Plain, each call is dear: one for all the numbers of a message, and one for those of a record.
    _unpack_message = MESSAGE_NUMBERS.unpack_from
    _unpack_entry = ENTRY_NUMBERS.unpack_from

_FLAG_PERSISTENT = 1
_FLAG_SEPARATE_BODY = 2
_FLAG_PRIORITY = 4
#: Octets of a packed message before its address.
_MESSAGE_FIXED = 36
#: Octets of a page record after its length and before its message.
_ENTRY_FIXED = 23
#: A header frame without any property: flags and its end behind the fixed part.
_LEAST_HEADER = PROPERTIES_OFFSET + 3
_FRAME_OVERHEAD = FRAME_OVERHEAD

#: So many addresses are shared, one for each place.
_PLACES = 256


class AddressBook:
    """Shares the octets of an address between messages that have the same, as long as there are few: a place for each
    pair of a length and last octets, where the newest replaces the one before."""

    def __init__(self) -> None:
        self._known = [b""] * _PLACES

    def find(self, raw: bytes) -> Address:
        """The address with these octets (two short strings, so two at least)."""
        octets: Any = raw
        return Address(self.find_in(octets, 0, len(raw)))

    def find_in(self, data: bytes, start: int, end: int) -> bytes:
        """The octets data[start:end] of an address, at least two; compiled, `data` is a pointer."""
        place = (end - start + 7 * data[end - 1] + 31 * data[end - 2]) % _PLACES
        raw = self._known[place]
        if not is_same(raw, data, start, end):
            raw = self._known[place] = data[start:end]
        return raw


def packed_size(message: Message) -> int:
    """Octets of a page's record of the message, but for the lengths of a separate body's chunks."""
    size = 4 + _ENTRY_FIXED + _MESSAGE_FIXED + len(message.raw) + len(message.content)
    return size if message.body is None else size + message.body_size


def _set_u32(target: Pointer, value: int) -> None:
    target[0] = (value >> 24) & 255
    target[1] = (value >> 16) & 255
    target[2] = (value >> 8) & 255
    target[3] = value & 255


def _set_u64(target: Pointer, value: int) -> None:
    _set_u32(target, value >> 32)
    _set_u32(target + 4, value)  # which takes the lower 32 bits


def put_message(buffer: Buffer, message: Message) -> None:
    """Append the packed message."""
    flags = _FLAG_PERSISTENT if message.is_persistent else 0
    if message.body is not None:
        flags |= _FLAG_SEPARATE_BODY
    if message.priority >= 0:
        flags |= _FLAG_PRIORITY
    raw, content, priority = message.raw, message.content, message.priority if message.priority >= 0 else 0
    if cython.compiled:
        # One call for all the numbers, and stores that the compiler sees together.
        buffer.reserve(_MESSAGE_FIXED + len(raw) + len(content))
        target: Pointer = buffer.data
        target += buffer.length
        target[0] = flags
        target[1] = priority
        _set_u64(target + 2, message.expiration + 1)
        _set_u64(target + 10, message.timestamp)
        _set_u64(target + 18, message.body_size)
        _set_u32(target + 26, message.header_end)
        _set_u32(target + 30, len(content))
        target[34] = (len(raw) >> 8) & 255
        target[35] = len(raw) & 255
        buffer.length += _MESSAGE_FIXED
        buffer.put_bytes(raw)
        buffer.put_bytes(content)
    else:
        times = (message.expiration + 1, message.timestamp)
        sizes = (message.body_size, message.header_end, len(content), len(raw))
        buffer.put_joined((MESSAGE_NUMBERS.pack(flags, priority, *times, *sizes), raw, content))
    if message.body is not None:
        buffer.put_u32(len(message.body))
        for chunk in message.body:
            buffer.put_longstr(chunk)


def get_message(blob: bytes, start: int, end: int, addresses: AddressBook) -> Message:
    """Unpack the message in blob[start:end]. Raises ValueError when the octets do not add up."""
    if end > len(blob) or end - start < _MESSAGE_FIXED:
        raise ValueError(
            f"packed message of {end - start} octets is shorter than its fixed part of {_MESSAGE_FIXED}"
        )
    data = blob
    if cython.compiled:
        flags, priority = data[start], data[start + 1]
        expiration, timestamp = get_u64(data, start + 2), get_u64(data, start + 10)
        body_size, header_end = get_u64(data, start + 18), get_u32(data, start + 26)
        content_length, address_length = get_u32(data, start + 30), get_u16(data, start + 34)
    else:
        numbers = _unpack_message(blob, start)
        flags, priority, expiration, timestamp, body_size, header_end, content_length, address_length = numbers
    position = start + _MESSAGE_FIXED
    if position + address_length + content_length > end or address_length < 2:
        raise ValueError(f"packed message of {end - start} octets announces {address_length} + {content_length}")
    # Who delivers it patches both frames, and does not look whether they are there.
    is_apart = (flags & _FLAG_SEPARATE_BODY) != 0
    body_frame = 0 if is_apart or body_size == 0 else body_size + _FRAME_OVERHEAD
    if (
        header_end < _LEAST_HEADER
        or header_end + body_frame != content_length
        or (not is_apart and body_size > content_length)
    ):
        raise ValueError(f"content of {content_length} octets has a header of {header_end}, a body of {body_size}")
    raw = addresses.find_in(data, position, position + address_length)
    position += address_length
    content = data[position : position + content_length]
    position += content_length
    body = None
    if is_apart:
        body, position = _get_chunks(blob, position, end)
        if sum([len(chunk) for chunk in body]) != body_size:
            raise ValueError(f"a body of {body_size} octets has chunks of another length")
    return make_message(
        raw,
        content,
        header_end,
        body,
        body_size,
        (flags & _FLAG_PERSISTENT) != 0,
        priority if flags & _FLAG_PRIORITY else -1,
        expiration - 1,
        timestamp,
    )


def _get_chunks(blob: bytes, position: int, end: int) -> tuple[list[bytes], int]:
    """The chunks of a separate body at `position`, and the position behind them."""
    if end - position < 4:
        raise ValueError("packed message ends before its body")
    count = int.from_bytes(blob[position : position + 4], "big")
    position += 4
    chunks = []
    for _ in range(count):
        length = int.from_bytes(blob[position : position + 4], "big")
        position += 4
        if position + length > end:
            raise ValueError(f"body chunk of {length} octets ends beyond the record's end")
        chunks.append(blob[position : position + length])
        position += length
    return chunks, position


def first_record(octets: bytes | memoryview, start: int) -> tuple[int, bytes]:
    """When the first message of a page came, milliseconds since the epoch, and its property section. Of the rest of it
    nothing is read or copied: a list of queues asks each."""
    message = start + 4 + _ENTRY_FIXED
    content = message + _MESSAGE_FIXED + int.from_bytes(octets[message + 34 : message + 36])
    header_end = int.from_bytes(octets[message + 26 : message + 30])
    properties = bytes(octets[content + PROPERTIES_OFFSET : content + header_end - 1])
    return int.from_bytes(octets[message + 10 : message + 18]), properties


class Page:
    """A sealed page. `data` is None while it is only on disk; `location` is None while it is only in RAM.

    Its octets are data[start : start + size], all of `data` but for a page that is just being unpacked.

    count, message_bytes: its messages and the sum of their body sizes; durable_count, durable_bytes: the persistent
    ones among them. first, last: sequences. oldest_segment: the oldest journal segment that one of its messages relies
    on, 0 for none. is_recovered: found at a restart, so that its transient messages are gone. is_named: a journal entry
    names it, so that the journal has to be told before its place is given up. is_repacked: made of messages that came
    back, so that sequences between its first and last may be anywhere else; origin: the stored page on which all of
    them still rely, or None.
    """

    def __init__(self, data: bytes | None, count: int, first: int, last: int, message_bytes: int) -> None:
        self.data = data
        self.start = 0
        self.size = len(data) if data is not None else 0
        self.location: Any = None
        self.count = count
        self.live = count
        self.first = first
        self.last = last
        self.message_bytes = message_bytes
        self.durable_count = 0
        self.durable_bytes = 0
        self.oldest_segment = 0
        self.has_expiring = False
        self.is_recovered = False
        self.is_named = False
        self.is_repacked = False
        self.origin: Page | None = None

    def lie_in(self, start: int, size: int, is_recovered: bool) -> None:
        """Its octets are that part of `data`, as those of the page of which it is a copy."""
        self.start = start
        self.size = size
        self.is_recovered = is_recovered

    def be_named(self) -> None:
        """See is_named: a checkpoint of a log names it, in the journal's place."""
        self.is_named = True

    def entries(self, addresses: AddressBook) -> list[Entry]:
        """Unpack all messages, in order. Raises ValueError when the octets do not add up.

        Of a page that was found at a restart, transient messages are left out.
        """
        blob: Any = self.data
        data = blob
        position = self.start
        limit = position + self.size
        if limit > len(blob):
            raise ValueError(f"page of {len(blob)} octets ends before {limit}")
        found = []
        page = self.origin
        if page is None and self.location is not None:
            page = self
        while position < limit:
            if limit - position < 4 + _ENTRY_FIXED:
                raise ValueError(f"page of {self.size} octets is cut at {position - self.start}")
            if cython.compiled:
                size, sequence = get_u32(data, position), get_u64(data, position + 4)
                expires_at, journal_segment = get_u64(data, position + 12), get_u32(data, position + 20)
                returns, redelivered = get_u16(data, position + 24), data[position + 26]
            else:
                size, sequence, expires_at, journal_segment, returns, redelivered = _unpack_entry(blob, position)
            position += 4
            end = position + size
            if end > limit or size < _ENTRY_FIXED:
                raise ValueError(
                    f"page of {self.size} octets: the record at {position - self.start} announces {size}"
                )
            message = get_message(blob, position + _ENTRY_FIXED, end, addresses)
            if self.is_recovered and not message.is_persistent:
                position = end
                continue
            entry = make_entry(message, sequence, expires_at, journal_segment if page is None else 0)
            entry.returns = returns
            entry.is_redelivered = redelivered != 0
            entry.page = page
            found.append(entry)
            position = end
        return found


class PageBuilder:
    """The open page at a queue's tail."""

    def __init__(self) -> None:
        self.buffer = Buffer(4096)
        self._reset()

    def _reset(self) -> None:
        self.count = 0
        self.first = 0
        self.last = 0
        self.message_bytes = 0
        self.durable_count = 0
        self.durable_bytes = 0
        self.oldest_segment = 0
        self.has_expiring = False

    def octets(self) -> bytes:
        """A copy of what it has so far: a page's octets."""
        return self.buffer.get_bytes(0, self.buffer.length)

    def add(
        self,
        message: Message,
        sequence: int,
        expires_at: int,
        journal_segment: int,
        returns: int,
        is_redelivered: bool,
    ) -> None:
        """Pack one more message behind the others; `sequence` is above all of them."""
        buffer = self.buffer
        start = buffer.length
        returns = min(returns, 65535)
        if cython.compiled:
            buffer.put_u32(0)
            buffer.put_u64(sequence)
            buffer.put_u64(expires_at)
            buffer.put_u32(journal_segment)
            buffer.put_u16(returns)
            buffer.put_u8(is_redelivered)
        else:
            numbers = (0, sequence, expires_at, journal_segment, returns, is_redelivered)
            buffer.put_joined((ENTRY_NUMBERS.pack(*numbers),))
        put_message(buffer, message)
        buffer.set_u32(start, buffer.length - start - 4)
        if self.count == 0:
            self.first = sequence
        self.last = sequence
        self.count += 1
        self.message_bytes += message.body_size
        if message.is_persistent:
            self.durable_count += 1
            self.durable_bytes += message.body_size
        if expires_at:
            self.has_expiring = True
        if journal_segment and (self.oldest_segment == 0 or journal_segment < self.oldest_segment):
            self.oldest_segment = journal_segment

    def seal(self) -> Page:
        """The page so far; the builder is empty afterwards."""
        page = Page(self.buffer.take(), self.count, self.first, self.last, self.message_bytes)
        page.durable_count = self.durable_count
        page.durable_bytes = self.durable_bytes
        page.oldest_segment = self.oldest_segment
        page.has_expiring = self.has_expiring
        self._reset()
        return page
