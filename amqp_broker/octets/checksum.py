"""CRC-32 as zlib has it (polynomial 0xEDB88320): of records on the disk, of chunks of streams, of values to filter by.

zlib takes four instructions for an octet, which is a quarter of what it costs to store a message. zlib-ng has the same
sum from the processor's carry-less multiplication, five times as fast; where it is not installed zlib has to do.
"""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
