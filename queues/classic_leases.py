"""ClassicLeases: the lease groups of a ClassicQueue, as a LeaseSource: all of it is done at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queues.lease_source import Caller, Done, ReadyMessages, has_exclusive
from queues.leases import LeaseGroup, open_lease
from queues.message_log import RangeGone
from queues.quorum.effects import Refusal

if TYPE_CHECKING:
    from queues.classic import ClassicQueue


class ClassicLeases:
    """See LeaseSource. The groups take whole pages."""

    step_messages = 65_536
    is_local = True

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue

    def groups(self) -> dict[str, LeaseGroup]:
        """See LeaseSource."""
        return self._queue.lease_groups

    def ready_count(self) -> int:
        """See LeaseSource."""
        return self._queue.message_count()

    def ready(self) -> ReadyMessages:
        """See LeaseSource."""
        return ReadyMessages(self._queue.levels(), self._queue.next_sequence)

    def is_exclusive(self) -> bool:
        """See LeaseSource."""
        return has_exclusive(self._queue.dispatcher)

    def lease_expires(self) -> int | None:
        """See LeaseSource."""
        expires: int | None = self._queue.settings.lease_expires
        return expires

    def _find(self, caller: Caller) -> LeaseGroup | Refusal:
        if self._queue.is_deleted:
            return Refusal.NO_QUEUE
        found = self.groups().get(caller.group)
        if found is None or found.incarnation != caller.incarnation:
            return Refusal.LEASE_GONE
        return found if found.owner == caller.owner else Refusal.FENCED

    def open(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        found = self.groups().get(caller.group)
        if found is None:
            open_lease(self._queue, caller.group, caller.owner, caller.incarnation, now)
        else:
            found.set_owner(caller.owner, now)
        then(None)

    def claim(
        self, caller: Caller, after: int, messages: int, octets: int, adds: bool, now: int, then: Done
    ) -> None:
        """See LeaseSource."""
        group = self._find(caller)
        if isinstance(group, Refusal):
            then(group)
            return
        if not group.trimmed <= after <= group.next:
            then(Refusal.LEASE_GONE)
            return
        group.last_called = now
        if adds or after == group.next:
            group.claim(messages, octets, now)
        then(None)

    def ack(self, caller: Caller, upto: int, now: int, then: Done) -> None:
        """See LeaseSource."""
        group = self._find(caller)
        if isinstance(group, Refusal):
            then(group)
            return
        try:
            group.ack(upto, now)
        except RangeGone:
            then(Refusal.LEASE_GONE)
            return
        then(None)

    def release(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        group = self._find(caller)
        if isinstance(group, Refusal):
            then(group)
            return
        group.release(now)
        then(None)

    def watch(self, wake: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._queue.watcher = wake
