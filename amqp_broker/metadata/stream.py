"""MetadataStream: this node's ordered stream of commands to the metadata group, and who waits for them.

    propose -> unapplied -> end_turn: to the leader -> ... -> applied on this node -> settled -> `then`
                   ^------- a new leader, a new link to it, or no news for a while: everything goes again

The machine skips what it has, so a command is applied exactly once whichever leaders come and go.

Invariants:
1. Commands have consecutive numbers from 1, in the order of `propose`, and `then` is called in that order.
2. What waits for this node's disk (`wait_for_disk`) is not sent before, nor is what stands behind it.
3. `then` is called when the command is applied here and on every member that is linked, or after `SETTLE_MS`: what a
   client is told to be there is there on the other nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.machine import Batch

#: A batch has so many commands at most: a member applies it in some milliseconds, and others have their turn.
BATCH_COMMANDS = 20
#: What was sent and is not applied after this time goes again, milliseconds.
RESEND_MS = 1000
#: So long `then` waits for members that are linked and do not say that they have applied it, milliseconds.
SETTLE_MS = 2000

Then = Callable[[object], None]


class Proposal:
    """One command on its way. `result`: what applying it gave, for `then`. written_at: up to there the journal has to
    be on the disk before it is sent."""

    __slots__ = ("command", "index", "is_done", "number", "result", "settle_at", "then", "written_at")

    def __init__(self, number: int, command: Command, then: Then | None, written_at: int = 0) -> None:
        self.number = number
        self.written_at = written_at
        self.command = command
        self.then = [then] if then is not None else []
        self.is_done = False
        self.index = 0
        self.settle_at = 0
        self.result: object = None

    def when_done(self, then: Then) -> None:
        """Call `then` too; at once if it is done already."""
        if self.is_done:
            then(self.result)
        else:
            self.then.append(then)


class MetadataStream:
    """See the module's docstring. origin: this node's name. session: above all that this node has ever used, as the
    time is; 0 until it is known what those were (`open`), when nothing is proposed."""

    def __init__(self, origin: str, session: int = 0) -> None:
        self.origin = origin
        self.session = session
        self.unapplied: deque[Proposal] = deque()
        #: Those that are applied here, and of which not all linked members are known to know. While there is nothing in
        #: either, nobody needs to call.
        self.settling: deque[Proposal] = deque()
        self._next_number = 1
        self._sent = 0
        self._progress_at = 0
        self._written_at = 0

    def open(self, origin: str, session: int) -> None:
        """The log was read: a session begins, under the name that this node has in it."""
        self.origin, self.session = origin, session

    @property
    def is_open(self) -> bool:
        """Whether it has a session."""
        return self.session > 0

    @property
    def last(self) -> Proposal | None:
        """The newest command that is not done."""
        if self.unapplied:
            return self.unapplied[-1]
        return self.settling[-1] if self.settling else None

    def propose(self, command: Command, then: Then | None = None) -> Proposal:
        """Put a command behind the others."""
        proposal = Proposal(self._next_number, command, then, self._written_at)
        self._next_number += 1
        self.unapplied.append(proposal)
        return proposal

    def wait_for_disk(self, position: int) -> None:
        """What is proposed from now on is not sent before the journal is on the disk up to there."""
        self._written_at = position

    def waits_for_disk(self, synced_position: int) -> bool:
        """Whether something does."""
        return bool(self.unapplied) and self.unapplied[-1].written_at > synced_position

    def reopen(self, session: int) -> None:
        """The log knows a session of this node that is newer than the present one: everything begins again in a newer
        one still."""
        self.session = session
        self._sent = 0
        for number, proposal in enumerate(self.unapplied, 1):
            proposal.number = number
        self._next_number = len(self.unapplied) + 1

    def resend(self) -> None:
        """What was sent may be lost."""
        self._sent = 0

    def take_batches(self, now: int, synced_position: int | None = None) -> list[Batch]:
        """What has to go to the leader now. synced_position: up to where this node's journal is on the disk; None where
        that is what a command waits for anyway."""
        if self._sent and not 0 <= now - self._progress_at <= RESEND_MS:  # below zero: the clock was set back
            self._sent = 0
        if self._sent == len(self.unapplied):
            return []
        unsent = list(self.unapplied)[self._sent :]
        waiting = [
            proposal.command
            for proposal in unsent
            if synced_position is None or proposal.written_at <= synced_position
        ]
        if not waiting:
            return []
        first = unsent[0].number
        self._sent += len(waiting)
        self._progress_at = now
        return [
            Batch(self.origin, self.session, first + start, waiting[start : start + BATCH_COMMANDS])
            for start in range(0, len(waiting), BATCH_COMMANDS)
        ]

    def next_deadline(self) -> int | None:
        """When something has to be sent again, or to be given up waiting for."""
        times = [self._progress_at + RESEND_MS + 1] if self._sent else []
        if self.settling:
            times.append(self.settling[0].settle_at)
        return min(times, default=None)

    def applied(self, number: int, index: int, result: object, now: int) -> None:
        """This node's own machine has applied the command with this number."""
        while self.unapplied and self.unapplied[0].number <= number:
            proposal = self.unapplied.popleft()
            proposal.index = index
            proposal.settle_at = now + SETTLE_MS
            if proposal.number == number:
                proposal.result = result
            self.settling.append(proposal)
            self._sent = max(0, self._sent - 1)
        self._progress_at = now

    def wait_for(self, index: int, now: int) -> Proposal:
        """Something without a command that is done when all linked members have applied entries up to `index`, which
        this node has."""
        barrier = Proposal(0, {}, None)
        barrier.index = index
        barrier.settle_at = now + SETTLE_MS
        self.settling.append(barrier)
        return barrier

    def settle(self, index: int, now: int) -> None:
        """All linked members have applied entries up to `index`: whoever waited for that goes on."""
        settling = self.settling
        while settling and (settling[0].index <= index or not now < settling[0].settle_at <= now + SETTLE_MS):
            proposal = settling.popleft()
            proposal.is_done = True
            for then in proposal.then:
                then(proposal.result)
