"""MemoryShare: what a node, or one worker of it, may keep of messages in RAM, and what it keeps there.

A worker's part of the node's memory changes (server/lender.py). If it is lowered, pages go to the disk in slices until
what is left fits, and meanwhile the worker says what it still keeps: nobody else is given that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from queues.pager import TIGHT_PERCENT

if TYPE_CHECKING:
    from queues.background import Jobs
    from queues.pager import Pager
    from storage.page_store import PageStore

#: So much goes to the disk in one slice, octets.
_SLICE_BYTES: Final = 1024 * 1024
#: Who uses more than such a part of what fits would use more if it were there, and wants twice as much. Who does not
#: has a fifth to spare.
_PRESSED_PERCENT: Final = 90
_SPARE_PERCENT: Final = 120


class MemoryShare:
    """pagers: the node's first, and those of the groups that it has, which share one budget; always this list.
    page_out: frees so many octets, and returns how many of them were not to be had."""

    def __init__(
        self, pagers: Sequence[Pager], page_store: PageStore, background: Jobs, page_out: Callable[[int], int]
    ) -> None:
        self._pagers = pagers
        self._pager = pagers[0]
        self._page_store = page_store
        self._background = background
        self._page_out = page_out
        self._kept = self.budget_bytes
        self._is_yielding = False

    @property
    def budget_bytes(self) -> int:
        """What it goes by: above that it pages out, and spares what cannot be."""
        return int(self._pager.budget_bytes)

    @property
    def kept_bytes(self) -> int:
        """What it may keep: its budget, or what is left of a larger one that it had."""
        self._kept = max(self.budget_bytes, min(self._kept, self.used_bytes))
        return self._kept

    @property
    def used_bytes(self) -> int:
        """What it keeps in RAM, of messages that are not whole yet too."""
        return sum(each.used for each in self._pagers) + int(self._pager.assembling)

    @property
    def held_bytes(self) -> int:
        """What it has of messages in RAM and in pages on the disk."""
        return self.used_bytes + int(self._page_store.live_bytes)

    @property
    def needed_bytes(self) -> int:
        """The budget that it would like to have."""
        fitting, budget = self.used_bytes * 100 // TIGHT_PERCENT, self.budget_bytes
        if fitting * 100 > budget * _PRESSED_PERCENT:  # what it pages out it would keep
            return 2 * max(fitting, budget)
        return fitting * _SPARE_PERCENT // 100

    def go_by(self, budget_bytes: int) -> None:
        """Its part is so large from now on."""
        self._kept = max(self.kept_bytes, budget_bytes)
        for pager in self._pagers:
            pager.limit(budget_bytes)
        if self._excess() > 0 and not self._is_yielding:
            self._is_yielding = True
            self._background.add(self._yield)

    def _excess(self) -> int:
        return self.used_bytes - self.budget_bytes * TIGHT_PERCENT // 100

    def _yield(self, now: int) -> bool:
        """What cannot go to the disk, as what consumers hold, stays; it is settled some time."""
        excess = self._excess()
        wanted = min(_SLICE_BYTES, excess)
        self._is_yielding = excess > 0 and self._page_out(wanted) < wanted
        return self._is_yielding
