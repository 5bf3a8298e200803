"""PackedRecords: the octets of a page, to be looked at: which messages it has, and of one of them what is asked for.

A consumer's page is unpacked whole (queues/page.py, which has the format). Who only looks wants a few messages of it,
and of a large one not all octets; so places are found some at a time, and nothing is copied but what is shown.

Invariant: `places` rises, and has the records before `at`, but for those that a restart has undone.
"""

from __future__ import annotations

from queues.page import ENTRY_NUMBERS, MESSAGE_NUMBERS

_LENGTH_BYTES = 4
_PERSISTENT, _SEPARATE_BODY = 1, 2
#: So many records are found in one slice.
_SLICE = 256


class PackedRecords:
    """data[begin:end] is a page. is_recovered: found at a restart, so that its transient messages are gone. at: where
    the next record is looked for; places: sequence and place of each one found."""

    def __init__(self, data: bytes, begin: int, end: int, is_recovered: bool) -> None:
        self.data = data
        self.at = begin
        self.places: list[tuple[int, int]] = []
        self._end = end
        self._is_recovered = is_recovered

    def find_some(self) -> bool:
        """Find the next records. Returns whether there are more. Raises ValueError when the octets do not add up."""
        data, at, end = self.data, self.at, self._end
        if end > len(data):
            raise ValueError(f"a page of {len(data)} octets ends before {end}")
        for _ in range(_SLICE):
            if at >= end:
                break
            if end - at < ENTRY_NUMBERS.size + MESSAGE_NUMBERS.size:
                raise ValueError(f"a page is cut at {at}")
            size, sequence, *_ = ENTRY_NUMBERS.unpack_from(data, at)
            if at + _LENGTH_BYTES + size > end or size < ENTRY_NUMBERS.size + MESSAGE_NUMBERS.size - _LENGTH_BYTES:
                raise ValueError(f"a page's record at {at} announces {size} octets")
            if not self._is_recovered or data[at + ENTRY_NUMBERS.size] & _PERSISTENT:
                self.places.append((sequence, at))
            at += _LENGTH_BYTES + size
        self.at = at
        return at < end

    def entry_at(self, place: int) -> tuple[int, int, bool]:
        """Of the record there: when it expires, how often it came back, whether it is marked as redelivered."""
        _, _, expires_at, _, returns, redelivered = ENTRY_NUMBERS.unpack_from(self.data, place)
        return expires_at, returns, redelivered != 0

    def message_at(self, place: int, body_from: int, body_most: int) -> tuple[bytes, bytes, int, bytes, int]:
        """Of the message there: the address, the property section, the size of its body, so much of the body, and when
        the broker took it. Raises ValueError."""
        data = self.data
        start = place + ENTRY_NUMBERS.size
        numbers = MESSAGE_NUMBERS.unpack_from(data, start)
        flags, _, _, arrived, body_size, header_end, content_bytes, address_bytes = numbers
        start += MESSAGE_NUMBERS.size
        raw = data[start : start + address_bytes]
        start += address_bytes
        properties = data[start + 19 : start + header_end - 1]
        if flags & _SEPARATE_BODY:
            body = self._part_of_chunks(start + content_bytes, body_from, body_most)
        else:
            first = start + header_end + 7 + body_from
            body = data[first : first + max(0, min(body_most, body_size - body_from))]
        return raw, properties, body_size, body, arrived

    def _part_of_chunks(self, at: int, body_from: int, body_most: int) -> bytes:
        count = int.from_bytes(self.data[at : at + 4], "big")
        at += 4
        parts = []
        for _ in range(count):
            length = int.from_bytes(self.data[at : at + 4], "big")
            at += 4
            if body_from < length and body_most > 0:
                part = self.data[at + body_from : at + min(length, body_from + body_most)]
                parts.append(part)
                body_most -= len(part)
            body_from = max(0, body_from - length)
            at += length
            if body_most <= 0:
                break
        return b"".join(parts)
