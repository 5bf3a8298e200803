"""Routes: where a member is reached for a group, where a member is several processes, each with some of the groups.

A member votes under one name in all groups. Links are between processes, which have names of their own.
"""

from __future__ import annotations

from typing import Protocol


class Routes(Protocol):
    """is_needed: some member is more than one process; until then members are called like their processes."""

    @property
    def is_needed(self) -> bool: ...

    def is_here(self, group_id: int) -> bool:
        """Whether this process has a group at its own member."""
        ...

    def process_of(self, group_id: int, member: str) -> str:
        """The process that has a group at a member."""
        ...

    def member_of(self, process: str) -> str:
        """The member that a process is of."""
        ...
