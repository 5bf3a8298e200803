"""ClassicQueue: the queue that lives on one node.

    publish: `rejects`, `taker`, (journal), `enqueue` -> a consumer, or ready; with other queues: local_writes.py
    deliver: ready -> dispatcher -> consumer, `held` while unacknowledged
    settle:  `ack` | `put_back` | `reject`; expiry, length limits and purge settle ready messages
    lease:   `take_ready` -> a LeaseGroup (leases.py); `bring_back`, if it is released
    work:    in slices (background.py): give up what has expired or is too much, post dead letters (letters.py)

It knows consumers as the class Consumer, who publishes dead letters as a Protocol (Post), time as an argument.

What many messages cost is done in slices: whoever meets something expired, or too much, does half a slice of it, and
the rest is the work of `background`. Until then it stands where it stood, and counts as ready; but nobody gets what has
expired: what stands behind it waits.

Invariants:
1. While a message is ready, no consumer in line has credit (after `dispatch`), unless there is work to do.
2. `unacked` counts the entries that consumers hold; `held` has those of them that have a durable copy, but for those
   that `leaving` has, while a journal segment is left.
3. Everything with a durable copy that leaves the queue is named in `settled` (or in ranges written at once).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import cython

from queues.arguments import QueueArguments
from queues.background import Background
from queues.classic_leases import ClassicLeases
from queues.consumer import Consumer
from queues.held_leaving import HeldLeaving, relies
from queues.letters import Letters, Post
from queues.local_writes import LOCAL_WRITES
from queues.message import Delivery, Entry, Message
from queues.outcomes import PublishOutcome
from queues.page import Page
from queues.priority import PriorityReady
from queues.queue import Done, Fetched, Tallied
from queues.reason import Reason
from queues.recovery import RecoveredQueue
from queues.refusal import NOT_FOUND, QueueRefusal
from queues.rules import QueueRules
from queues.sizes import held_by, is_stored
from queues.store import MessageStore
from queues.sums import QueueSums
from queues.timers import Timer, Timers

if TYPE_CHECKING:
    from queues.consumer import Joining
    from queues.holder import Holder
    from queues.lease_source import LeaseSource
    from queues.ready import Ready
    from queues.receipts import Receipt

if not cython.compiled:
    from queues.message import make_entry

_MAXLEN = Reason.MAXLEN
#: So many slices' worth of messages are handed to consumers at once: a delivery takes less than a microsecond.
_SHARES = 2

#: To look at a message that is held costs as much as to write so many octets of it again.
_LOOK_BYTES = 32

#: So many pages are read at once that a purge has to read.
_PAGES_READ = 2

_TAKEN: int = PublishOutcome.TAKEN
_STORED: int = PublishOutcome.STORED
_REFUSED: int = PublishOutcome.REFUSED

_sequence_of = attrgetter("sequence")


class ClassicQueue(QueueRules):
    """One classic queue.

    queue_id: the number under which its messages are stored. post: who publishes its dead letters, None where it never
    has a dead letter exchange; letters: those that have not got there yet, None if it never had any. watcher: called
    once, when something becomes ready.
    last_letters: of a queue that was deleted, what survives a crash (last_letters.py); `held` has these, then.
    Since the start, messages: published, delivered (to be acknowledged: to consumers, to basic.get and into leases),
    auto_acked (delivered, and settled by that), redelivered (of both), settled_count (gone, whatever the way).
    """

    def __init__(
        self,
        name: str,
        queue_id: int,
        is_durable: bool,
        settings: QueueArguments,
        store: MessageStore,
        timers: Timers,
        background: Background,
        post: Post | None,
    ) -> None:
        super().__init__(
            name, queue_id, is_durable, LOCAL_WRITES, store.pager, settings, background.slice // 2
        )
        self.store = store
        self.timers = timers
        self.background = background
        self._share = background.slice * _SHARES
        self.post = post
        self.letters: Letters | None = None
        self.is_working = False
        self._waiting: list[Callable[[int], None]] = []
        self.settled: list[int] = []
        self.last_segment = 0
        self.held: dict[int, Entry] = {}
        self.leaving: HeldLeaving | None = None
        self.published = self.delivered = self.auto_acked = self.settled_count = self.redelivered = 0
        self.only_consumer: Consumer | None = None
        self.is_drained = False  # that nothing is ready is certain
        self.watcher: Callable[[], None] | None = None
        self.last_letters: Any = None
        self._expiry_at = 0
        self._expiry_timer: Timer | None = None
        self._returning = 0
        self._is_pressed = False  # what leaves makes room for what is published
        self.apply_settings(settings)

    def apply_settings(self, settings: QueueArguments) -> None:
        """Arguments and policies in force from now on (the level count of priorities stays)."""
        self.settings = settings
        self.counts_returns = settings.delivery_limit is not None
        self.apply_arguments(settings)
        self.has_dead_letters = self.has_dead_letters and self.post is not None
        if self.is_too_long():
            self.work_on()

    def message_count(self) -> int:
        """How many messages are ready."""
        return int(self.ready.count)

    def unacked_count(self) -> int:
        """How many messages consumers hold."""
        return self.unacked

    def consumer_count(self) -> int:
        """How many consumers there are."""
        return len(self.dispatcher.consumers)

    def add_counts(self, sums: QueueSums) -> None:
        """See Queue."""
        ready = self.ready
        sums.ready += ready.count
        sums.ready_bytes += ready.message_bytes
        sums.unacked += self.unacked
        sums.consumers += len(self.dispatcher.consumers)
        if self.lease_groups is not None:
            sums.add_leased(self.leased_count())

    def add_counters(self, sums: QueueSums) -> None:
        """See Queue."""
        sums.delivering += 1
        sums.published += self.published
        sums.delivered += self.delivered - self.fetched - self.fetched_no_ack
        sums.auto_acked += self.auto_acked
        sums.redelivered += self.redelivered
        sums.acked += self.settled_count - self.auto_acked - self.unconsumed - self.fetched_no_ack
        self.add_gets(sums)
        self.add_drops(sums)

    def holders(self) -> list[Holder]:
        """See Queue: and its lease groups."""
        return [self.ready, *self.leased()]

    def idle_ready(self) -> Ready | None:
        """See Queue."""
        return None if self.dispatcher.consumers else self.ready

    def move_target(self) -> ClassicQueue:
        """See Queue."""
        return self

    def stored_held(self) -> Iterator[Entry]:
        """What consumers hold that has a durable copy."""
        return chain(self.held.values(), self.leaving.entries() if self.leaving is not None else ())

    def hold_only(self, held: dict[int, Entry]) -> None:
        """These entries, by sequence, are all that is held: the queue is deleted, and they are letters."""
        self.held, self.leaving = held, None

    def held_entries(self) -> Iterator[Entry]:
        """See QueueRules: those with a durable copy first, which the queue itself knows."""
        yield from self.stored_held()
        yield from (entry for entry in held_by(self.dispatcher.consumers) if not is_stored(entry))

    # -- publishing ----------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue; a persistent message is in the journal before the queue has it."""
        if self.rejects_overflow and self.rejects(message, now):
            return _REFUSED
        expires_at = 0
        if self.message_ttl >= 0 or message.expiration >= 0:
            expires_at = self.expiry_of(message, now)
        taker = self.taker()
        if message.is_persistent and self.is_durable and (taker is None or not taker.no_ack):
            store = self.store
            segment = store.segment(self)
            store.append_message(message, self.queue_id, self.next_sequence, expires_at, 0)
            self.enqueue(message, expires_at, segment, taker, now)
            return _STORED
        self.enqueue(message, expires_at, 0, taker, now)
        return _TAKEN

    def taker(self) -> Consumer | None:
        """The consumer who gets a message published now, or None when it has to wait."""
        if not self.is_drained:
            if self.ready.count or self.is_held_up():
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
                self.auto_acked += 1
                self.settled_count += 1
                if journal_segment:
                    self._mark_settled(sequence)
                taker.deliver_at_once(message, False)
            else:
                entry = make_entry(message, sequence, expires_at, journal_segment)
                self.pager.used += message.size
                self._hand_over(entry, taker)
            return
        self._is_pressed = True
        self.add(message, sequence, expires_at, journal_segment, now)
        self._is_pressed = False

    def became_ready(self) -> None:
        self.is_drained = False
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher()

    def give(self, entry: Entry, consumer: Consumer, now: int) -> int:
        if entry.is_redelivered:
            self.redelivered += 1
        if consumer.no_ack:
            self.forget(entry)
            self.auto_acked += 1
            message = consumer.redelivered(entry) if entry.is_redelivered else entry.message
            consumer.deliver_at_once(message, entry.is_redelivered)
        else:
            self._hand_over(entry, consumer)
        return 1

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        entry.consumer = consumer
        self.unacked += 1
        self.delivered += 1
        if entry.journal_segment or entry.page is not None:
            self.held[entry.sequence] = entry
        consumer.deliver(entry)

    # -- delivering ----------------------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """Hand ready messages to consumers while there are both: a share of them at once, and the rest in slices."""
        if self.ready.count and self.hand_out(self._share, now) <= 0 and self.ready.count:
            self.work_on()
        if self.may_expire:
            self.drop_expired_at_once(now)

    def get(self, now: int) -> Entry | None:
        """The first ready message for basic.get: settle it with `forget`, or hold it with `take_held`. None
        where there is none; or, if `waits` says so, not yet."""
        entry = self.take_first(now)
        if entry is None:
            return None
        if entry.is_redelivered:
            self.redelivered += 1
        self.delivered += 1
        if self.may_expire:
            self.drop_expired_at_once(now)
        return entry

    def waits(self, now: int) -> bool:
        """Whether ready messages stand behind others that have expired, and are to be given up in turns to come."""
        return (self.is_working or self._returning > 0) and not self.is_deleted and self.head_has_expired(now)

    def wait(self, callback: Callable[[int], None]) -> None:
        """Call back with the time, once, when `waits` is over."""
        self._waiting.append(callback)

    def take_held(self, entry: Entry, consumer: Consumer) -> None:
        """An entry from `get` is held by `consumer` until it is settled."""
        entry.consumer = consumer
        self.unacked += 1
        if entry.journal_segment or entry.page is not None:
            self.held[entry.sequence] = entry

    def fetch(self, getter: Consumer, now: int, then: Fetched) -> None:
        """See Queue. What has expired is given up in slices; what stands behind it is for `getter` then."""
        entry = self.get(now)
        if entry is None and self.background.run_newest(now) and not self.is_deleted:
            # Who rejects a message and looks for its dead letter then finds it.
            entry = self.get(now)
        if entry is not None:
            self.take_held(entry, getter)
            then(None, entry, int(self.ready.count))
        elif self.waits(now):
            self.wait(lambda later: self._fetch_later(getter, later, then))
        else:
            then(None, None, 0)

    def _fetch_later(self, getter: Consumer, now: int, then: Fetched) -> None:
        if self.is_deleted:
            then(QueueRefusal(NOT_FOUND, f"no {self.title()}"), None, 0)
        else:
            self.fetch(getter, now, then)

    def admit(self, consumer: Joining, then: Done) -> None:
        """See Queue."""
        if self.is_in_exclusive_use(consumer.is_exclusive):
            then(self.in_exclusive_use())
            return
        self.add_consumer(cast("Consumer", consumer))
        then(None)

    def cancel(self, consumer: Consumer, gives_back: bool, now: int) -> None:
        """See Queue. Who has left with all others (`part_with_all`) is here no more."""
        if consumer in self.dispatcher.consumers:
            self.remove_consumer(consumer)

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer joins; call `dispatch` afterwards."""
        self.had_consumers = True
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

    def put_back(self, entries: list[Entry], now: int) -> None:  # type: ignore[override]  # its own come back
        """Entries come back unprocessed, to their original positions; call `dispatch` afterwards."""
        self._come_back(entries, True, now)

    def take_back(self, entries: list[Entry], now: int) -> None:  # type: ignore[override]  # its own come back
        """Deliveries that no client has ever had come back as they were; call `dispatch` afterwards."""
        self._come_back(entries, False, now)

    def _come_back(self, entries: list[Entry], counts: bool, now: int) -> None:
        if not self.is_deleted:
            self.bring_back(entries, counts, now)
        else:
            self.unconsumed += len(entries)
            for entry in entries:
                self.ack(entry)

    def regained(self, entry: Entry, counts: bool, now: int) -> None:
        stored = self.held.pop(entry.sequence, None)
        if stored is None and self.leaving is not None:
            stored = self.leaving.take(entry.sequence)
        if counts and self.delivery_limit >= 0 and stored is not None:
            self.store.append_returned(self, entry.sequence, entry.returns)
        if entry.expires_at:
            self._watch(max(entry.expires_at, now))

    def begin_return(self, runs: list[list[Delivery]]) -> Iterator[Delivery]:
        """See Queue. Until they are back the queue delivers nothing: they stand in front of what is there. The last go
        first because each then stands in front of all that is there."""
        self._returning += 1
        self.is_drained = False
        return iter(runs[0]) if len(runs) == 1 else merge(*runs, key=_sequence_of, reverse=True)

    def join_returns(self, runs: list[list[Delivery]]) -> list[Delivery]:
        """See Queue."""
        return sorted(chain.from_iterable(runs), key=_sequence_of, reverse=True)

    def end_return(self, now: int) -> None:
        """They are all back."""
        self._returning -= 1
        self.work_on()  # which also serves the consumers

    def forget(self, entry: Entry) -> None:
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
        if self.leaving is not None:
            self.leaving.take(sequence)
        if self.is_durable:
            if not self.settled:
                self.store.settling(self)
            self.settled.append(sequence)

    def drop(self, entry: Entry, reason: Reason) -> None:
        """See QueueRules; who observes messages is told."""
        if self.store.on_drop is not None:
            self.store.on_drop(self, entry.message, reason)
        QueueRules.drop(self, entry, reason)

    def bury(self, entry: Entry, reason: Reason) -> None:
        """It becomes a dead letter; its copy here is kept until `settle_letter`."""
        if entry.journal_segment or entry.page is not None:
            if self.leaving is not None:
                self.leaving.take(entry.sequence)
            self.held[entry.sequence] = entry
        letters = self.letters
        if letters is None:
            post: Any = self.post
            letters = self.letters = Letters(self, post)
        letters.add(entry, reason, self._is_pressed)
        self.is_drained = False  # `taker` is to look whether there are too many
        if not self.is_working:
            self.work_on()

    def bury_refused(self, message: Message) -> None:
        self.post.refuse(self, message)  # type: ignore[union-attr]  # it has dead letters

    def discarded(self, messages: int) -> None:
        if self.post is not None:
            for _ in range(messages):
                self.post.discard(self)

    def post_refused(self, message: Message, now: int) -> None:
        """A message that was refused becomes a dead letter now: the queue has no copy of it."""
        self.pager.used += message.size
        if self.letters is None:
            post: Any = self.post
            self.letters = Letters(self, post)
        self.letters.post_now(make_entry(message, 0, 0, 0), _MAXLEN, now)

    def settle_letter(self, entry: Entry) -> None:
        """A dead letter is in its new places, or nobody wants it."""
        if entry.sequence == 0:  # it never stood here
            self.pager.used -= entry.message.size
        elif self.is_deleted and (entry.journal_segment or entry.page is not None):
            # A crash may undo the deletion, but not the letter.
            self.unconsumed += 1
            self.forget(entry)
            self._mark_settled(entry.sequence)
            if self.last_letters is not None and not self.held and not self.leaving:
                self.last_letters.end()
        else:
            self.unconsumed += 1
            self.forget(entry)

    def call_when_posted(self, callback: Callable[[], None]) -> bool:
        """Call back when all dead letters are posted that wait for it now (Letters.call_when_posted). False: none
        does."""
        letters = self.letters
        if letters is None or not letters.noted:
            return False
        letters.call_when_posted(callback)
        self.work_on()
        return True

    def when_settled(self, receipt: Receipt, has_refused: bool) -> None:
        """See Queue: what it refuses is done when its dead letters are where they go."""
        if has_refused and self.call_when_posted(lambda: receipt.complete(None)):
            receipt.expect()

    # -- work in slices ----------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        self.work_on()

    def work_on(self) -> None:
        """There is something to give up, to post, or to hand out: see `work`."""
        if not self.is_working:
            self.is_working = True
            self.background.add(self.work, True)

    def work(self, now: int) -> bool:
        """A slice (queues/background.py): post dead letters, give up what is too much and what has
        expired, hand out what there are consumers for."""
        letters = self.letters
        left = self.background.slice
        if letters is not None:
            left = letters.work(left, now)
        if not self.is_deleted:
            left = self.drop_excess(left)
            left = self.drop_expired(left, now)
        letters = self.letters
        is_done = left > 0 and (letters is None or letters.is_blocked or not letters.noted)
        self.is_working = not is_done
        if self._waiting and not self.waits(now):
            self._call_back(now)
        if not self.is_deleted and self.ready.count and not self.head_has_expired(now):
            self.dispatch(now)
            if is_done and self.ready.count and self.watcher is not None:
                self.became_ready()
        return not is_done

    def _call_back(self, now: int) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(now)

    def is_held_up(self) -> bool:
        """Whether so many dead letters wait that nothing more is to leave the queue, or messages are coming back."""
        return self._returning > 0 or (self.letters is not None and self.letters.is_full)

    # -- time ----------------------------------------------------------------------------------------------------

    def watch(self, expires_at: int, now: int) -> None:
        if expires_at <= now:
            # It may have expired behind others: then it goes when it becomes the first.
            self.drop_expired_at_once(now)
        else:
            self._watch(expires_at)

    def _watch(self, expires_at: int) -> None:
        if self._expiry_at == 0 or expires_at < self._expiry_at:
            if self._expiry_timer is not None:
                self._expiry_timer.cancel()
            self._expiry_at = expires_at
            self._expiry_timer = self.timers.at(expires_at, self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        self._expiry_timer = None
        self._expiry_at = 0
        if not self.is_deleted:
            self.work_on()

    def drop_expired_at_once(self, now: int) -> bool:
        """See QueueRules: what is left goes in slices."""
        if QueueRules.drop_expired_at_once(self, now) and not self.is_held_up():
            return True
        if not self.head_has_expired(now):
            return True
        if not self.is_held_up():
            self.work_on()
        return False

    # -- lease groups ------------------------------------------------------------------------------------------------

    def leases(self) -> LeaseSource:
        """See Queue."""
        return ClassicLeases(self)

    def take_ready(self, most: int, max_bytes: int, takes_any: bool, now: int) -> list[Entry]:
        taken = QueueRules.take_ready(self, most, max_bytes, takes_any, now)
        self.delivered += len(taken)
        for entry in taken:
            if entry.is_redelivered:
                self.redelivered += 1
        if self.may_expire:
            self.drop_expired_at_once(now)
        return taken

    # -- the whole queue -------------------------------------------------------------------------------------------

    def clear(self, then: Tallied) -> None:
        """See Queue: done when all of it is settled."""
        count = self.ready.count
        self._purge(lambda: then(None, count))

    def purge(self) -> int:
        """Drop all ready messages. Returns how many there were; it may take slices until all of them are settled."""
        count = self.ready.count
        self._purge(_do_nothing)
        return int(count)

    def _purge(self, then: Callable[[], None]) -> None:
        entries, pages = self.ready.clear()
        self.unconsumed += len(entries)
        for entry in entries:
            self.forget(entry)
        unread: deque[Page] = deque()
        for page in pages:
            if self._has_gaps(page):
                unread.append(page)
            else:
                self._forget_page(page)
        if self._forget_some(unread):
            self.background.add(partial(self._forget_more, unread, then))
        else:
            then()

    def _forget_more(self, unread: deque[Page], then: Callable[[], None], now: int) -> bool:
        """A slice of a purge: some of the pages that have to be read. Returns whether there are more."""
        if self._forget_some(unread):
            return True
        then()
        return False

    def _forget_some(self, unread: deque[Page]) -> bool:
        for _ in range(min(_PAGES_READ, len(unread))):
            self._forget_page(unread.popleft())
        return bool(unread)

    def _has_gaps(self, page: Page) -> bool:
        """Whether a page has to be read to be settled: sequences in between may be held by a consumer, or have another
        priority."""
        if not self.is_durable or not page.durable_count or self.is_deleted:
            return False
        return page.is_repacked or isinstance(self.ready, PriorityReady)

    def _forget_page(self, page: Page) -> None:
        if self.is_durable and page.durable_count and not self.is_deleted:
            if self._has_gaps(page):
                self.pager.load(self.queue_id, page)
                self.store.append_settled(
                    self, [(entry.sequence, 1) for entry in page.entries(self.pager.addresses)]
                )
            else:
                self.store.append_settled(self, [(page.first, page.last - page.first + 1)])
        self.settled_count += page.live
        self.unconsumed += page.live
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
        count = self.purge()
        self.store.unlist(self)
        if self.lease_groups is not None:
            self.lease_groups.forget()
        self.became_ready()  # whoever waits for that looks again
        self._call_back(0)
        if self._dismiss(0):
            self.background.add(self._dismiss)
        return count

    def _dismiss(self, now: int) -> bool:
        """A slice: consumers of a queue that is no more hear of it. Returns whether there are others."""
        for consumer in list(islice(self.dispatcher.consumers, self.background.slice // 2)):
            self.remove_consumer(consumer)
            consumer.on_queue_gone()
        return self.dispatcher.first() is not None

    def part_with_all(self) -> list[Consumer]:
        """See Queue."""
        self.is_deleted = True
        consumers = list(self.dispatcher.consumers)
        for consumer in consumers:
            self.remove_consumer(consumer)
        return [each for each in consumers if each.goes_along()]

    def take_over(self, entry: Entry, is_placed: bool) -> None:
        """A message that the queue had at another home, behind those that were taken over before; is_placed: among
        them, where its sequence says."""
        segment = 0
        if self.is_durable and entry.message.is_persistent:
            segment = self.store.segment(self)
            self.store.append_message(
                entry.message, self.queue_id, entry.sequence, entry.expires_at, entry.returns
            )
        entry.rely_on(segment)
        if entry.expires_at:
            self.may_expire = True
        if is_placed:
            self.ready.place(entry)
        else:
            self.ready.push_entry(entry)

    def go_on_from(self, sequence: int) -> None:
        """What is published next has this number at least."""
        self.next_sequence = max(self.next_sequence, sequence)

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
        self.may_expire = True
        self.drop_expired_at_once(now)
        if self.is_too_long():  # with what consumers had held
            self.work_on()

    def vhost_deleted(self) -> None:
        """See Queue."""
        self.is_deleted = True
        if self.letters is not None:
            # They are for nobody: where they were to go there may soon be others of the same names.
            self.settings = replace(self.settings, dead_letter_exchange=None)

    def adopt_letters(self, letters: list[tuple[Entry, Reason]]) -> None:
        """At a restart: the queue was deleted, and these are its dead letters, each with its reason."""
        self.is_deleted = True
        for entry, reason in letters:
            if entry.page is not None:
                self._write_again(entry)
                self._leave_page(entry)
            self.store.touch(entry.journal_segment, self)
            self.pager.used += entry.message.size
            self.bury(entry, reason)
        self.work_on()

    def leave_segment(self, segment: int) -> bool:
        """A slice: write again, or store in pages, some of what relies on a journal segment up to `segment`
        (queues/store.py). Returns whether there is more.

        The list of pages is written with the last slice, in which nothing is left of what came out of a stored page: a
        list names whole ones only. A page that could not be stored may rely on one that would not be named.
        """
        leaving = self.leaving
        if leaving is None:
            leaving = self.leaving = HeldLeaving(self.held)
            self.held = {}
        if self.ready.leave_segment(segment, self.store.share_bytes) or self._leave_held(leaving, segment):
            return True
        if leaving.go_on(self.held, segment):
            self.held = {}
            return True
        for entry in [*self.ready.relying(segment), *self.held.values()]:
            if relies(entry, segment):
                self._rely_on_no_more(entry)
        self.held, self.leaving = leaving.end(self.held), None
        if self.last_letters is not None:
            self.last_letters.leave_segment(segment)
            return False
        pages = self.ready.stored_pages()
        if self.is_durable and self.store.wants_list(self, pages, segment):
            self.store.append_pages(self, pages)
            self.ready.leave_origins()
        return False

    def _leave_held(self, leaving: HeldLeaving, segment: int) -> bool:
        """A slice of what consumers hold. Returns whether there is more."""
        left, seen, journal = leaving.left, leaving.seen, self.store.journal
        most_bytes = self.store.share_bytes
        end = journal.position + most_bytes
        for _ in range(most_bytes // _LOOK_BYTES):
            if not left or journal.position > end:
                break
            sequence, entry = left.popitem()
            if relies(entry, segment):
                self._rely_on_no_more(entry)
            if entry.journal_segment:
                seen[sequence] = entry
        return bool(left)

    def _rely_on_no_more(self, entry: Entry) -> None:
        """An entry leaves its journal segment, or its page."""
        if self.is_durable and entry.message.is_persistent:
            self._write_again(entry)
        else:
            entry.journal_segment = 0
        self._leave_page(entry)

    def _write_again(self, entry: Entry) -> None:
        entry.journal_segment = self.store.segment(self)
        self.store.append_message(entry.message, self.queue_id, entry.sequence, entry.expires_at, entry.returns)

    def _leave_page(self, entry: Entry) -> None:
        """The entry's durable copy, if it has one, is no longer in a stored page."""
        if entry.page is not None:
            self.pager.settle(self.queue_id, entry.page)
            entry.page = None


def _do_nothing() -> None:
    """Nobody waits for it."""
