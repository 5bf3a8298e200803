"""The server name in the first record of TLS that a client says (RFC 8446, section 4.1.2, and RFC 6066, section 3).

Nothing else of it is looked at: whoever gets the octets reads them as TLS does.
"""

from __future__ import annotations

from typing import Final

#: A record of a handshake.
RECORD: Final = b"\x16"
_HEAD_BYTES: Final = 5
#: No record is longer, its head included.
LONGEST: Final = _HEAD_BYTES + 16 * 1024
_CLIENT_HELLO: Final = 1
_VERSION_AND_RANDOM_BYTES: Final = 34
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0


class _Short(Exception):
    """It ends before it should."""


class _Reader:
    """Fields from the front."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._octets)

    def take(self, count: int) -> bytes:
        """So many octets. Raises _Short."""
        taken = self._octets[self._at : self._at + count]
        if len(taken) < count:
            raise _Short
        self._at += count
        return taken

    def number(self, count: int) -> int:
        """An integer of so many octets. Raises _Short."""
        return int.from_bytes(self.take(count), "big")

    def vector(self, count: int) -> bytes:
        """Octets behind their number, which has so many octets. Raises _Short."""
        return self.take(self.number(count))


def server_name_in(octets: bytes) -> str | None:
    """The host name that a client looks for; "" where it names none, or says something else. None: the record is not
    whole yet."""
    if len(octets) < _HEAD_BYTES:
        return None
    length = int.from_bytes(octets[3:_HEAD_BYTES], "big")
    record = octets[_HEAD_BYTES : _HEAD_BYTES + length]
    if len(record) < length:
        return None if _HEAD_BYTES + length <= LONGEST else ""
    try:
        return _name_in(record)
    except (_Short, UnicodeDecodeError):
        return ""


def _name_in(record: bytes) -> str:
    message = _Reader(record)
    if message.number(1) != _CLIENT_HELLO:
        return ""
    hello = _Reader(message.vector(3))
    hello.take(_VERSION_AND_RANDOM_BYTES)
    for size in (1, 2, 1):  # session, cipher suites, compression
        hello.vector(size)
    extensions = _Reader(hello.vector(2))
    while not extensions.is_over:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names = _Reader(_Reader(content).vector(2))
            while not names.is_over:
                what, name = names.number(1), names.vector(2)
                if what == _HOST_NAME:
                    return name.decode("ascii")
    return ""
