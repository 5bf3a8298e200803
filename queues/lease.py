"""Lease: messages of one queue that a reader outside has taken on lease, as an ordered log, whoever keeps it.

    OPEN -> take -> [trimmed, next) -> trim
         -> RELEASING -> part_with -> back in the queue, some at a time -> GONE

What it is subject to its queue's LeaseRules say (lease_rules.py); it says how messages change hands: LeaseGroup by
entries of the journal (leases.py), QuorumLease as the group's log has it (quorum/leases.py).

Invariants:
1. A message is in the queue or in one of its groups, never in both and never in neither.
2. What is claimed has left the queue: its expiry, length limits, dead letters and purges do not reach it.
"""

from __future__ import annotations

from typing import Any

from queues.message import Entry
from queues.message_log import MessageLog

OPEN = 0
#: What it holds is going back to the queue.
RELEASING = 1
GONE = 2


class Lease(MessageLog):
    """One group of a queue.

    queue: whose messages it takes. name; incarnation: 32 hexadecimal digits, never the same again; owner: who may
    claim, as the group was told last. last_called: when it was told or asked something last, ms since the epoch.
    """

    def __init__(self, queue_id: int, queue: Any, store: Any, name: str, incarnation: str, owner: str) -> None:
        super().__init__(queue_id, queue.pager, store)
        self.queue = queue
        self.name = name
        self.incarnation = incarnation
        self.owner = owner
        self.last_called = 0
        self.state = OPEN

    # -- what the host does ------------------------------------------------------------------------------------------

    def take(self, max_messages: int, max_bytes: int, now: int) -> int:
        """Take ready messages of the queue, in delivery order: so many at most, and at most so many octets of packed
        messages; one at least, if there is one. Returns how many, which is fewer than there are when that is as much
        as is taken at once."""
        raise NotImplementedError

    def part_with(self, left: int) -> tuple[list[Entry], int]:
        """Some messages at its end are the queue's again, counted in the budget. Returns them, and what that costs of
        what is `left` of a share (`LeaseRules.share`)."""
        raise NotImplementedError

    def changed(self) -> None:
        """It is new, its owner or its state is another, or it has given up messages."""

    def discard(self) -> None:
        """It is gone: give back everything in RAM, and its places."""
        raise NotImplementedError
