"""Reader: takes fields off a run of octets, strictly. Numbers are big endian.

Everything that does not add up raises Malformed, nothing else: a short field, octets left over, a number that is out
of its range.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

U64_MAX = (1 << 64) - 1
I64_MAX = (1 << 63) - 1


class Malformed(ValueError):
    """Octets that are not what they are said to be."""


class Reader:
    """The octets data[position:end]; `what`, and `kind` if it is not negative, name them in errors."""

    def __init__(self, data: bytes, what: str, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self.kind = -1
        self._what = what

    def enter(self, whole: Reader) -> int:
        """Go on with the next thing of another reader of these octets: u8 kind, u32 length, so many octets. Returns its
        kind."""
        kind = whole.u8()
        length = whole.u32()
        start = whole.skip(length)
        self.kind = kind
        self.position = start
        self.end = start + length
        return kind

    def fail(self, reason: str) -> Malformed:
        """The error, to be raised."""
        what = self._what if self.kind < 0 else f"{self._what} {self.kind}"
        return Malformed(f"{what}, octet {self.position} of {self.end}: {reason}")

    def skip(self, count: int) -> int:
        """Pass `count` octets. Returns where they begin."""
        start = self.position
        if count > self.end - start:
            raise self.fail(f"{count} octets are announced, {self.end - start} are left")
        self.position = start + count
        return start

    def u8(self) -> int:
        start = self.skip(1)
        data = self.data
        return data[start]

    def u16(self) -> int:
        start = self.skip(2)
        return get_u16(self.data, start)

    def u32(self) -> int:
        start = self.skip(4)
        return get_u32(self.data, start)

    def u64(self) -> int:
        start = self.skip(8)
        return get_u64(self.data, start)

    def i32(self) -> int:
        value = self.u32()
        return value - (1 << 32) if value >= 1 << 31 else value

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
        length = self.u8()
        return self.octets(length) if length else b""

    def name(self) -> str:
        """A short string as text."""
        return self.short().decode("utf-8", "surrogateescape")

    def count(self, octets_each: int) -> int:
        """A u32 count of things that take at least `octets_each` each: what cannot be there is refused at once."""
        count = self.u32()
        if count * octets_each > self.end - self.position:
            raise self.fail(f"{count} times {octets_each} octets are announced, {self.end - self.position} are left")
        return count

    def check_version(self, known: int) -> None:
        """An octet, which must be this version."""
        version = self.u8()
        if version != known:
            raise self.fail(f"version {version}; this program reads version {known}: update it")

    def finish(self) -> None:
        """There must be nothing left."""
        if self.position != self.end:
            raise self.fail(f"{self.end - self.position} octets too many")


def open_frame(data: bytes, what: str, version: int) -> Reader:
    """Of a frame that begins with its version: what is behind that. Raises Malformed where it is another one."""
    reader = Reader(data, what)
    reader.check_version(version)
    return reader


def octets_of(name: str) -> bytes:
    """A name's octets on the wire."""
    return name.encode("utf-8", "surrogateescape")
