"""QuorumLeases: the lease groups of a quorum queue, as this node asks for them and sees them.

    open | claim | ack | release -> a command in the log -> applied here -> `then`
    groups -> what this node has applied, to be read at once

Every node has all that the groups hold, so that any of them can be asked; a read sees what this node has applied, and
whoever was told by `then` of a change finds it there. When it is done, the group's log says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queues.effects import Refusal
from queues.lease_source import Caller, Done, ReadyMessages
from queues.quorum.lease_commands import AckLease, Claim, LeaseCommand, OpenLease, ReleaseLease
from queues.quorum.leases import QuorumLease
from queues.receipts import Receipt

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.quorum.queue import QuorumQueue
    from queues.quorum.queue import QuorumQueue as StateOfQueue

class _DoneReceipt(Receipt):
    def __init__(self, then: Done) -> None:
        self._then = then

    def expect(self) -> None:
        """One command."""

    def complete(self, refusal: Refusal | None) -> None:
        """It is applied on a majority's disks and here, or was refused."""
        self._then(refusal)


class QuorumLeases:
    """See LeaseSource. lease_expires: finds what is in force: the log does not know it."""

    step_messages = 4096
    is_local = False

    def __init__(self, queue: QuorumQueue, group: QueueGroup, lease_expires: Callable[[], int | None]) -> None:
        self._queue = queue
        self._group = group
        self._machine = group.machine
        self.lease_expires = lease_expires

    @property
    def _state(self) -> StateOfQueue | None:
        """The queue as this node has applied it; None if it has not yet, or not any more."""
        return self._machine.queue_state(self._queue.queue_id)

    def ready(self) -> ReadyMessages:
        """See LeaseSource."""
        state = self._state
        return ReadyMessages(state.levels(), state.next_sequence) if state is not None else ReadyMessages([], 1)

    def is_exclusive(self) -> bool:
        """See LeaseSource."""
        state = self._state
        return state is not None and state.has_exclusive()

    def groups(self) -> dict[str, QuorumLease]:
        """By name, as of what this node has applied; to be read only."""
        return self._machine.lease_groups(self._queue.queue_id)

    def is_here(self) -> bool:
        """See LeaseSource: a member may have left the group while a command was on its way."""
        return self._group.guest is None

    def ready_count(self) -> int:
        """How many messages a claim would find, as of what this node has applied."""
        return self._queue.message_count()

    def open(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        self._submit(OpenLease(self._queue.queue_id, *caller), then)

    def claim(
        self, caller: Caller, after: int, messages: int, octets: int, adds: bool, now: int, then: Done
    ) -> None:
        """See LeaseSource."""
        most = min(messages, (1 << 32) - 1)
        self._submit(Claim(self._queue.queue_id, *caller, after, most, octets, adds), then)

    def ack(self, caller: Caller, upto: int, now: int, then: Done) -> None:
        """See LeaseSource."""
        self._submit(AckLease(self._queue.queue_id, *caller, upto), then)

    def release(self, caller: Caller, now: int, then: Done) -> None:
        """See LeaseSource."""
        self._submit(ReleaseLease(self._queue.queue_id, *caller), then)

    def watch(self, wake: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._group.watch(self._queue.queue_id, wake)

    def _submit(self, command: LeaseCommand, then: Done) -> None:
        queue = self._queue
        if queue.is_deleted:
            then(Refusal.NO_QUEUE)
            return
        if not queue.is_prepared:
            queue.prepare()
        queue.group.submit(command, _DoneReceipt(then))
