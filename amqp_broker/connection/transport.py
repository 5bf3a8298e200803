"""Transport: what the driver puts behind a connection, and what it does with it at the end of a turn."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol


class Transport(Protocol):
    """The connection has it, so that the driver finds it there; nothing of the node calls it."""

    def write(self, chunks: list[bytes]) -> None: ...

    def set_paused(self, is_paused: bool) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def leave(self, give: Callable[[socket.socket], bool]) -> bool: ...
