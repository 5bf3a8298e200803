"""QuorumQueue: one quorum queue, the same on every member of its group.

    enqueue -> a consumer with credit, or ready -> hand_over -> held -> settle | give_back -> ready, letters or gone

Ready order, priorities, paging and the dispatcher are those of classic queues (Ready, PriorityReady, Dispatcher). It is
no ClassicQueue, because that one writes the node's journal, acts on timers of its own node, lets a client's speed
decide who has credit, and works off any number of expired messages at once. Here everything follows from the log: time
is the group's clock, and there is a limit to what one command can cause.

Invariants:
1. While a message is ready, no consumer in line has credit (after every command), unless `due_at` is now.
2. Nothing depends on where a message lies: in the head, in a page, on disk.
3. `due_at` follows from the replicated state, so that a member which has been restored acts when the others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cython

from queues.arguments import Overflow
from queues.dispatcher import Dispatcher
from queues.message import Entry, Message
from queues.pager import Pager
from queues.priority import PriorityReady
from queues.quorum.commands import How
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.deduplication import Deduplication
from queues.quorum.effects import Reason
from queues.quorum.leases import Leases
from queues.quorum.letters import Letters, empty
from queues.quorum.reader import TIME_MAX
from queues.quorum.settings import QuorumSettings
from queues.ready import Ready

if not cython.compiled:
    from queues.message import make_entry
    from queues.page import packed_size

#: So many messages at most are dropped at a time, because they have expired or are too many; the rest with the next
#: entry of the log, for which the leader sees to it that there is one soon.
AT_ONCE = 1000
_AT_ONCE = AT_ONCE
#: A queue that holds back orders messages by the time at which they expire, and these bits of their number.
_PLACE_BITS = 22
_PLACE_MASK = (1 << _PLACE_BITS) - 1
#: A page keeps 16 bits of it.
_MOST_RETURNS = 65_535
_MOST_TIME = TIME_MAX
_ACK = How.ACK
_REQUEUE = How.REQUEUE
_RETURN = How.RETURN


class Sink:
    """Whom a queue tells what has happened."""

    def delivered(self, consumer: QuorumConsumer, delivery_id: int, entry: Entry) -> None:
        """A message was handed to a consumer."""
        raise NotImplementedError

    def lettered(self, letters: Letters, entry: Entry) -> None:
        """A dead letter is in transit."""
        raise NotImplementedError

    def discarded(self, queue_id: int, messages: int) -> None:
        """So many messages that came back too often are nowhere now."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Figures of one queue; octets are those of bodies."""

    ready: int
    ready_bytes: int
    unacked: int
    consumers: int
    dead_letters: int
    leased: int = 0


