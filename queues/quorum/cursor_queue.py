"""CursorQueue: a quorum queue over a stream of its group: it owns no messages, but a place in the stream, and what of
it is in hand or came back (cursor_ready.py). All else is that of every quorum queue.

    the stream grows, or loses its beginning -> stream_changed -> dispatch
    give -> the message is read on the node whose consumer gets it, and nowhere else
    bury -> the message is read on all members: a dead letter is a copy

Invariants:
1. What a hundred of them hold of one stream is a hundred places: no message is kept for a queue.
2. It reads from the stream nothing that the log does not have: from `Stream.first` on, before `Stream.next`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import cython

from queues.message import Entry, Message
from queues.pager import Pager
from queues.queue import Held
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.cursor_ready import ABSENT, LOOKED_AT_ONCE, CursorReady
from queues.quorum.cursor_settings import CursorSettings
from queues.quorum.queue import QueueStatistics, QuorumQueue, Sink
from queues.reason import Reason
from queues.rule import Rule
from storage.errors import CorruptRecord

if not cython.compiled:
    from queues.message import make_entry

if TYPE_CHECKING:
    from queues.quorum.settings import QuorumSettings
    from queues.stream.stream import Stream


class CursorQueue(QuorumQueue):
    """stream_id: of the stream whose messages these are."""

    lacks: ClassVar[Mapping[Rule, str]] = {
        Rule.PRIORITIES: "the order is that of the stream",
        Rule.LENGTH_LIMITS: "the retention of the stream says what stays",
        Rule.DEDUPLICATION: "the stream knows its producers",
        Rule.LEASES: "a reader outside reads the stream itself",
        Rule.EXPIRATION: "when the next one expires is known without reading it, from when the stream has taken it",
    }

    def __init__(self, queue_id: int, settings: CursorSettings, pager: Pager, sink: Sink) -> None:
        self.stream_id = settings.stream_id
        self.place = CursorReady(pager, queue_id)
        super().__init__(queue_id, settings, pager, sink)
        self.ready = self.place
        self.resting = self.place.resting

    def apply_settings(self, settings: QuorumSettings) -> None:
        """See QuorumQueue. The stream stays the one that it was opened with, and what was taken from it is not looked
        at again."""
        assert isinstance(settings, CursorSettings)
        QuorumQueue.apply_settings(self, settings)
        self.place.apply_settings(settings, self.message_ttl)
        self.may_expire = self.message_ttl >= 0

    # -- its stream ----------------------------------------------------------------------------------------------------

    def look_for(self, streams: Mapping[int, Stream], clock: int) -> None:
        """Find its stream, if it has none yet. One that is compacted it leaves alone: members have other parts of it,
        and would read different things there. Raises CorruptRecord, OSError."""
        stream = streams.get(self.stream_id)
        if stream is not None and not stream.settings.key and self.place.stream is None and not self.place.is_gone:
            stream.followers[self.queue_id] = None
            settings = self.quorum_settings
            assert isinstance(settings, CursorSettings)
            self.place.follow(stream, settings.start, clock)

    def stream_changed(self) -> None:
        """The stream has got more, or lost its beginning. Call `dispatch` afterwards."""
        self.place.changed()

    def stream_gone(self) -> None:
        """The stream is no more."""
        self.place.leave()

    def message_of(self, entry: Entry) -> Message | None:
        """See QuorumQueue."""
        return self.place.message(entry)

    def accept(self, message: Message, now: int) -> bool:
        """See QueueRules: it has no messages of its own. Nodes publish to the stream."""
        return False

    def holdings(self) -> Iterator[Held | None]:
        """See Queue: with their messages, as far as the stream has them."""
        for held in QuorumQueue.holdings(self):
            if held is None:
                yield None
                continue
            entry: Any = held.delivery
            shown = make_entry(self.message_of(entry) or ABSENT, entry.sequence, entry.expires_at, 0)
            shown.returns, shown.is_redelivered = entry.returns, entry.is_redelivered
            yield held._replace(delivery=shown)

    def is_looking(self, clock: int) -> bool:
        """Whether it reads with the next entry of the log, whatever that is about."""
        place = self.place
        if self.message_ttl >= 0 and not place.knows_expiry(clock):
            return True
        return place.may_go_on and self._has_credit()

    def most_read(self) -> int:
        """How many messages at most are read with one entry of the log for consumers that are told of them here."""
        most = 0
        for consumer in self.delivery_owners.values():
            if consumer.is_attached and self.sink.tells(consumer.origin):
                most += consumer.credit_limit
                if most >= LOOKED_AT_ONCE:
                    return LOOKED_AT_ONCE
        return most

    # -- what QueueRules asks of its host ------------------------------------------------------------------------------

    def dispatch(self, now: int) -> None:
        """See QuorumQueue. With a TTL of nothing it is as of just before: what the stream has taken in this very
        millisecond is for whoever has credit, or for nobody (`normalise`)."""
        QuorumQueue.dispatch(self, now if self.message_ttl else now - 1)

    def give(self, entry: Entry, consumer: Any, now: int) -> int:
        """See QuorumQueue: only the node that delivers it reads it."""
        taker: QuorumConsumer = consumer
        if not self.sink.tells(taker.origin):
            return QuorumQueue.give(self, entry, taker, now)
        try:
            message = self.message_of(entry)
        except (CorruptRecord, OSError):  # it comes again, and its page is looked at before that (foresight.py)
            QuorumQueue.give(self, entry, taker, now)
            self.sink.unread(taker)
            return 0
        assert message is not None  # what is ready is in the stream
        entry.message = message
        QuorumQueue.give(self, entry, taker, now)
        entry.message = ABSENT
        return 0

    def bury(self, entry: Entry, reason: Reason) -> None:
        """See QuorumQueue. What the stream does not have any more is lost."""
        message = self.message_of(entry)
        if message is None:
            self.place.lost += 1
            self.forget(entry)
        else:
            entry.message = message
            QuorumQueue.bury(self, entry, reason)

    def forget(self, entry: Entry) -> None:
        """See QuorumQueue: nothing is kept for it, but its key may be free now."""
        self.place.settled(entry)

    # -- time ----------------------------------------------------------------------------------------------------------

    def none_expires(self) -> None:
        """See QueueRules: whether a message expires goes by the TTL alone. What is ready comes without being added, so
        nobody would say so again; and an image says it to members of a version before, which never do."""

    def normalise(self, clock: int) -> None:
        """See QuorumQueue."""
        QuorumQueue.normalise(self, clock)
        self.place.looked = 0

    def due_without_delivery_owners(self, clock: int) -> int:
        """See QuorumQueue."""
        due = QuorumQueue.due_without_delivery_owners(self, clock)
        if self.place.may_go_on and self._has_credit():
            now = max(1, clock)
            due = min(due, now) if due else now
        return due

    def _has_credit(self) -> bool:
        """Whether somebody would get a message."""
        return any(consumer.has_credit() for consumer in self.dispatcher.in_line())

    # -- the whole queue -----------------------------------------------------------------------------------------------

    def discarding(self) -> Iterator[None]:
        """See QuorumQueue: it has no messages of its own, so there is hardly anything to give back."""
        stream = self.place.stream
        if stream is not None:
            stream.followers.pop(self.queue_id, None)
        self.unacked = 0
        for consumer in self.delivery_owners.values():
            consumer.held.clear()
        self.place.leave()
        if self.resting is not None:
            self.resting.clear()
        self.letters.discard()
        yield from ()

    def statistics(self) -> QueueStatistics:
        """See QuorumQueue: octets are a share of the stream's."""
        found, stream = QuorumQueue.statistics(self), self.place.stream
        if stream is None or stream.next == stream.first:
            return found
        octets = stream.log.unpacked_octets * found.ready // (stream.next - stream.first)
        return found._replace(ready_bytes=octets)
