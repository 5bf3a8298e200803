"""One rule of hosts of several workers turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.cluster.group_places import GroupPlaces
from amqp_broker.connection.steering import Steering
from amqp_broker.metadata.feed import FeedSource

Patch = pytest.MonkeyPatch


def a_worker_is_not_told_what_it_has_missed(patch: Patch) -> None:
    """It follows worker 0 from where that is, whatever it has itself."""
    begin = FeedSource._begin
    patch.setattr(FeedSource, "_begin", lambda self, name, index: begin(self, name, index if not index else 1 << 62))


def what_is_applied_does_not_wait_for_the_state(patch: Patch) -> None:
    """A worker that is sent the whole state is sent beside it what is applied meanwhile."""

    def tell(self: Any, frame: bytes) -> None:
        for name in self.followers:
            self._send(name, frame)

    patch.setattr(FeedSource, "_tell", tell)


def entries_of_the_feed_change_places(patch: Patch) -> None:
    """Now and then an entry comes behind the one after it."""
    applied_entry, held = FeedSource.applied_entry, dict[Any, Any]()

    def applied(self: Any, index: int, term: int, data: bytes) -> None:
        before = held.pop(self, None)
        if before is None and index % 8 == 0:
            held[self] = (index, term, data)
            return
        applied_entry(self, index, term, data)
        if before is not None:
            applied_entry(self, *before)

    patch.setattr(FeedSource, "applied_entry", applied)


def what_a_connection_had_to_do_yet_stays_behind(patch: Patch) -> None:
    """The frame at which the other worker has stopped is not handled here."""
    adopt = Steering.adopt

    def adopted(self: Any, token: bytes, now: int) -> Any:
        found = adopt(self, token, now)
        return None if found is None else (found[0], b"")

    patch.setattr(Steering, "adopt", adopted)


def a_connection_moves_while_much_is_under_way(patch: Patch) -> None:
    """It need not be quiet."""
    patch.setattr(Steering, "_is_quiet", lambda self, departure: True)
    patch.setattr(Steering, "_is_busy", lambda self, connection: False)


def each_process_of_a_host_is_its_member(patch: Patch) -> None:
    """All of them have all groups, and vote under the name of their host."""
    patch.setattr(GroupPlaces, "is_here", lambda self, group_id: True)


def workers_speak_to_groups_under_one_name(patch: Patch) -> None:
    """What several processes of a host submit is taken for that of one."""
    patch.setattr(GroupPlaces, "own_process", property(lambda self: self.own_host))
