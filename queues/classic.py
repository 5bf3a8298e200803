"""ClassicQueue: the queue that lives on one node.

    publish: `rejects`, `taker`, (journal), `enqueue` -> a consumer, or ready
    deliver: ready -> dispatcher -> consumer, `held` while unacknowledged
    settle:  `ack` | `put_back` | `reject`; `expire`, length limits and purge settle ready messages
    lease:   `take_ready` -> a LeaseGroup (leases.py); `put_back`, if it is released

It knows consumers as a Protocol, dead letters as a callable, time as an argument.

Invariants:
1. While a message is ready, no consumer in line has credit (after `dispatch`).
2. `unacked` counts the entries that consumers hold; `held` has those of them that have a durable copy.
3. Everything with a durable copy that leaves the queue is named in `settled` (or in ranges written at once).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from queues.arguments import Overflow, QueueArguments
from queues.consumer import Consumer
from queues.dispatcher import Dispatcher
from queues.leases import LeaseGroup, groups_of
from queues.message import Entry, Message
from queues.page import Page
from queues.priority import PriorityReady
from queues.queue import Queue
from queues.ready import Ready
from queues.recovery import RecoveredQueue
from queues.store import MessageStore
from queues.timers import Timer, Timers

if not cython.compiled:
    from queues.message import make_entry
    from queues.page import packed_size

#: Reasons of dead letters, as x-death names them.
REJECTED = "rejected"
EXPIRED = "expired"
MAXLEN = "maxlen"
DELIVERY_LIMIT = "delivery_limit"

DeadLetter = Callable[[Any, Message, str, int], None]


class ClassicQueue(Queue):
    """One classic queue.

    queue_id: the number under which its messages are stored. dead_letter: called with (queue, message, reason, now) for
    a message that goes to the dead letter exchange; the queue forgets the message afterwards. lease_groups: by name;
    parting: by id, those that are putting back what they hold. watcher: called once, when something becomes ready.
    """

    def __init__(
        self,
        name: str,
        queue_id: int,
        is_durable: bool,
        settings: QueueArguments,
        store: MessageStore,
        timers: Timers,
        dead_letter: DeadLetter,
    ) -> None:
        super().__init__(name, queue_id, is_durable)
        self.store = store
        self.pager = store.pager
        self.timers = timers
        self.dead_letter = dead_letter
        self.next_sequence = 1
        self.unacked = 0
        self.settled: list[int] = []
        self.last_segment = 0
        self.held: dict[int, Entry] = {}
        self.published = self.delivered = self.settled_count = self.redelivered = 0
        levels = settings.max_priority
        self.ready = Ready(self.pager, queue_id) if levels is None else PriorityReady(self.pager, queue_id, levels)
        self.dispatcher = Dispatcher(settings.single_active_consumer)
        self.only_consumer: Consumer | None = None
        self.is_drained = False  # that nothing is ready is certain
        self.lease_groups: dict[str, LeaseGroup] = {}
        self.parting: dict[int, LeaseGroup] = {}
        self.watcher: Callable[[], None] | None = None
        self._expiry_at = 0
        self._expiry_timer: Timer | None = None
        self._expires_soon = False
        self.apply_settings(settings)

    def apply_settings(self, settings: QueueArguments) -> None:
        """Arguments and policies in force from now on (the level count of priorities stays)."""
        self.settings = settings
        self.counts_returns = settings.delivery_limit is not None
        self.message_ttl = -1 if settings.message_ttl is None else settings.message_ttl
        self.max_length = -1 if settings.max_length is None else settings.max_length
        self.max_length_bytes = -1 if settings.max_length_bytes is None else settings.max_length_bytes
        self.is_limited = self.max_length >= 0 or self.max_length_bytes >= 0
        self.rejects_overflow = self.is_limited and settings.overflow is not Overflow.DROP_HEAD
        self.has_dead_letters = settings.dead_letter_exchange is not None

    def message_count(self) -> int:
        """How many messages are ready."""
        return int(self.ready.count)

    def unacked_count(self) -> int:
        """How many messages consumers hold."""
        return self.unacked

    def consumer_count(self) -> int:
        """How many consumers there are."""
        return len(self.dispatcher.consumers)

    # -- publishing ----------------------------------------------------------------------------------------------

    def rejects(self, message: Message, now: int) -> bool:
        """Whether the queue is full and refuses the message (overflow reject-publish; the -dlx form dead-letters)."""
        if not self.rejects_overflow:
            return False
        ready = self.ready
        if not (0 <= self.max_length <= ready.count) and not (
            0 <= self.max_length_bytes < ready.message_bytes + message.body_size
        ):
            return False
        if self.settings.overflow is Overflow.REJECT_PUBLISH_DLX and self.has_dead_letters:
            self.dead_letter(self, message, MAXLEN, now)
        return True

    def expiry_of(self, message: Message, now: int) -> int:
        """When the message expires here, milliseconds since the epoch, 0 for never: the lower of the two TTLs."""
        ttl = self.message_ttl
        if message.expiration >= 0 and (ttl < 0 or message.expiration < ttl):
            ttl = message.expiration
        return 0 if ttl < 0 else now + ttl

    def taker(self) -> Consumer | None:
        """The consumer who gets a message published now, or None when it has to wait."""
        if not self.is_drained:
            if self.ready.count:
                return None
            self.is_drained = True
        consumer = self.only_consumer
        if consumer is not None and consumer.is_waiting and consumer.has_credit():
            return consumer
        return self.dispatcher.next()

    def enqueue(
        self, message: Message, expires_at: int, journal_segment: int, taker: Consumer | None, now: int
    ) -> None:
        """A new message: to `taker` at once, else to the end of the queue."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        self.published += 1
        if taker is not None:
            if taker.no_ack:
                self.delivered += 1
                self.settled_count += 1
                if journal_segment:
                    self._mark_settled(sequence)
                taker.deliver_at_once(message, False)
            else:
                entry = make_entry(message, sequence, expires_at, journal_segment)
                self.pager.used += message.size
                self._hand_over(entry, taker)
            return
        self.ready.push(message, sequence, expires_at, journal_segment)
        self._became_ready()
        if expires_at:
            if expires_at <= now:
                # It may have expired behind others: then it goes when it becomes the first.
                self._expires_soon = True
                self.expire(now)
            else:
                self._watch(expires_at)
        if self.is_limited and not self.rejects_overflow:
            self._enforce_limits(now)

    def _became_ready(self) -> None:
        self.is_drained = False
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher()

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        entry.consumer = consumer
        self.unacked += 1
        self.delivered += 1
        if entry.journal_segment or entry.page is not None:
            self.held[entry.sequence] = entry
        consumer.deliver(entry)

    def _enforce_limits(self, now: int) -> None:
        ready = self.ready
        while (0 <= self.max_length < ready.count) or (0 <= self.max_length_bytes < ready.message_bytes):
            entry = ready.pop()
            if entry is None:
                return
            self._drop(entry, MAXLEN, now)

    # -- delivering ----------------------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """Hand ready messages to consumers while there are both."""
        ready = self.ready
        while ready.count:
            consumer = self.dispatcher.next()
            if consumer is None:
                break
            entry = ready.pop()
            if entry is None:
                break
            if entry.expires_at and entry.expires_at <= now:
                self._drop(entry, EXPIRED, now)
                continue
            if entry.is_redelivered:
                self.redelivered += 1
            if consumer.no_ack:
                self._forget(entry)
                self.delivered += 1
                message = consumer.redelivered(entry) if entry.is_redelivered else entry.message
                consumer.deliver_at_once(message, entry.is_redelivered)
            else:
                self._hand_over(entry, consumer)
        if self._expires_soon:
            self.expire(now)

    def get(self, now: int) -> Entry | None:
        """The first ready message for basic.get: settle it with `take_at_once`, or hold it with `take_held`."""
        ready = self.ready
        while True:
            entry = ready.pop()
            if entry is None:
                return None
            if entry.expires_at and entry.expires_at <= now:
                self._drop(entry, EXPIRED, now)
                continue
            if entry.is_redelivered:
                self.redelivered += 1
            self.delivered += 1
            if self._expires_soon:
                self.expire(now)
            return entry

    def take_at_once(self, entry: Entry) -> None:
        """An entry from `get` is settled without an acknowledgement."""
        self._forget(entry)

    def take_held(self, entry: Entry, consumer: Consumer) -> None:
        """An entry from `get` is held by `consumer` until it is settled."""
        entry.consumer = consumer
        self.unacked += 1
        if entry.journal_segment or entry.page is not None:
            self.held[entry.sequence] = entry

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer joins; call `dispatch` afterwards."""
        consumer.queue = self
        self.dispatcher.add(consumer)
        self.only_consumer = self.dispatcher.only()

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves; what it holds stays held. Call `dispatch` afterwards: the single active one may change."""
        self.dispatcher.remove(consumer)
        self.only_consumer = self.dispatcher.only()

    def credit_returned(self, consumer: Consumer) -> None:
        """The consumer may have credit again; call `dispatch` afterwards."""
        if not consumer.is_waiting:
            self.dispatcher.credit_returned(consumer)

    # -- settling ------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        """The consumer is done with it."""
        self.unacked -= 1
        entry.consumer = None
        self._forget(entry)

    def reject(self, entry: Entry, now: int) -> None:
        """The consumer refuses it for good: dead letter, or gone."""
        self.unacked -= 1
        entry.consumer = None
        self._drop(entry, REJECTED, now)

    def put_back(self, entries: list[Entry], now: int) -> None:
        """Entries come back unprocessed, to their original positions; call `dispatch` afterwards."""
        kept = []
        limit = self.settings.delivery_limit
        for entry in entries:
            self.unacked -= 1
            entry.consumer = None
            entry.is_redelivered = True
            entry.returns += 1
            if self.is_deleted:
                self._forget(entry)
            elif limit is not None and entry.returns > limit:
                self._drop(entry, DELIVERY_LIMIT, now)
            else:
                if limit is not None and entry.sequence in self.held:
                    self.store.append_returned(self, entry.sequence, entry.returns)
                self.held.pop(entry.sequence, None)
                kept.append(entry)
                if entry.expires_at:
                    self._watch(max(entry.expires_at, now))
        self._make_ready(kept, now)

    def take_back(self, entries: list[Entry], now: int) -> None:
        """Deliveries that no client has ever had come back as they were; call `dispatch` afterwards."""
        for entry in entries:
            self.unacked -= 1
            entry.consumer = None
            self.held.pop(entry.sequence, None)
            if self.is_deleted:
                self._forget(entry)
            elif entry.expires_at:
                self._watch(max(entry.expires_at, now))
        self._make_ready([] if self.is_deleted else entries, now)

    def _make_ready(self, entries: list[Entry], now: int) -> None:
        if entries:
            self.ready.put_back(entries)
            self._became_ready()
        if self.is_limited and not self.rejects_overflow:
            self._enforce_limits(now)

    def _forget(self, entry: Entry) -> None:
        """The entry leaves the queue: give back its RAM and note that its durable copy is settled."""
        self.settled_count += 1
        self.pager.used -= entry.message.size
        if self.is_deleted:
            # Its files go with the queue.
            entry.page = None
        elif entry.page is not None or entry.journal_segment:
            self._leave_page(entry)
            self._mark_settled(entry.sequence)

    def _mark_settled(self, sequence: int) -> None:
        if self.held:
            self.held.pop(sequence, None)
        if self.is_durable:
            if not self.settled:
                self.store.settling(self)
            self.settled.append(sequence)

    def _drop(self, entry: Entry, reason: str, now: int) -> None:
        """A message leaves without being consumed."""
        if self.has_dead_letters:
            self.dead_letter(self, entry.message, reason, now)
        self._forget(entry)

    # -- time ----------------------------------------------------------------------------------------------------

    def _watch(self, expires_at: int) -> None:
        self._expires_soon = True
        if self._expiry_at == 0 or expires_at < self._expiry_at:
            if self._expiry_timer is not None:
                self._expiry_timer.cancel()
            self._expiry_at = expires_at
            self._expiry_timer = self.timers.at(expires_at, self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        self._expiry_timer = None
        self._expiry_at = 0
        if not self.is_deleted:
            self.expire(now)

    def expire(self, now: int) -> None:
        """Drop expired messages from the head, and look again when the new head expires."""
        ready = self.ready
        while True:
            entry = ready.peek()
            if entry is None:
                self._expires_soon = False
                return
            if not entry.expires_at:
                return
            if entry.expires_at > now:
                self._watch(entry.expires_at)
                return
            ready.pop()
            self._drop(entry, EXPIRED, now)

    # -- lease groups ------------------------------------------------------------------------------------------------

    def leased_count(self) -> int:
        """How many messages its groups hold."""
        return sum(group.count for group in groups_of(self))

    def take_ready(self, most: int, max_bytes: int, takes_any: bool, now: int) -> list[Entry]:
        """The first ready messages leave the queue: so many at most, and so many octets, counted as they are packed;
        the first one whatever its size if `takes_any`. They stay counted in the budget, and their durable copies are
        not settled: both are the caller's."""
        ready = self.ready
        taken: list[Entry] = []
        while len(taken) < most:
            entry = ready.peek()
            if entry is None:
                break
            if entry.expires_at and entry.expires_at <= now:
                ready.pop()
                self._drop(entry, EXPIRED, now)
                continue
            size = packed_size(entry.message)
            if size > max_bytes and (taken or not takes_any):
                break
            max_bytes -= size
            ready.pop()
            if entry.is_redelivered:
                self.redelivered += 1
            taken.append(entry)
        self.delivered += len(taken)
        if self._expires_soon:
            self.expire(now)
        return taken

    # -- the whole queue -------------------------------------------------------------------------------------------

    def purge(self) -> int:
        """Drop all ready messages. Returns how many there were."""
        count = self.ready.count
        entries, pages = self.ready.clear()
        for entry in entries:
            self._forget(entry)
        for page in pages:
            self._forget_page(page)
        return count

    def _forget_page(self, page: Page) -> None:
        if self.is_durable and page.durable_count and not self.is_deleted:
            if page.is_repacked or isinstance(self.ready, PriorityReady):
                # Sequences in between may be held by a consumer, or have another priority.
                self.pager.load(self.queue_id, page)
                self.store.append_settled(
                    self, [(entry.sequence, 1) for entry in page.entries(self.pager.addresses)]
                )
            else:
                self.store.append_settled(self, [(page.first, page.last - page.first + 1)])
        self.settled_count += page.live
        if self.is_deleted:
            page.location = None
        elif page.origin is not None:
            self.pager.settle(self.queue_id, page.origin, page.count)
        self.pager.release(self.queue_id, page)

    def delete(self) -> int:
        """The queue is no more: everything in RAM is given back. Returns how many messages were ready."""
        self.is_deleted = True
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        consumers = list(self.dispatcher.consumers)
        for consumer in consumers:
            self.remove_consumer(consumer)
        count = self.purge()
        self.store.unlist(self)
        for group in groups_of(self):
            group.forget()
        self._became_ready()  # whoever waits for that looks again
        for consumer in consumers:
            consumer.on_queue_gone()
        return count

    def restore(self, recovered: RecoveredQueue, now: int) -> None:
        """Take over what was found on disk. Called once, on an empty queue."""
        self.next_sequence = max(self.next_sequence, recovered.next_sequence)
        if recovered.pages_segment:
            self.store.touch(recovered.pages_segment, self)
        for item in recovered.items:
            if isinstance(item, Entry):
                if item.page is not None:
                    # Part of its page is settled: the rest goes back to the journal, and the page is given up.
                    self._write_again(item)
                    self._leave_page(item)
                self.store.touch(item.journal_segment, self)
        self.ready.adopt(recovered.items)
        self.is_drained = False
        self._expires_soon = True
        self.expire(now)

    def leave_segment(self, segment: int) -> None:
        """Write again, or store in pages, whatever relies on a journal segment up to `segment` (queues/store.py)."""
        entries = self.ready.leave_segment(segment)
        held = self.held.values()
        entries += [each for each in held if each.page is not None or 0 < each.journal_segment <= segment]
        for entry in entries:
            if self.is_durable and entry.message.is_persistent:
                self._write_again(entry)
            else:
                entry.journal_segment = 0
                self.held.pop(entry.sequence, None)
            self._leave_page(entry)
        if self.pager.has_no_room:
            return  # a page that could not be stored may rely on one that would not be named
        pages = self.ready.stored_pages()
        if self.is_durable and self.store.wants_list(self, pages, segment):
            self.store.append_pages(self, pages)
            self.ready.leave_origins()

    def _write_again(self, entry: Entry) -> None:
        entry.journal_segment = self.store.segment(self)
        self.store.append_message(entry.message, self.queue_id, entry.sequence, entry.expires_at, entry.returns)

    def _leave_page(self, entry: Entry) -> None:
        """The entry's durable copy, if it has one, is no longer in a stored page."""
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None
