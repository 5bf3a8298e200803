"""ClassicLeases: the lease groups of a ClassicQueue, as a LeaseSource: what the rules say is done at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queues.effects import Refusal
from queues.journaled_leases import JournaledLeases, leases_of
from queues.lease_source import Caller, Done, ReadyMessages

if TYPE_CHECKING:
    from queues.classic import ClassicQueue
    from queues.leases import LeaseGroup


class ClassicLeases:
    """See LeaseSource. The groups take whole pages."""

    step_messages = 65_536
    is_local = True

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue

    def groups(self) -> dict[str, LeaseGroup]:
        """See LeaseSource."""
        found: JournaledLeases | None = self._queue.lease_groups
        return found.groups if found is not None else {}

    def is_here(self) -> bool:
        """See LeaseSource."""
        return True

    def ready_count(self) -> int:
        """See LeaseSource."""
        return self._queue.message_count()

    def ready(self) -> ReadyMessages:
        """See LeaseSource."""
        return ReadyMessages(self._queue.levels(), self._queue.next_sequence)

    def is_exclusive(self) -> bool:
        """See LeaseSource."""
        return self._queue.has_exclusive()

    def lease_expires(self) -> int | None:
        """See LeaseSource."""
        expires: int | None = self._queue.settings.lease_expires
        return expires

    def open(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        if not self._is_gone(then):
            leases_of(self._queue).open(caller, now)
            then(None)

    def claim(
        self, caller: Caller, after: int, messages: int, octets: int, adds: bool, now: int, then: Done
    ) -> None:
        """See LeaseSource."""
        if not self._is_gone(then):
            then(leases_of(self._queue).claim(caller, after, messages, octets, adds, now))

    def ack(self, caller: Caller, upto: int, now: int, then: Done) -> None:
        """See LeaseSource."""
        if not self._is_gone(then):
            then(leases_of(self._queue).ack(caller, upto, now))

    def release(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        if not self._is_gone(then):
            then(leases_of(self._queue).release(caller, now))

    def _is_gone(self, then: Done) -> bool:
        """Whether there is no such queue any more: then that is said."""
        if self._queue.is_deleted:
            then(Refusal.NO_QUEUE)
            return True
        return False

    def watch(self, wake: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._queue.watcher = wake
