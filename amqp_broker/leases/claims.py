"""Claims: lease.claim, in steps, so that no turn is long; and those that wait for something to claim.

    start -> step: some messages are moved -> step, in a later turn -> enough, or no more there -> durable -> answered
                   nothing there, nothing held -> waits: for the queue (`watch`), or until its time is up

A waiting claim is like a consumer of the lowest priority: it gets what is still ready at the end of a turn. Nothing is
looked at while nothing comes.

Invariants:
1. A claim is answered once, and not before what it has moved is durable.
2. One that nobody waits for any more (its client is gone) moves nothing more.
3. Claims that wait for the same queue are served in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.leases.answer import Answer
from amqp_broker.leases.errors import LeaseError
from amqp_broker.leases.queue_leases import Moved, QueueLeases

if TYPE_CHECKING:
    from amqp_broker.leases.service import Leases
    from queues.lease_source import Caller
    from queues.timers import Timer

#: So many octets of messages at most are moved in one step.
STEP_BYTES = 4 * 1024 * 1024
#: So many messages of claims that are half done are moved in one turn.
_TURN_MESSAGES = 8192


class Claim:
    """One claim. after: the offset behind which it begins; deadline: until when it waits if there is nothing, 0 for not
    at all. moved_bytes: what its own steps have moved, octets."""

    def __init__(
        self,
        leases: QueueLeases,
        caller: Caller,
        after: int,
        max_messages: int,
        max_bytes: int,
        deadline: int,
        answer: Answer,
    ) -> None:
        self.leases = leases
        self.caller = caller
        self.after = after
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.deadline = deadline
        self.answer = answer
        self.moved = 0
        self.moved_bytes = 0
        self.timer: Timer | None = None


class Claims:
    """The claims of a node that are under way."""

    def __init__(self, service: Leases) -> None:
        self._service = service
        self._timers = service.timers
        self._waiting: dict[int, deque[Claim]] = {}
        self._woken: dict[int, None] = {}
        self._steps: deque[Claim] = deque()
        self.waiting_count = 0

    @property
    def is_busy(self) -> bool:
        """Whether `work` has something to do."""
        return bool(self._steps or self._woken)

    def start(self, claim: Claim) -> None:
        """A claim has come."""
        leases = claim.leases
        count = min(claim.max_messages - claim.moved, leases.step_messages)
        octets = min(max(1, claim.max_bytes - claim.moved_bytes), STEP_BYTES)
        is_first = claim.moved == 0
        leases.move(claim.caller, claim.after, count, octets, is_first, lambda moved: self._on_moved(claim, moved))

    def work(self) -> None:
        """The end of a turn: go on with claims whose queue has something, and with those that are half done."""
        woken, self._woken = self._woken, {}
        for queue_id in woken:
            for claim in self._waiting.pop(queue_id, ()):
                self.waiting_count -= 1
                _stop_timer(claim)
                if claim.answer.is_wanted:
                    self.start(claim)
        steps, self._steps = self._steps, deque()
        left = _TURN_MESSAGES
        while steps and left > 0:
            claim = steps.popleft()
            if claim.answer.is_wanted:
                before = claim.moved
                self.start(claim)
                left -= claim.moved - before
        if steps:
            self._steps.extendleft(reversed(steps))
            self._service.come_back()

    def _on_moved(self, claim: Claim, outcome: Moved | LeaseError) -> None:
        if isinstance(outcome, LeaseError):
            claim.answer.refuse(outcome)
            return
        claim.moved += outcome.moved
        claim.moved_bytes += outcome.moved_bytes
        is_enough = claim.moved >= claim.max_messages or claim.moved_bytes >= claim.max_bytes
        if not outcome.held and self._service.now < claim.deadline:
            self._wait(claim)
        elif not outcome.moved or outcome.is_all or is_enough:
            count = min(outcome.held, claim.max_messages)
            octets = claim.moved_bytes or outcome.held_bytes * count // max(1, outcome.held)
            said = {"end": claim.after + count, "bytes": octets}
            claim.leases.settle(lambda: claim.answer.give(said))
        else:
            self._steps.append(claim)
            self._service.come_back()

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait(self, claim: Claim) -> None:
        queue_id = claim.leases.queue_id
        waiting = self._waiting.setdefault(queue_id, deque())
        waiting.append(claim)
        self.waiting_count += 1
        claim.leases.watch(lambda: self._wake(queue_id))
        claim.timer = self._timers.at(claim.deadline, lambda now: self._time_is_up(claim))

    def _wake(self, queue_id: int) -> None:
        """The queue has something, or will never have anything again."""
        if queue_id in self._waiting:
            self._woken[queue_id] = None
            self._service.come_back()

    def _time_is_up(self, claim: Claim) -> None:
        waiting = self._waiting.get(claim.leases.queue_id)
        if waiting is None or claim not in waiting:
            return
        waiting.remove(claim)
        self.waiting_count -= 1
        if not waiting:
            del self._waiting[claim.leases.queue_id]
        self.start(claim)


def _stop_timer(claim: Claim) -> None:
    """It waits no longer."""
    timer, claim.timer = claim.timer, None
    if timer is not None:
        timer.cancel()
