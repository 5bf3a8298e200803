"""QuorumQueue: one quorum queue, the same on every member of its group.

    accept -> a consumer with credit, or ready -> hand_over -> held -> settle | give_back -> ready, letters or gone
                                                                    -> resting (resting.py) -> wake -> ready

Its rules are those of classic queues (queues/rules.py), and so are Ready and the dispatcher. It is no ClassicQueue,
because that one writes the node's journal, acts on timers of its own node, and lets a client's speed decide who has
credit. Here everything follows from the log: time is the group's clock, and there is a limit to what one command can
cause; what is left to do is done when it is due (`due_at`), and not in slices of the node.

Invariants:
1. While a message is ready, no consumer in line has credit (after every command), unless `due_at` is now.
2. Nothing depends on where a message lies: in the head, in a page, on disk.
3. `due_at` follows from the replicated state, so that a member which has been restored acts when the others do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from queues.arguments import TIME_MAX
from queues.message import Entry, Message
from queues.pager import Pager
from queues.queue import Held
from queues.quorum.commands import How
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.deduplication import Deduplication
from queues.quorum.delayed_ready import DelayedReady
from queues.quorum.letters import Letters, empty
from queues.quorum.resting import Resting
from queues.quorum.resting_offsets import RestingOffsets
from queues.quorum.settings import QuorumSettings
from queues.reason import Reason
from queues.rules import QueueRules
from queues.sizes import held_by
from queues.sums import QueueSums
from queues.write_group import WriteGroup

#: So many messages at most are dropped at a time, because they have expired or are too many; the rest with the next
#: entry of the log, for which the leader sees to it that there is one soon.
AT_ONCE = 1000
_AT_ONCE = AT_ONCE
#: So many consumers are looked at in one slice, by who asks what they hold.
_LOOKED_AT = 256
#: What a queue that is gone gives back in a slice.
_DISCARDED = 512
#: Its messages come by its log.
_BY_LOG = WriteGroup()
_MAXLEN = Reason.MAXLEN
_ACK = How.ACK
_REQUEUE = How.REQUEUE
_RETURN = How.RETURN
_FAIL = How.FAIL


class Sink:
    """Whom a queue tells what has happened."""

    def delivered(self, consumer: QuorumConsumer, delivery_id: int, entry: Entry) -> None:
        """A message was handed to a consumer."""
        raise NotImplementedError

    def unread(self, consumer: QuorumConsumer) -> None:
        """What was handed to it last cannot be read here."""

    def lettered(self, letters: Letters, entry: Entry) -> None:
        """A dead letter is in transit."""
        raise NotImplementedError

    def discarded(self, queue_id: int, messages: int) -> None:
        """So many messages that came back too often are nowhere now."""
        raise NotImplementedError

    def tells(self, origin: str) -> bool:
        """Whether consumers of this node are told here of what they are given."""
        return False


class QueueStatistics(NamedTuple):
    """Figures of one queue; octets are those of bodies."""

    ready: int
    ready_bytes: int
    unacked: int
    consumers: int
    dead_letters: int
    leased: int = 0
    delayed: int = 0


class QuorumQueue(QueueRules):
    """holders: everybody who is attached or holds something, in order of arrival, by origin and consumer id.
    last_used: when it was last used, for x-expires. may_expire: a ready message may have an expiry (True if unknown).
    timeout: for how long a delivery may be held, milliseconds, -1 for ever. is_touched: it is to be looked at when the
    batch is applied. gives_way: see QuorumSettings. resting: what rests before it comes again, None if it never did.
    Since this member was started, messages: delivered (to consumers on all nodes), auto_acked (to those that do not
    acknowledge), redelivered (of both, and to basic.get), acked.
    """

    def __init__(self, queue_id: int, settings: QuorumSettings, pager: Pager, sink: Sink) -> None:
        # Its name is in the metadata.
        super().__init__("", queue_id, True, _BY_LOG, pager, settings.arguments, _AT_ONCE)
        if settings.holds_back:
            self.ready = DelayedReady(pager, queue_id)
        self.sink = sink
        self.letters = Letters(pager, queue_id)
        self.deduplication = Deduplication()
        self.delivery_owners: dict[tuple[str, int], QuorumConsumer] = {}
        self.is_touched = False
        self.resting: Resting | RestingOffsets | None = None
        self.delivered = self.auto_acked = self.redelivered = self.acked = 0
        self.apply_settings(settings)

    def apply_settings(self, settings: QuorumSettings) -> None:
        """Settings in force from now on; the order, priorities and the single active consumer stay as they are."""
        self.quorum_settings = settings
        self.settings = arguments = settings.arguments
        self._retry = settings.retry
        self.gives_way = settings.gives_way
        self._expires = -1 if arguments.expires is None else min(arguments.expires, TIME_MAX)
        self.timeout = -1 if settings.consumer_timeout is None else min(settings.consumer_timeout, TIME_MAX)
        self.apply_arguments(arguments)

    # -- delivering --------------------------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """Hand ready messages to consumers while there are both; but no more than so many expired ones stand between
        them. What is handed out is bounded by what consumers may hold."""
        if self.gives_way:
            self._change_turns()
        self.hand_out(_AT_ONCE, now)

    def _change_turns(self) -> None:
        """A single active consumer whom another one outranks gets nothing more, and stands by once it holds nothing."""
        dispatcher = self.dispatcher
        active: Any = dispatcher.active
        if active is None:
            return
        consumer: QuorumConsumer = active
        if not dispatcher.is_outranked():
            if not consumer.is_waiting and consumer.has_credit():
                dispatcher.credit_returned(consumer)  # who outranked it is gone
        elif consumer.held:
            dispatcher.pause()
        else:
            dispatcher.give_way()

    def give(self, entry: Entry, consumer: Any, now: int) -> int:
        taker: QuorumConsumer = consumer
        self.unacked += 1
        if taker.no_ack:
            self.auto_acked += 1
        else:
            self.delivered += 1
        if entry.is_redelivered:
            self.redelivered += 1
        self.sink.delivered(taker, taker.hold(entry, now), entry)
        return 0

    def get(self, delivery_owner: QuorumConsumer, clock: int) -> int:
        """The first ready message is held by `delivery_owner` now. Returns the delivery id, 0 when there is none; or
        none yet, while `ready` has a next one."""
        entry = self.take_first(clock)
        if entry is None:
            return 0
        self.unacked += 1
        if entry.is_redelivered:
            self.redelivered += 1
        return delivery_owner.hold(entry, clock)

    def message_of(self, entry: Entry) -> Message | None:
        """The message of an entry that somebody holds; None where it is nowhere any more."""
        return entry.message

    def holdings(self) -> Iterator[Held | None]:
        """See Queue: by all consumers, on all nodes. Who holds something at most holds MOST_IN_FLIGHT."""
        for owner in list(self.delivery_owners.values()):
            for entry, since in list(owner.held.values()):
                yield Held(entry, owner.origin, owner.consumer_id, owner.tag, since)
            yield None

    def held_since(self) -> Iterator[int | None]:
        """See Queue: by the group's clock."""
        for number, owner in enumerate(list(self.delivery_owners.values()), 1):
            if owner.held:
                yield owner.held_since()
            if number % _LOOKED_AT == 0:
                yield None

    # -- consumers ---------------------------------------------------------------------------------------------------

    def attach(self, consumer: QuorumConsumer, clock: int) -> None:
        """A consumer joins."""
        self.add_delivery_owner(consumer)
        consumer.is_attached = True
        self.dispatcher.add(consumer)
        self.dispatch(clock)

    def add_delivery_owner(self, consumer: QuorumConsumer) -> None:
        """Somebody may hold messages from now on."""
        self.delivery_owners[consumer.origin, consumer.consumer_id] = consumer

    def remove_delivery_owner(self, consumer: QuorumConsumer) -> None:
        """Somebody who is not attached holds nothing any more."""
        del self.delivery_owners[consumer.origin, consumer.consumer_id]

    def detach(self, consumer: QuorumConsumer, clock: int) -> None:
        """A consumer gets nothing more; what it holds stays held. Call `dispatch` afterwards."""
        consumer.is_attached = False
        self.dispatcher.remove(consumer)
        if not self.dispatcher.consumers:
            self.last_used = clock

    def limit_changed(self, consumer: QuorumConsumer, clock: int) -> None:
        """It may hold more, or less, than before."""
        self.dispatcher.credit_returned(consumer)
        self.dispatch(clock)

    # -- settling ----------------------------------------------------------------------------------------------------

    def settle(self, consumer: QuorumConsumer, how: How, ranges: tuple[tuple[int, int], ...], clock: int) -> int:
        """Settle deliveries first..last of a consumer. Returns how many of them it does not hold."""
        entries, missed = consumer.take(ranges)
        if how is _REQUEUE or how is _FAIL:
            self.bring_back(entries, True, clock, self._rests(how is _FAIL))
        elif how is _RETURN:
            self.bring_back(entries, False, clock)
        elif how is _ACK:
            if not consumer.no_ack:
                self.acked += len(entries)
            for entry in entries:
                self.ack(entry)
        else:
            for entry in entries:
                self.reject(entry, clock)
        if entries and consumer.is_attached:
            self.dispatcher.credit_returned(consumer)
        self.dispatch(clock)
        return missed

    def give_back(self, consumer: QuorumConsumer, has_failed: bool, clock: int) -> None:
        """Everything that a consumer holds returns. has_failed: its channel was closed. Call `dispatch` afterwards."""
        self.bring_back(consumer.take_all(), True, clock, self._rests(has_failed))

    def give_back_all(self, consumers: list[QuorumConsumer], clock: int) -> None:
        """Everything that these hold returns: as with `give_back` of one after the other, where it would be put each
        time among all that has come back already, as theirs lies between each other's."""
        if self.drops_head:  # what is dropped at the head follows from what has come back until then
            for consumer in consumers:
                self.give_back(consumer, False, clock)
            return
        entries: list[Entry] = []
        for consumer in consumers:
            entries += consumer.take_all()
        self.bring_back(entries, True, clock, self._rests(False))

    def _rests(self, has_failed: bool) -> bool:
        """Whether what comes back rests before it comes again."""
        return self._retry is not None and self._retry.rests(has_failed)

    @property
    def has_retry(self) -> bool:
        """Whether there is something of it that rests, or may."""
        return self._retry is not None or (self.resting is not None and self.resting.count > 0)

    def rest(self, entries: list[Entry], now: int) -> None:
        assert self._retry is not None
        if self.resting is None:
            self.resting = Resting(self.pager, self.queue_id)
        self.resting.add(entries, self._retry, now)

    def wake(self, clock: int) -> None:
        """What has rested is ready again. Call `dispatch` afterwards."""
        if self.resting is not None and self.resting.count:
            entries = self.resting.take(_AT_ONCE, self.next_sequence, clock)
            if any(entry.expires_at for entry in entries):
                self.may_expire = True
            if entries:
                self.come_again(entries)

    def give_back_unseen(self, consumer: QuorumConsumer, seen: int) -> None:
        """The deliveries above `seen` return as they came. Call `dispatch` afterwards."""
        entries, _ = consumer.take(((seen + 1, consumer.next_delivery),))
        self.bring_back(entries, False, 0)

    def bury(self, entry: Entry, reason: Reason) -> None:
        self._add_letter(entry.message, reason, entry.returns)
        self.forget(entry)

    def bury_refused(self, message: Message) -> None:
        self._add_letter(message, _MAXLEN, 0)

    def _add_letter(self, message: Message, reason: Reason, returns: int) -> None:
        entry = self.letters.add(message, reason, returns)
        if entry is not None:
            self.sink.lettered(self.letters, entry)

    def discarded(self, messages: int) -> None:
        self.sink.discarded(self.queue_id, messages)

    def dispatched(self, letter: int) -> None:
        """The dead letters up to this one are where they were to go."""
        for entry in self.letters.dispatched(letter):
            self.sink.lettered(self.letters, entry)

    def forget(self, entry: Entry) -> None:
        self.pager.used -= entry.message.size
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None

    # -- time --------------------------------------------------------------------------------------------------------

    def due_at(self, clock: int) -> int:
        """When something happens here without a command: milliseconds since the epoch, 0 for never."""
        due = self.due_without_delivery_owners(clock)
        if self.timeout >= 0 and self.unacked:
            for consumer in self.delivery_owners.values():
                if consumer.held:
                    due = _earlier(due, consumer.held_since() + self.timeout)
        return due

    def due_without_delivery_owners(self, clock: int) -> int:
        """The same, but for deliveries that are held for too long."""
        due = 0
        if self.is_too_long():
            due = max(1, clock)
        if self.may_expire:
            if self.ready.count:
                due = _earlier(due, self.ready.first_expiry())
            else:
                self.none_expires()
        if self.lease_groups is not None and self.lease_groups.parting:
            due = max(1, clock)
        if self.resting is not None:
            due = _earlier(due, self.resting.first_due())
        if self._expires >= 0 and not self.is_in_use():
            due = _earlier(due, self.last_used + self._expires)
        return due

    def is_in_use(self) -> bool:
        """See QueueRules: dead letters keep it too."""
        return QueueRules.is_in_use(self) or self.letters.count > 0

    def is_expired(self, clock: int) -> bool:
        """Whether nobody has used it for as long as it lives (x-expires)."""
        return self._expires >= 0 and not self.is_in_use() and self.last_used + self._expires <= clock

    def late_delivery_owners(self, clock: int) -> list[QuorumConsumer]:
        """Who has held a delivery for longer than the consumer timeout."""
        if self.timeout < 0:
            return []
        owners = self.delivery_owners.values()
        return [each for each in owners if each.held and each.held_since() + self.timeout <= clock]

    def normalise(self, clock: int) -> None:
        """Drop from the head what is too much and what has expired, at most AT_ONCE of each."""
        self.drop_excess(_AT_ONCE)
        self.drop_expired(_AT_ONCE, clock)

    # -- the whole queue ---------------------------------------------------------------------------------------------

    def purge(self) -> int:
        """Drop all ready messages, and those that rest. Returns how many there were."""
        return empty(self.ready) + (self.resting.clear() if self.resting is not None else 0)

    def discard(self) -> None:
        """The queue is no more: give back everything."""
        for _ in self.discarding():
            pass

    def discarding(self) -> Iterator[None]:
        """The same, a slice at each step."""
        self.unacked = 0
        left = _DISCARDED
        for consumer in self.delivery_owners.values():
            held = consumer.held
            while held:
                self.forget(held.popitem()[1][0])
                left -= 1
                if not left:
                    left = _DISCARDED
                    yield
        empty(self.ready)
        if self.resting is not None:
            self.resting.clear()
        self.letters.discard()
        if self.lease_groups is not None:
            self.lease_groups.discard()

    def add_counters(self, sums: QueueSums) -> None:
        """See Queue."""
        sums.delivering += 1
        sums.add_published(self.next_sequence - 1)
        sums.delivered += self.delivered
        sums.auto_acked += self.auto_acked
        sums.redelivered += self.redelivered
        sums.acked += self.acked
        self.add_drops(sums)

    def keep_counts(self, before: QuorumQueue) -> None:
        """It takes the place of another state of the same queue, which this member has counted for."""
        self.delivered, self.auto_acked = before.delivered, before.auto_acked
        self.redelivered, self.acked = before.redelivered, before.acked
        self.drops, self.unconsumed = before.drops, before.unconsumed

    def stores_all(self) -> bool:
        """See QueueRules: its log has them."""
        return True

    def held_entries(self) -> Iterator[Entry]:
        """See QueueRules."""
        return held_by(self.delivery_owners.values())

    def statistics(self) -> QueueStatistics:
        """Its figures now."""
        ready, consumers = self.ready, self.dispatcher.consumers
        delayed = self.resting.count if self.resting is not None else 0
        return QueueStatistics(
            ready.count, ready.message_bytes, self.unacked, len(consumers), self.letters.count, self.leased_count(),
            delayed,
        )  # fmt: skip


def _earlier(when: int, other: int) -> int:
    """The earlier of two times, 0 being never."""
    return min(when, other) if when and other else when or other
