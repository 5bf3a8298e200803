"""ReadAhead: stretches of files that are read and checked in the background before their parts are asked for.

It knows a stretch as a piece of work that fetches its octets, and the parts of it as an owner's keys. Where the
disk has no background nothing is fetched.

Invariants:
1. At most `limit_bytes` are fetched ahead, whatever is asked for; a stretch counts until all its parts are
   taken or dropped. Where there is no room, those make some that nobody has taken for long: who wanted them has left.
2. Work that raises has fetched nothing: whoever takes a part of it has to read it, and finds out why.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from storage.disk import Disk, Pending
from storage.errors import StorageError

#: Octets that are fetched ahead at most, of all queues together.
AHEAD_BYTES = 8 * 1024 * 1024
#: What was not taken while others asked so many times is given up where there is no room.
PATIENCE = 64


class _Stretch:
    """keys: those of its parts, which are an owner's, that are neither taken nor dropped. number: of those who asked,
    this was for which."""

    __slots__ = ("keys", "length", "number", "owner", "pending")

    def __init__(
        self, pending: Pending, length: int, owner: Hashable, keys: Iterable[Hashable], number: int
    ) -> None:
        self.number = number
        self.pending = pending
        self.length = length
        self.owner = owner
        self.keys = dict.fromkeys(keys)


class ReadAhead:
    """See the module's docstring."""

    def __init__(self, disk: Disk, limit_bytes: int = AHEAD_BYTES) -> None:
        self._disk = disk
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._parts: dict[Hashable, dict[Hashable, tuple[_Stretch, int]]] = {}
        self._stretches: dict[_Stretch, None] = {}  # in the order in which they were asked for
        self._asked = 0

    @property
    def is_half_full(self) -> bool:
        """Whether more than half of what may be fetched is."""
        return 2 * self._bytes > self._limit_bytes

    def has(self, owner: Hashable, key: Hashable) -> bool:
        """Whether this part is being fetched, or is there."""
        return key in self._parts.get(owner, ())

    def start(
        self, owner: Hashable, places: Mapping[Any, int], length: int, fetch: Callable[[], bytes]
    ) -> bool:
        """Have `fetch` get a stretch of `length` octets in the background. Returns whether it does.

        places: its parts, none of which is there already, and where in the stretch each begins.
        """
        self._asked += 1
        if not self._make_room(length):
            return False
        pending = self._disk.in_background(fetch)
        if pending is None:
            return False
        stretch = _Stretch(pending, length, owner, places, self._asked)
        self._stretches[stretch] = None
        parts = self._parts.setdefault(owner, {})
        for key, place in places.items():
            parts[key] = (stretch, place)
        self._bytes += length
        return True

    def _make_room(self, length: int) -> bool:
        if length > self._limit_bytes:
            return False
        while self._bytes + length > self._limit_bytes:
            oldest = next(iter(self._stretches))
            if not oldest.pending.done() or self._asked - oldest.number <= PATIENCE:
                return False
            for key in list(oldest.keys):
                self._forget(oldest.owner, key)
        return True

    def take(self, owner: Hashable, key: Hashable) -> tuple[bytes, int] | None:
        """The stretch with this part, waited for if need be, and where in it the part begins. None: read it
        yourself.
        """
        found = self._forget(owner, key)
        if found is None:
            return None
        stretch, place = found
        try:
            return stretch.pending.result(), place
        except (StorageError, OSError):
            return None

    def pending(self, owner: Hashable, key: Hashable) -> Pending | None:
        """What fetches this part, for who waits for it before it is taken; None: nothing does."""
        found = self._parts.get(owner, {}).get(key)
        return None if found is None else found[0].pending

    def drop(self, owner: Hashable, key: Hashable) -> None:
        """This part is not wanted any more."""
        self._forget(owner, key)

    def drop_all(self, owner: Hashable) -> None:
        """Nothing of this owner is wanted any more."""
        for key in list(self._parts.get(owner, ())):
            self._forget(owner, key)

    def _forget(self, owner: Hashable, key: Hashable) -> tuple[_Stretch, int] | None:
        parts = self._parts.get(owner)
        found = parts.pop(key, None) if parts is not None else None
        if found is None:
            return None
        if not parts:
            del self._parts[owner]
        stretch = found[0]
        del stretch.keys[key]
        if not stretch.keys:
            self._bytes -= stretch.length
            del self._stretches[stretch]
        return found
