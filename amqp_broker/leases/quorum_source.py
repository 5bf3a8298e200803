"""QuorumSource: the lease groups of a quorum queue, asked for on any node.

What changes a group is a command in the queue's log, and done when this node has applied it. Reading is from this
node's own state, which may be behind: what is not there is looked for again when everything has come that was in the
log before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.leases.blob import BlobWriter
from amqp_broker.leases.errors import BUSY, GONE, INVALID, LeaseError
from amqp_broker.leases.lease_source import (
    Caller,
    LeaseSource,
    Moved,
    Then,
    ThenMoved,
    check_after,
    fenced,
    gone,
    group_list,
    has_exclusive,
    too_many,
    write_range,
)
from queues.message_log import RangeGone
from queues.quorum.effects import Refusal

if TYPE_CHECKING:
    from amqp_broker.leases.service import Leases
    from amqp_broker.queue_types.quorum.queue import QuorumQueue
    from queues.quorum.leases import QuorumLease

#: Nobody owns a group by this name: a command in it changes nothing, and tells whether the group is there.
_NOBODY = ""


class QuorumSource(LeaseSource):
    """Of one quorum queue."""

    def __init__(self, desk: Leases, queue: QuorumQueue) -> None:
        self.name = queue.name
        self.queue_id = queue.queue_id
        self._desk = desk
        self._queue = queue
        self._leases = queue.leases

    def is_exclusive(self) -> bool:
        """See LeaseSource."""
        state = self._queue.group.machine.queue_state(self.queue_id)
        return state is not None and has_exclusive(state.dispatcher)

    def _error(self, refusal: Refusal, caller: Caller) -> LeaseError:
        if refusal is Refusal.FENCED:
            return fenced(self.name, caller.group)
        if refusal is Refusal.LEASE_GONE:
            return gone(self.name, caller.group, caller.incarnation)
        return LeaseError(BUSY, f"queue '{self.name}': nobody knows whether it was done: ask again")

    def _find(self, caller: Caller) -> QuorumLease:
        found = self._leases.groups().get(caller.group)
        if found is None or found.incarnation != caller.incarnation:
            raise gone(self.name, caller.group, caller.incarnation)
        return found

    def open(self, group: str, owner: str, then: Then) -> None:
        """See LeaseSource."""
        groups, limit = self._leases.groups(), self._desk.config.max_lease_groups
        if group not in groups and len(groups) >= limit:
            then(LeaseError(INVALID, too_many(self.name, limit)))
            return

        def opened(refusal: Refusal | None) -> None:
            caller = Caller(group, "", owner)
            found = self._leases.groups().get(group)
            if refusal is not None or found is None:
                then(self._error(refusal or Refusal.UNKNOWN, caller))
            else:
                then({"incarnation": found.incarnation, "trimmed": found.trimmed, "next": found.next})

        self._leases.open(group, self._desk.random_bytes(16).hex(), owner, opened)

    def move(
        self, caller: Caller, after: int, count: int, octets: int, is_first: bool, then: ThenMoved
    ) -> None:
        """See LeaseSource."""
        known = self._leases.groups().get(caller.group)
        is_known = known is not None and known.incarnation == caller.incarnation
        before = max(after, known.next) if is_known and known is not None else after
        octets_before = known.bytes if is_known and known is not None else 0

        def claimed(refusal: Refusal | None) -> None:
            try:
                if refusal is not None:
                    raise self._error(refusal, caller)
                group = self._find(caller)
                check_after(self.name, caller.group, after, group.trimmed, group.next)
            except LeaseError as error:
                then(error)
                return
            held = group.next - after
            moved = max(0, group.next - before)
            moved_bytes = max(0, group.bytes - octets_before)
            is_short = is_first and moved < count and 2 * moved_bytes < octets
            then(
                Moved(
                    held,
                    group.bytes * held // max(1, group.count),
                    moved,
                    moved_bytes,
                    is_short or not self._leases.ready_count(),
                )
            )

        self._leases.claim(
            caller.group, caller.incarnation, caller.owner, after, count, octets, not is_first, claimed
        )

    def settle(self, then: Callable[[], None]) -> None:
        """See LeaseSource: what is applied is durable."""
        then()

    def watch(self, wake: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._leases.watch(wake)

    def read(self, group: str, incarnation: str, first: int, last: int, writer: BlobWriter) -> int:
        """See LeaseSource."""
        found = self._find(Caller(group, incarnation, _NOBODY))
        try:
            return write_range(found, first, last, writer)
        except RangeGone as error:
            raise LeaseError(GONE, f"group '{group}' of queue '{self.name}': {error}") from None

    def catch_up(self, group: str, incarnation: str, then: Callable[[LeaseError | None], None]) -> bool:
        """See LeaseSource."""
        caller = Caller(group, incarnation, _NOBODY)

        def caught_up(refusal: Refusal | None) -> None:
            then(None if refusal is None or refusal is Refusal.FENCED else self._error(refusal, caller))

        self._leases.ack(group, incarnation, _NOBODY, 0, caught_up)
        return True

    def ack(self, caller: Caller, upto: int, then: Then) -> None:
        """See LeaseSource."""

        def acknowledged(refusal: Refusal | None) -> None:
            found = self._leases.groups().get(caller.group)
            if refusal is not None or found is None:
                then(self._error(refusal or Refusal.UNKNOWN, caller))
            else:
                then({"trimmed": found.trimmed})

        self._leases.ack(caller.group, caller.incarnation, caller.owner, upto, acknowledged)

    def release(self, caller: Caller, then: Then) -> None:
        """See LeaseSource."""
        found = self._leases.groups().get(caller.group)
        count = found.count if found is not None and found.incarnation == caller.incarnation else 0

        def released(refusal: Refusal | None) -> None:
            if refusal is None:
                then({"released": count})
            elif refusal is Refusal.LEASE_GONE:
                then({"released": 0})
            else:
                then(self._error(refusal, caller))

        self._leases.release(caller.group, caller.incarnation, caller.owner, released)

    def statistics(self) -> tuple[int, list[dict[str, Any]]]:
        """See LeaseSource."""
        return self._leases.ready_count(), group_list(self._leases.groups(), self._desk.now)
