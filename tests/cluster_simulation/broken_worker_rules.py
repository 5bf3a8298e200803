"""One rule of hosts of several workers turned off at a time, to see that the simulation notices."""

from __future__ import annotations

import pytest

from amqp_broker.cluster.group_places import GroupPlaces
from amqp_broker.connection.steering import Steering
from amqp_broker.metadata.feed import FeedSource

Patch = pytest.MonkeyPatch


def a_worker_is_not_told_what_it_has_missed(patch: Patch) -> None:
    """It follows worker 0 from where that is, whatever it has itself."""
    begin = FeedSource._begin
    patch.setattr(FeedSource, "_begin", lambda self, name, index: begin(self, name, index if not index else 1 << 62))


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
