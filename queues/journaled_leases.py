"""JournaledLeases: the lease groups of a ClassicQueue, by the journal and the timers of its node.

Everything that changes a group is in the journal when the method returns, and durable once `store.journal.position` is
synced; a group of a queue that is not durable is in RAM only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.lease import OPEN
from queues.lease_rules import LeaseRules
from queues.lease_source import Caller
from queues.leases import LeaseGroup, lease_id

if TYPE_CHECKING:
    from queues.classic import ClassicQueue
    from queues.recovered_lease import RecoveredLease

#: So many octets go back to the queue in one turn.
_RELEASE_BYTES = 4_194_304


class JournaledLeases(LeaseRules[LeaseGroup]):
    """See LeaseRules."""

    _is_scheduled = False

    def share(self) -> int:
        """See LeaseRules: octets."""
        return _RELEASE_BYTES

    def make(self, caller: Caller) -> LeaseGroup:
        """See LeaseRules."""
        group_id = lease_id(self.queue.queue_id, caller.group, caller.incarnation)
        return LeaseGroup(self.queue, group_id, caller.group, caller.incarnation, caller.owner)

    def came_back(self) -> None:
        """See LeaseRules: what is unpacked takes more memory than it is counted for."""
        ready, pager = self.queue.ready, self.queue.pager
        if pager.used > pager.tight_bytes:
            ready.page_out(pager.used - pager.tight_bytes)
        ready.shorten_head()

    def schedule(self, now: int) -> None:
        """See LeaseRules: in turns to come."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.queue.timers.at(now + 1, self._go_on)

    def _go_on(self, now: int) -> None:
        self._is_scheduled = False
        if not self.queue.is_deleted:
            self.put_back(now)
            self.queue.dispatch(now)

    def restore(self, recovered: RecoveredLease, now: int) -> None:
        """Take over a group that was found on disk, after the queue's own `restore`."""
        group = LeaseGroup(
            self.queue, recovered.group_id, recovered.name, recovered.incarnation, recovered.owner
        )
        group.last_called = now
        group.restore(recovered)
        if group.state == OPEN:
            self.groups[group.name] = group
        else:
            self.parting.append(group)
            self.put_back(now)
            self.queue.dispatch(now)

    def forget(self) -> None:
        """The queue was deleted. Their files go with its own, should a crash not undo the deletion."""
        for group in self.all():
            group.forget()


def leases_of(queue: ClassicQueue) -> JournaledLeases:
    """The lease groups of a queue, which may be its first."""
    found: Any = queue.lease_groups
    if found is None:
        found = queue.lease_groups = JournaledLeases(queue)
    leases: JournaledLeases = found
    return leases
