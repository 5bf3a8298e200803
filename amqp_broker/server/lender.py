"""Lender: the memory of messages of one node, divided among its workers. Half of it is theirs, each the same part; the
other half is lent to those who need it, and what nobody needs is divided evenly.

It knows no processes and no time: who does tells each worker what it goes by from now on, and says what it has heard.

    lend -> order 7: go by 300 -> the worker pages out what is too much -> hear 7: it keeps 340, 310, 300 -> lend ...

Invariants:
1. What all workers may keep together is never more than the budget: a worker may keep the most of what it was told last
   and what it has not said to have given up. What is raised counts from when it is said, what is lowered from when the
   worker says so, or has ended.
2. No worker is told less than its sure part, which is kept for it also while it does not run.
3. A worker is told one thing at a time: nothing more before it has said that it goes by that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

#: Smaller changes are not worth a word: so little of the budget, or of a sure part.
_SLIGHT_OF_BUDGET: Final = 128
_SLIGHT_OF_SURE: Final = 4


class _Share:
    """That of a worker. order: the number of what it was told last; goes_by: how much that is, octets; kept: what it
    may keep besides, until it says that it does not; need: what it would like to have."""

    def __init__(self, sure_bytes: int) -> None:
        self.order = 0
        self.is_heard = True
        self.goes_by = self.kept = sure_bytes
        self.need = 0

    @property
    def most(self) -> int:
        """What it may keep in RAM."""
        return max(self.goes_by, self.kept)


class Lender:
    """sure_bytes: what each worker has always."""

    def __init__(self, budget_bytes: int, numbers: Collection[int]) -> None:
        self._budget = budget_bytes
        self.sure_bytes = budget_bytes // (2 * len(numbers))
        self._slight = min(budget_bytes // _SLIGHT_OF_BUDGET, self.sure_bytes // _SLIGHT_OF_SURE)
        self._shares = {number: _Share(self.sure_bytes) for number in numbers}

    def may_keep(self) -> dict[int, int]:
        """What each may keep in RAM at the most, octets."""
        return {number: share.most for number, share in self._shares.items()}

    def begin(self, number: int) -> None:
        """A worker has no process, or a new one: it goes by its sure part."""
        self._shares[number] = _Share(self.sure_bytes)

    def remove(self, number: int) -> None:
        """There is no such worker any more."""
        del self._shares[number]

    def hear(self, number: int, order: int, kept_bytes: int, need_bytes: int) -> bool:
        """A worker goes by what it was told with an order, keeps so much still, and would like to have so much. Returns
        whether there is more to be lent than before."""
        share = self._shares[number]
        share.need = need_bytes
        if order != share.order:  # said before it has heard the last one
            return False
        share.is_heard = True
        before = share.most
        share.kept = max(share.goes_by, min(share.kept, kept_bytes))
        return share.most < before

    def lend(self, live: Collection[int], tell: Callable[[int, int, int], bool]) -> None:
        """Tell those of `live` (who are heard of) what they go by from now on that is to be changed: tell(number,
        order, octets), which returns whether it is on its way."""
        wanted = self._divide({number: share for number, share in self._shares.items() if number in live})
        able = {number: self._shares[number] for number in wanted if self._shares[number].is_heard}
        is_short = any(wanted[number] > share.goes_by + self._slight for number, share in able.items())
        for number, share in able.items():
            if wanted[number] < share.goes_by - (0 if is_short else self._slight):
                self._tell(number, share, wanted[number], tell)
        for number in sorted(able, key=lambda each: able[each].goes_by - wanted[each]):
            share = able[number]
            room = self._budget - sum(each.most for each in self._shares.values())
            octets = min(wanted[number], share.most + room)
            if octets > share.goes_by + self._slight:
                self._tell(number, share, octets, tell)

    def _divide(self, live: Mapping[int, _Share]) -> dict[int, int]:
        """What each of these is to have, if the others keep what they may."""
        others = sum(share.most for number, share in self._shares.items() if number not in live)
        left, wanted = self._budget - others - len(live) * self.sure_bytes, {}
        by_need = sorted(live, key=lambda number: live[number].need)
        for place, number in enumerate(by_need):  # who needs little has it, the others the rest in equal parts
            lent = min(max(0, live[number].need - self.sure_bytes), left // (len(by_need) - place))
            wanted[number] = self.sure_bytes + lent
            left -= lent
        return {number: octets + left // len(live) for number, octets in wanted.items()}

    @staticmethod
    def _tell(number: int, share: _Share, octets: int, tell: Callable[[int, int, int], bool]) -> None:
        kept = share.most
        if tell(number, share.order + 1, octets):
            share.order += 1
            share.is_heard = False
            share.kept, share.goes_by = kept, octets
