"""Packed pages: what a PACKED_PAGE record has in place of a page.

    u8 way (1: zlib); u32 octets of the page; the page, compressed

The record's checksum is over what is stored, as of any record. It only computes: from any thread, and zlib lets go of
the interpreter meanwhile.
"""

from __future__ import annotations

import struct
import zlib

_ZLIB = 1
_HEAD = struct.Struct(">BL")
#: zlib's quickest: what slower ones save more is not worth two or three times the processor (decision record 0043).
_LEVEL = 1
#: A page is packed if at most this part of it is left: else it costs its readers more than the disk gains.
_WORTH = (7, 8)


def pack(page: bytes) -> bytes:
    """The page as it is stored; b"" where that does not pay."""
    packed = zlib.compress(page, _LEVEL)
    most, of = _WORTH
    return _HEAD.pack(_ZLIB, len(page)) + packed if of * (_HEAD.size + len(packed)) <= most * len(page) else b""


def unpack(payload: bytes, size: int) -> bytes:
    """The page, of so many octets: no room is made for more. Raises ValueError for what `pack` has not made of one."""
    if len(payload) < _HEAD.size:
        raise ValueError(f"a packed page of {len(payload)} octets has no head")
    way, length = _HEAD.unpack_from(payload)
    if way != _ZLIB:
        raise ValueError(f"a page is packed in way {way}, which this program does not know: update it")
    if length != size:
        raise ValueError(f"a packed page of {length} octets, and {size} were packed there")
    unpacking = zlib.decompressobj()
    try:
        page = unpacking.decompress(memoryview(payload)[_HEAD.size :], length + 1)
    except zlib.error as error:
        raise ValueError(f"a packed page cannot be unpacked: {error}") from None
    if len(page) != length or not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"a packed page of {length} octets is one of {len(page)}, or ends elsewhere")
    return page
