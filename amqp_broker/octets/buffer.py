"""Buffer: a growable byte writer, big endian, the one place where octets are put together.

Frames, journal entries and queue pages are all written through it. It knows nothing of what the octets mean.

This is a leaf that every package may import. Its methods have two bodies: compiled, they are pointer writes into a
bytearray that is larger than its contents; plain, they extend a bytearray. Above it there is hardly ever more than one
(docs/decisions/0002-one-source.md).

Invariants:
1. `length` octets are valid; what lies behind them is undefined.
2. A position that was handed out stays valid until `clear`, `take` or `drop_front`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, TypeAlias

import cython

if cython.compiled:  # pragma: no cover
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize
    from cython.cimports.libc.string import memcpy, memmove

Pointer: TypeAlias = Any  # pointer: an address in memory when compiled, and octets when not
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">L")
_U64 = struct.Struct(">Q")
_unpack_u16 = _U16.unpack_from
_unpack_u32 = _U32.unpack_from
_unpack_u64 = _U64.unpack_from


def get_u16(data: bytes, position: int) -> int:
    """The unsigned 16-bit integer at `position` (big endian). The caller has checked that two octets are there."""
    if cython.compiled:
        return (data[position] << 8) | data[position + 1]
    else:
        return int(_unpack_u16(data, position)[0])


def get_u32(data: bytes, position: int) -> int:
    """The unsigned 32-bit integer at `position` (big endian). The caller has checked that four octets are there."""
    if cython.compiled:
        value = data[position]
        value = (value << 8) | data[position + 1]
        value = (value << 8) | data[position + 2]
        return (value << 8) | data[position + 3]
    else:
        return int(_unpack_u32(data, position)[0])


def get_u64(data: bytes, position: int) -> int:
    """The unsigned 64-bit integer at `position` (big endian). The caller has checked that eight octets are there."""
    if cython.compiled:
        high = get_u32(data, position)
        return (high << 32) | get_u32(data, position + 4)
    else:
        return int(_unpack_u64(data, position)[0])


class Buffer:
    """A growable byte writer. `data` holds the octets (and, compiled, spare room behind them), `length` counts them."""

    def __init__(self, capacity: int = 256) -> None:
        if cython.compiled:
            # Not `bytearray(capacity)`, which writes zeros.
            self.data = PyByteArray_FromStringAndSize(cython.NULL, capacity)
            self.capacity = capacity
        else:
            self.data = bytearray()
            self.capacity = 0
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def reserve(self, count: int) -> None:
        """Make room for `count` more octets."""
        if cython.compiled and self.length + count > self.capacity:
            capacity = max(2 * self.capacity, self.length + count)
            PyByteArray_Resize(self.data, capacity)
            self.capacity = capacity

    def put_u8(self, value: int) -> None:
        if cython.compiled:
            self.reserve(1)
            target = self.data
            target[self.length] = value
        else:
            self.data.append(value)
        self.length += 1

    def put_u16(self, value: int) -> None:
        if cython.compiled:
            self.reserve(2)
            target = self.data
            position = self.length
            target[position] = (value >> 8) & 255
            target[position + 1] = value & 255
        else:
            self.data += _U16.pack(value)
        self.length += 2

    def put_u32(self, value: int) -> None:
        if cython.compiled:
            self.reserve(4)
            self.set_u32(self.length, value)
        else:
            self.data += _U32.pack(value)
        self.length += 4

    def put_u64(self, value: int) -> None:
        if cython.compiled:
            self.reserve(8)
            # The parameter's C type cuts what is above 32 bits.
            self.set_u32(self.length, value >> 32)
            self.set_u32(self.length + 4, value)
        else:
            self.data += _U64.pack(value)
        self.length += 8

    def set_u16(self, position: int, value: int) -> None:
        """Overwrite two octets at `position`, which have been put before."""
        if cython.compiled:
            target = self.data
            target[position] = (value >> 8) & 255
            target[position + 1] = value & 255
        else:
            _U16.pack_into(self.data, position, value)

    def set_u32(self, position: int, value: int) -> None:
        """Overwrite four octets at `position`, which have been put before."""
        if cython.compiled:
            target = self.data
            target[position] = (value >> 24) & 255
            target[position + 1] = (value >> 16) & 255
            target[position + 2] = (value >> 8) & 255
            target[position + 3] = value & 255
        else:
            _U32.pack_into(self.data, position, value)

    def put_bytes(self, value: bytes) -> None:
        """Append a bytes object."""
        if cython.compiled:
            count = len(value)
            self.reserve(count)
            target: Pointer = self.data
            source = value
            memcpy(target + self.length, source, count)
            self.length += count
        else:
            self.data += value
            self.length = len(self.data)

    def put_range(self, source: bytes, start: int, end: int) -> None:
        """Append source[start:end]; compiled, `source` is a pointer, so the caller answers for the bounds."""
        if cython.compiled:
            self.reserve(end - start)
            target: Pointer = self.data
            memcpy(target + self.length, source + start, end - start)  # type: ignore[operator]  # pointers
            self.length += end - start
        else:
            self.data += source[start:end]
            self.length = len(self.data)

    def put_joined(self, pieces: Iterable[bytes]) -> int:
        """Append all pieces. Returns the new length. It is for plain code, to which each call is dear."""
        joined = b"".join(pieces)
        if cython.compiled:
            self.put_bytes(joined)
        else:
            self.data += joined
            self.length = len(self.data)
        return self.length

    def put_framed(self, head: bytes, head_size: int, number: int, flag: int, tail: bytes, rest: bytes) -> int:
        """Append a frame (AMQP 0-9-1 §4.2.3) of head[:head_size] (compiled, `head` is a pointer), a u64, an octet and
        tail, with its size, which is open in `head`, and its end; then the rest. Returns where the rest begins. One
        call for what each delivery is."""
        if not cython.compiled:
            head = head[:head_size]
            size = len(head) + len(tail) + 2
            end = self.put_joined((head[:3], _U32.pack(size), head[7:], _U64.pack(number), b"\1" if flag else b"\0"))
            end = self.put_joined((tail, b"\xce", rest))
            return end - len(rest)
        start = self.length
        position = start + head_size
        self.reserve(head_size + 10 + len(tail) + len(rest))
        target: Pointer = self.data
        memcpy(target + start, head, head_size)
        self.set_u32(position, number >> 32)
        self.set_u32(position + 4, number)
        target[position + 8] = flag
        position += 9
        source: Pointer = tail
        memcpy(target + position, source, len(tail))
        position += len(tail)
        target[position] = 0xCE
        position += 1
        self.set_u32(start + 3, position - start - 8)
        source = rest
        memcpy(target + position, source, len(rest))
        self.length = position + len(rest)
        return position

    def put_shortstr(self, value: bytes) -> None:
        """Append a short string (AMQP 0-9-1 §4.2.5.3): one octet of length, at most 255 octets."""
        if len(value) > 255:
            raise ValueError(f"short string of {len(value)} octets: at most 255 fit; shorten the name")
        self.put_u8(len(value))
        self.put_bytes(value)

    def put_longstr(self, value: bytes) -> None:
        """Append a long string (AMQP 0-9-1 §4.2.5.3): four octets of length."""
        self.put_u32(len(value))
        self.put_bytes(value)

    def get_bytes(self, start: int, end: int) -> bytes:
        """A copy of the octets start..end, which have been put before."""
        if start < 0 or end > self.length or start > end:
            raise IndexError(f"octets {start}..{end} of a buffer that holds {self.length}")
        return bytes(memoryview(self.data)[start:end])

    def view(self) -> memoryview:
        """The contents without a copy. Release it before the next put: a bytearray with a view cannot grow."""
        return memoryview(self.data)[: self.length]

    def take(self) -> bytes:
        """A copy of the contents; the buffer is empty afterwards and keeps its room."""
        if cython.compiled:
            source: Pointer = self.data
            contents: bytes = source[: self.length]
        else:
            contents = bytes(self.data)
            self.data.clear()
        self.length = 0
        return contents

    def clear(self) -> None:
        if not cython.compiled:
            self.data.clear()
        self.length = 0

    def cut(self, length: int) -> None:
        """Forget all but the first `length` octets."""
        if length > self.length:
            raise IndexError(f"cannot cut {self.length} octets to {length}")
        if not cython.compiled:
            del self.data[length:]
        self.length = length

    def drop_front(self, count: int) -> None:
        """Forget the first `count` octets."""
        if count > self.length:
            raise IndexError(f"cannot drop {count} of {self.length} octets")
        if cython.compiled:
            target: Pointer = self.data
            memmove(target, target + count, self.length - count)
        else:
            del self.data[:count]
        self.length -= count
