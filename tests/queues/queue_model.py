"""What a queue is, said with lists: the model that ClassicQueue is compared with.

It chooses no consumer: it is told who got a message and checks that this one was allowed to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from queues.arguments import Overflow, QueueArguments


@dataclass(slots=True)
class Known:
    """A message in a queue. redelivered: None when it is not known (after a restart)."""

    name: int
    sequence: int
    size: int
    is_persistent: bool
    priority: int
    expires_at: int
    returns: int = 0
    redelivered: bool | None = False


@dataclass(slots=True)
class Taker:
    """A consumer: what it may hold, and what it holds."""

    number: int
    limit: int
    no_ack: bool
    priority: int
    is_paused: bool = False
    held: int = 0

    @property
    def has_credit(self) -> bool:
        return not self.is_paused and (self.no_ack or self.held < self.limit)


@dataclass(slots=True)
class QueueModel:
    """One queue. `dead` collects (name, reason); `durable` is what the last sync has made sure of."""

    settings: QueueArguments
    next_sequence: int = 1
    ready: list[Known] = field(default_factory=list)
    held: dict[int, tuple[Known, Taker]] = field(default_factory=dict)
    takers: list[Taker] = field(default_factory=list)
    active: Taker | None = None
    dead: list[tuple[int, str]] = field(default_factory=list)
    durable: list[Known] = field(default_factory=list)

    # -- publishing ---------------------------------------------------------------------------------------------------

    def accepts(self, name: int, size: int) -> bool:
        """Whether the queue takes a message; if not, it may be a dead letter."""
        settings = self.settings
        if settings.overflow is Overflow.DROP_HEAD:
            return True
        over_count = settings.max_length is not None and len(self.ready) >= settings.max_length
        limit = settings.max_length_bytes
        over_bytes = limit is not None and self.ready_bytes + size > limit
        if (over_count or over_bytes) and settings.overflow is Overflow.REJECT_PUBLISH_DLX:
            self._bury(name, "maxlen")
        return not (over_count or over_bytes)

    def add(self, name: int, size: int, is_persistent: bool, priority: int, expiration: int, now: int) -> Known:
        """A new message. Returns it when it goes to a consumer at once; `deliver` is told to whom."""
        ttls = [ttl for ttl in (self.settings.message_ttl, expiration) if ttl is not None and ttl >= 0]
        known = Known(
            name,
            self.next_sequence,
            size,
            is_persistent,
            max(0, min(priority, self.settings.max_priority or 0)),
            now + min(ttls) if ttls else 0,
        )
        self.next_sequence += 1
        self._insert(known)
        if len(self.ready) == 1 and self.has_takers():
            return known
        if 0 < known.expires_at <= now:
            self.expire(now)
        # What becomes the head now may have expired behind another message: it goes with the next dispatch.
        self.enforce_limits()
        return known

    def _insert(self, known: Known) -> None:
        self.ready.append(known)
        self.ready.sort(key=lambda each: (-each.priority, each.sequence))

    @property
    def ready_bytes(self) -> int:
        return sum(each.size for each in self.ready)

    def enforce_limits(self) -> None:
        """Drop from the head what is too much."""
        settings = self.settings
        if settings.overflow is not Overflow.DROP_HEAD:
            return
        while self.ready and (
            (settings.max_length is not None and len(self.ready) > settings.max_length)
            or (settings.max_length_bytes is not None and self.ready_bytes > settings.max_length_bytes)
        ):
            self._bury(self.ready.pop(0).name, "maxlen")

    def expire(self, now: int) -> None:
        """Drop expired messages from the head."""
        while self.ready and self.ready[0].expires_at and self.ready[0].expires_at <= now:
            self._bury(self.ready.pop(0).name, "expired")

    def _bury(self, name: int, reason: str) -> None:
        if self.settings.dead_letter_exchange is not None:
            self.dead.append((name, reason))

    # -- delivering ---------------------------------------------------------------------------------------------------

    def has_takers(self) -> bool:
        return any(taker.has_credit for taker in self._in_turn())

    def _in_turn(self) -> list[Taker]:
        if self.settings.single_active_consumer:
            return [self.active] if self.active is not None else []
        return self.takers

    def deliver(self, name: int, taker: Taker, redelivered: bool, is_held: bool) -> None:
        """The queue has given the message to this consumer."""
        known = self.ready.pop(0)
        assert known.name == name, f"{name} was delivered, {known} is the first"
        assert taker in self._in_turn(), f"{taker} is not the active consumer"
        assert taker.has_credit, f"{taker} has no credit"
        better = [other for other in self.takers if other.has_credit and other.priority > taker.priority]
        assert self.settings.single_active_consumer or not better, f"{better} come before {taker}"
        self._check_flag(known, redelivered)
        assert is_held is not taker.no_ack
        if is_held:
            self.hold(known, taker)

    def get(self, name: int | None, redelivered: bool) -> Known | None:
        """The first message was fetched; None when there is none."""
        known = self.ready.pop(0) if self.ready else None
        assert (known and known.name) == name
        if known is not None:
            self._check_flag(known, redelivered)
        return known

    @staticmethod
    def _check_flag(known: Known, redelivered: bool) -> None:
        assert known.redelivered in (None, redelivered), f"{known}: redelivered is {redelivered}"

    def hold(self, known: Known, taker: Taker) -> None:
        taker.held += 1
        self.held[known.sequence] = (known, taker)

    def add_taker(self, taker: Taker) -> None:
        self.takers.append(taker)
        if self.active is None:
            self.active = taker

    def remove_taker(self, taker: Taker) -> None:
        self.takers.remove(taker)
        if self.active is taker:
            self.active = max(self.takers, key=lambda each: each.priority, default=None)

    # -- settling -----------------------------------------------------------------------------------------------------

    def settle(self, sequence: int) -> Known:
        known, taker = self.held.pop(sequence)
        taker.held -= 1
        return known

    def reject(self, sequence: int) -> None:
        self._bury(self.settle(sequence).name, "rejected")

    def put_back(self, sequences: list[int]) -> None:
        for sequence in sequences:
            known = self.settle(sequence)
            known.redelivered = True
            known.returns += 1
            limit = self.settings.delivery_limit
            if limit is not None and known.returns > limit:
                self._bury(known.name, "delivery_limit")
            else:
                self._insert(known)
        self.enforce_limits()

    # -- restarts -----------------------------------------------------------------------------------------------------

    def lasting(self) -> list[Known]:
        """What a sync makes sure of: every persistent message that is not settled."""
        held = [known for known, _ in self.held.values()]
        lasting = [replace(each) for each in [*self.ready, *held] if each.is_persistent]
        return sorted(lasting, key=lambda each: each.sequence)

    def restart(self, survivors: list[Known], next_sequence: int) -> None:
        """Only these are left, all of them ready; what is known of their deliveries may be less than before."""
        assert next_sequence > max((each.sequence for each in survivors), default=0)
        self.next_sequence = next_sequence
        self.ready = []
        for each in survivors:
            known = replace(each)
            known.redelivered = None
            self._insert(known)
        self.held = {}
        self.takers = []
        self.active = None
        self.dead = []
        self.durable = survivors
