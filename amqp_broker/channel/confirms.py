"""Confirms: the publisher confirms of one channel (RabbitMQ's extension): which publishes are done, and telling so.

    record_publish -> record_outcome | new_receipt -> end_turn: a record -> synced, its receipts complete -> basic.ack
                                                                             (-> confirm_delay passes)

What a turn published is one record: the number of its last publish, how far the journal has to be synced for it, and
how many commands of it are on their way to logs elsewhere.

Invariants:
1. Confirms leave in order of publication, one basic.ack for a run.
2. A publish is confirmed when its journal entry is synced and every log elsewhere that it went to has applied it, never
   before; it is nacked, once, when any queue refused it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from queues.effects import Refusal
from queues.outcomes import PublishOutcome
from queues.receipts import Receipt

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.routing.routes import PublishRoute
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timers
    from storage.journal import Journal

_BASIC_ACK = 60 << 16 | 80
_BASIC_NACK = 60 << 16 | 120

_STORED: int = PublishOutcome.STORED
_REFUSED: int = PublishOutcome.REFUSED


class ConfirmRecord:
    """What was published in one turn, and is not confirmed. last: the number of its last publish. position: the journal
    has to be synced so far, 0 for no matter how far. waiting: so many commands of it are on their way."""

    def __init__(self, confirms: Confirms) -> None:
        self.confirms = confirms
        self.last = 0
        self.position = 0
        self.waiting = 0


class TurnReceipt(Receipt):
    """Of the publishes of a turn, from `first` to `last`, that go to groups which join messages. Nothing is made for
    any of them: the group keeps their numbers."""

    def __init__(self, record: ConfirmRecord) -> None:
        self.record = record
        self._confirms = record.confirms
        self.first = self.last = self._confirms.published

    def expect(self) -> None:
        """One more command is on its way."""
        self.record.waiting += 1

    def at_hand(self) -> int:
        """See Receipt: the number of the message published last."""
        self.last = self._confirms.published
        return self.last

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done, or was refused; nobody says which of the messages it had."""
        self.complete_run(refusal, self.first, self.last)

    def complete_run(self, refusal: Refusal | None, first: int, last: int) -> None:
        """See Receipt."""
        record = self.record
        record.waiting -= 1
        if refusal is not None:
            for number in range(first, last + 1):
                self._confirms.record_refused(number)
        if record.waiting == 0:
            self._confirms.record_turn()


