"""OctetIndex: numbers for short octet strings, found by octets that stand somewhere in a longer one.

A publish is routed by the octets of its exchange and routing key. Looked up in a dict they would first become an
object, and with a hundred thousand keys nearly every look-up would wait for memory several times. Compiled, this is a
table of four octets a key, open addressing, in which eight bits of the hash stand beside the number: it is small enough
for a processor's cache, and of the keys that are not the one hardly any is looked at. The hash is two multiplications
for up to 16 octets, keyed by two words of CPython's own keyed hash: who does not know them cannot choose keys that
collide (docs/decisions/0018-routes-by-octets.md).

Like buffer.py it has a second body for plain code, which is a dict (docs/decisions/0002-one-source.md).

Invariants:
1. keys[number] is what `number` was given out for; numbers count from 0.
2. At most four fifths of the slots are taken: those that a search goes through stand side by side, and a small table
   stays in the cache. A slot is 0, or the upper 8 bits of a hash and the number plus 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from amqp_broker.octets.buffer import Pointer

if cython.compiled:  # pragma: no cover
    from cython.cimports.libc.string import memcmp

#: A slot has room for so many numbers.
MOST_KEYS = (1 << 24) - 2
_MOST_KEYS = MOST_KEYS
_FIRST_SLOTS = 64
_NUMBER = 0xFFFFFF
_WORD = 2**64 - 1


def is_same(octets: bytes, data: bytes, start: int, end: int) -> bool:
    """Whether data[start:end] is `octets`; compiled, `data` is a pointer, so the caller answers for the bounds."""
    if not cython.compiled:
        return octets == data[start:end]
    known: Pointer = octets
    return len(octets) == end - start and memcmp(known, data + start, end - start) == 0  # type: ignore[operator]


class OctetIndex:
    """`keys`: every string that has a number, in that order."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._memory = bytearray(4 * _FIRST_SLOTS if cython.compiled else 0)
        self._mask = _FIRST_SLOTS - 1
        # Of CPython's own hash, whose key nobody knows.
        self._one = hash(b"one") & _WORD | 1
        self._other = hash(b"other") & _WORD

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, data: bytes, start: int, end: int) -> int:
        """The number of data[start:end], or -1; compiled, `data` is a pointer, so the caller answers for the bounds."""
        if not cython.compiled:
            return self._numbers.get(data[start:end], -1)
        memory: Pointer = self._memory
        slots = cython.cast(cython.p_uint, memory)
        begin: Pointer = data
        begin += start
        count = end - start
        hashed = octets_hash(begin, count, self._one, self._other)  # type: ignore[name-defined]  # noqa: F821
        place = hashed & self._mask
        slot = slots[place]
        while slot:
            if slot >> 24 == hashed >> 56:
                key = item_of(self.keys, (slot & _NUMBER) - 1)  # type: ignore[name-defined]  # noqa: F821
                if size_of(key) == count and memcmp(octets_of(key), begin, count) == 0:  # type: ignore[name-defined]  # noqa: F821
                    number: int = (slot & _NUMBER) - 1
                    return number
            place = (place + 1) & self._mask
            slot = slots[place]
        return -1

    def add(self, key: bytes) -> int:
        """Give a string that has no number one. Raises OverflowError beyond MOST_KEYS."""
        number = len(self.keys)
        if number >= _MOST_KEYS:
            raise OverflowError(f"an index of {number} strings is full: clear it")
        if cython.compiled and 5 * number > 4 * self._mask:
            self._grow()
        self.keys.append(key)
        if cython.compiled:
            self._put(number)
        else:
            self._numbers[key] = number
        return number

    def clear(self) -> None:
        """Forget all strings and their numbers."""
        if cython.compiled:
            # First of all: slots never name a key that is not there, whatever there is no memory for.
            self._memory = bytearray(4 * _FIRST_SLOTS)
            self._mask = _FIRST_SLOTS - 1
        self.keys.clear()
        self._numbers.clear()

    def _grow(self) -> None:
        """Twice as many slots. Where there is no memory for them, nothing changes."""
        count = 2 * (self._mask + 1)
        self._memory = bytearray(4 * count)
        self._mask = count - 1
        for number in range(len(self.keys)):
            self._put(number)

    def _put(self, number: int) -> None:
        """Give a key its slot."""
        memory: Pointer = self._memory
        slots = cython.cast(cython.p_uint, memory)
        octets: Pointer = self.keys[number]
        hashed = octets_hash(octets, len(self.keys[number]), self._one, self._other)  # type: ignore[name-defined]  # noqa: F821
        place = hashed & self._mask
        while slots[place]:
            place = (place + 1) & self._mask
        slots[place] = (hashed >> 56 << 24) | (number + 1)
