"""Readiness: tells the transports of a loop that something can be read. Their sockets are in an epoll instance of its
own (epoll(7)), which the loop watches as one descriptor: it makes its way to each that is ready by a handle, a context
and a Python call (decision 0057 has what that costs).

Invariants:
1. Who is watched is told in each round of the loop as long as there is something to be read, an end or an error: it is
   level-triggered, and whoever was told comes behind all others that wait.
2. Who is not watched any more is not told, also where the kernel had named it before.

Where there is no epoll, the system's own selector stands in.
"""

from __future__ import annotations

import select
import selectors
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    import asyncio

#: So many are told in one round of the loop, the others in the next. Compiled, it has room for them (readiness.pxd).
MOST_AT_ONCE = 1024
_MOST_AT_ONCE = MOST_AT_ONCE
HAS_EPOLL = hasattr(select, "epoll")
_HAS_EPOLL = HAS_EPOLL
_READABLE = getattr(select, "EPOLLIN", selectors.EVENT_READ)


class Watched:
    """Who is told."""

    def on_readable(self) -> None:
        """There is something to be read, an end or an error."""
        raise NotImplementedError


class Readiness:
    """That of a loop. `close` ends it. has_more: others were ready at the same moment as the one that is told."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sockets = select.epoll() if HAS_EPOLL else selectors.DefaultSelector()
        self._number = self._sockets.fileno()
        self._watched: dict[int, Watched] = {}
        self.has_more = False
        loop.add_reader(self._number, self.tell)

    def watch(self, number: int, watched: Watched) -> None:
        """It is told of the socket with this descriptor, which nobody else is. Raises OSError."""
        self._sockets.register(number, _READABLE)
        self._watched[number] = watched

    def unwatch(self, number: int) -> None:
        """Nobody is told of it any more. To be called before the socket is closed: another process may have it, too."""
        del self._watched[number]
        self._sockets.unregister(number)

    def tell(self) -> None:
        """What the loop calls when any of them is ready."""
        if cython.compiled and _HAS_EPOLL:
            count = epoll_wait(self._number, self._events, _MOST_AT_ONCE, 0)  # type: ignore # noqa
            self.has_more = count > 1
            for place in range(count):
                self._tell(self._events[place].data.fd)  # type: ignore[attr-defined]
        else:
            numbers = self._ready()
            self.has_more = len(numbers) > 1
            for number in numbers:
                self._tell(number)
        self.has_more = False

    def _ready(self) -> list[int]:
        if isinstance(self._sockets, selectors.BaseSelector):
            return [key.fd for key, _ in self._sockets.select(0)]
        return [number for number, _ in self._sockets.poll(0, MOST_AT_ONCE)]

    def _tell(self, number: int) -> None:
        watched = self._watched.get(number)
        if watched is None:  # one that was told before it has closed this one
            return
        try:
            watched.on_readable()
        except Exception as error:  # noqa: BLE001  # the others are told all the same
            self._loop.call_exception_handler({"message": "what has come cannot be read", "exception": error})

    def close(self) -> None:
        """Nobody is told any more. Who is watched may go later."""
        self._loop.remove_reader(self._number)
