"""The record header and its fixed payloads, declared with construct: the source of truth of storage/records.py."""

from __future__ import annotations

from construct import Bytes, Const, Enum, Int8ub, Int8ul, Int16ul, Int32ub, Int32ul, Int64ul, Struct, this

RECORD_KIND = Enum(Int8ul, SEGMENT=0, BATCH=1, GAP=2, PAGE=3, PACKED_PAGE=4)

RECORD_HEADER = Struct(
    "length" / Int32ul,
    "crc" / Int32ul,
    "version" / Const(1, Int8ul),
    "kind" / RECORD_KIND,
    "reserved" / Const(0, Int16ul),
    "context" / Int32ul,
    "position" / Int64ul,
)

SEGMENT_PAYLOAD = Struct("number" / Int64ul, "start_position" / Int64ul)

GAP_PAYLOAD = Struct("next_position" / Int64ul)

# A BATCH payload is a sequence of entries, which are written with octets.Buffer and so big endian.
ENTRY = Struct("kind" / Int8ub, "length" / Int32ub, "payload" / Bytes(this.length))
