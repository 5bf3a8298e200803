"""Ledger: what the clients of a broker know of each message, and what a broker that was killed must therefore do.

A life is the time between a start of the broker and its kill. A message has a copy in every queue it was routed to.
What is certain, at the end of a life:

    confirmed    the publisher got its confirm: a persistent copy that nobody settled must be there in the next life
    settled      a client sent ack or reject, and later, on the same connection, published a persistent message that was
                 confirmed by the same worker: the copy must never come back
    between      settled without such a confirm, or published without a confirm: it may be there or not, but once it was
                 seen in a later life it is durable, and once it was missed it is gone for good

Invariants that `delivered` and `check_present` hold: nothing confirmed is missing; nothing settled comes back; no
transient message survives; no message is delivered twice in a life without being requeued; in each queue the messages
of a publisher come in their order, and those of an earlier life before those of a later one; bodies are what was
published.

It is used by several threads; every method takes the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock

#: Body sizes: small ones, some that fill pages, some that are kept apart from their frames (16 KiB and more).
SIZES = (60, 90, 200, 350, 90, 1200, 60, 2500, 150, 400, 4000, 80, 700, 60, 20_000, 100, 17_000, 130, 3000, 60, 0)
MAX_VIOLATIONS = 40

MessageId = tuple[int, int]


class Settlement(Enum):
    """What the clients know of a copy's settlement."""

    NONE = "none"
    SENT = "sent"
    CERTAIN = "certain"


@dataclass(slots=True)
class Copy:
    """A message in one queue. delivered_in, requeued_in: lives, 0 for none."""

    queue: str
    message: MessageId
    life: int
    is_persistent: bool
    is_confirmed: bool = False
    settlement: Settlement = Settlement.NONE
    delivered_in: int = 0
    requeued_in: int = 0


@dataclass(slots=True)
class Totals:
    """What happened, for the summary."""

    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    settled: int = 0
    requeued: int = 0
    recovered: int = 0


def body_of(message: MessageId) -> bytes:
    """The body of a message: its name, and filling that depends on it."""
    publisher, number = message
    name = b"%d %d|" % message
    size = SIZES[(publisher * 7 + number) % len(SIZES)]
    return name + bytes([97 + (publisher + number) % 26]) * size


def message_of(body: bytes) -> MessageId | None:
    """The message whose body this is; None when it is nobody's."""
    try:
        publisher, number = body[: body.index(b"|")].split(b" ")
        message = (int(publisher), int(number))
    except ValueError:
        return None
    return message if body == body_of(message) else None


