"""Expiry: lease groups whose owner has not called for longer than their queue allows are released.

The argument x-lease-expires, or the policy key lease-expires, says how long, in milliseconds; without it a group waits
for its owner for ever. There is one timer for a group, at the time at which it would be due; it looks again then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queues.classic import ClassicQueue
    from queues.leases import LeaseGroup
    from queues.timers import Timers

log = logging.getLogger("amqp_broker")


class LeaseExpiry:
    """Of the classic queues of a node."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._watched: dict[int, int] = {}  # by the group's id: when its timer is due

    def watch_all(self, queue: Any, now: int) -> None:
        """The queue was restored, or what is in force for it has changed."""
        for group in queue.lease_groups.values():
            self.watch(queue, group)

    def watch(self, queue: ClassicQueue, group: LeaseGroup) -> None:
        """A group that may expire."""
        expires = queue.settings.lease_expires
        if expires is None:
            return
        due = group.last_called + expires
        known = self._watched.get(group.queue_id)
        if known is None or due < known:
            self._watched[group.queue_id] = due
            self._timers.at(due, lambda now: self._look(queue, group, due, now))

    def _look(self, queue: ClassicQueue, group: LeaseGroup, due: int, now: int) -> None:
        if self._watched.get(group.queue_id) != due:
            return
        del self._watched[group.queue_id]
        expires = queue.settings.lease_expires
        if queue.is_deleted or expires is None or queue.lease_groups.get(group.name) is not group:
            return
        if group.last_called + expires > now:
            self.watch(queue, group)
            return
        log.warning(
            "lease group '%s' of queue '%s' is released: its owner has not called for %d ms (x-lease-expires)",
            group.name,
            queue.name,
            now - group.last_called,
        )
        group.release(now)
