"""HomeSession: one other node's stream of commands to the classic queues of this node, executed as it comes.

    receive -> run: one command after the other -> dispatch the queues that were touched -> effects, in order
    end_turn -> Confirmed, once the journal is synced where something persistent was published -> frames

A consumer of the other node stands in its queue's dispatcher as any other does, and every delivery is held here until
that node settles it, also where the client wants no acknowledgements: what was on its way when the link was lost
returns to the queue.

Invariants:
1. Commands are executed once each, in the order of their numbers, which begin at 1; a gap ends the link.
2. At most `LINK_WINDOW_BYTES` of deliveries are on their way, and `CONSUMER_WINDOW_BYTES` of each consumer that its
   client has not taken, besides one message each.
3. A consumer's number is above all that the session had before; those of its deliveries begin at 1.
4. Once `leave` has begun no consumer of the session is given anything; at its end nothing of it is in any queue.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from amqp_broker.queue_types.remote.consumer_round import AT_ONCE
from amqp_broker.queue_types.remote.effects_codec import Count, EffectsWriter, QueueCounted, Taken
from queues.classic import ClassicQueue
from queues.effects import (
    AttachRefused,
    Cancel,
    Confirmed,
    ConsumerCancelled,
    Counted,
    GetAnswered,
    Refusal,
    Refused,
    SettleMissed,
)
from queues.message import Delivery, Entry, Message
from queues.numbered_consumer import NumberedConsumer
from queues.outcomes import PublishOutcome
from queues.quorum.batch_reader import BatchReader
from queues.quorum.commands import Attach, Detach, Get, How, Prefetch, Purge
from queues.returning import PUT_BACK, runs_by_queue
from queues.wire.traffic import Settle
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_broker.queue_types.remote.home import Home
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.turn.task import Steps
    from queues.background import Jobs
    from queues.pager import Pager

#: Deliveries that the other node has not taken off the link, octets of messages.
LINK_WINDOW_BYTES = 8 * 1024 * 1024
#: Deliveries that one consumer's client has not taken, octets of messages: they lie in the other node's RAM.
CONSUMER_WINDOW_BYTES = 1024 * 1024
#: A session that ends with so many consumers and deliveries goes at once.
FEW = 2000
_LINK_WINDOW_BYTES = LINK_WINDOW_BYTES
_CONSUMER_WINDOW_BYTES = CONSUMER_WINDOW_BYTES
_STORED: int = PublishOutcome.STORED
_REFUSED: int = PublishOutcome.REFUSED


class RemoteConsumer(NumberedConsumer):
    """A consumer of the other node, or the holder of one message that it has fetched.

    prefetch: how many deliveries it may hold, 0 for any number. sent, taken: octets of its deliveries since it began.
    is_attached: it stands in its queue's dispatcher.
    """

    def __init__(self, session: HomeSession, command: Attach | Get, queue: ClassicQueue) -> None:
        super().__init__(False, command.priority if isinstance(command, Attach) else 0)
        self.queue: ClassicQueue = queue
        self.session = session
        self.clock = session.clock
        self.number = command.consumer
        self.tag = ""
        self.is_exclusive = False
        self.prefetch = 0
        if isinstance(command, Attach):
            self.tag = command.tag
            self.is_exclusive = command.exclusive
            # As on one node: without acknowledgements there is no limit.
            self.prefetch = 0 if command.no_ack else command.prefetch
        self.sent = 0
        self.taken = 0
        self.is_attached = False

    def has_credit(self) -> bool:
        if self.prefetch and len(self.held) >= self.prefetch:
            return False
        if self.sent - self.taken >= _CONSUMER_WINDOW_BYTES:
            return False
        session = self.session
        if session.is_over:
            return False
        if session.sent - session.taken >= _LINK_WINDOW_BYTES:
            session.halted[self] = None
            return False
        pager = session.pager
        return pager.used + pager.others_bytes <= pager.budget_bytes or not session.home.is_short_of_memory(self)

    def deliver(self, entry: Delivery) -> None:
        assert isinstance(entry, Entry)  # queues whose home this is are classic
        delivery_id = self.hold(entry)
        # The count is a header of the delivery only where the queue limits it.
        queue: ClassicQueue = self.queue
        returns = entry.returns if queue.counts_returns else 0
        session = self.session
        session.writer.put_delivered(self.number, delivery_id, entry.message, entry.is_redelivered, returns)
        if not session.is_touched:
            session.touch()

    def hold(self, entry: Entry) -> int:
        """An entry is on its way. Returns the number of the delivery."""
        size = entry.message.size
        self.sent += size
        self.session.sent += size
        return self.keep(entry, self.clock.now)

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        raise AssertionError("every delivery to another node is held until that settles it")

    def on_queue_gone(self) -> None:
        self.is_attached = False
        self.session.tell_cancelled(self)
        self.let_go()

    def goes_along(self) -> bool:
        """See Consumer: its own node sees to that, and is told nothing."""
        self.is_attached = False
        self.let_go()
        return False

    def let_go(self) -> None:
        """The queue is gone, and with it everything that it holds."""
        for entry in self.take_all():
            self.queue.ack(entry)
        self.session.forget_if_done(self)


class HomeSession:
    """The present session of node `peer`. halted: consumers that a window has kept waiting, in turn. is_touched: there
    is something to send. is_over: it is on its way out, and nothing more is sent. pager: of the node's queues.
    background: for what is done in slices. clock: the time of the turn."""

    def __init__(
        self, home: Home, peer: str, session: int, pager: Pager, background: Jobs, clock: TurnClock
    ) -> None:
        self.home = home
        self._background = background
        self.clock = clock
        self.pager = pager
        self.peer = peer
        self.session = session
        self.writer = EffectsWriter(session)
        self.consumers: dict[int, RemoteConsumer] = {}
        self.halted: dict[RemoteConsumer, None] = {}
        self._due = 0  # so many of them are still to be served for the room that there is
        self.sent = 0
        self.taken = 0
        self.executed = 0
        self.is_touched = False
        self.is_over = False
        self._confirmed_to = 0
        self._last_consumer = 0
        self._refused: list[Refused] = []
        self._has_stored = False
        self._pending: deque[tuple[int, int]] = deque()
        self._touched: dict[ClassicQueue, None] = {}

    def touch(self) -> None:
        """There is something to send."""
        if not self.is_over:
            self.is_touched = True
            self.home.touched[self] = None

    def tell_cancelled(self, consumer: RemoteConsumer) -> None:
        """The queue of a consumer is gone, and its node is told."""
        self.writer.put(ConsumerCancelled(consumer.number, Cancel.QUEUE_GONE))
        self.touch()

    # -- input -------------------------------------------------------------------------------------------------------

    def run(self, batch: BatchReader, now: int) -> None:
        """Execute commands. Raises PeerProtocolError, Malformed."""
        self._check_next(batch.first)
        queue: ClassicQueue | None = None  # of the publish before
        try:
            while batch.next():
                self.executed += 1
                message = batch.message
                if message is None:
                    self._execute(batch.command, now)
                    queue = None  # it may be gone
                elif batch.queue_ids is not None:
                    self._publish_to_many(batch.queue_ids, message, now)
                else:
                    if queue is None or queue.queue_id != batch.queue_id or queue.is_deleted:
                        queue = self.home.find(batch.queue_id)
                    if queue is None:
                        self._refuse(self.home.why_missing(batch.queue_id))
                    else:
                        self._note_outcome(queue.publish(message, None, False, now))
        finally:  # what was executed before a fault counts
            self.touch()
            self._dispatch(now)

    def _execute(self, command: object, now: int) -> None:
        """Any command but an Enqueue. Raises PeerProtocolError."""
        if isinstance(command, Settle):
            self._settle(command, now)
        elif isinstance(command, Attach):
            self._attach(command, now)
        elif isinstance(command, Detach):
            self._detach(command, now)
        elif isinstance(command, Prefetch):
            self._prefetch(command, now)
        elif isinstance(command, Get):
            self._get(command, now)
        elif isinstance(command, Purge):
            self._purge(command, now)
        else:
            said = type(command).__name__
            raise PeerProtocolError(f"{self.peer} sends a command {said} to the home of a classic queue")

    def count(self, command: Count, now: int) -> None:
        """Execute a Count. Raises PeerProtocolError."""
        self._check_next(command.sequence)
        self.executed += 1
        queue = self.home.find(command.queue_id)
        messages = unacked = consumers = leased = 0
        if queue is None:
            self._refuse(Refusal.NO_QUEUE)
        elif _is_locked(queue):
            self._refuse(Refusal.EXCLUSIVE)
        else:
            if command.is_use:
                queue.mark_used(now)
            messages, unacked, consumers = queue.ready.count, queue.unacked, len(queue.dispatcher.consumers)
            leased = queue.leased_count()
        self.writer.put(QueueCounted(command.sequence, messages, unacked, consumers, leased))
        self.touch()

    def _check_next(self, first: int) -> None:
        if first != self.executed + 1:
            raise PeerProtocolError(
                f"{self.peer} sends command {first} of session {self.session}, and {self.executed + 1} is due"
            )

    def take(self, taken: Taken, now: int) -> None:
        """Deliveries were taken: there is room for others. Raises PeerProtocolError."""
        if not self.taken <= taken.octets <= self.sent:
            raise PeerProtocolError(
                f"{self.peer} has taken {taken.octets} octets of {self.sent}, and {self.taken} before"
            )
        self.taken = taken.octets
        for number, octets in taken.consumers:
            consumer = self.consumers.get(number)
            if consumer is None:
                continue
            if not consumer.taken <= octets <= consumer.sent:
                raise PeerProtocolError(
                    f"{self.peer} has taken {octets} octets of {consumer.sent} for consumer {number}, "
                    f"and {consumer.taken} before"
                )
            consumer.taken = octets
            self.halted.setdefault(consumer)  # behind those who have waited for the link
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        """Consumers that a window kept waiting are served in turn, the first few at once; who is served goes to the
        end."""
        is_going_on = self._due > 0
        self._due = len(self.halted)
        if not is_going_on and self._serve_some(now):
            self._background.add(self._serve_some)

    def _serve_some(self, now: int) -> bool:
        """A slice of those who were waiting when there was room. Returns whether there are more of them, and room."""
        halted = self.halted
        for _ in range(min(self._due, AT_ONCE)):
            if not halted or self.sent - self.taken >= LINK_WINDOW_BYTES:
                self._due = 0
                break
            self._due -= 1
            consumer = next(iter(halted))
            del halted[consumer]
            self.retry(consumer, now)
        return self._due > 0

    def retry(self, consumer: RemoteConsumer, now: int) -> None:
        """A consumer may have credit again."""
        self._revive(consumer)
        self._dispatch(now)

    def _revive(self, consumer: RemoteConsumer) -> None:
        if consumer.is_attached and not consumer.is_waiting:
            consumer.queue.credit_returned(consumer)
            if consumer.is_waiting:
                self._touched[consumer.queue] = None

    def _dispatch(self, now: int) -> None:
        while self._touched:
            touched, self._touched = self._touched, {}
            for queue in touched:
                if not queue.is_deleted:
                    queue.dispatch(now)

    # -- commands ----------------------------------------------------------------------------------------------------

    def _refuse(self, refusal: Refusal) -> None:
        """The present command has no success: of several reasons, for several queues, the first is told."""
        if not self._refused or self._refused[-1].sequence != self.executed:
            self._refused.append(Refused(self.executed, refusal))

    def _publish_to_many(self, queue_ids: list[int], message: Message, now: int) -> None:
        found = [self.home.find(queue_id) for queue_id in queue_ids]
        queues = [queue for queue in found if queue is not None]
        if queues:
            self._note_outcome(self.home.vhost_of(queues[0]).publish(message, queues, now))
        if len(queues) < len(queue_ids):
            # One that is not there may be gone, or not be there yet: it is to live here, and this node does not know.
            withheld = [self.home.why_missing(queue_id) for queue_id in queue_ids if queue_id in self.home.withheld]
            self._refuse(withheld[0] if withheld else Refusal.NO_QUEUE)

    def _note_outcome(self, outcome: int) -> None:
        if outcome == _STORED:
            self._has_stored = True
        elif outcome == _REFUSED:
            self._refuse(Refusal.FULL)

    def _settle(self, command: Settle, now: int) -> None:
        consumer = self.consumers.get(command.consumer)
        if consumer is None:
            missed = sum([last - first + 1 for first, last in command.ranges])
        else:
            entries, missed = consumer.take(command.ranges)
            queue = consumer.queue
            if command.how is How.REQUEUE:
                queue.put_back(entries, now)
            elif command.how is How.RETURN:
                queue.take_back(entries, now)
            elif command.how is How.REJECT:
                for entry in entries:
                    queue.reject(entry, now)
            else:
                for entry in entries:
                    queue.ack(entry)
            self._revive(consumer)
            self._touched[queue] = None
            self.forget_if_done(consumer)
        if missed:
            self.writer.put(SettleMissed(self.executed, command.consumer, min(missed, (1 << 64) - 1)))

    def _attach(self, command: Attach, now: int) -> None:
        queue = self.home.find(command.queue_id)
        refusal: Refusal | None = None
        if command.consumer <= self._last_consumer:
            refusal = Refusal.ID_USED
        elif queue is None:
            refusal = Refusal.NO_QUEUE
        elif _is_locked(queue) or queue.is_in_exclusive_use(command.exclusive):
            refusal = Refusal.EXCLUSIVE
        self._last_consumer = max(self._last_consumer, command.consumer)
        if refusal is not None or queue is None:
            self.writer.put(AttachRefused(self.executed, command.consumer, refusal or Refusal.NO_QUEUE))
            return
        consumer = RemoteConsumer(self, command, queue)
        consumer.is_attached = True
        self.consumers[command.consumer] = consumer
        queue.mark_used(now)
        queue.add_consumer(consumer)
        self._touched[queue] = None

    def _detach(self, command: Detach, now: int) -> None:
        consumer = self.consumers.get(command.consumer)
        if consumer is None:
            return
        queue = consumer.queue
        was_attached = consumer.is_attached
        if was_attached:
            self._leave(consumer, now)
        if command.seen < consumer.next_delivery - 1:
            unseen, _ = consumer.take(((command.seen + 1, consumer.next_delivery),))
            queue.take_back(unseen, now)
        if command.gives_back:
            queue.put_back(consumer.take_all(), now)
        self.forget_if_done(consumer)
        self._touched[queue] = None
        if was_attached:
            self.home.remove_if_abandoned(queue)
        if consumer.held:
            self.home.watch(consumer)

    def _leave(self, consumer: RemoteConsumer, now: int) -> None:
        consumer.is_attached = False
        consumer.queue.remove_consumer(consumer)
        consumer.queue.mark_used(now)
        self.halted.pop(consumer, None)

    def forget_if_done(self, consumer: RemoteConsumer) -> None:
        """A consumer that has left and holds nothing is not known any more."""
        if not consumer.is_attached and not consumer.held:
            self.consumers.pop(consumer.number, None)
            self.halted.pop(consumer, None)

    def _prefetch(self, command: Prefetch, now: int) -> None:
        consumer = self.consumers.get(command.consumer)
        if consumer is not None and consumer.is_attached:
            consumer.prefetch = command.prefetch
            self._revive(consumer)

    def _get(self, command: Get, now: int) -> None:
        queue = self.home.find(command.queue_id)
        refusal: Refusal | None = None
        if command.consumer <= self._last_consumer:
            refusal = Refusal.ID_USED
        elif queue is None:
            refusal = Refusal.NO_QUEUE
        elif _is_locked(queue):
            refusal = Refusal.EXCLUSIVE
        self._last_consumer = max(self._last_consumer, command.consumer)
        if refusal is not None or queue is None:
            self._refuse(refusal or Refusal.NO_QUEUE)
            self.writer.put(GetAnswered(self.executed, command.consumer, 0, None, False, 0, 0))
            return
        queue.mark_used(now)
        getter = RemoteConsumer(self, command, queue)
        queue.fetch(getter, now, partial(self._fetched, getter, self.executed))

    def _fetched(
        self, getter: RemoteConsumer, sequence: int, refusal: Exception | None, entry: Entry | None, left: int
    ) -> None:
        """The answer to a Get, at once or in a later turn. refusal: the queue has gone in between, and has nothing."""
        queue: ClassicQueue = getter.queue
        if self.is_over:
            if entry is not None:
                queue.take_back([entry], self.clock.now)
                queue.dispatch(self.clock.now)
            return
        answer = GetAnswered(sequence, getter.number, 0, None, False, 0, 0)
        if entry is not None:
            self.consumers[getter.number] = getter
            self.home.watch(getter)
            returns = entry.returns if queue.counts_returns else 0
            answer = GetAnswered(
                sequence, getter.number, getter.hold(entry), entry.message, entry.is_redelivered, returns, left
            )
        self.writer.put(answer)
        self.touch()

    def _purge(self, command: Purge, now: int) -> None:
        queue = self.home.find(command.queue_id)
        count = 0
        if queue is None:
            self._refuse(Refusal.NO_QUEUE)
        elif _is_locked(queue):
            self._refuse(Refusal.EXCLUSIVE)
        else:
            count = queue.purge()
        self.writer.put(Counted(self.executed, count))

    # -- output ------------------------------------------------------------------------------------------------------

    def end_turn(self, position: int) -> bool:
        """Everything of this turn is in the journal, which ends at `position`. Returns whether a sync is awaited."""
        self.is_touched = False
        if self._has_stored:
            self._has_stored = False
            self._pending.append((self.executed, position))
        elif self._pending:
            if self._pending[-1][0] != self.executed:
                self._pending.append((self.executed, self._pending[-1][1]))
        else:
            self._confirm(self.executed)
        return bool(self._pending)

    def synced(self, position: int) -> bool:
        """The journal is on the disk so far. Returns whether more is awaited."""
        pending = self._pending
        last = 0
        while pending and pending[0][1] <= position:
            last = pending.popleft()[0]
        if last:
            self._confirm(last)
            self.touch()
        return bool(pending)

    def _confirm(self, last: int) -> None:
        if last <= self._confirmed_to:
            return
        refused = tuple([each for each in self._refused if each.sequence <= last])
        del self._refused[: len(refused)]
        self.writer.put(Confirmed(self.session, self._confirmed_to + 1, last, refused))
        self._confirmed_to = last

    # -- the end -----------------------------------------------------------------------------------------------------

    def is_large(self) -> bool:
        """Whether its consumers, and what they hold, are too many to go in one turn."""
        count = 0
        for consumer in self.consumers.values():
            count += 1 + len(consumer.held)
            if count > FEW:
                return True
        return False

    def leave(self) -> Steps:
        """The link is lost, or the node has begun a new session: from now on no consumer is given anything, and in the
        steps that this returns they go, and what they hold returns."""
        self.is_over = True
        self.halted.clear()
        self._due = 0
        return self._leave_all()

    def _leave_all(self) -> Steps:
        clock = self.clock
        holders: list[RemoteConsumer] = []
        queues: dict[ClassicQueue, None] = {}
        attached: dict[ClassicQueue, None] = {}
        while self.consumers:  # queues go in between, and with them some of these
            for consumer in list(islice(self.consumers.values(), AT_ONCE)):
                del self.consumers[consumer.number]
                holders.append(consumer)
                queues[consumer.queue] = None
                if consumer.is_attached:
                    attached[consumer.queue] = None
                    self._leave(consumer, clock.now)
            yield None
        runs = yield from runs_by_queue(consumer.take_all() for consumer in holders)
        for queue in queues:
            found = runs.get(queue)
            if found is not None:
                deliveries = cast("Iterator[Entry]", queue.begin_return(found))
                while some := list(islice(deliveries, PUT_BACK)):
                    queue.put_back(some, clock.now)
                    yield None
                queue.end_return(clock.now)
            elif not queue.is_deleted:
                queue.dispatch(clock.now)
            if queue in attached:
                self.home.remove_if_abandoned(queue)
            yield None


def _is_locked(queue: ClassicQueue) -> bool:
    """An exclusive queue belongs to a connection of this node."""
    return queue.declaration.owner is not None
