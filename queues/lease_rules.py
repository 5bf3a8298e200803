"""LeaseRules: what holds for the lease groups of one queue, wherever its log is.

    open -> a group, which is the caller's -> claim: `take` -> ack: `trim`
    release -> `parting` -> put_back -> `QueueRules.bring_back`, some at a time -> gone

Of another incarnation a call is refused with LEASE_GONE, of another owner with FENCED, and so is what a group does not
hold. Two hosts run them: JournaledLeases, with a journal and timers of its own node (journaled_leases.py), and Leases,
with a log and the group's time (quorum/leases.py). A host makes a group, whose Lease says how messages change hands,
and goes on with what is too much for one step.

A replicated host's members have to agree on all of this, whatever their version.

Invariants:
1. A group is in `groups` while it is open, then in `parting` while it holds something, in the order of the releases.
2. What a step gives back is bounded (`share`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queues.effects import Refusal
from queues.lease import GONE, RELEASING, Lease
from queues.lease_source import Caller

if TYPE_CHECKING:
    from queues.rules import QueueRules

Group = TypeVar("Group", bound=Lease)


class LeaseRules(Generic[Group]):
    """The groups of one queue. groups: by name, those that are open; parting: those that are being put back."""

    def __init__(self, queue: QueueRules) -> None:
        self.queue: Any = queue
        self.groups: dict[str, Group] = {}
        self.parting: list[Group] = []

    def all(self) -> list[Group]:
        """Those that hold something or may."""
        return [*self.groups.values(), *self.parting]

    def held(self) -> int:
        """How many messages they hold."""
        return sum(lease.count for lease in self.all())

    # -- what the host does ------------------------------------------------------------------------------------------

    def share(self) -> int:
        """So much goes back to the queue in one step, in what `Lease.part_with` counts."""
        raise NotImplementedError

    def make(self, caller: Caller) -> Group:
        """A new group."""
        raise NotImplementedError

    def came_back(self) -> None:
        """Some messages are in front of the queue again."""

    def schedule(self, now: int) -> None:
        """More is to be put back than one step may."""

    # -- what owners do ----------------------------------------------------------------------------------------------

    def open(self, caller: Caller, now: int) -> None:
        """The group is there and is the caller's; with this incarnation, if it was not there."""
        lease = self.groups.get(caller.group)
        if lease is None:
            lease = self.groups[caller.group] = self.make(caller)
            lease.changed()
        elif lease.owner != caller.owner:
            lease.owner = caller.owner
            lease.changed()
        self._called(lease, now)

    def claim(
        self, caller: Caller, after: int, messages: int, octets: int, adds: bool, now: int
    ) -> Refusal | None:
        """The group takes ready messages; unless it `adds`, only while it holds none beyond offset `after`."""
        lease = self._find(caller, now)
        if isinstance(lease, Refusal):
            return lease
        if not lease.trimmed <= after <= lease.next:
            return Refusal.LEASE_GONE
        if adds or after == lease.next:
            lease.take(messages, octets, now)
        return None

    def ack(self, caller: Caller, upto: int, now: int) -> Refusal | None:
        """Everything below `upto` is done with."""
        lease = self._find(caller, now)
        if isinstance(lease, Refusal):
            return lease
        if upto > lease.next:
            return Refusal.LEASE_GONE
        if upto > lease.trimmed:
            lease.trim(upto)
            lease.changed()
        return None

    def release(self, caller: Caller, now: int) -> Refusal | None:
        """What the group holds goes back to the queue, to its original place and marked as redelivered, and the group
        is gone. Of a large one the rest follows."""
        lease = self._find(caller, now)
        if isinstance(lease, Refusal):
            return lease
        del self.groups[lease.name]
        lease.state = RELEASING
        lease.changed()
        self.parting.append(lease)
        self.put_back(now)
        self.queue.dispatch(now)
        return None

    def _find(self, caller: Caller, now: int) -> Group | Refusal:
        """The group, if it is the caller's, who has called now."""
        lease = self.groups.get(caller.group)
        if lease is None or lease.incarnation != caller.incarnation:
            return Refusal.LEASE_GONE
        if lease.owner != caller.owner:
            return Refusal.FENCED
        self._called(lease, now)
        return lease

    def _called(self, lease: Group, now: int) -> None:
        """Who leases messages of a queue uses it."""
        lease.last_called = self.queue.last_used = now

    # -- putting back ------------------------------------------------------------------------------------------------

    def put_back(self, now: int) -> None:
        """Some of what is to go back does, from the end of a group, so that each stands in front of the one before.
        Call `dispatch` afterwards."""
        queue = self.queue
        left = self.share()
        while self.parting and left > 0:
            lease = self.parting[0]
            while lease.count and left > 0:
                entries, cost = lease.part_with(left)
                left -= cost
                queue.unacked += len(entries)
                queue.bring_back(entries, True, now)
                self.came_back()
            if not lease.count:
                del self.parting[0]
                lease.state = GONE
                lease.changed()
                lease.discard()
        if self.parting:
            self.schedule(now)

    def discard(self) -> None:
        """The queue is no more."""
        for lease in self.all():
            lease.discard()
        self.groups = {}
        self.parting = []
