"""MemoryShare: what a node, or one worker of it, may keep of messages in RAM, and what it keeps there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queues.pager import Pager
    from storage.page_store import PageStore


class MemoryShare:
    """pagers: the node's first, and those of the groups that it has, which share one budget; always this list."""

    def __init__(self, pagers: Sequence[Pager], page_store: PageStore) -> None:
        self._pagers = pagers
        self._pager = pagers[0]
        self._page_store = page_store

    @property
    def budget_bytes(self) -> int:
        """What it may keep in RAM."""
        return int(self._pager.budget_bytes)

    @property
    def used_bytes(self) -> int:
        """What it keeps there, of messages that are not whole yet too."""
        return sum(each.used for each in self._pagers) + int(self._pager.assembling)

    @property
    def held_bytes(self) -> int:
        """What it has of messages in RAM and in pages on the disk."""
        return self.used_bytes + int(self._page_store.live_bytes)
