"""SecondLooks: transports that were read are read once more a little later, whether the loop says so or not.

uvloop stops watching a socket on which an error stands: it says so once, and that call may bring octets that came
before. Who says something and is reset, as a client is that is killed while there are deliveries that it has not read,
would stay with all that it holds, until it misses a heartbeat or is sent something.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from amqp_broker.server.tcp import TcpTransport

#: So much later, seconds.
LATER_S = 3.0
#: So many are read before the loop has delivered what else there is.
_AT_ONCE = 64


class SecondLooks:
    """Those of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._read: deque[TcpTransport] = deque()
        self._due = 0
        self._is_waiting = False

    def add(self, transport: TcpTransport) -> None:
        """It was read, and is not among them."""
        self._read.append(transport)
        self._wait()

    def _wait(self) -> None:
        if self._read and not self._due and not self._is_waiting:
            self._is_waiting = True
            self._loop.call_later(LATER_S, self._begin)

    def _begin(self) -> None:
        self._is_waiting = False
        self._due = len(self._read)
        self._look()

    def _look(self) -> None:
        for _ in range(min(self._due, _AT_ONCE)):
            self._due -= 1
            self._read.popleft().look_again()
        if self._due:
            self._loop.call_soon(self._look)
        else:
            self._wait()