class QuorumQueue:
    """holders: everybody who is attached or holds something, in order of arrival, by origin and consumer id.
    last_used: when it was last used, for x-expires. may_expire: a ready message may have an expiry (True if unknown).
    timeout: for how long a delivery may be held, milliseconds, -1 for ever. is_touched: it is to be looked at when the
    batch is applied. leases: its lease groups, None if it never had any.
    """

    def __init__(self, queue_id: int, settings: QuorumSettings, pager: Pager, sink: Sink) -> None:
        self.queue_id = queue_id
        self.pager = pager
        self.sink = sink
        levels = settings.arguments.max_priority
        self.ready: Ready = Ready(pager, queue_id) if levels is None else PriorityReady(pager, queue_id, levels)
        self.dispatcher = Dispatcher(settings.arguments.single_active_consumer)
        self.letters = Letters(pager, queue_id)
        self.deduplication = Deduplication()
        self.holders: dict[tuple[str, int], QuorumConsumer] = {}
        self.next_sequence = 1
        self.unacked = 0
        self.last_used = 0
        self.may_expire = False
        self.is_touched = False
        self.leases: Leases | None = None
        self.apply_settings(settings)

    def apply_settings(self, settings: QuorumSettings) -> None:
        """Settings in force from now on; priorities and the single active consumer stay as they are."""
        self.settings = settings
        arguments = settings.arguments
        self._max_length = -1 if arguments.max_length is None else arguments.max_length
        self._max_bytes = -1 if arguments.max_length_bytes is None else arguments.max_length_bytes
        self._holds_back = settings.holds_back
        is_limited = self._max_length >= 0 or self._max_bytes >= 0
        self._drops_head = is_limited and arguments.overflow is Overflow.DROP_HEAD
        self._rejects = is_limited and arguments.overflow is not Overflow.DROP_HEAD
        self._ttl = _duration(arguments.message_ttl)
        self._expires = _duration(arguments.expires)
        self.timeout = _duration(settings.consumer_timeout)
        self._has_dead_letters = arguments.dead_letter_exchange is not None
        self._delivery_limit = -1 if arguments.delivery_limit is None else arguments.delivery_limit

    def levels(self) -> list[Ready]:
        """The runs of ready messages, one for each priority, the lowest first."""
        return self.ready.levels if isinstance(self.ready, PriorityReady) else [self.ready]

    # -- publishing --------------------------------------------------------------------------------------------------

    def enqueue(self, message: Message, clock: int) -> bool:
        """A new message. False: the queue is full, and refuses it."""
        if self._rejects and self._has_no_room_for(message):
            if self.settings.arguments.overflow is Overflow.REJECT_PUBLISH_DLX:
                self._bury(message, Reason.MAXLEN, 0)
            return False
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        expires_at = self._expiry_of(message, clock)
        if self._holds_back:
            self.may_expire = True
            place = expires_at << _PLACE_BITS | sequence & _PLACE_MASK
            self.ready.insert(message, place, expires_at)
            return True
        if self.ready.count == 0:
            consumer = self.dispatcher.next()
            if consumer is not None:
                entry = make_entry(message, sequence, expires_at, 0)
                self.pager.used += message.size
                self._hand_over(entry, consumer, clock)
                return True
        self.ready.push(message, sequence, expires_at, 0)
        if expires_at:
            self.may_expire = True
        if self._drops_head:
            self._enforce_limits(_AT_ONCE)
        return True

    def _has_no_room_for(self, message: Message) -> bool:
        ready = self.ready
        return 0 <= self._max_length <= ready.count or (0 <= self._max_bytes < ready.message_bytes + message.body_size)

    def _expiry_of(self, message: Message, clock: int) -> int:
        """When it expires, 0 for never: the lower of the queue's and its own TTL."""
        ttl = self._ttl
        if message.expiration >= 0 and (ttl < 0 or message.expiration < ttl):
            ttl = min(message.expiration, _MOST_TIME)
        return 0 if ttl < 0 else clock + ttl

    def _is_over_limit(self) -> bool:
        ready = self.ready
        return 0 <= self._max_length < ready.count or 0 <= self._max_bytes < ready.message_bytes

    def _enforce_limits(self, most: int) -> int:
        """Drop what is too much from the head. Returns how many of `most` are left."""
        while most and self._is_over_limit():
            entry = self.ready.pop()
            if entry is None:
                break
            self._drop(entry, Reason.MAXLEN)
            most -= 1
        return most

    # -- delivering --------------------------------------------------------------------------------------------------

    def dispatch(self, clock: int) -> None:
        """Hand ready messages to consumers while there are both."""
        ready = self.ready
        most = _AT_ONCE
        while ready.count and most:
            consumer = self.dispatcher.next()
            if consumer is None:
                return
            entry = ready.pop()
            if entry is None:
                return
            if 0 < entry.expires_at <= clock:
                self._drop(entry, Reason.EXPIRED)
                most -= 1
            else:
                self._hand_over(entry, consumer, clock)

    def _hand_over(self, entry: Entry, taker: Any, clock: int) -> None:
        consumer: QuorumConsumer = taker
        self.unacked += 1
        self.sink.delivered(consumer, consumer.hold(entry, clock), entry)

    def get(self, holder: QuorumConsumer, clock: int) -> int:
        """The first ready message is held by `holder` now. Returns the delivery id, 0 when there is none."""
        for _ in range(_AT_ONCE):
            entry = self.ready.pop()
            if entry is None:
                return 0
            if not 0 < entry.expires_at <= clock:
                self.unacked += 1
                return holder.hold(entry, clock)
            self._drop(entry, Reason.EXPIRED)
        return 0

    # -- lease groups (leases.py) ------------------------------------------------------------------------------------

    def take_ready(self, most: int, max_bytes: int, clock: int) -> list[Entry]:
        """The first ready messages leave the queue: so many at most, and so many octets, counted as they are packed;
        one at least. They stay counted in the budget."""
        taken: list[Entry] = []
        dropped = 0
        while len(taken) < most and dropped < _AT_ONCE:
            entry = self.ready.peek()
            if entry is None:
                break
            if 0 < entry.expires_at <= clock:
                self.ready.pop()
                self._drop(entry, Reason.EXPIRED)
                dropped += 1
                continue
            size = packed_size(entry.message)
            if size > max_bytes and taken:
                break
            max_bytes -= size
            self.ready.pop()
            taken.append(entry)
        return taken

    def take_leased(self, entries: list[Entry]) -> None:
        """Messages of a group come back, counted in the budget. Call `dispatch` afterwards."""
        self.unacked += len(entries)
        self._put_back(entries, True)

    # -- consumers ---------------------------------------------------------------------------------------------------

    def has_exclusive(self) -> bool:
        """Whether an exclusive consumer is attached."""
        return any(consumer.is_exclusive for consumer in self.holders.values() if consumer.is_attached)

    def attach(self, consumer: QuorumConsumer, clock: int) -> None:
        """A consumer joins."""
        self.add_holder(consumer)
        consumer.is_attached = True
        self.dispatcher.add(consumer)
        self.dispatch(clock)

    def add_holder(self, consumer: QuorumConsumer) -> None:
        """Somebody may hold messages from now on."""
        self.holders[consumer.origin, consumer.consumer_id] = consumer

    def remove_holder(self, consumer: QuorumConsumer) -> None:
        """Somebody who is not attached holds nothing any more."""
        del self.holders[consumer.origin, consumer.consumer_id]

    def detach(self, consumer: QuorumConsumer, clock: int) -> None:
        """A consumer gets nothing more; what it holds stays held. Call `dispatch` afterwards."""
        consumer.is_attached = False
        self.dispatcher.remove(consumer)
        if not self.dispatcher.consumers:
            self.last_used = clock

    def prefetch_changed(self, consumer: QuorumConsumer, clock: int) -> None:
        """It may hold more, or less, than before."""
        self.dispatcher.credit_returned(consumer)
        self.dispatch(clock)

    # -- settling ----------------------------------------------------------------------------------------------------

    def settle(self, consumer: QuorumConsumer, how: How, ranges: tuple[tuple[int, int], ...], clock: int) -> int:
        """Settle deliveries first..last of a consumer. Returns how many of them it does not hold."""
        entries, missed = consumer.take(ranges)
        if how is _REQUEUE or how is _RETURN:
            self._put_back(entries, how is _REQUEUE)
        else:
            self.unacked -= len(entries)
            for entry in entries:
                entry.consumer = None
                if how is _ACK:
                    self._forget(entry)
                else:
                    self._drop(entry, Reason.REJECTED)
        if entries and consumer.is_attached:
            self.dispatcher.credit_returned(consumer)
        self.dispatch(clock)
        return missed

    def give_back(self, consumer: QuorumConsumer) -> None:
        """Everything that a consumer holds returns. Call `dispatch` afterwards."""
        self._put_back(consumer.take_all(), True)

    def give_back_unseen(self, consumer: QuorumConsumer, seen: int) -> None:
        """The deliveries above `seen` return as they came. Call `dispatch` afterwards."""
        entries, _ = consumer.take(((seen + 1, consumer.next_delivery),))
        self._put_back(entries, False)

    def _put_back(self, entries: list[Entry], counts: bool) -> None:
        """To their original positions."""
        kept = []
        dropped = 0
        limit = self._delivery_limit
        self.unacked -= len(entries)
        for entry in entries:
            entry.consumer = None
            if counts:
                entry.is_redelivered = True
                entry.returns = min(entry.returns + 1, _MOST_RETURNS)
                if 0 <= limit < entry.returns:
                    self._drop(entry, Reason.DELIVERY_LIMIT)
                    dropped += 1
                    continue
            kept.append(entry)
            if entry.expires_at:
                self.may_expire = True
        if dropped and not self._has_dead_letters:
            self.sink.discarded(self.queue_id, dropped)
        if kept:
            self.ready.put_back(kept)
        if self._drops_head:
            self._enforce_limits(_AT_ONCE)

    def _drop(self, entry: Entry, reason: Reason) -> None:
        """A message leaves without having been consumed."""
        self._bury(entry.message, reason, entry.returns)
        self._forget(entry)

    def _bury(self, message: Message, reason: Reason, returns: int) -> None:
        if self._has_dead_letters:
            entry = self.letters.add(message, reason, returns)
            if entry is not None:
                self.sink.lettered(self.letters, entry)

    def dispatched(self, letter: int) -> None:
        """The dead letters up to this one are where they were to go."""
        for entry in self.letters.dispatched(letter):
            self.sink.lettered(self.letters, entry)

    def _forget(self, entry: Entry) -> None:
        """The entry leaves the queue: give back its RAM and its place."""
        self.pager.used -= entry.message.size
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None

    # -- time --------------------------------------------------------------------------------------------------------

    def due_at(self, clock: int) -> int:
        """When something happens here without a command: milliseconds since the epoch, 0 for never."""
        due = self.due_without_holders(clock)
        if self.timeout >= 0 and self.unacked:
            for consumer in self.holders.values():
                if consumer.held:
                    due = _earlier(due, consumer.held_since() + self.timeout)
        return due

    def due_without_holders(self, clock: int) -> int:
        """The same, but for deliveries that are held for too long."""
        due = 0
        if self._drops_head and self._is_over_limit():
            due = max(1, clock)
        if self.may_expire:
            head = self.ready.peek()
            if head is None:
                self.may_expire = False
            else:
                due = _earlier(due, head.expires_at)
        if self.leases is not None and self.leases.parting:
            due = max(1, clock)
        if self._expires >= 0 and self._is_unused():
            due = _earlier(due, self.last_used + self._expires)
        return due

    def _is_unused(self) -> bool:
        """Dead letters keep a queue too, and so does what is leased."""
        if self.leases is not None and self.leases.held():
            return False
        return not self.dispatcher.consumers and not self.letters.count

    def is_expired(self, clock: int) -> bool:
        """Whether nobody has used it for as long as it lives (x-expires)."""
        return self._expires >= 0 and self._is_unused() and self.last_used + self._expires <= clock

    def late_holders(self, clock: int) -> list[QuorumConsumer]:
        """Who has held a delivery for longer than the consumer timeout."""
        if self.timeout < 0:
            return []
        return [each for each in self.holders.values() if each.held and each.held_since() + self.timeout <= clock]

    def normalise(self, clock: int) -> None:
        """Drop from the head what is too much and what has expired, at most AT_ONCE of each."""
        if self._drops_head:
            self._enforce_limits(_AT_ONCE)
        most = _AT_ONCE
        while self.may_expire and most:
            entry = self.ready.peek()
            if entry is None:
                self.may_expire = False
                return
            if not 0 < entry.expires_at <= clock:
                return
            self.ready.pop()
            self._drop(entry, Reason.EXPIRED)
            most -= 1

    # -- the whole queue ---------------------------------------------------------------------------------------------

    def purge(self) -> int:
        """Drop all ready messages. Returns how many there were."""
        return empty(self.ready)

    def discard(self) -> None:
        """The queue is no more: give back everything."""
        for consumer in self.holders.values():
            for entry in consumer.take_all():
                self._forget(entry)
        self.unacked = 0
        empty(self.ready)
        self.letters.discard()
        if self.leases is not None:
            self.leases.discard()

    def statistics(self) -> QueueStatistics:
        """Its figures now."""
        ready, consumers = self.ready, self.dispatcher.consumers
        leased = self.leases.held() if self.leases is not None else 0
        return QueueStatistics(
            ready.count, ready.message_bytes, self.unacked, len(consumers), self.letters.count, leased
        )


def _duration(milliseconds: int | None) -> int:
    """-1 for none; no longer than can be added to any time."""
    return -1 if milliseconds is None else min(milliseconds, TIME_MAX)


def _earlier(when: int, other: int) -> int:
    """The earlier of two times, 0 being never."""
    return min(when, other) if when and other else when or other
