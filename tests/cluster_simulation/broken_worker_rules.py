"""One rule of hosts of several workers turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.connection.steering import Steering
from amqp_broker.metadata.feed import FeedSource
from amqp_broker.rehoming.arrival import Arrivals
from amqp_broker.rehoming.departure import Departure
from amqp_broker.rehoming.snapshot import QueueSnapshot

Patch = pytest.MonkeyPatch


def a_worker_is_not_told_what_it_has_missed(patch: Patch) -> None:
    """It follows worker 0 from where that is, whatever it has itself."""
    begin = FeedSource._begin
    patch.setattr(FeedSource, "_begin", lambda self, name, index: begin(self, name, index if not index else 1 << 62))


def a_connection_moves_while_much_is_under_way(patch: Patch) -> None:
    """It need not be quiet."""
    patch.setattr(Steering, "_is_quiet", lambda self, departure: True)
    patch.setattr(Steering, "_is_busy", lambda self, connection: False)


def a_connection_leaves_as_it_was(patch: Patch) -> None:
    """Whatever it has done since the other worker was told of it."""
    patch.setattr(Steering, "_is_as_said", lambda self, departure: True)


def what_consumers_hold_does_not_move(patch: Patch) -> None:
    """It stays at the old home, which forgets it."""
    init = QueueSnapshot.__init__

    def without(self: QueueSnapshot, queue: Any, held: Any) -> None:
        init(self, queue, [])

    patch.setattr(QueueSnapshot, "__init__", without)


def a_queue_has_come_before_it_is_on_the_disk(patch: Patch) -> None:
    """The new home says that it has everything when it has read it."""
    work = Arrivals._work

    def hasty(self: Arrivals, arrival: Any, now: int) -> bool:
        more = work(self, arrival, now)
        self.synced(1 << 62)
        return more

    patch.setattr(Arrivals, "_work", hasty)


def nobody_stops_to_use_a_queue_that_moves(patch: Patch) -> None:
    """The others are asked, and not waited for; and nobody looks whether something was published to it meanwhile."""
    until = Departure._until

    def hurried(self: Departure, milliseconds: int) -> Any:
        self._awaited.clear()
        yield from until(self, milliseconds)

    patch.setattr(Departure, "_until", hurried)