class PublishReceipt(Receipt):
    """Of the publishes from `number` to `last`, some of whose queues have their log elsewhere. is_serial: each of them
    is one command, and these are completed in order: `number` is that of the first that is not."""

    record: ConfirmRecord
    number: int
    last: int
    is_serial: bool

    def expect(self) -> None:
        """One more command is on its way."""
        self.record.waiting += 1

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done, or was refused."""
        record = self.record
        record.waiting -= 1
        if refusal is not None:
            for number in range(self.number, (self.number if self.is_serial else self.last) + 1):
                record.confirms.record_refused(number)
        if self.is_serial:
            self.number += 1
        if record.waiting == 0:
            record.confirms.record_turn()

    def take_outcome(self, outcome: int, position: int) -> None:
        """What queues on this node said that got it in slices, and are one command of those that were expected.
        position: of the journal, which has what they have stored."""
        if outcome == _STORED:
            record = self.record
            record.position = max(record.position, position)
            record.confirms.record_stored(position)
        self.complete(Refusal.FULL if outcome == _REFUSED else None)


class Confirms:
    """published, confirmed: the numbers of the last publish, and of the last one that was confirmed or nacked."""

    def __init__(self, channel: Channel, confirming: Confirming) -> None:
        self._confirming = confirming
        self.channel: Channel | None = channel
        self.published = 0
        self.confirmed = 0
        self._recorded = 0
        self._turn_is_noted = False
        self._turn_is_stored = False
        self._turn_record: ConfirmRecord | None = None
        self._turn_receipt: TurnReceipt | None = None
        # The receipt that the next publish joins if it goes the same way.
        self._joint: PublishReceipt | None = None
        self._joint_way: PublishRoute | None = None
        self._pending: deque[ConfirmRecord] = deque()
        # Which of those after `confirmed` were refused. There can be as many as are on their way.
        self._nacked: set[int] = set()
        # The numbers of requests to the broker itself, but for those that were confirmed when the last one came.
        self._requests: deque[int] = deque()
        self._done_requests = 0
        self._stored_position = 0
        self._synced_position = 0
        self._due = 0  # the number up to which it is told when `confirm_delay` has passed

    def end(self) -> None:
        """The channel has closed: nobody is told any more."""
        self.channel = None
        self._forget_turn()
        self._pending.clear()

    def go_on_from(self, number: int) -> None:
        """The channel was another process's: so many publishes were numbered, and all of them are confirmed. None was
        a request to the broker: whoever has made one stays."""
        self.published = self.confirmed = self._recorded = number

    def record_publish(self) -> None:
        """The next message is whole."""
        self.published += 1
        if not self._turn_is_noted:
            self.record_turn()

    def record_request(self) -> None:
        """What was published last is a request to the broker itself. It is confirmed, and counts as no message."""
        self._forget_done_requests()
        self._requests.append(self.published)

    def messages_published(self) -> int:
        """How many of what was published are messages, each to be confirmed."""
        return self.published - self._done_requests - len(self._requests)

    def messages_confirmed(self) -> int:
        """How many of those are confirmed, or nacked."""
        self._forget_done_requests()
        return self.confirmed - self._done_requests

    def _forget_done_requests(self) -> None:
        requests = self._requests
        while requests and requests[0] <= self.confirmed:
            requests.popleft()
            self._done_requests += 1

    def record_outcome(self, outcome: int) -> None:
        """What queues on this node said of the message published last."""
        if outcome == _STORED:
            self._turn_is_stored = True
        elif outcome == _REFUSED:
            self.record_refused(self.published)

    def new_receipt(self) -> PublishReceipt:
        """For the message published last, some of whose queues have their log elsewhere."""
        if self._turn_record is None:
            self._turn_record = ConfirmRecord(self)
        receipt = PublishReceipt.__new__(PublishReceipt)  # a constructor's arguments cost more than all the rest
        receipt.record = self._turn_record
        receipt.number = receipt.last = self.published
        receipt.is_serial = False
        return receipt

    def turn_receipt(self) -> TurnReceipt:
        """The same, where its queue is of a group that joins messages: one for all of the turn."""
        receipt = self._turn_receipt
        if receipt is None:
            if self._turn_record is None:
                self._turn_record = ConfirmRecord(self)
            receipt = self._turn_receipt = TurnReceipt(self._turn_record)
        return receipt

    def serial_receipt(self, way: PublishRoute) -> PublishReceipt:
        """The same, where all its queues are of a group that is serial: that of the publish before, if this went the
        same way in this turn."""
        joint = self._joint
        if joint is not None and self._joint_way is way and joint.last + 1 == self.published:
            joint.last = self.published
            return joint
        joint = self._joint = self.new_receipt()
        joint.is_serial = True
        self._joint_way = way
        return joint

    def _forget_turn(self) -> None:
        """What is published next belongs to another turn."""
        self._turn_record = self._turn_receipt = self._joint = self._joint_way = None

    def record_stored(self, position: int) -> None:
        """Something that was published in an earlier turn is in the journal up to there."""
        self._stored_position = max(self._stored_position, position)

    def record_refused(self, number: int) -> None:
        """A queue refused the publish with this number."""
        self._nacked.add(number)

    def record_turn(self) -> None:
        """There is something to confirm or to record at the end of this turn."""
        if not self._turn_is_noted and self.channel is not None:
            self._turn_is_noted = True
            self._confirming.note(self)

    def end_turn(self, position: int) -> bool:
        """The turn is over; `position` covers everything that it wrote. Returns whether a sync is awaited."""
        self._turn_is_noted = False
        if self.published > self._recorded:
            self._recorded = self.published
            record = self._turn_record
            if record is None:
                if not self._turn_is_stored and not self._pending:
                    self._tell(self.published)
                    return False
                record = ConfirmRecord(self)
            self._forget_turn()
            record.last = self.published
            if self._turn_is_stored:
                self._turn_is_stored = False
                record.position = self._stored_position = position
            self._pending.append(record)
        self._confirm_done()
        return self._stored_position > self._synced_position

    def synced(self, position: int) -> bool:
        """Confirm what waited for a sync up to `position`. Returns whether more waits for one."""
        self._synced_position = position
        self._confirm_done()
        return self._stored_position > position

    def _confirm_done(self) -> None:
        """Confirm the turns that are synced and applied, up to the first that is not."""
        pending = self._pending
        last = 0
        while pending:
            record = pending[0]
            if record.waiting or record.position > self._synced_position:
                break
            last = record.last
            pending.popleft()
        if last:
            self._tell(last)

    def _tell(self, last: int) -> None:
        """Everything up to the number `last` is done: say so now, or with what is done soon."""
        if self._confirming.delay_ms == 0:
            self._confirm(last)
            return
        if self._due == 0:
            self._confirming.delay(self)
        self._due = last

    def tell_due(self) -> None:
        """Say what has waited."""
        last, self._due = self._due, 0
        self._confirm(last)

    def _confirm(self, last: int) -> None:
        """Confirm everything up to the number `last`: one basic.ack for each run between nacks."""
        channel = self.channel
        if channel is None or not channel.is_open or channel.is_closing or last <= self.confirmed:
            return
        nacked = self._nacked
        number = self.confirmed
        while nacked and number < last:
            number += 1
            if number in nacked:
                nacked.remove(number)
                self._ack_until(channel, number - 1)
                channel.output.put_ack(channel.channel_id, _BASIC_NACK, number, 0)
                self.confirmed = number
        self._ack_until(channel, last)
        channel.connection.touch()

    def _ack_until(self, channel: Channel, last: int) -> None:
        count = last - self.confirmed
        if count > 0:
            channel.output.put_ack(channel.channel_id, _BASIC_ACK, last, 1 if count > 1 else 0)
            self.confirmed = last


class Confirming:
    """The Confirms of a node that have something to do. noted: at the end of this turn. awaiting: when the disk has
    what they wait for. delay_ms: so long what is done may wait to be told of together with more, milliseconds."""

    def __init__(self, journal: Journal, timers: Timers, clock: TurnClock, delay_ms: int) -> None:
        self._journal = journal
        self._timers = timers
        self._clock = clock
        self.delay_ms = delay_ms
        self.noted: list[Confirms] = []
        self.awaiting: dict[Confirms, None] = {}
        self._delayed: list[Confirms] = []

    def note(self, confirms: Confirms) -> None:
        """It has something to do at the end of this turn."""
        self.noted.append(confirms)

    def end_turn(self, now: int) -> None:
        """The turn is over, and all that it wrote is in the journal."""
        position = self._journal.position
        noted, self.noted = self.noted, []
        for confirms in noted:
            if confirms.end_turn(position):
                self.awaiting[confirms] = None

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        if self.awaiting:
            self.awaiting = {confirms: None for confirms in self.awaiting if confirms.synced(position)}

    def delay(self, confirms: Confirms) -> None:
        """It has something to say when the delay has passed, from the first that waits."""
        if not self._delayed:
            self._timers.at(self._clock.now + self.delay_ms, self._tell_due)
        self._delayed.append(confirms)

    def _tell_due(self, now: int) -> None:
        delayed, self._delayed = self._delayed, []
        for confirms in delayed:
            confirms.tell_due()
