"""One rule of groups on some of the nodes turned off at a time, to see that the simulation notices."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.quorum.guest import Guest, Leaving
from amqp_broker.queue_types.quorum.guest_frames import Answer, Found
from queues.quorum.effects import Confirmed

Patch = pytest.MonkeyPatch


def a_guest_confirms_what_it_has_sent(patch: Patch) -> None:
    """And not what the log has."""
    work = Guest.work

    def hasty(self: Guest, now: int) -> None:
        work(self, now)
        stream = self._group.stream
        if self.leader is not None and stream.unapplied and not stream.has_open:
            first, last = self._last_sequence + 1, self._last_sequence + stream.unapplied
            self._last_sequence = last
            self._group.absorb_effects([Confirmed(self._session, first, last, ())], now)

    patch.setattr(Guest, "work", hasty)


def a_member_forgets_before_it_is_let_go(patch: Patch) -> None:
    """As soon as it hears anything, although it votes."""
    patch.setattr(Leaving, "has_left", _hears)


def _hears(self: Leaving, frame: Answer) -> bool:
    return isinstance(frame, Found)
