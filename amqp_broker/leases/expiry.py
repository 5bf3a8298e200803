"""Expiry: lease groups whose owner has not called for longer than their queue allows are released.

The argument x-lease-expires, or the policy key lease-expires, says how long, in milliseconds; without it a group waits
for its owner for ever. There is one timer for a group of a classic queue, at the time at which it would be due; it
looks again then. Groups of quorum queues are looked at every now and then, by the node that leads their queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from amqp_broker.vhosts.policies import effective_policies
from queues.arguments import QueueArguments, read_fields, with_policy

if TYPE_CHECKING:
    from amqp_broker.queue_types.quorum.queue import QuorumQueue
    from amqp_broker.vhosts.broker import Broker
    from queues.classic import ClassicQueue
    from queues.leases import LeaseGroup
    from queues.quorum.effects import Refusal
    from queues.timers import Timer, Timers

#: So often the groups of quorum queues are looked at, milliseconds.
LOOK_MS = 5000

log = logging.getLogger("amqp_broker")


class LeaseExpiry:
    """Of the queues of a node."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._watched: dict[int, tuple[int, Timer]] = {}  # by the group's id: its timer, and when that is due

    def watch_all(self, queue: Any) -> None:
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
        if known is None or due < known[0]:
            self._forget(group)
            timer = self._timers.at(due, lambda now: self._look(queue, group, now))
            self._watched[group.queue_id] = (due, timer)

    def forget_all(self, queue: Any) -> None:
        """The queue is about to be deleted."""
        for group in queue.lease_groups.values():
            self._forget(group)

    def _forget(self, group: LeaseGroup) -> None:
        known = self._watched.pop(group.queue_id, None)
        if known is not None:
            known[1].cancel()

    def _look(self, queue: ClassicQueue, group: LeaseGroup, now: int) -> None:
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

    # -- quorum queues -------------------------------------------------------------------------------------------------

    def start(self, broker: Broker, now: int) -> None:
        """Look at the groups of quorum queues from now on."""
        if broker.groups.is_active:
            for group in broker.groups.all.values():
                for queue_id in group.machine.leased_queues() if group.raft.is_leader else ():
                    queue = group.queues.get(queue_id)
                    if queue is not None:
                        self._look_at_quorum(broker, queue, now)
        self._timers.at(now + LOOK_MS, lambda now: self.start(broker, now))

    def _look_at_quorum(self, broker: Broker, queue: QuorumQueue, now: int) -> None:
        groups = queue.leases.groups()
        if not groups:
            return
        expires = _expires_of(broker, queue)
        if expires is None:
            return
        for group in list(groups.values()):
            if group.last_called + expires <= now:
                log.warning(
                    "lease group '%s' of queue '%s' is released: its owner has not called for %d ms (x-lease-expires)",
                    group.name,
                    queue.name,
                    now - group.last_called,
                )
                queue.leases.release(group.name, group.incarnation, group.owner, _do_nothing)


def _do_nothing(refusal: Refusal | None) -> None:
    """Whatever came of it, it is looked at again."""


def _expires_of(broker: Broker, queue: QuorumQueue) -> int | None:
    declaration = queue.declaration
    policy, operator = effective_policies(broker.metadata, declaration.vhost, "quorum_queues", queue.name)
    fields = read_fields({key: value for key, value in declaration.arguments.items() if key == "x-lease-expires"})
    return with_policy(QueueArguments(**fields), policy or {}, operator).lease_expires  # type: ignore[arg-type]
