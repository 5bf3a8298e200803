"""Lease groups of one quorum queue: what its members agree on, as the rules of leases have it (queues/lease_rules.py).

No journal has a group: it follows from the group's log, and checkpoints name its pages. They lie among those of the
queue.

Invariants:
1. Nothing depends on how a log is cut into pages, or on where they lie.
2. What a step does is bounded: messages claimed, put back, or found expired. What is left to put back is due at once
   (`QuorumQueue.due_at`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.effects import Refusal
from queues.lease import Lease
from queues.lease_rules import LeaseRules
from queues.lease_source import Caller
from queues.message import Entry
from queues.page import Page
from queues.quorum.lease_commands import AckLease, Claim, LeaseCommand, OpenLease
from queues.rule import Rule

if TYPE_CHECKING:
    from queues.quorum.queue import QuorumQueue

#: What one Claim takes at most: messages, and octets of packed messages.
CLAIM_MESSAGES = 10_000
CLAIM_BYTES = 8 * 1024 * 1024
#: So many messages go back to the queue at a time.
RELEASE_MESSAGES = 5000


class QuorumLease(Lease):
    """One group. last_called: the group's time when a command named it last, ms since the epoch."""

    def __init__(self, queue: QuorumQueue, name: str, incarnation: str, owner: str) -> None:
        super().__init__(queue.queue_id, queue, None, name, incarnation, owner)

    def take(self, max_messages: int, max_bytes: int, now: int) -> int:
        """See Lease."""
        queue, pager = self.queue, self.pager
        entries = queue.take_ready(min(max_messages, CLAIM_MESSAGES), min(max_bytes, CLAIM_BYTES), True, now)
        for entry in entries:
            if entry.page is not None:
                pager.settle(queue.queue_id, entry.page)
                entry.page = None
            pager.used -= entry.message.size
            self.add(entry.message, entry.sequence, entry.expires_at, 0, entry.returns, entry.is_redelivered)
        return len(entries)

    def part_with(self, left: int) -> tuple[list[Entry], int]:
        """See Lease: so many of its last page; messages."""
        entries = self.take_last(left)
        for entry in entries:
            entry.journal_segment = 0
        return entries, len(entries)

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
        """See Lease."""
        self.clear()
        self._forget_kept()


class Leases(LeaseRules[QuorumLease]):
    """See LeaseRules."""

    def share(self) -> int:
        """See LeaseRules: messages."""
        return RELEASE_MESSAGES

    def make(self, caller: Caller) -> QuorumLease:
        """See LeaseRules."""
        return QuorumLease(self.queue, *caller)


def execute(queue: QuorumQueue, command: LeaseCommand, clock: int) -> Refusal | None:
    """Do what a command says to a QuorumQueue. Returns why it was refused."""
    if Rule.LEASES in queue.lacks:
        return Refusal.LEASE_GONE  # nobody asks: such a queue offers none
    if queue.lease_groups is None:
        queue.lease_groups = Leases(queue)
    leases: Leases = queue.lease_groups
    caller = Caller(command.name, command.incarnation, command.owner)
    if isinstance(command, OpenLease):
        leases.open(caller, clock)
        return None
    if isinstance(command, Claim):
        return leases.claim(caller, command.after, command.messages, command.octets, command.adds, clock)
    if isinstance(command, AckLease):
        return leases.ack(caller, command.upto, clock)
    return leases.release(caller, clock)
