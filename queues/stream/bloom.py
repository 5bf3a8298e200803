"""Bloom filters of a chunk's filter values: whether one of them may be in it, so that readers skip what is not theirs.

A value's two positions follow from its 32-bit hash (record.py keeps that hash), so a filter can be made anew from the
records. What a filter lets through is compared by hash and by octets: it only saves work.
"""

from __future__ import annotations

from collections.abc import Iterable

_ODD = 0x9E3779B1


class Bloom:
    """`octets` of a filter; b"" lets everything through."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    @classmethod
    def of(cls, hashes: Iterable[int], size: int) -> Bloom:
        """The filter of these values, `size` octets long."""
        bits = bytearray(size)
        for value in hashes:
            for place in _places(value, size):
                bits[place >> 3] |= 1 << (place & 7)
        return cls(bytes(bits))

    def may_have(self, value: int) -> bool:
        """Whether a value of this hash may be in the chunk."""
        octets = self.octets
        return not octets or all(octets[place >> 3] >> (place & 7) & 1 for place in _places(value, len(octets)))


def _places(value: int, size: int) -> tuple[int, int]:
    bits = 8 * size
    return value % bits, (value * _ODD & 0xFFFFFFFF) % bits
