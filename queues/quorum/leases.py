"""Lease groups of one quorum queue: what its members agree on, and what the commands do to it.

A group is a MessageLog as that of a classic queue (queues/leases.py); but no journal has it: it follows from the
group's log, and checkpoints name its pages. They lie among those of the queue.

    OpenLease -> Claim -> [trimmed, next) -> AckLease       gone
                                          -> ReleaseLease   parting -> back in the queue, some at a time

Invariants:
1. Nothing depends on how a log is cut into pages, or on where they lie.
2. What a step does is bounded: messages claimed, put back, or found expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.message import Entry
from queues.message_log import MessageLog
from queues.page import Page
from queues.pager import Pager
from queues.quorum.effects import Refusal
from queues.quorum.lease_commands import AckLease, Claim, LeaseCommand, OpenLease, ReleaseLease
from queues.rule import Rule

if TYPE_CHECKING:
    from queues.quorum.queue import QuorumQueue

#: What one Claim takes at most: messages, and octets of packed messages.
CLAIM_MESSAGES = 10_000
CLAIM_BYTES = 8 * 1024 * 1024
#: So many messages go back to the queue at a time.
RELEASE_MESSAGES = 5000


class QuorumLease(MessageLog):
    """One group. last_called: the group's time when a command named it last, ms since the epoch."""

    def __init__(self, queue_id: int, pager: Pager, name: str, incarnation: str, owner: str) -> None:
        super().__init__(queue_id, pager, None)
        self.name = name
        self.incarnation = incarnation
        self.owner = owner
        self.last_called = 0

    def is_dense(self) -> bool:
        """Whether its pages are all that it holds."""
        expected = self.trimmed
        for page in self.pages:
            if page.last - page.first + 1 != page.count or page.first > expected or page.last < expected:
                return False
            expected = page.last + 1
        return expected + self.tail.count == self.next or (not self.pages and self.tail.count >= self.count)

    def entries(self) -> list[Entry]:
        """Everything, unpacked; nothing is changed."""
        found: list[Entry] = []
        for stretch in self.read(self.trimmed, self.next, 1 << 62):
            page = Page(stretch.data, 0, 0, 0, 0)
            page.start, page.size = stretch.start, stretch.end - stretch.start
            found += page.entries(self.pager.addresses)
        self._forget_kept()
        return found

    def discard(self) -> None:
        """Give back everything in RAM and the places of its pages."""
        self.clear()
        self._forget_kept()


class Leases:
    """The groups of one queue. groups: by name; parting: those that are being put back, in the order of their
    releases."""

    def __init__(self) -> None:
        self.groups: dict[str, QuorumLease] = {}
        self.parting: list[QuorumLease] = []

    def all(self) -> list[QuorumLease]:
        """Those that hold something or may."""
        return [*self.groups.values(), *self.parting]

    def held(self) -> int:
        """How many messages they hold."""
        return sum(lease.count for lease in self.all())

    def discard(self) -> None:
        """The queue is no more."""
        for lease in self.all():
            lease.discard()
        self.groups = {}
        self.parting = []


def execute(queue: QuorumQueue, command: LeaseCommand, clock: int) -> Refusal | None:
    """Do what a command says to a QuorumQueue. Returns why it was refused."""
    if Rule.LEASES in queue.lacks:
        return Refusal.LEASE_GONE  # nobody asks: such a queue offers none
    if queue.lease_groups is None:
        queue.lease_groups = Leases()
    leases = queue.lease_groups
    lease = leases.groups.get(command.name)
    if isinstance(command, OpenLease):
        if lease is None:
            lease = QuorumLease(queue.queue_id, queue.pager, command.name, command.incarnation, command.owner)
            leases.groups[command.name] = lease
        lease.owner = command.owner
    elif lease is None or lease.incarnation != command.incarnation:
        return Refusal.LEASE_GONE
    elif lease.owner != command.owner:
        return Refusal.FENCED
    lease.last_called = queue.last_used = clock
    if isinstance(command, Claim):
        if not lease.trimmed <= command.after <= lease.next:
            return Refusal.LEASE_GONE
        if command.adds or command.after == lease.next:
            claim(queue, lease, command, clock)
    elif isinstance(command, AckLease):
        if command.upto > lease.next:
            return Refusal.LEASE_GONE
        if command.upto > lease.trimmed:
            lease.trim(command.upto)
    elif isinstance(command, ReleaseLease):
        del leases.groups[command.name]
        leases.parting.append(lease)
        put_back(queue)
        queue.dispatch(clock)
    return None


def claim(queue: QuorumQueue, lease: QuorumLease, command: Claim, clock: int) -> None:
    """Messages that are ready become the group's."""
    pager = queue.pager
    most = min(command.messages, CLAIM_MESSAGES)
    for entry in queue.take_ready(most, min(command.octets, CLAIM_BYTES), True, clock):
        if entry.page is not None:
            pager.settle(queue.queue_id, entry.page)
            entry.page = None
        pager.used -= entry.message.size
        lease.add(entry.message, entry.sequence, entry.expires_at, 0, entry.returns, entry.is_redelivered)


def put_back(queue: QuorumQueue) -> None:
    """Some of what is to go back to the queue does, the last first. Call `dispatch` afterwards."""
    leases = queue.lease_groups
    if leases is None or not leases.parting:
        return
    most = RELEASE_MESSAGES
    while leases.parting and most > 0:
        lease = leases.parting[0]
        while lease.count and most > 0:
            entries = lease.take_last(most)
            for entry in entries:
                entry.journal_segment = 0
            most -= len(entries)
            queue.take_leased(entries)
        if not lease.count:
            lease.discard()
            del leases.parting[0]
