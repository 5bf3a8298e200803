"""Expiry: lease groups whose owner has not called for longer than their queue allows are released.

The argument x-lease-expires, or the policy key lease-expires, says how long, in milliseconds; without it a group waits
for its owner for ever. There is one timer for a group whose queue is of this node, at the time at which it would be
due; it looks again then. Groups of queues whose logs several nodes have are looked at every now and then, by the node
that leads their queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from queues.lease_source import Caller, LeasedAt

if TYPE_CHECKING:
    from queues.effects import Refusal
    from queues.lease_source import LeasedGroup, LeaseSource
    from queues.queue import Queue
    from queues.timers import Timer, Timers

#: So often the groups of queues that this node leads are looked at, milliseconds.
LOOK_MS = 5000

log = logging.getLogger("amqp_broker")


class LeaseExpiry:
    """Of the queues of a node. led: the queues with groups whose logs this node leads."""

    def __init__(self, timers: Timers, led: Callable[[], Iterable[Queue]]) -> None:
        self._timers = timers
        self._led = led
        self._watched: dict[str, tuple[int, Timer]] = {}  # by the group's incarnation: when it is due, and its timer

    # -- queues of this node -------------------------------------------------------------------------------------------

    def watch_all(self, queue: Queue) -> None:
        """The queue was restored, or what is in force for it has changed."""
        source = queue.leases()
        if source is not None and not isinstance(source, LeasedAt) and source.is_local:
            for group in source.groups().values():
                self.watch(queue.name, source, group)

    def watch(self, queue: str, source: LeaseSource, group: LeasedGroup) -> None:
        """A group that may expire."""
        expires = source.lease_expires()
        if expires is None:
            return
        due = group.last_called + expires
        known = self._watched.get(group.incarnation)
        if known is None or due < known[0]:
            self._forget(group)
            timer = self._timers.at(due, lambda now: self._look(queue, source, group, now))
            self._watched[group.incarnation] = (due, timer)

    def forget_all(self, queue: Queue) -> None:
        """The queue is about to be deleted."""
        source = queue.leases()
        if source is not None and not isinstance(source, LeasedAt):
            for group in source.groups().values():
                self._forget(group)

    def _forget(self, group: LeasedGroup) -> None:
        known = self._watched.pop(group.incarnation, None)
        if known is not None:
            known[1].cancel()

    def _look(self, queue: str, source: LeaseSource, group: LeasedGroup, now: int) -> None:
        del self._watched[group.incarnation]
        expires = source.lease_expires()
        if expires is None or source.groups().get(group.name) is not group:
            return
        if group.last_called + expires > now:
            self.watch(queue, source, group)
        else:
            _release(queue, source, group, now)

    # -- queues whose logs several nodes have --------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Look at the groups of queues that this node leads from now on."""
        for queue in self._led():
            source = queue.leases()
            if source is not None and not isinstance(source, LeasedAt):
                self._look_at_all(queue.name, source, now)
        self._timers.at(now + LOOK_MS, self.start)

    def _look_at_all(self, queue: str, source: LeaseSource, now: int) -> None:
        groups = source.groups()
        expires = source.lease_expires() if groups else None
        if expires is not None:
            for group in list(groups.values()):
                if group.last_called + expires <= now:
                    _release(queue, source, group, now)


def _release(queue: str, source: LeaseSource, group: LeasedGroup, now: int) -> None:
    log.warning(
        "lease group '%s' of queue '%s' is released: its owner has not called for %d ms (x-lease-expires)",
        group.name,
        queue,
        now - group.last_called,
    )
    source.release(Caller(group.name, group.incarnation, group.owner), now, _do_nothing)


def _do_nothing(refusal: Refusal | None) -> None:
    """Whatever came of it, it is looked at again."""
