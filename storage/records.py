"""The record: the one envelope of everything that storage puts on a disk.

A record is a header of 24 octets, little endian, and its payload:

    u32 length     of the payload
    u32 crc        CRC-32 (zlib's) over the header without this field, then the payload
    u8  version    1
    u8  kind       RecordKind
    u16 reserved   0
    u32 context    BATCH: octets from where its batch begins in the file to here; PAGE: queue id modulo 2**32
    u64 position   where the record starts in its log, so that a stale or misplaced one is known as such

What a payload means is its owner's business.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, NamedTuple

import cython

from amqp_broker.octets.checksum import crc32

Octets = bytes | bytearray | memoryview

VERSION = 1
_HEADER = struct.Struct("<IIBBHIQ")
_SUMMED = struct.Struct("<IBBHIQ")  # of a header, what its checksum is over
_TWO_INTEGERS = struct.Struct("<QQ")
_ONE_INTEGER = struct.Struct("<Q")
HEADER_BYTES = _HEADER.size
# As C has them.
_VERSION, _HEADER_BYTES = VERSION, HEADER_BYTES


class RecordKind(enum.IntEnum):
    """What a record holds."""

    SEGMENT = 0  # first in a journal segment: its number, and the position of what follows
    BATCH = 1  # entries of the journal
    GAP = 2  # stands for a damaged part that was set aside: the position after it
    PAGE = 3  # a queue's page
    PACKED_PAGE = 4  # a page of a stream, compressed (packed_page.py)


KINDS = tuple(int(kind) for kind in RecordKind)
#: Those that are in page files.
PAGE_KINDS = (RecordKind.PAGE, RecordKind.PACKED_PAGE)


class Fault(enum.Enum):
    """Why octets are not a record."""

    SHORT_HEADER = "the file ends inside a record header"
    SHORT_PAYLOAD = "the file ends inside the record"
    CRC = "the checksum does not match"
    VERSION = "the record has a version that this program does not know"
    KIND = "the record is of a kind that this program does not know"
    MISPLACED = "an intact record that belongs to another place"


class Record(NamedTuple):
    """A checked record at `offset` of its file. Its payload is the octets start..start + length of `data`."""

    kind: int
    context: int
    position: int
    data: bytes
    start: int
    length: int
    offset: int

    @property
    def payload(self) -> memoryview:
        return memoryview(self.data)[self.start : self.start + self.length]

    @property
    def end(self) -> int:
        """The offset in its file at which the next record begins."""
        return self.offset + HEADER_BYTES + self.length


def pack_header(kind: int, context: int, position: int, payload: Octets) -> bytes:
    """The 24 octets that go before `payload`."""
    length = len(payload)
    crc: int
    if cython.compiled:
        octets: Any
        fill_header(octets, length, _VERSION, kind, context, position)  # type: ignore[name-defined]  # noqa: F821
        summed = octets[4:_HEADER_BYTES]  # noqa: F821
        crc = crc32(payload, crc32(summed))
        place_checksum(octets, crc)  # type: ignore[name-defined]  # noqa: F821
        header: bytes = octets[:_HEADER_BYTES]  # noqa: F821
        return header
    else:
        summed = _SUMMED.pack(length, VERSION, kind, 0, context, position)
        crc = crc32(payload, crc32(summed))
        return summed[:4] + crc.to_bytes(4, "little") + summed[4:]


def payload_length(data: bytes, start: int) -> int:
    """The length that the header at `start` of `data` states, unchecked."""
    return int.from_bytes(data[start : start + 4], "little")


def position_of(data: bytes, start: int) -> int:
    """The position that the header at `start` of `data` states, unchecked."""
    return int.from_bytes(data[start + 16 : start + 24], "little")


def check_record(data: bytes, start: int, offset: int) -> Record | Fault:
    """The record whose header begins at `start` of `data` and whose whole payload is there; `offset` is in
    its file.

    A record whose checksum holds but whose version or kind is unknown is not torn: a newer program wrote it.
    """
    length = payload_length(data, start)
    payload = memoryview(data)[start + HEADER_BYTES : start + HEADER_BYTES + length]
    found = check_parts(data[start : start + HEADER_BYTES], payload)
    return found if isinstance(found, Fault) else Record(*found, data, start + HEADER_BYTES, length, offset)


def check_parts(header: bytes, payload: Octets) -> tuple[int, int, int] | Fault:
    """Kind, context and position of a record whose header and payload are not in one piece; see `check_record`."""
    crc = int.from_bytes(header[4:8], "little")
    if crc != crc32(payload, crc32(header[8:], crc32(header[:4]))):
        return Fault.CRC
    return check_header(header)


def check_header(header: bytes) -> tuple[int, int, int] | Fault:
    """Kind, context and position of a record whose checksum holds."""
    _, _, version, kind, _, context, position = _HEADER.unpack(header)
    if version != VERSION:
        return Fault.VERSION
    if kind not in KINDS:
        return Fault.KIND
    return kind, context, position


def pack_segment(number: int, start_position: int) -> bytes:
    """The record that every journal segment begins with."""
    payload = _TWO_INTEGERS.pack(number, start_position)
    return pack_header(RecordKind.SEGMENT, 0, start_position, payload) + payload


SEGMENT_BYTES = len(pack_segment(1, 0))


def unpack_segment(payload: memoryview) -> tuple[int, int]:
    """(segment number, start position) of a SEGMENT record. Raises ValueError when the payload has another
    size.
    """
    if len(payload) != _TWO_INTEGERS.size:
        raise ValueError(f"a segment head of {len(payload)} octets instead of {_TWO_INTEGERS.size}")
    number, start_position = _TWO_INTEGERS.unpack(payload)
    return number, start_position


def pack_gap(position: int, next_position: int) -> bytes:
    """The record that stands for a damaged part which covered position..next_position."""
    payload = _ONE_INTEGER.pack(next_position)
    return pack_header(RecordKind.GAP, 0, position, payload) + payload


def unpack_gap(payload: memoryview) -> int:
    """The position at which a log goes on after a GAP record. Raises ValueError when the payload has another
    size.
    """
    if len(payload) != _ONE_INTEGER.size:
        raise ValueError(f"a gap of {len(payload)} octets instead of {_ONE_INTEGER.size}")
    (next_position,) = _ONE_INTEGER.unpack(payload)
    return int(next_position)
