"""LeaderChanges: who has led a group when, and why, as one member has seen it. Nothing is decided by it.

Invariant: the newest MOST changes are kept, in order.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MOST = 16

#: Why somebody leads.
ALONE = "it is the only voter"
HANDED_OVER = "the leader before has handed over"
NOT_HEARD = "no leader was heard for an election time-out"
ELECTED = "the others have elected it"
FIRST_HEARD = "it led already when this member first heard of it"


class LeaderChange(NamedTuple):
    """at: milliseconds since the epoch. before: who led until then, as far as this member knew, None for nobody."""

    at: int
    term: int
    leader: str
    before: str | None
    why: str


class LeaderChanges:
    """Those of one group. all: the oldest first. without_since: since when no leader is known, 0 while there is one."""

    def __init__(self) -> None:
        self.all: deque[LeaderChange] = deque(maxlen=MOST)
        self.without_since = 0
        self._is_transfer = False
        self._seen = (0, "")

    def campaigns(self, is_transfer: bool) -> None:
        """This member stands for election."""
        self._is_transfer = is_transfer

    def seen(self, leader: str | None, term: int, is_own: bool, is_alone: bool, now: int) -> None:
        """Who leads now. is_own: this member does. is_alone: it is the only voter."""
        if leader is None:
            self.without_since = self.without_since or now
            return
        self.without_since = 0
        if self._seen == (term, leader):
            return
        self._seen = (term, leader)
        if is_own:
            why = ALONE if is_alone else HANDED_OVER if self._is_transfer else NOT_HEARD
        else:
            why = ELECTED if self.all else FIRST_HEARD
        before = self.all[-1].leader if self.all else None
        self.all.append(LeaderChange(now, term, leader, before, why))
