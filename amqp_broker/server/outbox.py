"""Outbox: what waits until the socket between a supervisor and a worker has room for it, with descriptors or without.

Invariants:
1. What is put leaves in the order in which it was put, once, or is lost with the other process.
2. A descriptor that was put is closed here when it has left, or with the outbox.
3. MOST_WAITING wait at most; what is beyond that is refused.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Far more than are under way by the rules of those who put (connection/expected.py).
MOST_WAITING: Final = 1024
#: The other end has not read yet.
_FULL: Final = (errno.EAGAIN, errno.EINTR)


class Outbox:
    """Of a socket that does not block. wants_room(whether): called when it begins or ends to matter that the socket has
    room; `flush` is to be called when it has, and now and then while `is_waiting`."""

    def __init__(self, control: socket.socket, wants_room: Callable[[bool], None]) -> None:
        self._control = control
        self._wants_room = wants_room
        self._waiting: deque[tuple[bytes, Sequence[int]]] = deque()
        self._waits_for_room = False

    @property
    def is_waiting(self) -> bool:
        """Whether something has not left yet."""
        return bool(self._waiting)

    def offer(self, said: bytes, descriptors: Sequence[int]) -> bool:
        """Say it now or not at all: whether it has left. The descriptors stay the caller's."""
        if self._waiting:
            return False
        try:
            socket.send_fds(self._control, [said], descriptors)
        except OSError:  # it does not read what it has been sent, or is gone
            return False
        return True

    def put(self, said: bytes, descriptors: Sequence[int] = ()) -> None:
        """Say it, at once or when there is room. The descriptors are the outbox's from now on, whatever happens. Raises
        OSError if too much waits already."""
        if len(self._waiting) >= MOST_WAITING:
            _close(descriptors)
            raise OSError(errno.ENOBUFS, f"{MOST_WAITING} wait already for it to read what it has been sent")
        self._waiting.append((said, descriptors))
        if len(self._waiting) == 1:
            self.flush()

    def flush(self) -> None:
        """Say what there is room for. What is for a process that is gone waits until `clear`."""
        waits_for_room = False
        try:
            while self._waiting:
                said, descriptors = self._waiting[0]
                socket.send_fds(self._control, [said], descriptors)
                self._waiting.popleft()
                _close(descriptors)
        except OSError as error:
            # Of all else, as that the system lets no more descriptors be under way, no room says that it is over.
            waits_for_room = error.errno in _FULL
        if waits_for_room != self._waits_for_room:
            self._waits_for_room = waits_for_room
            self._wants_room(waits_for_room)

    def clear(self) -> int:
        """Nothing waits any more. Returns how many descriptors do not leave."""
        waiting, self._waiting = self._waiting, deque()
        lost = 0
        for _, descriptors in waiting:
            lost += len(descriptors)
            _close(descriptors)
        return lost


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)
