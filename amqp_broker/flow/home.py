"""Home: another node or worker where queues live, as far as those wait who publish to it. What it is really, and how
messages get there, is in queue_types/remote."""

from __future__ import annotations

from typing import Protocol


class Home(Protocol):
    """home: its name. is_blocked: it wants publishers to wait. is_idle: nothing for it is under way."""

    @property
    def home(self) -> str: ...

    @property
    def is_blocked(self) -> bool: ...

    @property
    def is_idle(self) -> bool: ...

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether publishers have to wait: more than so many octets are under way."""
