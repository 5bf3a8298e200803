"""What a quorum queue is, said with lists: the model that the machine is compared with.

It chooses no consumer: it is told who got a message, in order, and checks that this one was next and allowed to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from queues.arguments import Overflow
from queues.quorum.consumer import MOST_IN_FLIGHT
from queues.quorum.settings import QuorumSettings


@dataclass(slots=True)
class Known:
    """A message in the queue."""

    name: int
    sequence: int
    size: int
    priority: int
    expires_at: int
    returns: int = 0


@dataclass(slots=True)
class Taker:
    """Somebody who consumes, was cancelled, or has fetched one message. held: by delivery id, and since when."""

    number: int
    limit: int
    priority: int
    is_attached: bool = True
    next_delivery: int = 1
    held: dict[int, tuple[Known, int]] = field(default_factory=dict)

    @property
    def has_credit(self) -> bool:
        return self.is_attached and len(self.held) < self.limit


@dataclass(slots=True)
class QueueModel:
    """One queue. dead: (name, reason, delivery count). producers, ids: what deduplication knows."""

    settings: QuorumSettings
    clock: int = 0
    next_sequence: int = 1
    last_used: int = 0
    is_gone: bool = False
    ready: list[Known] = field(default_factory=list)
    takers: list[Taker] = field(default_factory=list)
    dead: list[tuple[int, str, int]] = field(default_factory=list)
    producers: dict[bytes, int] = field(default_factory=dict)
    ids: list[tuple[bytes, int]] = field(default_factory=list)
    active: Taker | None = None

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(
        self, name: int, size: int, priority: int, expiration: int, producer: tuple[bytes, int], key: bytes
    ) -> bool:
        """A message comes in; it is ready until `deliver` says who got it. False: it was refused."""
        arguments = self.settings.arguments
        if producer[0] and self.producers.get(producer[0], -1) >= producer[1]:
            return True
        if key and any(each == key and (until is None or until > self.clock) for each, until in self._window()):
            return True
        if arguments.overflow is not Overflow.DROP_HEAD and (
            (arguments.max_length is not None and len(self.ready) >= arguments.max_length)
            or (arguments.max_length_bytes is not None and self.size + size > arguments.max_length_bytes)
        ):
            if arguments.overflow is Overflow.REJECT_PUBLISH_DLX:
                self._bury(name, "MAXLEN", 0)
            return False
        if producer[0]:
            self.producers[producer[0]] = producer[1]
        if key and self.settings.deduplication_window:
            ttl = self.settings.deduplication_ttl
            self.ids = [each for each in self.ids if each[0] != key] + [(key, -1 if ttl is None else self.clock + ttl)]
            self.ids = self.ids[-self.settings.deduplication_window :]
        ttls = [ttl for ttl in (arguments.message_ttl, expiration) if ttl is not None and ttl >= 0]
        level = max(0, min(priority, arguments.max_priority or 0))
        self.insert(Known(name, self.next_sequence, size, level, self.clock + min(ttls) if ttls else 0))
        self.next_sequence += 1
        return True

    def _window(self) -> list[tuple[bytes, int | None]]:
        return [(key, None if until < 0 else until) for key, until in self.ids]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ready)

    def insert(self, known: Known) -> None:
        self.ready.append(known)
        self.ready.sort(key=lambda each: (-each.priority, each.sequence))

    def enforce_limits(self) -> None:
        """Drop from the head what is too much."""
        arguments = self.settings.arguments
        while arguments.overflow is Overflow.DROP_HEAD and self.ready and (
            (arguments.max_length is not None and len(self.ready) > arguments.max_length)
            or (arguments.max_length_bytes is not None and self.size > arguments.max_length_bytes)
        ):  # fmt: skip
            self._bury_first("MAXLEN")

    def _bury_first(self, reason: str) -> None:
        known = self.ready.pop(0)
        self._bury(known.name, reason, known.returns)

    def _bury(self, name: int, reason: str, returns: int) -> None:
        if self.settings.arguments.dead_letter_exchange is not None:
            self.dead.append((name, reason, returns))

    # -- delivering ----------------------------------------------------------------------------------------------------

    def taker(self, number: int) -> Taker | None:
        return next((each for each in self.takers if each.number == number), None)

    def attached(self) -> list[Taker]:
        return [each for each in self.takers if each.is_attached]

    def in_turn(self) -> list[Taker]:
        if self.settings.arguments.single_active_consumer:
            return [self.active] if self.active is not None and not self._outranking() else []
        return self.attached()

    def _outranking(self) -> list[Taker]:
        """Who has a higher priority than the active one, where that counts."""
        if self.active is None or not self.settings.gives_way:
            return []
        return [each for each in self.attached() if each.priority > self.active.priority]

    def change_turns(self) -> None:
        """The active one gives way, if it holds nothing."""
        if self.active is not None and not self.active.held and self._outranking():
            self.active = max(self.attached(), key=lambda each: each.priority)

    def join(self, number: int, prefetch: int, no_ack: bool, priority: int) -> None:
        limit = MOST_IN_FLIGHT if no_ack or not prefetch else min(prefetch, MOST_IN_FLIGHT)
        taker = Taker(number, limit, priority)
        self.takers.append(taker)
        if self.active is None:
            self.active = taker

    def deliver(self, number: int, delivery_id: int, name: int, returns: int) -> None:
        """The machine has given the message to this consumer; what has expired before it is gone. The newest message
        goes to who waits for it, whatever its TTL."""
        while self.ready and self.ready[0].name != name and 0 < self.ready[0].expires_at <= self.clock:
            self._bury_first("EXPIRED")
        taker = self.taker(number)
        assert taker is not None
        assert taker in self.in_turn()
        assert taker.has_credit
        if not self.settings.arguments.single_active_consumer:
            better = [each for each in self.attached() if each.has_credit and each.priority > taker.priority]
            assert not better, f"{better} come before {taker}"
        known = self.hold(taker)
        is_newest = known.sequence == self.next_sequence - 1
        assert is_newest or not 0 < known.expires_at <= self.clock
        assert (known.name, known.returns) == (name, returns)
        assert delivery_id == taker.next_delivery - 1

    def hold(self, taker: Taker) -> Known:
        """The first message goes to this one."""
        known = self.ready.pop(0)
        taker.held[taker.next_delivery] = (known, self.clock)
        taker.next_delivery += 1
        return known

    def leave(self, taker: Taker, gives_back: bool) -> None:
        """Cancelled, or gone altogether."""
        if taker.is_attached:
            taker.is_attached = False
            if self.active is taker:
                self.active = max(self.attached(), key=lambda each: each.priority, default=None)
            if not self.attached():
                self.last_used = self.clock
        if gives_back:
            self.settle(taker, list(taker.held), "REQUEUE")
        self.sweep()

    def sweep(self) -> None:
        self.takers = [each for each in self.takers if each.is_attached or each.held]

    def settle(self, taker: Taker, ids: list[int], how: str) -> None:
        """These deliveries are settled; who does not hold them is not heard."""
        back = []
        for delivery_id in ids:
            if delivery_id not in taker.held:
                continue
            known, _ = taker.held.pop(delivery_id)
            if how == "REJECT":
                self._bury(known.name, "REJECTED", known.returns)
            elif how in ("REQUEUE", "FAIL"):
                known.returns += 1
                limit = self.settings.arguments.delivery_limit
                if limit is not None and known.returns > limit:
                    self._bury(known.name, "DELIVERY_LIMIT", known.returns)
                else:
                    back.append(known)
            elif how == "RETURN":
                back.append(known)
        for known in back:
            self.insert(known)
        if back:
            self.enforce_limits()

    # -- time ----------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Drop expired messages from the head."""
        while self.ready and 0 < self.ready[0].expires_at <= self.clock:
            self._bury_first("EXPIRED")

    def late(self) -> list[Taker]:
        """Whom the consumer timeout ends now."""
        timeout = self.settings.consumer_timeout
        if timeout is None:
            return []
        return [each for each in self.takers if any(since + timeout <= self.clock for _, since in each.held.values())]

    def is_expired(self) -> bool:
        expires = self.settings.arguments.expires
        return (
            not self.is_gone
            and expires is not None
            and not self.attached()
            and not self.dead
            and self.last_used + expires <= self.clock
        )
