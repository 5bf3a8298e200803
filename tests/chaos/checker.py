"""What of a history must not be, once the faults are over and the queues are drained.

    lost            confirmed, and never delivered
    returned        sent back as unroutable, though its queue was there all the time
    unexplained     delivered more often without the redelivered flag than it was published: the broker has made a copy
                    of it. (A classic queue whose home was restarted has forgotten what it had delivered.)
    came back       acknowledged on a healthy cluster on a connection that was closed in good order, and delivered again
    out of order    confirmed before another one of the same publisher and classic queue was published, and come to a
                    consumer behind that, though nobody's link or process has ended
    duplicated      delivered more than once, for a reason: counted, and allowed

Clients of a node that is owed service keep their connections while a fault lasts.

A write outage is the longest time in which clients of one node that ought to have been served got no confirm for one
quorum queue, though they kept trying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import inf

from tests.chaos.history import History, Outcome, QueueKind, Record, Settlement
from tests.kill.ledger import MessageId

SHOWN = 5
LOST = "lost"


@dataclass(slots=True)
class Counts:
    """What happened on queues of one kind: messages, but attempts to publish, and deliveries."""

    published: int = 0
    attempts: int = 0
    confirmed: int = 0
    deliveries: int = 0
    duplicated: int = 0
    lost: int = 0
    nacked: int = 0

    @property
    def operations(self) -> int:
        """Publishes and deliveries."""
        return self.attempts + self.deliveries

    def add(self, other: Counts) -> None:
        for each in fields(Counts):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class Findings:
    """What happened in a round, and what was wrong with it."""

    counts: dict[QueueKind, Counts] = field(default_factory=lambda: {kind: Counts() for kind in QueueKind})
    violations: list[str] = field(default_factory=list)


def check(
    history: History,
    restarted: Iterable[str],
    calm_since: float,
    drained_at: float,
    *,
    keeps_order: bool = False,
) -> Findings:
    """Check a round.

    A round that ended in the middle has no drained_at: nothing is lost yet. keeps_order: no process and no link has
    ended, after which what nobody has had comes behind what others have.

    restarted: nodes that did not live through it all. Between calm_since and drained_at nothing was wrong with the
    cluster; at drained_at the consumers closed in good order.
    """
    findings = Findings(violations=list(history.violations))
    wrong: dict[str, list[str]] = {}
    forgetful = set(restarted)
    for message, record in history.records.items():
        spec = history.queues[record.queue]
        forgets = spec.kind is QueueKind.CLASSIC and spec.home in forgetful
        found = _wrongs(record, forgets, calm_since, drained_at)
        if history.is_lost_with_its_queue(record):
            found = [what for what in found if what not in (LOST, "returned")]
        for what in found:
            wrong.setdefault(what, []).append(f"{message} of {record.queue}{_story(record)}")
        attempts, deliveries = len(record.attempts), len(record.deliveries)
        duplicated = max(0, deliveries - 1)
        nacked = sum(attempt.outcome is Outcome.NACKED for attempt in record.attempts)
        counts = Counts(1, attempts, record.is_confirmed, deliveries, duplicated, LOST in found, nacked)
        findings.counts[spec.kind].add(counts)
    if keeps_order and (cases := _out_of_order(history)):
        wrong["out of order"] = cases
    for what, cases in wrong.items():
        findings.violations.append(f"{what}: {len(cases)} messages, such as {'; '.join(cases[:SHOWN])}")
    return findings


def _wrongs(record: Record, forgets: bool, calm_since: float, drained_at: float) -> list[str]:
    found = []
    if record.is_confirmed and not record.deliveries and drained_at < inf:
        found.append(LOST)
    if any(attempt.outcome is Outcome.RETURNED for attempt in record.attempts):
        found.append("returned")
    unflagged = sum(not delivery.is_redelivered for delivery in record.deliveries)
    if unflagged > len(record.attempts) and not forgets:
        found.append("unexplained")
    acked = sum(
        delivery.settlement is Settlement.ACKED and calm_since < delivery.at and delivery.settled_at < drained_at
        for delivery in record.deliveries
    )
    late = sum(delivery.at > drained_at for delivery in record.deliveries)
    # Each attempt may have made one copy, and each copy is acknowledged once.
    if late and acked + late > len(record.attempts):
        found.append("came back")
    return found


def _out_of_order(history: History) -> list[str]:
    """First deliveries, by queue, publisher's lane and consumer, of messages that were published once."""
    came: dict[tuple[str, int, str], list[tuple[float, float, float, MessageId]]] = {}
    for message, record in history.records.items():
        (attempt, *others), deliveries = record.attempts, record.deliveries
        is_classic = history.queues[record.queue].kind is QueueKind.CLASSIC
        if is_classic and record.is_confirmed and not others and deliveries and not deliveries[0].is_redelivered:
            place = (record.queue, message[0], deliveries[0].consumer)
            came.setdefault(place, []).append((deliveries[0].at, attempt.began, attempt.ended, message))
    wrong = []
    for (queue, _, consumer), rows in came.items():
        latest, before = 0.0, (0, 0)
        for _, began, ended, message in sorted(rows):
            if ended < latest:
                wrong.append(f"{message} of {queue} came to {consumer} behind {before}")
            if began > latest:
                latest, before = began, message
    return wrong


def _story(record: Record) -> str:
    attempts = ", ".join(
        f"{attempt.outcome.value} on {attempt.node} {attempt.began:.3f}-{attempt.ended:.3f}"
        for attempt in record.attempts
    )
    deliveries = ", ".join(
        f"{each.node} at {each.at:.3f}{' redelivered' if each.is_redelivered else ''} {each.settlement.value}"
        for each in record.deliveries
    )
    return f" ({attempts}; delivered: {deliveries or 'never'})"


def lost_connections(history: History, survivors: Iterable[str], start: float, end: float) -> list[str]:
    """What clients of these nodes met within this time that ought not to have lost their connections."""
    nodes = set(survivors)
    lost = [
        f"{node} at {at:.3f}: {what}"
        for node, at, what in history.lost_connections
        if node in nodes and start < at < end
    ]
    if not lost:
        return []
    return [f"connections to nodes that were well were lost: {len(lost)}, such as {'; '.join(lost[:SHOWN])}"]


def longest_gap(times: Sequence[float], start: float, end: float) -> float:
    """The longest time between start and end without one of these times, which rise."""
    marks = [start, *(time for time in times if start < time < end), end]
    return max(later - earlier for earlier, later in pairwise(marks))


def write_outage(
    confirms: Mapping[tuple[str, str], Sequence[float]],
    queues: Iterable[str],
    nodes: Iterable[str],
    start: float,
    end: float,
) -> float:
    """The longest time in which some node's clients could not write to some of these queues, in seconds."""
    nodes = list(nodes)
    gaps = [longest_gap(sorted(confirms.get((node, queue), ())), start, end) for queue in queues for node in nodes]
    return max(gaps, default=0.0)
