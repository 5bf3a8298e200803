"""LockLog: who held which lock when, and whether that may be.

A lock is a quorum queue with one message; who holds the message holds the lock. Its fence is how often the message came
back (x-delivery-count), which the broker counts. To release the lock is to give the message back, or to acknowledge
it: then that generation of the lock is over, and nobody must be given it again. After an ack the holder publishes a
token (lock, generation, fence) on the same channel; its confirm says that what was sent before it was executed. That
does not say that the ack was accepted: a holder whose node the others have given up, because it was stopped or cut off,
has lost the lock without knowing. So a hold during which its node was disturbed proves less.

What must not be:

    1. two holds of one generation with the same fence: the message was given out twice
    2. a hold that begins before an undisturbed one of a lower fence has been released, or its connection lost
    3. a hold that begins after the executed ack of an undisturbed one of a lower fence: two acks would be accepted
    4. a generation that is gone although its last hold (that of the highest fence) did not end with an ack: an ack of
       somebody who did not hold it any more was accepted; or although nobody ever held it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import inf


class Release(Enum):
    """How a hold ended, as far as its holder knows."""

    NONE = "not at all"
    GIVEN_BACK = "given back"
    ACKED = "acked"
    BROKEN = "connection lost"


@dataclass(slots=True)
class PendingAnswer:
    """One delivery of a lock's message. `ended` is before the release was sent, `executed` the token's confirm."""

    lock: str
    generation: int
    fence: int
    holder: str
    node: str
    began: float
    release: Release = Release.NONE
    ended: float = inf
    executed: float = inf

    def __str__(self) -> str:
        return (
            f"{self.holder} on {self.node}, fence {self.fence}, {self.began:.3f}-{self.ended:.3f} {self.release.value}"
            f"{f', executed {self.executed:.3f}' if self.executed < inf else ''}"
        )


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A time in which the others may have given up this node."""

    node: str
    start: float
    end: float


@dataclass
class LockLog:
    """The holds of a round, in the order in which they began, and the generations whose message was confirmed."""

    holds: list[PendingAnswer] = field(default_factory=list)
    created: list[tuple[str, int]] = field(default_factory=list)

    def began(self, lock: str, generation: int, fence: int, holder: str, node: str, at: float) -> PendingAnswer:
        hold = PendingAnswer(lock, generation, fence, holder, node, at)
        self.holds.append(hold)
        return hold

    def released(self, hold: PendingAnswer, how: Release, at: float) -> None:
        """About to be said to the broker; or the connection is lost."""
        if hold.release is Release.NONE:
            hold.release, hold.ended = how, at

    def executed(self, hold: PendingAnswer, at: float) -> None:
        """The token behind an ack is confirmed."""
        hold.executed = at

    def generations(self) -> dict[tuple[str, int], list[PendingAnswer]]:
        found: dict[tuple[str, int], list[PendingAnswer]] = {}
        for hold in self.holds:
            found.setdefault((hold.lock, hold.generation), []).append(hold)
        return found

    def is_over(self, lock: str, generation: int, since: float) -> bool:
        """Whether an ack of it was executed before this time, and nobody has begun to hold it since."""
        holds = [hold for hold in self.holds if (hold.lock, hold.generation) == (lock, generation)]
        executed = min((hold.executed for hold in holds), default=inf)
        return executed < since and not any(hold.began >= executed for hold in holds)


def check_locks(log: LockLog, disturbances: Iterable[Disturbance], present: Iterable[tuple[str, int]]) -> list[str]:
    """What must not be. present: (lock, generation) of the messages that were still there at the end."""
    disturbed = list(disturbances)
    there = set(present)
    wrong: list[str] = []
    for (lock, generation), holds in log.generations().items():
        where = f"{lock}, generation {generation}"
        fences: dict[int, PendingAnswer] = {}
        for hold in holds:
            if (other := fences.get(hold.fence)) is not None:
                wrong.append(f"{where}: given out twice at the same fence: to {other}; to {hold}")
            fences[hold.fence] = hold
        for hold in holds:
            wrong += _conflicts(where, hold, holds, disturbed)
        last = fences[max(fences)]
        if last.release is not Release.ACKED and (lock, generation) not in there:
            wrong.append(f"{where}: gone, though its last holder did not acknowledge it: {last}")
    held = log.generations()
    for lock, generation in log.created:
        if (lock, generation) not in held and (lock, generation) not in there:
            wrong.append(f"{lock}, generation {generation}: gone, though nobody ever held it")
    return wrong


def _conflicts(where: str, hold: PendingAnswer, others: list[PendingAnswer], disturbed: list[Disturbance]) -> list[str]:
    """What holds that the broker gave out later, with higher fences, do to one of a holder who may rely on it."""
    wrong = []
    for other in others:
        if other.fence <= hold.fence or _is_disturbed(hold, other, disturbed):
            continue
        # Who has lost its connection learns of it after the broker has.
        if other.began < hold.ended and hold.release is not Release.BROKEN:
            wrong.append(f"{where}: two holders: {hold}; {other}")
        elif hold.release is Release.ACKED and other.began > hold.executed:
            wrong.append(f"{where}: held again after its ack was executed: {hold}; {other}")
    return wrong


def _is_disturbed(hold: PendingAnswer, other: PendingAnswer, disturbed: list[Disturbance]) -> bool:
    """Whether the holder's node may have been given up between the begins of the two holds. It may be the later one
    although the broker gave it out earlier: a node that comes back catches up, and hands out what is not its any more.
    """
    start, end = sorted((hold.began, other.began))
    return any(each.node == hold.node and each.start < end and start < each.end for each in disturbed)
