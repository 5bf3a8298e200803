"""UnroutableRing: the messages that went to no queue last, for whoever asks why one is not there. No bodies are kept.

Invariant: it holds `size` of them at most; each has a number, one above that of the one before.
"""

from __future__ import annotations

from typing import NamedTuple

from queues.message import Address


class Unroutable(NamedTuple):
    """One of them. at: milliseconds since the epoch. raw: as in a Message. peer: its text is the connection's name."""

    number: int
    at: int
    vhost: str
    raw: bytes
    user: str
    peer: object
    is_mandatory: bool

    @property
    def address(self) -> Address:
        """Where it was published."""
        return Address(self.raw)


class UnroutableRing:
    """size: 0 keeps none. next_number: that of the next one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[Unroutable] = []
        self.next_number = 0

    def add(self, at: int, vhost: str, raw: bytes, user: str, peer: object, is_mandatory: bool) -> None:
        """One more."""
        number = self.next_number
        if not self._size:
            return
        self.next_number = number + 1
        one = Unroutable(number, at, vhost, raw, user, peer, is_mandatory)
        if number < self._size:
            self._kept.append(one)
        else:
            self._kept[number % self._size] = one

    def after(self, number: int, most: int) -> list[Unroutable]:
        """So many at most behind this number, the oldest first."""
        begin = max(number + 1, self.next_number - len(self._kept))
        return [self._kept[each % self._size] for each in range(begin, min(begin + most, self.next_number))]

    def has(self, one: Unroutable) -> bool:
        """Whether it is still kept."""
        return one.number >= self.next_number - len(self._kept)
