"""Checksums of many records at once, without the interpreter between them.

A thread that calls zlib for one record after the other waits for the interpreter after each, and whoever runs meanwhile
has to let go of it as often. Compiled, all records of a stretch are checked without it; plain, zlib does the work.

Where the processor multiplies without carries (PCLMULQDQ of x86-64), 64 octets are folded at a time into 16 that have
the same remainder: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel
2009. Tables do what is left, and everything elsewhere.

Invariant: both find the same, the CRC-32 of storage/records.py over a record's header without that field, and its
payload.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

from storage.records import HEADER_BYTES, Fault, check_record, payload_length

_HEADER_BYTES = HEADER_BYTES
#: Octets that are taken in one step of the compiled loop, each by a table of its own.
_STEP = 16
#: So many octets are worth folding, and are the least that can be.
_LEAST_FOLDED = 64


def _tables() -> bytes:
    """CRC-32's table of 256 numbers, and for each further octet of a step the table that is one octet on."""
    first = []
    for octet in range(256):
        crc = octet
        for _ in range(8):
            crc = crc >> 1 ^ 0xEDB88320 if crc & 1 else crc >> 1
        first.append(crc)
    numbers = array("I", first)
    for _ in range(_STEP - 1):
        numbers.extend([crc >> 8 ^ first[crc & 255] for crc in numbers[-256:]])
    return numbers.tobytes()


_TABLES = _tables() if cython.compiled else b""
if cython.compiled:
    _TABLE_OCTETS: Any = _TABLES
    _CAN_FOLD = can_fold()  # type: ignore[name-defined]  # noqa: F821


def first_wrong(data: bytes, count: int) -> int:
    """`data` begins with `count` records, one behind the other. Returns the number, from 0, of the first that is cut or
    whose checksum does not match; -1 if all are whole."""
    if not cython.compiled:
        start = 0
        for number in range(count):
            end = start + HEADER_BYTES + payload_length(data, start)
            if end > len(data) or check_record(data, start, 0) is Fault.CRC:
                return number
            start = end
        return -1
    source: Any = data
    size = len(data)
    position = 0
    number = 0
    with cython.nogil:
        while number < count and position + _HEADER_BYTES <= size:
            end = position + _HEADER_BYTES + _number(source, position)
            if end > size:
                break
            crc = _crc(source, position, position + 4, 0)
            if _crc(source, position + 8, end, crc) != _number(source, position + 4):
                break
            position = end
            number += 1
    return -1 if number == count else number


def _number(source: Any, position: int) -> int:
    """The unsigned 32-bit integer at `position` (little endian, as in every record)."""
    value: int = source[position + 3]
    value = (value << 8) | source[position + 2]
    value = (value << 8) | source[position + 1]
    value = (value << 8) | source[position]
    return value


def _crc(source: Any, position: int, end: int, crc: int) -> int:
    """The CRC-32 of source[position:end], begun with the one of what comes before."""
    rest: Any
    crc = ~crc
    count = end - position
    if _CAN_FOLD and count >= _LEAST_FOLDED:
        count -= count % _STEP
        fold(source + position, count, crc, rest)  # type: ignore[name-defined]  # noqa: F821
        crc = _remainder(rest, 0, _STEP, 0)  # noqa: F821
        position += count
    return ~_remainder(source, position, end, crc)


def _remainder(source: Any, position: int, end: int, crc: int) -> int:
    """The remainder of source[position:end] by the tables, as it is before the last inversion; `crc`: likewise, of what
    comes before."""
    tables: Any = cython.cast("const unsigned int*", _TABLE_OCTETS)
    while end - position >= _STEP:
        first = crc ^ _number(source, position)
        second = _number(source, position + 4)
        third = _number(source, position + 8)
        fourth = _number(source, position + 12)
        crc = tables[15 * 256 + (first & 255)] ^ tables[14 * 256 + (first >> 8 & 255)]
        crc ^= tables[13 * 256 + (first >> 16 & 255)] ^ tables[12 * 256 + (first >> 24)]
        crc ^= tables[11 * 256 + (second & 255)] ^ tables[10 * 256 + (second >> 8 & 255)]
        crc ^= tables[9 * 256 + (second >> 16 & 255)] ^ tables[8 * 256 + (second >> 24)]
        crc ^= tables[7 * 256 + (third & 255)] ^ tables[6 * 256 + (third >> 8 & 255)]
        crc ^= tables[5 * 256 + (third >> 16 & 255)] ^ tables[4 * 256 + (third >> 24)]
        crc ^= tables[3 * 256 + (fourth & 255)] ^ tables[2 * 256 + (fourth >> 8 & 255)]
        crc ^= tables[256 + (fourth >> 16 & 255)] ^ tables[fourth >> 24]
        position += _STEP
    while position < end:
        crc = tables[(crc ^ source[position]) & 255] ^ (crc >> 8)
        position += 1
    return crc
