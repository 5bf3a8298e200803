"""Execution: applies batches of commands to the state of a queue group, and collects the effects for the own node.

Invariants:
1. The state after a batch follows from the state before it and the batch. `own_session` and `is_leader` decide about
   effects only.
2. Of each session commands are executed in the order of their numbers, each once: what comes again is skipped, and so
   is what comes after a gap, or from a session that is closed or was replaced.
3. Before a batch, every queue that is due by its time has acted, in the order of queue ids; `_watched` holds for each
   queue a time that is not after the one at which it is due.
4. Before a queue or a stream changes, or goes, `captures` are told of it (`_is_to_change`, or `_touch`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator
from typing import Any

import cython

from queues.effects import (
    Cancel,
    Confirmed,
    Delivered,
    Discarded,
    Effect,
    Gone,
    Grown,
    QueueGone,
    QueueOpened,
    Refusal,
    Refused,
    SessionClosed,
    Unreadable,
)
from queues.message import Entry
from queues.pager import Pager
from queues.quorum.capture import Capture
from queues.quorum.commands import (
    Attach,
    Batch,
    Detach,
    Dispatched,
    DropQueue,
    Get,
    NodeDown,
    OpenQueue,
    Prefetch,
    Purge,
)
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.feed import Feed, Heard, as_origin
from queues.quorum.lease_commands import LEASE_COMMANDS
from queues.quorum.leases import execute
from queues.quorum.letters import Letters
from queues.quorum.queue import QuorumQueue, Sink
from queues.quorum.state import GroupState, Notice, NoticeKind, Origin
from queues.stream import execution as stream_execution
from queues.stream.append_chunk import AppendChunk
from queues.stream.chunk import Chunk
from queues.stream.commands import STREAM_COMMANDS, OpenStream
from queues.stream.stream import Stream
from queues.wire.reader import U64_MAX
from queues.wire.traffic import Enqueue, Settle
from storage.errors import CorruptRecord

if not cython.compiled:
    from queues.effects import make_delivered
    from queues.stream.stream_end import append_plain

_ENDED = object()


class Execution(Sink):
    """own_node: this node's name. own_session: its present session, 0 while it has none (as while a log is applied
    again after a restart: nobody is there any more to whom that could be told). feeds: of nodes that are no members, by
    their names, on the member that leads. has_guests: there may be such. dropped: ids of what is gone, whose files go
    as a whole; dropped_bytes: octets of streams among it. on_discarding: is called when there is something for
    `discard_some` that no effect tells of. captures: those of this state that are open. listened: streams of which the
    own node wants to know when they have grown."""

    def __init__(self, own_node: str, pager: Pager) -> None:
        self.own_node = own_node
        self.own_session = 0
        self.is_leader = False
        self.has_guests = False
        self.state = GroupState()
        self.effects: list[Effect] = []
        self.dropped: list[int] = []
        self.captures: list[Capture] = []
        self.feeds: dict[str, Feed] = {}
        self.listened: dict[int, None] = {}
        self._discarding: dict[int, Iterator[None]] = {}
        self._left: dict[int, GroupState] = {}  # states that are none any more, by numbers below 0 of `_discarding`
        self._left_count = 0
        self.on_discarding: Callable[[], None] | None = None
        self.dropped_bytes = 0
        self._pager = pager
        self._touched: list[QuorumQueue] = []
        self._refused: list[Refused] = []
        self._watched: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._concerned: dict[str, None] = {}
        self._concerns_all = False
        self._handlers: dict[type, Callable[[Origin, int, Any], None]] = {
            OpenQueue: self._open_queue,
            DropQueue: self._drop_queue,
            Attach: self._attach,
            Detach: self._detach,
            Prefetch: self._prefetch,
            Get: self._get,
            Purge: self._purge,
            **dict.fromkeys(LEASE_COMMANDS, self._lease),
            **dict.fromkeys(STREAM_COMMANDS, self._stream),
            OpenCursor: self._open_cursor,
        }

    def run(self, batch: Batch) -> None:
        """Apply one batch."""
        state = self.state
        before = state.clock
        state.clock = max(before, batch.time)
        self._run_due(before)
        if batch.origin:
            self._concerned[batch.origin] = None
            self._run_stream(batch)
        else:
            self._concerns_all = True
            for command in batch.commands:
                if isinstance(command, NodeDown):
                    self._node_down(command)
                elif isinstance(command, Dispatched):
                    self._dispatched(command)
        if self._touched:
            self._look_at_touched()

    def _is_to_change(self, queue_id: int) -> None:
        """A queue or a stream is about to change, or to go."""
        for capture in self.captures:
            capture.note(queue_id)

    def _touch(self, queue: QuorumQueue) -> None:
        """Something is about to happen in a queue; or it has happened, and `_is_to_change` was called before."""
        if self.captures:
            self._is_to_change(queue.queue_id)
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)

    def _look_at_touched(self) -> None:
        state = self.state
        touched, self._touched = self._touched, []
        for queue in touched:
            queue.is_touched = False
            if state.queues.get(queue.queue_id) is queue:
                queue.normalise(state.clock)
                self._watch_touched(queue)

    # -- the command streams of nodes --------------------------------------------------------------------------------

    def _run_stream(self, batch: Batch) -> None:
        origin = self._admit(batch)
        if origin is None:
            return
        origin.seen(batch.seen)
        first = sequence = origin.last_sequence + 1
        skipped = first - batch.first
        commands = batch.commands[skipped:] if skipped else batch.commands
        for command in commands:
            origin.last_sequence = sequence
            if type(command) is Enqueue:
                self._enqueue(origin, sequence, command)
            elif type(command) is Settle:
                self._settle(origin, sequence, command)
            elif type(command) is AppendChunk:
                self._append(origin, sequence, command)
            else:
                self._concerns_all = True
                self._handlers[type(command)](origin, sequence, command)
            sequence += 1
        if sequence > first and self._is_own(origin):
            self.effects.append(Confirmed(origin.session, first, sequence - 1, tuple(self._refused)))
            self._refused = []
        elif sequence > first and self.feeds:
            feed = self._feed_of(origin)
            if feed is not None:
                feed.confirm(first, sequence - 1)

    def _admit(self, batch: Batch) -> Origin | None:
        """Whose batch it is; None when it is not to be executed. A newer session closes the older one."""
        origin = self.state.origins.get(batch.origin)
        if origin is None or batch.session > origin.session:
            if batch.first != 1:
                return None
            if origin is None:
                self.state.origins[batch.origin] = origin = Origin(batch.origin)
            self._close(origin)
            origin.begin(batch.session)
            return origin
        if batch.session < origin.session or not origin.is_open or batch.first > origin.last_sequence + 1:
            return None
        return origin

    def _close(self, origin: Origin) -> None:
        """The session is over: its consumers go, and what they hold returns."""
        if not origin.is_open:
            return
        origin.is_open = False
        clock = self.state.clock
        queues: dict[QuorumQueue, list[QuorumConsumer]] = {}
        consumers = [origin.consumers[number] for number in sorted(origin.consumers)]
        if self.captures:
            for consumer in consumers:
                self._is_to_change(consumer.queue.queue_id)
        for consumer in consumers:  # all of them first: nothing is to return to one that is about to go
            queues.setdefault(consumer.queue, []).append(consumer)
            if consumer.is_attached:
                consumer.queue.detach(consumer, clock)
        for queue, its_consumers in queues.items():
            queue.give_back_all(its_consumers, clock)
        for consumer in consumers:
            self._forget_if_done(origin, consumer)
        for queue in queues:
            queue.dispatch(clock)
            self._touch(queue)
        for stream in self.state.streams.values():
            if self.captures and stream.has_readers_of(origin.name):
                self._is_to_change(stream.queue_id)
            if stream.lose_all(origin.name):
                self._concerns_all = True
                self._watch_stream(stream)
        if self._is_own(origin):
            self.effects.append(SessionClosed(origin.session))
        elif self.feeds:
            feed = self._feed_of(origin)
            if feed is not None:
                feed.effects.append(SessionClosed(origin.session))

    def _node_down(self, command: NodeDown) -> None:
        origin = self.state.origins.get(command.node)
        if origin is not None and origin.session == command.session:
            self._close(origin)

    def _is_own(self, origin: Origin) -> bool:
        return origin.name == self.own_node and origin.session == self.own_session

    def _feed_of(self, origin: Origin) -> Feed | None:
        feed = self.feeds.get(origin.name)
        return feed if feed is not None and feed.session == origin.session else None

    # -- commands of nodes -------------------------------------------------------------------------------------------

    def _open_queue(self, origin: Origin, sequence: int, command: OpenQueue) -> None:
        if self._discarding and command.queue_id not in self.state.queues:
            self._discard_all_of(command.queue_id)
        self._open(QuorumQueue, command)

    def _open_cursor(self, origin: Origin, sequence: int, command: OpenCursor) -> None:
        self._open(CursorQueue, command)

    def _open(self, of: type[QuorumQueue], command: OpenQueue | OpenCursor) -> None:
        queue = self.state.queues.get(command.queue_id)
        if queue is None:
            queue = of(command.queue_id, command.settings, self._pager, self)
            queue.last_used = self.state.clock
            self.state.add(queue)
            if isinstance(queue, CursorQueue):
                queue.look_for(self.state.streams, self.state.clock)
            if self.is_leader:
                self.effects.append(QueueOpened(command.queue_id))
        else:
            self._touch(queue)
            self._look_at_settings(command.queue_id, command.settings, queue.quorum_settings)
            queue.apply_settings(command.settings)
            self._watch(queue)  # whatever it has waited for before
            if queue.gives_way:
                queue.dispatch(self.state.clock)  # who outranks the active consumer may have stood by for long
        self._touch(queue)

    def _look_at_settings(self, queue_id: int, settings: object, before: object) -> None:
        """Whoever opens what is there, and does not see that, may know less than the leader of what is wanted."""
        if self.has_guests and self.is_leader and settings != before:
            self.effects.append(QueueOpened(queue_id))

    def _drop_queue(self, origin: Origin, sequence: int, command: DropQueue) -> None:
        self._is_to_change(command.queue_id)
        queue = self.state.queues.get(command.queue_id)
        stream = self.state.streams.pop(command.queue_id, None)
        count = 0
        if queue is not None:
            count = queue.ready.count + queue.statistics().delayed
            self._remove_queue(queue, Gone.DROPPED)
        elif stream is not None:
            for follower in sorted(stream.followers):
                self._is_to_change(follower)
                self.state.cursors[follower].stream_gone()
            self.dropped_bytes += stream.log.forget()
            self._is_gone(command.queue_id, Gone.DROPPED)
        self._tell(origin, NoticeKind.COUNTED, sequence, count)

    def _enqueue(self, origin: Origin, sequence: int, command: Enqueue) -> None:
        refusal: Refusal | None = None
        clock = self.state.clock
        for queue_id in command.queue_ids:
            queue = self.state.queues.get(queue_id)
            if queue is None:
                refusal = refusal or Refusal.NO_QUEUE
                continue
            is_marked = bool(command.producer or command.message_id)
            if is_marked and queue.deduplication.knows(command, clock):
                continue
            self._touch(queue)
            if not queue.accept(command.message, clock):
                refusal = Refusal.FULL
            elif is_marked:
                queue.deduplication.remember(command, queue.quorum_settings, clock)
        if refusal is not None:
            self._tell(origin, NoticeKind.REFUSED, sequence, refusal)

    def _settle(self, origin: Origin, sequence: int, command: Settle) -> None:
        consumer = origin.consumers.get(command.consumer)
        if consumer is None:
            missed = sum(last - first + 1 for first, last in command.ranges)
        else:
            queue = consumer.queue
            self._touch(queue)
            missed = queue.settle(consumer, command.how, command.ranges, self.state.clock)
            self._forget_if_done(origin, consumer)
        if missed:
            self._tell(origin, NoticeKind.MISSED, sequence, command.consumer, min(missed, U64_MAX))

    def _attach(self, origin: Origin, sequence: int, command: Attach) -> None:
        queue = self.state.queues.get(command.queue_id)
        refusal: Refusal | None = None
        if command.consumer <= origin.last_consumer:
            refusal = Refusal.ID_USED
        elif queue is None:
            refusal = Refusal.NO_QUEUE
        elif queue.is_in_exclusive_use(command.exclusive):
            refusal = Refusal.EXCLUSIVE
        origin.last_consumer = max(origin.last_consumer, command.consumer)
        if refusal is not None or queue is None:
            self._tell(origin, NoticeKind.ATTACH_REFUSED, sequence, command.consumer, refusal or 0)
            return
        consumer = QuorumConsumer(
            origin.name, command.consumer, queue, command.prefetch, command.no_ack, command.priority,
            command.exclusive, command.tag,
        )  # fmt: skip
        origin.consumers[command.consumer] = consumer
        self._touch(queue)
        queue.attach(consumer, self.state.clock)

    def _detach(self, origin: Origin, sequence: int, command: Detach) -> None:
        consumer = origin.consumers.get(command.consumer)
        if consumer is None:
            return
        queue = consumer.queue
        self._touch(queue)
        if consumer.is_attached:
            queue.detach(consumer, self.state.clock)
        if command.seen < consumer.next_delivery - 1:
            queue.give_back_unseen(consumer, command.seen)
        if command.gives_back:
            queue.give_back(consumer, True, self.state.clock)
        self._forget_if_done(origin, consumer)
        queue.dispatch(self.state.clock)

    def _prefetch(self, origin: Origin, sequence: int, command: Prefetch) -> None:
        consumer = origin.consumers.get(command.consumer)
        if consumer is not None and consumer.is_attached:
            self._touch(consumer.queue)
            consumer.set_prefetch(command.prefetch)
            consumer.queue.limit_changed(consumer, self.state.clock)

    def _get(self, origin: Origin, sequence: int, command: Get) -> None:
        queue = self.state.queues.get(command.queue_id)
        delivery_id = left = 0
        if queue is not None and command.consumer > origin.last_consumer:
            clock = self.state.clock
            self._touch(queue)
            delivery_owner = QuorumConsumer(origin.name, command.consumer, queue, is_getter=True)
            delivery_id = queue.get(delivery_owner, clock)
            if delivery_id:
                origin.consumers[command.consumer] = delivery_owner
                queue.add_delivery_owner(delivery_owner)
            elif queue.ready.has_next():
                left = queue.ready.count
            queue.last_used = clock
        origin.last_consumer = max(origin.last_consumer, command.consumer)
        self._tell(origin, NoticeKind.GOT, sequence, command.consumer, delivery_id, left)

    def _purge(self, origin: Origin, sequence: int, command: Purge) -> None:
        queue = self.state.queues.get(command.queue_id)
        count = 0
        if queue is not None:
            self._touch(queue)
            count = queue.purge()
        self._tell(origin, NoticeKind.COUNTED, sequence, count)

    def _lease(self, origin: Origin, sequence: int, command: Any) -> None:
        queue = self.state.queues.get(command.queue_id)
        refusal: Refusal | None = Refusal.NO_QUEUE
        if queue is not None:
            self.state.leased[command.queue_id] = queue
            self._touch(queue)
            refusal = execute(queue, command, self.state.clock)
        if refusal is not None:
            self._tell(origin, NoticeKind.REFUSED, sequence, refusal)

    def _stream(self, origin: Origin, sequence: int, command: Any) -> None:
        if type(command) is OpenStream:
            present = self.state.streams.get(command.queue_id)
            if present is not None:
                self._look_at_settings(command.queue_id, command.settings, present.settings)
            else:
                if self._discarding:
                    self._discard_all_of(command.queue_id)
                if self.is_leader:
                    self.effects.append(QueueOpened(command.queue_id))
        self._is_to_change(command.queue_id)
        stream, refusal = stream_execution.execute(
            self.state.streams, command, origin.name, self.state.clock, self._pager
        )
        if stream is not None:
            self._watch_stream(stream)
            if type(command) is OpenStream:
                self._link(command.queue_id)
            if stream.followers:
                self._follow(stream)
        if refusal is not None:
            self._tell(origin, NoticeKind.REFUSED, sequence, refusal)

    def _link(self, stream_id: int) -> None:
        """There is such a stream: queues over it find it."""
        if self.captures:
            for cursor in self.state.cursors.values():
                if cursor.stream_id == stream_id:
                    self._is_to_change(cursor.queue_id)
        self.state.link()

    def _append(self, origin: Origin, sequence: int, command: AppendChunk) -> None:
        self._concerns_all = True
        stream = self.state.streams.get(command.queue_id)
        if stream is None:
            self._tell(origin, NoticeKind.REFUSED, sequence, Refusal.NO_QUEUE)
            return
        if self.captures:
            self._is_to_change(command.queue_id)
        clock = self.state.clock
        chunk = command.read
        if chunk is None:
            chunk = Chunk(command.chunk, is_sound=True)
        if command.place is not None or chunk.runs:
            has_mark = stream.append(chunk, clock, command.place)
        else:
            has_mark = append_plain(stream, chunk, clock)
            if has_mark:
                stream.retain(clock)
        if has_mark:
            self._watch_stream(stream)
        else:
            self._tell_growth(stream)
        if stream.followers:
            self._follow(stream)

    def _follow(self, stream: Stream) -> None:
        """Something has happened in a stream that has queues over it."""
        clock = self.state.clock
        for queue_id in sorted(stream.followers):
            cursor = self.state.cursors[queue_id]
            self._touch(cursor)
            cursor.stream_changed()
            cursor.dispatch(clock)

    # -- what the leader and the clock do ------------------------------------------------------------------------------

    def _dispatched(self, command: Dispatched) -> None:
        queue = self.state.queues.get(command.queue_id)
        if queue is not None:
            self._touch(queue)
            queue.dispatched(command.letter)

    def _run_due(self, before: int) -> None:
        """Let every queue act that is due. before: the time of the last batch. What is watched may be earlier than what
        is due, and another time on other members: who acts is up to the state alone."""
        state = self.state
        heap = self._heap
        due: dict[int, None] = {}
        while heap and heap[0][0] <= state.clock:
            when, queue_id = heapq.heappop(heap)
            if self._watched.get(queue_id) == when:
                del self._watched[queue_id]
                due[queue_id] = None
        for queue_id in sorted(due):
            self._is_to_change(queue_id)
            stream = state.streams.get(queue_id)
            if stream is not None:
                is_due = 0 < stream.due_at(before) <= state.clock
                if is_due:
                    self._concerns_all = True
                    stream.retain(state.clock)
                self._watch_stream(stream)
                if is_due and stream.followers:
                    self._follow(stream)
            queue = state.queues.get(queue_id)
            if queue is None:
                continue
            if 0 < queue.due_at(state.clock) <= state.clock:
                self._run_queue(queue)
            if queue_id in state.queues:
                self._watch(queue)

    def _run_queue(self, queue: QuorumQueue) -> None:
        self._concerns_all = True
        clock = self.state.clock
        late = queue.late_delivery_owners(clock)
        for consumer in late:
            if consumer.is_attached:
                queue.detach(consumer, clock)
        for consumer in late:
            queue.give_back(consumer, False, clock)
            origin = self.state.origins[consumer.origin]
            self._forget_if_done(origin, consumer)
            self._tell(origin, NoticeKind.CANCELLED, consumer.consumer_id, Cancel.TIMEOUT)
        if queue.lease_groups is not None:
            queue.lease_groups.put_back(clock)
        queue.wake(clock)
        queue.normalise(clock)
        queue.dispatch(clock)
        if queue.queue_id in self.state.cursors:
            self._touch(queue)  # for this entry, it has looked at so many records
        if queue.is_expired(clock):  # at last: what has expired in it may have become dead letters, which keep it
            self._remove_queue(queue, Gone.EXPIRED)

    def _remove_queue(self, queue: QuorumQueue, why: Gone) -> None:
        for consumer in queue.delivery_owners.values():
            origin = self.state.origins[consumer.origin]
            del origin.consumers[consumer.consumer_id]
            if consumer.is_attached:
                self._tell(origin, NoticeKind.CANCELLED, consumer.consumer_id, Cancel.QUEUE_GONE)
        steps = queue.discarding()
        if next(steps, _ENDED) is not _ENDED:  # that takes it out of what others see; the rest is for slices
            self._discarding[queue.queue_id] = steps
        self.state.remove(queue.queue_id)
        self._is_gone(queue.queue_id, why)

    def discard_later(self, state: GroupState) -> None:
        """A state that is none any more gives everything back, in slices."""
        self._left_count -= 1
        self._left[self._left_count] = state
        self._discard_with(self._left_count, state.discarding())

    def _discard_with(self, number: int, steps: Iterator[None]) -> None:
        self._discarding[number] = steps
        if self.on_discarding is not None:
            self.on_discarding()

    def _discard_all_of(self, queue_id: int) -> None:
        """Before there is something of this id again: its places go first, of a queue that is gone and of states that
        are none any more."""
        while queue_id in self._discarding or any(queue_id in state for state in self._left.values()):
            self.discard_some()

    @property
    def has_left(self) -> bool:
        """Whether states that are none any more have something to give back."""
        return bool(self._left)

    @property
    def has_gone(self) -> bool:
        """The same of queues that are gone, and of such states."""
        streams = self.state.streams
        return any(number not in streams for number in self._discarding)

    @property
    def is_discarding(self) -> bool:
        """Whether queues that are gone have more to give back."""
        return bool(self._discarding)

    def discard_some(self) -> None:
        """A slice of what queues that are gone give back, and streams of which much is: RAM and places, which are no
        part of the state."""
        queue_id, steps = next(iter(self._discarding.items()))
        if next(steps, _ENDED) is _ENDED:
            del self._discarding[queue_id]
            self._left.pop(queue_id, None)

    def _is_gone(self, queue_id: int, why: Gone) -> None:
        self._watched.pop(queue_id, None)
        self.dropped.append(queue_id)
        self.effects.append(QueueGone(queue_id, why))

    def _watch(self, queue: QuorumQueue) -> None:
        """Look at the queue again when it is due."""
        self._watch_at(queue.queue_id, queue.due_at(self.state.clock))

    def _watch_restored(self, queue: QuorumQueue) -> None:
        """The same of one that was not here before: where it cannot be read when it is due, that is found with the next
        entry, before which it can be mended."""
        try:
            self._watch(queue)
        except (CorruptRecord, OSError):
            self._watch_at(queue.queue_id, max(1, self.state.clock))

    def _watch_stream(self, stream: Stream) -> None:
        """The same for a stream in which something has happened; and the own node is told of that. What retention has
        taken is given back in slices."""
        if stream.log.is_letting_go and stream.queue_id not in self._discarding:
            self._discard_with(stream.queue_id, stream.log.letting_go())
        self._watch_at(stream.queue_id, stream.due_at(self.state.clock))
        self._tell_growth(stream)

    def _tell_growth(self, stream: Stream) -> None:
        """The own node is told, if it listens."""
        if self.listened and self.own_session and stream.queue_id in self.listened:
            self.effects.append(Grown(stream.queue_id, stream.next))

    def _watch_touched(self, queue: QuorumQueue) -> None:
        """The same after a batch. What is held since before it has been seen to (invariant 3), so that nobody needs to
        go over all holders; what is held since is not late before a whole time-out has passed."""
        clock = self.state.clock
        self._watch_at(queue.queue_id, queue.due_without_delivery_owners(clock))
        if queue.timeout >= 0 and queue.unacked:
            self._watch_at(queue.queue_id, clock + queue.timeout)

    def _watch_at(self, queue_id: int, due: int) -> None:
        watched = self._watched.get(queue_id)
        if due and (watched is None or due < watched):
            self._watched[queue_id] = due
            heapq.heappush(self._heap, (due, queue_id))

    def next_deadline(self) -> int | None:
        """When the next queue may be due: the leader proposes a Tick then."""
        while self._heap and self._watched.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    # -- telling -----------------------------------------------------------------------------------------------------

    def delivered(self, consumer: QuorumConsumer, delivery_id: int, entry: Entry) -> None:
        """A queue has handed a message to a consumer."""
        if consumer.origin != self.own_node:
            self._concerned[consumer.origin] = None
            if self.feeds:
                state = self.state
                feed = self._feed_of(state.origins[consumer.origin])
                if feed is not None:
                    feed.effects.append(
                        make_delivered(
                            consumer.consumer_id, delivery_id, entry.message, entry.is_redelivered, entry.returns
                        )
                    )
        elif self._is_own(self.state.origins[consumer.origin]):
            self.effects.append(
                make_delivered(consumer.consumer_id, delivery_id, entry.message, entry.is_redelivered, entry.returns)
            )

    def unread(self, consumer: QuorumConsumer) -> None:
        """See Sink: whoever is to hear of it gives it back."""
        effects = self.effects if consumer.origin == self.own_node else self.feeds[consumer.origin].effects
        last = effects[-1] if effects else None
        if isinstance(last, Delivered):
            effects[-1] = Unreadable(last.consumer, last.delivery_id)

    def _deliver_again(
        self, consumer: QuorumConsumer, delivery_id: int, entry: Entry, effects: list[Effect]
    ) -> None:
        """Something was handed to a consumer of a node while it was away."""
        try:
            message = consumer.queue.message_of(entry)
        except (CorruptRecord, OSError):  # it comes again, and its page is looked at before that (foresight.py)
            message = None
        if message is None:
            effects.append(Unreadable(consumer.consumer_id, delivery_id))
        else:
            effects.append(
                make_delivered(consumer.consumer_id, delivery_id, message, entry.is_redelivered, entry.returns)
            )

    def tells(self, origin: str) -> bool:
        """See Sink."""
        return (bool(self.own_session) and origin == self.own_node) or origin in self.feeds

    def take_concerned(self) -> Container[str] | None:
        """The nodes that wait for what was applied since the last call; None: any node may."""
        concerns_all, self._concerns_all = self._concerns_all, False
        concerned = self._concerned
        if concerned:
            self._concerned = {}
        return None if concerns_all else concerned

    def lettered(self, letters: Letters, entry: Entry) -> None:
        """A dead letter is in transit."""
        if self.is_leader:
            self.effects.append(letters.effect(entry))

    def discarded(self, queue_id: int, messages: int) -> None:
        """So many messages that came back too often are nowhere now."""
        if self.is_leader:
            self.effects.append(Discarded(queue_id, messages))

    def set_leader(self, is_leader: bool) -> None:
        """Whether this member leads. A new leader has all letters in transit before it."""
        if is_leader and not self.is_leader:
            for queue in self.state.queues.values():
                self.effects += [queue.letters.effect(entry) for entry in queue.letters.transit]
        self.is_leader = is_leader

    def has_letter(self, queue_id: int, letter: int) -> bool:
        """Whether a dead letter that was in transit is so still."""
        queue = self.state.queues.get(queue_id)
        return queue is not None and bool(queue.letters.transit) and queue.letters.transit[0].sequence <= letter

    def _forget_if_done(self, origin: Origin, consumer: QuorumConsumer) -> None:
        if not consumer.is_attached and not consumer.held:
            del origin.consumers[consumer.consumer_id]
            consumer.queue.remove_delivery_owner(consumer)

    def _tell(self, origin: Origin, kind: NoticeKind, a: int, b: int = 0, c: int = 0, left: int = 0) -> None:
        notice = origin.add_notice(kind, a, b, c)
        if self._is_own(origin):
            _show(origin, notice, left, self.effects, self._refused)
        elif self.feeds:
            feed = self._feed_of(origin)
            if feed is not None:
                _show(origin, notice, left, feed.effects, feed.refused)

    # -- nodes that are no members -----------------------------------------------------------------------------------

    def open_feed(self, name: str, heard: Heard) -> None:
        """A node that has heard so much is to hear the rest."""
        self.feeds[name] = feed = Feed(heard.session)
        self._tell_rest(name, heard, feed.effects)

    def resume(self, heard: Heard) -> None:
        """The own node has heard so much elsewhere, and hears the rest here."""
        self.own_session = heard.session
        self._tell_rest(self.own_node, heard, self.effects)

    def _tell_rest(self, name: str, heard: Heard, effects: list[Effect]) -> None:
        state = self.state
        origin = state.origins.get(name)
        if origin is None:
            return
        if origin.session == heard.session:
            self._catch_up(origin, as_origin(name, heard), effects)
        elif origin.session > heard.session:
            effects.append(SessionClosed(heard.session))

    # -- another member's state --------------------------------------------------------------------------------------

    def replace(self, state: GroupState) -> GroupState:
        """Go on with this state, which is ahead of the present one (or the first), and may have the ids of what has
        gone: nothing of that may be left. The own node is told what the difference means for it. Returns the old
        state."""
        for queue_id in self.state.streams:
            self._discarding.pop(queue_id, None)  # what retention has taken goes with the state
        for capture in self.captures:
            capture.note_all()
        old, self.state = self.state, state
        missed = [each for each in old.queues if each not in state.queues]
        missed += [each for each in old.streams if each not in state.streams]
        self.dropped += missed
        self.effects += [QueueGone(queue_id, Gone.MISSED) for queue_id in missed]
        self._watched = {}
        self._heap = []
        for queue_id, queue in state.queues.items():
            counted = old.queues.get(queue_id)
            if counted is not None:
                queue.keep_counts(counted)
            self._watch_restored(queue)
        for stream in state.streams.values():
            self._watch_stream(stream)
        origin = state.origins.get(self.own_node)
        if self.own_session and origin is not None:
            before = old.origins.get(self.own_node)
            if origin.session == self.own_session:
                is_known = before is not None and before.session == self.own_session
                known = before if before is not None and is_known else Origin(self.own_node)
                self._catch_up(origin, known, self.effects)
            elif origin.session > self.own_session and (before is None or before.session <= self.own_session):
                self.effects.append(SessionClosed(self.own_session))
        return old

    def _catch_up(self, origin: Origin, before: Origin, effects: list[Effect]) -> None:
        """What a node has missed of its session."""
        refused: list[Refused] = []
        for number in sorted(origin.consumers):
            consumer = origin.consumers[number]
            known = before.consumers.get(number)
            first = 1 if known is None else known.next_delivery
            if not consumer.is_getter:
                for delivery_id, (entry, _) in consumer.held.items():
                    if delivery_id >= first:
                        self._deliver_again(consumer, delivery_id, entry, effects)
        for notice in origin.notices:
            if notice.number >= before.next_notice:
                _show(origin, notice, 1, effects, refused)  # what is left now another Get finds out
        if origin.last_sequence > before.last_sequence:
            first = before.last_sequence + 1
            effects.append(Confirmed(origin.session, first, origin.last_sequence, tuple(refused)))
        if not origin.is_open and (before.is_open or not before.session):
            effects.append(SessionClosed(origin.session))


def _show(origin: Origin, notice: Notice, left: int, effects: list[Effect], refused: list[Refused]) -> None:
    """Tell a node what a notice says. left: see Origin.effect_of."""
    effect = origin.effect_of(notice, left)
    if isinstance(effect, Refused):
        refused.append(effect)
    else:
        effects.append(effect)
