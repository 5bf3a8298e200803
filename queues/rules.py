"""QueueRules: what holds for every queue whose messages are in its own hands, wherever it keeps them.

    accept: refuse, what is too much -> a consumer with credit, or `add` -> ready
    hand_out: ready -> dispatcher -> `give`
    take_ready: ready -> a lease group, which has rules of its own (lease_rules.py)
    bring_back -> ready, at the original place, or over the delivery limit; or the host has it rest -> come_again
    drop, with a Reason: expiry, length limits, delivery limit, rejection -> `bury`, or `forget`

Two hosts run it: ClassicQueue, with a journal and timers of its own node, and QuorumQueue, with a log and the group's
time. A host says what happens to a message (`give`, `forget`, `bury`, `discarded`, `bury_refused`), when nothing may
leave (`is_held_up`), and how it goes on with what is too much for one step (`schedule`). The other hooks tell it what
it may want to know.

A replicated host's members have to agree on the order of everything in here, whatever their version: see
tests/queues/quorum/recorded_log.py before changing it.

Invariants:
1. A message is in `ready`, or held by a consumer (`unacked` counts them), or the host's.
2. Every message that leaves without having been consumed goes through `drop`, `purge` aside.
3. `may_expire` is true if a ready message has an expiry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import cython

from queues.arguments import TIME_MAX, Overflow, QueueArguments
from queues.consumer import Consumer
from queues.dispatcher import Dispatcher
from queues.message import Entry, Message
from queues.pager import Pager
from queues.peeking import PeekSteps, PeekWish, peek_ready
from queues.priority import PriorityReady
from queues.queue import Queue
from queues.ready import Ready
from queues.reason import Reason
from queues.sizes import QueueSizes, held_by
from queues.sums import QueueSums
from queues.write_group import WriteGroup

if not cython.compiled:
    from queues.message import make_entry
    from queues.page import packed_size

#: So many consumers are looked at, where one would do.
_SOME = 16
#: A page keeps 16 bits of it.
_MOST_RETURNS = 65_535
_TIME_MAX = TIME_MAX
_REJECTED = Reason.REJECTED
_EXPIRED = Reason.EXPIRED
_MAXLEN = Reason.MAXLEN
_DELIVERY_LIMIT = Reason.DELIVERY_LIMIT


class QueueRules(Queue):
    """A queue by its rules.

    most_at_once: so many messages at most are dropped in one step; the rest is `schedule`d. Limits that are off are -1.
    drops_head, rejects_overflow: what a limited queue does with what is too much. has_dead_letters: what is dropped is
    buried. drops: how many messages were dropped, by Reason; unconsumed: how many are gone without a consumer's doing;
    both since this member was started. lease_groups: LeaseRules of its host, None if it never had a lease group.
    """

    def __init__(
        self,
        name: str,
        queue_id: int,
        is_durable: bool,
        writes: WriteGroup,
        pager: Pager,
        arguments: QueueArguments,
        most_at_once: int,
    ) -> None:
        super().__init__(name, queue_id, is_durable, writes)
        self.pager = pager
        self.most_at_once = most_at_once
        levels = arguments.max_priority
        self.ready: Ready = Ready(pager, queue_id) if levels is None else PriorityReady(pager, queue_id, levels)
        self.dispatcher = Dispatcher(arguments.single_active_consumer)
        self.next_sequence = 1
        self.unacked = 0
        self.may_expire = False
        self.unconsumed = 0
        self.drops = [0, 0, 0, 0, 0]
        self.lease_groups: Any = None

    def apply_arguments(self, arguments: QueueArguments) -> None:
        """In force from now on; priorities and the single active consumer stay as they are."""
        self.message_ttl = _duration(arguments.message_ttl)
        self.max_length = _limit(arguments.max_length)
        self.max_length_bytes = _limit(arguments.max_length_bytes)
        is_limited = self.max_length >= 0 or self.max_length_bytes >= 0
        self.drops_head = is_limited and arguments.overflow is Overflow.DROP_HEAD
        self.rejects_overflow = is_limited and not self.drops_head
        self.buries_refused = arguments.overflow is Overflow.REJECT_PUBLISH_DLX
        self.has_dead_letters = arguments.dead_letter_exchange is not None
        self.delivery_limit = _limit(arguments.delivery_limit)

    def levels(self) -> list[Ready]:
        """The runs of ready messages, one for each priority, the lowest first."""
        return self.ready.levels if isinstance(self.ready, PriorityReady) else [self.ready]

    def first_ready(self) -> Entry | None:
        """The ready message that comes next, which stays there; None where there is none."""
        return self.ready.peek()

    def first_messages(self) -> list[tuple[int, bytes]]:
        """See Queue. Pages are not unpacked for that."""
        return [first for first in (level.first() for level in self.levels()) if first is not None]

    def sizes(self) -> QueueSizes:
        """See Queue."""
        return QueueSizes(self)

    def would_deliver(self) -> bool:
        """See Queue: of very many consumers a few are looked at."""
        return not self.ready.count and any(each.is_waiting for each in islice(self.dispatcher.consumers, _SOME))

    def attached(self) -> Iterable[object]:
        """See Queue."""
        return self.dispatcher.consumers

    def turns(self) -> Dispatcher:
        """See Queue."""
        return self.dispatcher

    def stores_all(self) -> bool:
        """Whether every message has a durable copy."""
        return False

    def held_entries(self) -> Iterator[Entry]:
        """Some of what consumers hold."""
        return held_by(self.dispatcher.consumers)

    def peek(self, wish: PeekWish) -> PeekSteps:
        """See Queue."""
        return peek_ready(self.levels, wish)

    def has_exclusive(self) -> bool:
        """Whether a consumer has it for himself alone: he is the only one then."""
        first: Any = self.dispatcher.first()
        return first is not None and bool(first.is_exclusive)

    def has_single_active_consumer(self) -> bool:
        """See Queue."""
        return self.dispatcher.is_single_active

    def is_in_exclusive_use(self, wants_exclusive: bool) -> bool:
        """Whether there can be no further consumer, or none that wants the queue for itself alone."""
        return (wants_exclusive and bool(self.dispatcher.consumers)) or self.has_exclusive()

    def is_in_use(self) -> bool:
        """Whether it is not to expire for lack of use (x-expires), whenever it was used last."""
        return bool(self.dispatcher.consumers) or self.leased_count() > 0

    def leased(self) -> list[Any]:
        """Its lease groups (lease.py) that hold something or may."""
        return list(self.lease_groups.all()) if self.lease_groups is not None else []

    def leased_count(self) -> int:
        """How many messages they hold."""
        return int(self.lease_groups.held()) if self.lease_groups is not None else 0

    def add_drops(self, sums: QueueSums) -> None:
        """Add what was published to it and dropped."""
        drops = self.drops
        sums.publishing += 1
        sums.rejected += drops[_REJECTED]
        sums.expired += drops[_EXPIRED]
        sums.too_many += drops[_MAXLEN]
        sums.returned_too_often += drops[_DELIVERY_LIMIT]

    # -- what the host does ------------------------------------------------------------------------------------------

    def give(self, entry: Entry, consumer: Consumer, now: int) -> int:
        """A message leaves `ready` for a consumer who has credit. Returns what that costs of a share (`hand_out`)."""
        raise NotImplementedError

    def forget(self, entry: Entry) -> None:
        """A message is gone: give back its RAM and its places."""
        raise NotImplementedError

    def bury(self, entry: Entry, reason: Reason) -> None:
        """A message that was dropped is a dead letter, and the host's to forget."""
        raise NotImplementedError

    def bury_refused(self, message: Message) -> None:
        """A message that a full queue refuses is a dead letter (MAXLEN)."""
        raise NotImplementedError

    def discarded(self, messages: int) -> None:
        """So many messages that came back too often are nowhere now."""

    def is_held_up(self) -> bool:
        """Whether nothing may leave the queue for now."""
        return False

    def schedule(self) -> None:
        """More is to be dropped, or handed out, than one step may."""

    def watch(self, expires_at: int, now: int) -> None:
        """A ready message, maybe the first one, expires then."""

    def became_ready(self) -> None:
        """Something has become ready."""

    def regained(self, entry: Entry, counts: bool, now: int) -> None:
        """A consumer does not hold it any more, and it is about to be ready again."""

    def rest(self, entries: list[Entry], now: int) -> None:
        """Messages that came back are to rest: they are the host's, which has them `come_again`."""
        raise NotImplementedError

    # -- publishing --------------------------------------------------------------------------------------------------

    def accept(self, message: Message, now: int) -> bool:
        """A new message. False: the queue is full, and refuses it."""
        if self.rejects_overflow and self.rejects(message, now):
            return False
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        expires_at = self.expiry_of(message, now)
        if self.ready.count == 0 and not self.is_held_up():
            consumer = self.dispatcher.next()
            if consumer is not None:
                entry = make_entry(message, sequence, expires_at, 0)
                self.pager.used += message.size
                self.give(entry, consumer, now)
                return True
        self.add(message, sequence, expires_at, 0, now)
        return True

    def rejects(self, message: Message, now: int) -> bool:
        """Whether the queue is full and refuses the message (overflow reject-publish; the -dlx form dead-letters)."""
        if not self.refuses(message):
            return False
        if self.buries_refused and self.has_dead_letters:
            self.bury_refused(message)
        return True

    def refuses(self, message: Message) -> bool:
        """See Queue."""
        if not self.rejects_overflow:
            return False
        ready = self.ready
        return bool(
            0 <= self.max_length <= ready.count
            or 0 <= self.max_length_bytes < ready.message_bytes + message.body_size
        )

    def expiry_of(self, message: Message, now: int) -> int:
        """When the message expires here, milliseconds since the epoch, 0 for never: the lower of the two TTLs."""
        ttl = self.message_ttl
        if message.expiration >= 0 and (ttl < 0 or message.expiration < ttl):
            ttl = message.expiration
            if ttl > _TIME_MAX:
                ttl = _TIME_MAX
        return 0 if ttl < 0 else now + ttl

    def add(self, message: Message, sequence: int, expires_at: int, journal_segment: int, now: int) -> None:
        """A new message, for which there is no consumer, to the end of the queue."""
        self.ready.push(message, sequence, expires_at, journal_segment)
        self.became_ready()
        if expires_at:
            self.may_expire = True
            self.watch(expires_at, now)
        if self.drops_head:
            self.drop_excess_at_once()

    def is_too_long(self) -> bool:
        """Whether something is to be dropped at the head."""
        ready = self.ready
        return self.drops_head and (
            (0 <= self.max_length < ready.count) or (0 <= self.max_length_bytes < ready.message_bytes)
        )

    def drop_excess(self, most: int) -> int:
        """Drop what is too much, at the head. Returns how many of `most` are left."""
        while most > 0 and self.is_too_long() and not self.is_held_up():
            entry = self.ready.pop()
            if entry is None:
                break
            self.drop(entry, _MAXLEN)
            most -= 1
        return most

    def drop_excess_at_once(self) -> None:
        """Drop some of what is too much, at the head."""
        if self.drop_excess(self.most_at_once) <= 0:
            self.schedule()

    # -- delivering --------------------------------------------------------------------------------------------------

    def hand_out(self, most: int, now: int) -> int:
        """Hand ready messages to consumers while there are both: so many at most, by what `give` says of each; what has
        expired is dropped, and counts one. Returns what is left of `most`."""
        ready = self.ready
        if ready.count and self.is_held_up():
            return most
        while ready.count and most > 0:
            consumer = self.dispatcher.next()
            if consumer is None:
                break
            entry = ready.pop()
            if entry is None:
                break
            if 0 < entry.expires_at <= now:
                self.drop(entry, _EXPIRED)
                most -= 1
                if self.is_held_up():
                    break
            else:
                most -= self.give(entry, consumer, now)
        return most

    def take_ready(self, most: int, max_bytes: int, takes_any: bool, now: int) -> list[Entry]:
        """The first ready messages leave the queue: so many at most, and so many octets, counted as they are packed;
        the first one whatever its size if `takes_any`. They stay counted in the budget, and their durable copies are
        not settled: both are the caller's."""
        ready = self.ready
        taken: list[Entry] = []
        left = self.most_at_once
        while len(taken) < most and left > 0:
            entry = ready.peek()
            if entry is None:
                break
            if 0 < entry.expires_at <= now:
                if self.is_held_up():
                    break
                ready.pop()
                self.drop(entry, _EXPIRED)
                left -= 1
                continue
            size = packed_size(entry.message)
            if size > max_bytes and (taken or not takes_any):
                break
            max_bytes -= size
            ready.pop()
            taken.append(entry)
        return taken

    def take_first(self, now: int) -> Entry | None:
        """The first ready message leaves the queue, as with `take_ready`, for basic.get. None: there is none, or more
        has expired in front of it than is dropped in one step."""
        if self.may_expire and not self.drop_expired_at_once(now):
            return None
        return self.ready.pop()

    # -- settling ----------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:  # type: ignore[override]  # its own come back
        """The consumer is done with it."""
        self.unacked -= 1
        entry.consumer = None
        self.forget(entry)

    def reject(self, entry: Entry, now: int) -> None:  # type: ignore[override]  # its own come back
        """The consumer refuses it for good: dead letter, or gone."""
        self.unacked -= 1
        entry.consumer = None
        self.drop(entry, _REJECTED)

    def bring_back(self, entries: list[Entry], counts: bool, now: int, rests: bool = False) -> None:
        """Messages that were held come back unprocessed, to their original positions. counts: somebody may have seen
        them; rests: they rest before. Call `dispatch` afterwards."""
        kept: list[Entry] = []
        dropped = 0
        limit = self.delivery_limit
        self.unacked -= len(entries)
        for entry in entries:
            entry.consumer = None
            if counts:
                entry.is_redelivered = True
                if entry.returns < _MOST_RETURNS:
                    entry.returns += 1
                if 0 <= limit < entry.returns:
                    self.drop(entry, _DELIVERY_LIMIT)
                    dropped += 1
                    continue
            self.regained(entry, counts, now)
            kept.append(entry)
            if entry.expires_at:
                self.may_expire = True
        if dropped and not self.has_dead_letters:
            self.discarded(dropped)
        if kept and rests:
            self.rest(kept, now)
        elif kept:
            self.come_again(kept)
        if self.drops_head:
            self.drop_excess_at_once()

    def come_again(self, entries: list[Entry]) -> None:
        """Messages that came back, and have rested if they had to, are ready again."""
        self.ready.put_back(entries)
        self.became_ready()

    def drop(self, entry: Entry, reason: Reason) -> None:
        """A message leaves without having been consumed."""
        self.drops[reason] += 1
        if self.has_dead_letters:
            self.bury(entry, reason)
        else:
            self.unconsumed += 1
            self.forget(entry)

    # -- time --------------------------------------------------------------------------------------------------------

    def drop_expired(self, most: int, now: int) -> int:
        """Drop what has expired at the head. Returns how many of `most` are left: none, if there may be more."""
        ready = self.ready
        while self.may_expire and most > 0 and not self.is_held_up():
            expires_at = ready.first_expiry()
            if not expires_at:
                if not ready.count:
                    self.none_expires()
                break
            if expires_at > now:
                self.watch(expires_at, now)
                break
            entry = ready.pop()
            if entry is None:
                break
            if entry.expires_at > now:  # what stood in front of it was not for this queue (cursor_ready.py)
                ready.put_back([entry])
                continue
            self.drop(entry, _EXPIRED)
            most -= 1
        return most

    def none_expires(self) -> None:
        """Nothing is ready, so nothing has an expiry."""
        self.may_expire = False

    def drop_expired_at_once(self, now: int) -> bool:
        """Drop some of what has expired at the head. Returns whether what comes then may leave the queue."""
        return self.drop_expired(self.most_at_once, now) > 0

    def head_has_expired(self, now: int) -> bool:
        """Whether the first message is to be dropped: what stands behind it waits."""
        return self.may_expire and 0 < self.ready.first_expiry() <= now


def _limit(number: int | None) -> int:
    """-1 for none."""
    return -1 if number is None else number


def _duration(milliseconds: int | None) -> int:
    """-1 for none; no longer than can be added to any time."""
    return -1 if milliseconds is None else min(milliseconds, TIME_MAX)
