"""Reader: takes fields off a run of octets, strictly. Numbers are big endian.

Everything that does not add up raises Malformed, nothing else: a short field, octets left over, a number that is out
of its range.
"""

from __future__ import annotations

import struct

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">L")
_U64 = struct.Struct(">Q")
_I32 = struct.Struct(">l")

U64_MAX = (1 << 64) - 1


class Malformed(ValueError):
    """Octets that are not what they are said to be."""


class Reader:
    """The octets data[position:end]; `what` names them in errors."""

    def __init__(self, data: bytes, what: str, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self._what = what

    def fail(self, reason: str) -> Malformed:
        """The error, to be raised."""
        return Malformed(f"{self._what}, octet {self.position} of {self.end}: {reason}")

    def skip(self, count: int) -> int:
        """Pass `count` octets. Returns where they begin."""
        start = self.position
        if count > self.end - start:
            raise self.fail(f"{count} octets are announced, {self.end - start} are left")
        self.position = start + count
        return start

    def u8(self) -> int:
        return self.data[self.skip(1)]

    def u16(self) -> int:
        return int(_U16.unpack_from(self.data, self.skip(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack_from(self.data, self.skip(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack_from(self.data, self.skip(8))[0])

    def i32(self) -> int:
        return int(_I32.unpack_from(self.data, self.skip(4))[0])

    def flags(self, known: int) -> int:
        """An octet in which only the bits of `known` may be set."""
        value = self.u8()
        if value & ~known:
            raise self.fail(f"flags {value:#x}, known are {known:#x}")
        return value

    def octets(self, count: int) -> bytes:
        start = self.skip(count)
        return self.data[start : self.position]

    def rest(self) -> bytes:
        return self.octets(self.end - self.position)

    def short(self) -> bytes:
        """One octet of length, and so many octets."""
        return self.octets(self.u8())

    def name(self) -> str:
        """A short string as text."""
        return self.short().decode("utf-8", "surrogateescape")

    def count(self, octets_each: int) -> int:
        """A u32 count of things that take at least `octets_each` each: what cannot be there is refused at once."""
        count = self.u32()
        if count * octets_each > self.end - self.position:
            raise self.fail(f"{count} times {octets_each} octets are announced, {self.end - self.position} are left")
        return count

    def finish(self) -> None:
        """There must be nothing left."""
        if self.position != self.end:
            raise self.fail(f"{self.end - self.position} octets too many")


def octets_of(name: str) -> bytes:
    """A name's octets on the wire."""
    return name.encode("utf-8", "surrogateescape")
