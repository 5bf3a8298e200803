"""Checkpointing: a checkpoint of a group that is made in slices, while entries go on being applied.

    prepared, step ... step -> begun, as of the last apply -> step ... step -> all of it is written to the journal
                                                                               closed: nothing is

Invariants:
1. The journal gets it whole, in one turn, as of the index at which it was begun: the entries above that stay.
2. A group has one at a time, and whatever writes another checkpoint of the group closes it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raft.member import Member

#: `work(step)`: from now on `step(now)` is called again and again, until it returns False: there is no more to do.
Slices = Callable[[Callable[[int], bool]], None]


class Checkpointing:
    """One of a member. index, term: of the last entry that it has, once it is begun. Raises RaftStopped, as `step`
    does."""

    def __init__(self, member: Member) -> None:
        self.index = self.term = 0
        self.chunks: list[bytes] = []
        self._member = member
        self._is_closed = self._is_begun = False
        self._rest: Iterator[bytes | None]
        try:
            self._rest = member.machine.prepare_checkpoint()
        except Exception as error:
            raise member.failed("preparing a checkpoint", error) from error

    def step(self, now: int) -> bool:
        """A slice. Returns whether there is more to do."""
        member = self._member
        if self._is_closed or member.is_stopped:
            return False
        try:
            chunk = next(self._rest)
        except StopIteration:
            if not self._is_begun:
                self._begin()
                return True
            self._is_closed = True
            member.checkpoint_is_whole(self)
            return False
        except Exception as error:
            raise member.failed("a checkpoint", error) from error
        if chunk is not None:
            self.chunks.append(chunk)
        return True

    def _begin(self) -> None:
        member = self._member
        self._is_begun = True
        self.index = member.last_applied
        self.term = member.term_applied(self.index)
        try:
            self._rest = member.machine.checkpoint_in_slices()
        except Exception as error:
            raise member.failed("beginning a checkpoint", error) from error

    def close(self) -> None:
        """It comes to nothing."""
        self._is_closed = True
        self.chunks = []
        close = getattr(self._rest, "close", None)
        if close is not None:
            close()
