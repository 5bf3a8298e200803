"""ReadAhead: pages that are read and checked in the background before they are asked for.

It knows a page as a key and a piece of work that fetches it. Where the disk has no background the work is done
when the page is asked for, and the disk gets a hint at most.

Invariants:
1. At most `limit_bytes` are fetched ahead, whatever is asked for.
2. What the work raises is raised when the page is taken, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from storage.disk import Disk, Pending

#: Octets that are fetched ahead at most, of all queues together.
AHEAD_BYTES = 8 * 1024 * 1024


class ReadAhead:
    """See the module's docstring."""

    def __init__(self, disk: Disk, limit_bytes: int = AHEAD_BYTES) -> None:
        self._disk = disk
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._pending: dict[Hashable, tuple[int, Pending]] = {}

    def start(self, key: Hashable, length: int, fetch: Callable[[], bytes]) -> bool:
        """Have `fetch` run in the background, unless it does already. Returns whether it does."""
        if key in self._pending:
            return True
        if self._bytes + length > self._limit_bytes:
            return False
        pending = self._disk.in_background(fetch)
        if pending is None:
            return False
        self._pending[key] = (length, pending)
        self._bytes += length
        return True

    def take(self, key: Hashable) -> bytes | None:
        """What `fetch` returned, waited for if need be; None: it was not started. Raises what `fetch` raised."""
        pending = self._forget(key)
        return None if pending is None else pending.result()

    def drop(self, key: Hashable) -> None:
        """It is not wanted any more."""
        self._forget(key)

    def _forget(self, key: Hashable) -> Pending | None:
        if not self._pending:
            return None
        length, pending = self._pending.pop(key, (0, None))
        self._bytes -= length
        return pending
