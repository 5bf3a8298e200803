"""Entries: what a BATCH record is made of. Each is a kind (0 to 255), a length (32 bits, big endian) and
octets.

It knows nothing of what an entry means. A million of them are read when a full node starts, hence the
compiled twin.
"""

from __future__ import annotations

ENTRY_HEADER_BYTES = 5


def entries_of(segment: int, data: bytes, start: int, end: int) -> list[tuple[int, int, memoryview]]:
    """(segment, kind, payload) of every entry in the octets start..end of `data`, which are the payload of a
    record.

    The payloads are views of `data`. Raises ValueError when the entries do not fill the record exactly.
    """
    entries = []
    octets = memoryview(data)
    position = start
    while position < end:
        if end - position < ENTRY_HEADER_BYTES:
            raise ValueError(f"the record ends inside the header of an entry, at octet {position - start}")
        kind = data[position]
        length = data[position + 1]
        length = length << 8 | data[position + 2]
        length = length << 8 | data[position + 3]
        length = length << 8 | data[position + 4]
        position += ENTRY_HEADER_BYTES
        if end - position < length:
            raise ValueError(f"the record ends inside an entry of {length} octets, at {position - start}")
        entries.append((segment, kind, octets[position : position + length]))
        position += length
    return entries