@dataclass
class Ledger:
    """All copies by queue and message; `violations` are texts."""

    queues: dict[str, dict[MessageId, Copy]] = field(default_factory=dict)
    gone: dict[str, dict[MessageId, None]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    life: int = 0
    #: Queues at other workers than the one whose confirms say what is settled: they say nothing of these.
    apart: frozenset[str] = frozenset()
    #: Its processes leave one after the other: what clients held goes to those who are still there.
    is_ending: bool = False
    _lock: Lock = field(default_factory=Lock)
    _last: dict[tuple[str, int], int] = field(default_factory=dict)

    def add_queue(self, queue: str) -> None:
        self.queues[queue] = {}
        self.gone[queue] = {}

    def begin_life(self) -> None:
        """The broker starts again."""
        with self._lock:
            self.life += 1
            self.is_ending = False
            self._last = {}

    def violated(self, text: str) -> None:
        """Something happened that must not happen."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(f"life {self.life}: {text}")

    # -- what clients do ---------------------------------------------------------------------------------------------

    def publishing(self, message: MessageId, queues: Iterable[str], is_persistent: bool) -> list[Copy]:
        """A message is about to be published. Returns its copies, for `confirmed`."""
        with self._lock:
            copies = [Copy(queue, message, self.life, is_persistent) for queue in queues]
            for copy in copies:
                self.queues[copy.queue][message] = copy
            self.totals.published += 1
            return copies

    def confirmed(self, copies: Iterable[list[Copy]]) -> None:
        with self._lock:
            for each in copies:
                self.totals.confirmed += 1
                for copy in each:
                    copy.is_confirmed = True

    def delivered(self, queue: str, body: bytes, consumer: int, redelivered: bool) -> Copy | None:
        """A delivery. consumer: a number for each consumer of a life (0: one that looks at everything after a start).

        Returns the copy, None when there must be none.
        """
        with self._lock:
            self.totals.delivered += 1
            message = message_of(body)
            if message is None:
                self.violated(f"{queue}: a body of {len(body)} octets that nobody published: {body[:60]!r}")
                return None
            copy = self.queues[queue].get(message)
            if copy is None:
                why = "settled for certain or missing" if message in self.gone[queue] else "never published there"
                self.violated(f"{queue}: {message} was delivered, but it was {why}")
                return None
            self._check_delivery(copy, consumer, redelivered)
            copy.delivered_in = self.life
            copy.settlement = Settlement.NONE
            if copy.life < self.life:
                copy.is_confirmed = True
            return copy

    def _check_delivery(self, copy: Copy, consumer: int, redelivered: bool) -> None:
        where = f"{copy.queue}: {copy.message} of life {copy.life}"
        if copy.settlement is Settlement.SENT and copy.delivered_in == self.life and not self.is_ending:
            self.violated(f"{where} came back in the life in which it was settled")
        elif copy.delivered_in == self.life and copy.requeued_in != self.life and not self.is_ending:
            self.violated(f"{where} was delivered twice without being requeued")
        elif copy.delivered_in == self.life and not redelivered:
            self.violated(f"{where} was delivered again without the redelivered flag")
        if copy.life < self.life and not copy.is_persistent:
            self.violated(f"{where} is transient and has survived a kill")
        if copy.requeued_in != self.life and not redelivered:
            publisher, number = copy.message
            place = (f"{copy.queue}/{consumer}", publisher)
            if number <= self._last.get(place, -1):
                self.violated(f"{where} came after {self._last[place]} of the same publisher")
            self._last[place] = number

    def requeued(self, copies: Iterable[Copy]) -> None:
        """These copies are about to go back into their queues."""
        with self._lock:
            for copy in copies:
                self.totals.requeued += 1
                copy.requeued_in = self.life

    def abandoned(self, copies: Iterable[Copy]) -> None:
        """These copies were settled on a connection that is about to be dropped: the broker may not have read it."""
        with self._lock:
            for copy in copies:
                copy.requeued_in = self.life
                copy.delivered_in = 0

    def settling(self, copies: Iterable[Copy]) -> None:
        """An ack or reject for these copies is about to be sent."""
        with self._lock:
            for copy in copies:
                copy.settlement = Settlement.SENT

    def settled(self, copies: Iterable[Copy]) -> None:
        """A persistent message that was published behind the settlement of these copies is confirmed."""
        with self._lock:
            for copy in copies:
                if copy.queue not in self.apart:
                    self.totals.settled += 1
                    self._bury(copy)

    def _bury(self, copy: Copy) -> None:
        copy.settlement = Settlement.CERTAIN
        self.queues[copy.queue].pop(copy.message, None)
        self.gone[copy.queue][copy.message] = None

    # -- what must be there after a start ----------------------------------------------------------------------------

    def check_present(self, queue: str, present: list[Copy]) -> None:
        """`present` is all that the queue holds right after a start, in order of delivery."""
        with self._lock:
            self.totals.recovered += len(present)
            last_life = 0
            for copy in present:
                if copy.life < last_life:
                    self.violated(f"{queue}: {copy.message} of life {copy.life} stands behind life {last_life}")
                last_life = max(last_life, copy.life)
            found = {copy.message for copy in present}
            for copy in list(self.queues[queue].values()):
                if copy.message in found or copy.life == self.life:
                    continue
                if copy.is_persistent and copy.is_confirmed and copy.settlement is Settlement.NONE:
                    self.violated(f"{queue}: {copy.message} of life {copy.life} was confirmed and is missing")
                self._bury(copy)
