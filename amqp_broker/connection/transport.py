"""Transport: what the driver puts behind a connection, and what it does with it at the end of a turn."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """The connection has it, so that the driver finds it there; nothing of the node calls it."""

    def write(self, chunks: list[bytes]) -> None: ...

    def set_paused(self, is_paused: bool) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...
