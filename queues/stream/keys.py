"""Keys: what of a message says whose value it is, in a stream that is compacted.

    routing-key     with which it was published
    message-id      the property
    header:NAME     the header of this name, a string, or any value by its kind and octets

A message without one, or with an empty one, has no key: nothing supersedes it.
"""

from __future__ import annotations

from collections.abc import Callable

from queues.stream.record import APART, RECORD_FIXED, body_size_of
from queues.stream.records import routing_key_of

#: What finds the key of the record at a place in some octets; b"" where it has none.
KeyOf = Callable[[bytes, int], bytes]

ROUTING_KEY = "routing-key"
MESSAGE_ID = "message-id"
HEADER = "header:"
#: Octets of the name of a header.
_MOST_NAME = 200

#: Of a content header frame: where its flags are, and the properties behind them.
_FLAGS_AT, _PROPERTIES_AT = 19, 21
#: Flags of properties in their order: short strings, but for headers, and those of one octet.
_HEADERS, _MESSAGE_ID = 0x2000, 0x0080
_BEFORE_ID = (
    (0x8000, "s"), (0x4000, "s"), (_HEADERS, "t"), (0x1000, "o"), (0x0800, "o"), (0x0400, "s"), (0x0200, "s"),
    (0x0100, "s"),
)  # fmt: skip
#: Octets of values of a table, by their kinds; those of _LONG say themselves how long they are.
_SIZES = {
    **dict.fromkeys(b"V", 0), **dict.fromkeys(b"tbB", 1), **dict.fromkeys(b"su", 2), **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"D", 5), **dict.fromkeys(b"lLdT", 8),
}  # fmt: skip
_LONG = frozenset(b"SxAF")
_STRINGS = frozenset(b"Sx")


def is_key(text: str) -> bool:
    """Whether this is what a stream can be compacted by."""
    if text.startswith(HEADER):
        return 0 < len(text.removeprefix(HEADER).encode("utf-8", "surrogateescape")) <= _MOST_NAME
    return text in (ROUTING_KEY, MESSAGE_ID)


def find_key(text: str) -> KeyOf:
    """What finds keys of this sort."""
    if text == ROUTING_KEY:
        return routing_key_of
    if text == MESSAGE_ID:
        return _message_id_of
    name = text.removeprefix(HEADER).encode("utf-8", "surrogateescape")
    return lambda octets, at: _header_of(octets, at, name)


def is_empty(octets: bytes, at: int) -> bool:
    """Whether the message in the record at `at` has no body: with a key it is a tombstone."""
    return not octets[at + 16] & APART and body_size_of(octets, at) == 0


def _content_of(octets: bytes, at: int) -> int:
    return at + RECORD_FIXED + int.from_bytes(octets[at + 19 : at + 21], "big") + 1


def _message_id_of(octets: bytes, at: int) -> bytes:
    content = _content_of(octets, at)
    flags = int.from_bytes(octets[content + _FLAGS_AT : content + _PROPERTIES_AT], "big")
    if not flags & _MESSAGE_ID:
        return b""
    place = content + _PROPERTIES_AT
    for flag, form in _BEFORE_ID:
        if flags & flag:
            place += _size_at(octets, place, form)
    return octets[place + 1 : place + 1 + octets[place]]


def _size_at(octets: bytes, place: int, form: str) -> int:
    if form == "o":
        return 1
    return 1 + octets[place] if form == "s" else 4 + int.from_bytes(octets[place : place + 4], "big")


def _header_of(octets: bytes, at: int, name: bytes) -> bytes:
    content = _content_of(octets, at)
    flags = int.from_bytes(octets[content + _FLAGS_AT : content + _PROPERTIES_AT], "big")
    if not flags & _HEADERS:
        return b""
    place = content + _PROPERTIES_AT
    for flag, form in _BEFORE_ID[:2]:
        if flags & flag:
            place += _size_at(octets, place, form)
    end = place + 4 + int.from_bytes(octets[place : place + 4], "big")
    place += 4
    while place < end:
        value = place + 1 + octets[place]
        if value >= end:
            return b""  # a table that is not one: nobody has looked into it before
        field, kind = octets[place + 1 : value], octets[value]
        size = _SIZES.get(kind)
        if size is None:
            if kind not in _LONG:
                return b""  # of a kind that nobody knows: what follows cannot be found
            size = 4 + int.from_bytes(octets[value + 1 : value + 5], "big")
        place = value + 1 + size
        if place > end:
            return b""
        if field == name:
            return octets[value + 5 : place] if kind in _STRINGS else octets[value:place]
    return b""
