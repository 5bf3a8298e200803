"""LogModel: what the committed logs of the queue groups mean for messages, said as simply as possible.

It is told of every entry that any node applies (`entry`), and of what each node's own machine hands to that node's
consumers (`handed`). It chooses no consumer and keeps no order of its own: it knows which message was handed to whom
and when that ended, and checks what must hold whatever the broker chooses:

    L1  what one node applies at an index, every node applies there
    L2  a message is with one consumer at a time; a second holder comes when the first has lost it
    L3  of a message one acknowledgement counts, and then it never comes back
    L4  first deliveries of a queue are in the order in which its messages were taken, within a priority
    L5  a queue with a single active consumer changes it only when that one has gone
    L6  what a node says in a session stays in order: an acknowledgement is not overtaken by a later publish
    L7  a message that was taken ends as it may: acknowledged, refused, expired, purged, with its queue; and what is
        declared to become a dead letter does
    L8  what came back to a queue with delayed retry is not handed out before it has rested, by the group's time

Times are indexes of a group's log; NEVER is later than all of them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from queues.effects import Confirmed, Delivered, Effect, GetAnswered
from queues.page import AddressBook
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Detach,
    DropQueue,
    Enqueue,
    Get,
    How,
    NodeDown,
    OpenQueue,
    Purge,
    Settle,
    decode_batch,
)
from tests.cluster_simulation.log_records import (
    NEVER,
    Copy,
    GroupHistory,
    Handing,
    Holder,
    QueueLog,
    Stream,
)
from tests.cluster_simulation.queue_kinds import AT_LEAST_ONCE, DELAYED, HELD_BACK, HOLDING, LETTERS, QueueKind
from tests.simulation.observer import message_number
from tests.simulation.state import Violation


class LogModel:
    """See the module's docstring. `name_of`: names of quorum queues by their numbers, filled by whoever reads the
    metadata."""

    def __init__(self, kinds: Mapping[str, QueueKind]) -> None:
        self.kinds = {**kinds, HELD_BACK: HOLDING}
        self.name_of: dict[int, str] = {}
        self.groups: dict[int, GroupHistory] = {}
        self.queues: dict[int, QueueLog] = {}
        self.past: list[QueueLog] = []
        self.by_number: dict[int, list[Copy]] = {}
        self.covers: dict[tuple[str, int], list[Handing]] = {}
        self.counts: Counter[str] = Counter()
        self._addresses = AddressBook()

    def group(self, number: int) -> GroupHistory:
        found = self.groups.get(number)
        if found is None:
            found = self.groups[number] = GroupHistory(number)
        return found

    # -- entries -------------------------------------------------------------------------------------------------------

    def entry(self, group: int, index: int, data: bytes, node: str) -> bool:
        """A node applies an entry (L1). True if it is the first to do so."""
        history = self.group(group)
        known = history.entries.get(index)
        if known is not None:
            if known != data:
                raise Violation(f"{node} applies another entry at {index} of group {group} than others have")
            return False
        if index <= history.last_index:
            raise Violation(f"{node} applies an entry at {index} of group {group}, where nobody had one")
        history.entries[index] = data
        history.last_index = index
        self._run(history, index, decode_batch(data, self._addresses))
        return True

    def digest(self, group: int, index: int, digest: bytes, node: str) -> None:
        """The state of a node after an entry (L1)."""
        first = self.group(group).digests.setdefault(index, digest)
        self.counts["digests"] += 1
        if first != digest:
            raise Violation(f"{node} has another state of group {group} at {index} than others have")

    def _run(self, history: GroupHistory, index: int, batch: Batch) -> None:
        history.clock = history.clocks[index] = max(history.clock, batch.time)
        if not batch.origin:
            for command in batch.commands:
                if isinstance(command, NodeDown):
                    stream = history.streams.get(command.node)
                    if stream is not None and stream.session == command.session:
                        self._close(history, command.node, stream, index)
            return
        stream = self._admit(history, batch, index)
        if stream is None:
            self.counts["batches skipped"] += 1
            return
        for place, command in enumerate(batch.commands):
            sequence = batch.first + place
            if sequence <= stream.last:
                self.counts["commands skipped"] += 1
                continue
            stream.last = sequence
            self._execute(history, batch, (index, place), sequence, command)

    def _admit(self, history: GroupHistory, batch: Batch, index: int) -> Stream | None:
        stream = history.streams.setdefault(batch.origin, Stream())
        if batch.session > stream.session:
            if batch.first != 1:
                return None
            self._close(history, batch.origin, stream, index)
            stream.session, stream.is_open, stream.last = batch.session, True, 0
            return stream
        if batch.session < stream.session or not stream.is_open or batch.first > stream.last + 1:
            return None
        return stream

    def _close(self, history: GroupHistory, origin: str, stream: Stream, index: int) -> None:
        """A session is over: what its consumers hold returns."""
        if not stream.is_open:
            return
        stream.is_open = False
        self.counts["sessions closed"] += 1
        for (name, _), holder in history.delivery_owners.items():
            if name == origin and holder.session == stream.session:
                self._give_back(holder, index, history.clock)
                holder.detached_at = min(holder.detached_at, index)

    @staticmethod
    def _give_back(holder: Holder, index: int, clock: int) -> None:
        holder.returned_at = min(holder.returned_at, index)
        for handing in holder.handings.values():
            if not handing.end:
                handing.end, handing.until, handing.rests_from = "returned", index, clock

    @staticmethod
    def _end_unseen(handing: Handing) -> None:
        """Deliveries that the node had not passed on when the consumer left go back as they came."""
        seen, index = handing.holder.unseen
        if not handing.end and handing.delivery_id > seen:
            handing.end, handing.until = "not passed on", index

    # -- commands ------------------------------------------------------------------------------------------------------

    def _execute(
        self, history: GroupHistory, batch: Batch, place: tuple[int, int], sequence: int, command: Command
    ) -> None:
        index = place[0]
        origin = batch.origin
        if isinstance(command, Enqueue):
            self._enqueue(history, batch, place, sequence, command)
        elif isinstance(command, Settle):
            holder = history.delivery_owners.get((origin, command.consumer))
            if holder is not None:
                self._settle(holder, command, index, history.clock)
        elif isinstance(command, Attach | Get):
            queue = self.queues.get(command.queue_id)
            holder = Holder(origin, command.consumer, batch.session, queue, attached_at=index)
            if isinstance(command, Attach):
                holder.tag, holder.no_ack, holder.priority = command.tag, command.no_ack, command.priority
            else:
                holder.is_getter = True
            history.delivery_owners[origin, command.consumer] = holder
        elif isinstance(command, Detach):
            holder = history.delivery_owners.get((origin, command.consumer))
            if holder is not None:
                holder.detached_at = min(holder.detached_at, index)
                holder.unseen = min(holder.unseen, (command.seen, index))
                if holder.queue is not None:
                    holder.queue.returns.append(index)
                for handing in holder.handings.values():
                    self._end_unseen(handing)
                if command.gives_back:
                    self._give_back(holder, index, history.clock)
        elif isinstance(command, OpenQueue):
            self._open(command, index)
        elif isinstance(command, DropQueue):
            self._drop(history, command.queue_id, index)
        elif isinstance(command, Purge) and command.queue_id in self.queues:
            for copy in self.queues[command.queue_id].copies.values():
                if not copy.end:
                    copy.may_be_purged = True

    def _open(self, command: OpenQueue, index: int) -> None:
        known = self.queues.get(command.queue_id)
        if known is not None:
            if known.dropped_at == NEVER:
                return
            # A node that has not heard of the deletion opens it again; the leader is going to drop it again.
            self.past.append(known)
            self.counts["queues opened again"] += 1
        name = self.name_of.get(command.queue_id)
        if name is None:
            raise Violation(f"queue {command.queue_id} is opened at {index}, and the metadata has none of that number")
        self.queues[command.queue_id] = QueueLog(command.queue_id, self.kinds[name], index)

    def _drop(self, history: GroupHistory, queue_id: int, index: int) -> None:
        queue = self.queues.get(queue_id)
        if queue is None or queue.dropped_at != NEVER:
            return
        queue.dropped_at = index
        for copy in queue.copies.values():
            if not copy.end:
                copy.end, copy.ended_at = "with its queue", index
        for holder in history.delivery_owners.values():
            if holder.queue is queue:
                self._give_back(holder, index, history.clock)
                holder.detached_at = min(holder.detached_at, index)

    def _enqueue(
        self, history: GroupHistory, batch: Batch, place: tuple[int, int], sequence: int, command: Enqueue
    ) -> None:
        number = message_number(command.message.body_bytes())
        made: list[Copy] = []
        for queue_id in command.queue_ids:
            queue = self.queues.get(queue_id)
            if queue is None or queue.dropped_at != NEVER:
                continue
            known = queue.copies.get(number)
            if known is not None:
                # Published again with the same producer's number, or a dead letter that has come again.
                known.is_again = True
                if not command.producer and queue.kind.name not in AT_LEAST_ONCE:
                    raise Violation(f"{known} is taken again at {place}")
                made.append(known)
                continue
            levels = queue.kind.max_priority
            priority = 0 if levels is None else max(0, min(command.message.priority, levels))
            copy = Copy(number, queue, place, priority, history.clock)
            copy.may_be_absent = queue.kind.max_length is not None
            queue.copies[number] = copy
            self.by_number.setdefault(number, []).append(copy)
            made.append(copy)
        history.enqueues[batch.origin, batch.session, sequence] = made
        self.counts["enqueues"] += 1
        for handing in self.covers.get((batch.origin, number), ()):
            self._check_order(handing, history, batch, place, number)

    def _check_order(
        self, handing: Handing, history: GroupHistory, batch: Batch, place: tuple[int, int], number: int
    ) -> None:
        """L6: this acknowledgement was handled in an earlier turn than the publish that is taken now."""
        holder = handing.holder
        if history.delivery_owners.get((holder.origin, holder.number)) is not holder or holder.session != batch.session:
            return
        if holder.returned_at != NEVER or handing.copy.queue.kind.is_scratch:
            return  # nobody settles what is in a queue that a client of this node is deleting
        self.counts["covered acks"] += 1
        if not handing.end:
            raise Violation(f"message {number} is taken at {place} before the acknowledgement of {handing}")

    def _settle(self, holder: Holder, command: Settle, index: int, clock: int) -> None:
        if command.how is How.RETURN and holder.queue is not None:
            holder.queue.returns.append(index)
        for delivery_id, handing in holder.handings.items():
            if handing.end or not any(first <= delivery_id <= last for first, last in command.ranges):
                continue
            handing.until = index
            if command.how is How.ACK:
                handing.end = "acknowledged"
                self._acknowledge(handing, index)
            elif command.how is How.REJECT:
                handing.end = "rejected"
                handing.copy.end, handing.copy.ended_at = "rejected", index
            elif command.how is How.RETURN:
                handing.end = "not passed on"
            else:
                handing.end, handing.rests_from = "requeued", clock

    def _acknowledge(self, handing: Handing, index: int) -> None:
        copy = handing.copy
        self.counts["acknowledged"] += 1
        if copy.end == "acknowledged" and not (copy.is_again and copy.queue.kind.name in AT_LEAST_ONCE):
            raise Violation(f"{copy} was acknowledged at {copy.ended_at}, and is again at {index}, with {handing}")
        copy.end, copy.ended_at = "acknowledged", index

    # -- what machines tell their nodes --------------------------------------------------------------------------------

    def told(self, group: int, index: int, node: str, effects: Sequence[Effect], is_exact: bool = True) -> None:
        """What a node's machine has for that node, after the entry at `index` (not is_exact: at it or before it)."""
        for effect in effects:
            if isinstance(effect, Delivered) or (isinstance(effect, GetAnswered) and effect.message is not None):
                self._handed(group, index, node, effect, is_exact)
            elif isinstance(effect, Confirmed):
                history = self.group(group)
                for refused in effect.refused:
                    for copy in history.enqueues.get((node, effect.session, refused.sequence), ()):
                        copy.may_be_absent = True

    def _handed(self, group: int, index: int, node: str, effect: Delivered | GetAnswered, is_exact: bool) -> None:
        assert effect.message is not None
        history = self.group(group)
        number = message_number(effect.message.body_bytes())
        holder = history.delivery_owners.get((node, effect.consumer))
        if holder is None or holder.queue is None:
            raise Violation(f"{node}: message {number} is handed to consumer {effect.consumer}, which never came")
        known = holder.handings.get(effect.delivery_id)
        if known is not None:
            if known.copy.number != number:
                raise Violation(f"{known} was message {known.copy.number}, and is message {number} now")
            return
        copy = holder.queue.copies.get(number)
        if index > holder.queue.dropped_at:
            raise Violation(f"message {number} is handed to {holder}, and its queue was dropped before")
        if copy is None:
            raise Violation(f"message {number} is handed to {holder}, and was never in '{holder.queue.kind.name}'")
        handing = Handing(copy, holder, effect.delivery_id, index if is_exact else 0, not effect.redelivered)
        self._end_unseen(handing)
        if not handing.end and holder.returned_at != NEVER:
            handing.end, handing.until = "returned", holder.returned_at
        self.counts["handings"] += 1
        holder.handings[effect.delivery_id] = handing
        if is_exact:
            self._check_handing(handing)
            self._check_rest(handing, history.clocks[index])
        copy.handings.append(handing)

    def _check_handing(self, handing: Handing) -> None:
        """L2 and L3."""
        copy = handing.copy
        if copy.queue.kind.name in AT_LEAST_ONCE and copy.is_again:
            return
        if handing.since > copy.ended_at:
            raise Violation(f"{copy} ended at {copy.ended_at}, and comes back: {handing}")
        for other in copy.handings:
            if other.since and other.since < handing.until and handing.since < other.until:
                raise Violation(f"{copy} is in two hands: {other} and {handing}")
            was_there = other.end != "not passed on" and (other.is_first or other.since < handing.since)
            if handing.is_first and handing.end != "not passed on" and was_there:
                raise Violation(f"{copy} comes as if for the first time: {handing}; and there was {other}")

    def _check_rest(self, handing: Handing, clock: int) -> None:
        """L8."""
        rest_ms = handing.copy.queue.kind.rest_ms
        for other in handing.copy.handings if rest_ms else ():
            if other.rests_from and other.until <= handing.since:  # a node that is behind tells of it after later ones
                self.counts["handings after a rest"] += 1
                if clock < other.rests_from + rest_ms:
                    raise Violation(f"{handing.copy} comes again at {clock}, back since {other.rests_from}: {handing}")

    # -- what clients see ----------------------------------------------------------------------------------------------

    def seen(self, node: str, tag: str, number: int, *, is_get: bool) -> Handing:
        """A client gets this message; it must have been handed to it before. Returns the handing."""
        found = [
            handing
            for copy in self.by_number.get(number, ())
            for handing in copy.handings
            if not handing.seen and handing.holder.origin == node and handing.holder.is_getter == is_get
            and (is_get or handing.holder.tag == tag)
        ]  # fmt: skip
        if found:
            # What a node was handed for a client and has not passed on was given back: the last is meant.
            handing = next((each for each in reversed(found) if not each.end), found[-1])
            handing.seen += 1
            return handing
        raise Violation(f"message {number} comes to '{tag}' on {node}, and the log has handed it to nobody there")

    def confirmed(self, number: int, queues: Sequence[str]) -> None:
        """A publisher is told that the message is safe: so the log has it, in each of these queues."""
        copies = {copy.queue.kind.name: copy for copy in self.by_number.get(number, ())}
        for name in queues:
            if name not in copies:
                raise Violation(f"message {number} is confirmed, and no committed entry has it for '{name}'")
            copies[name].is_confirmed = True
            self.counts["confirmed copies"] += 1

    def follows(self, node: str, number: int, handings: list[Handing]) -> None:
        """These were acknowledged, on one channel of the node, turns before this message was published there."""
        self.covers[node, number] = handings

    # -- the end -------------------------------------------------------------------------------------------------------

    def at_the_end(self) -> None:
        """Everything has been drained: L4, L5 and L7."""
        letters, delayed = (
            {copy.number for queue in self.queues.values() if queue.kind.name == name for copy in queue.copies.values()}
            for name in (LETTERS, DELAYED)
        )
        for queue in [*self.past, *self.queues.values()]:
            self._check_first_deliveries(queue)
            if queue.kind.is_single_active:
                self._check_single_active(queue)
            if queue.dropped_at == NEVER:
                for copy in queue.copies.values():
                    if queue.kind.name != HELD_BACK:
                        self._check_end(copy, letters)
                    elif copy.number not in delayed:
                        raise Violation(f"{copy} was held back, and never came")

    def _check_first_deliveries(self, queue: QueueLog) -> None:
        for level in range((queue.kind.max_priority or 0) + 1):
            # What was handed out and not passed on may be handed out for the first time again: the first time counts.
            first = [
                min(handings, key=lambda each: each.since)
                for copy in queue.copies.values()
                if copy.priority == level and not copy.is_again
                if (handings := [each for each in copy.handings if each.is_first])
                and all(each.since for each in handings)
            ]
            first.sort(key=lambda each: (each.since, each.copy.place))
            for one, two in itertools.pairwise(first):
                self.counts["ordered deliveries"] += 1
                # A node that is gone may have had it, and not passed on: nobody has seen that.
                may_be_late = any(two.copy.place[0] <= each <= two.since for each in queue.returns)
                if two.copy.place < one.copy.place and not may_be_late:
                    raise Violation(f"{two.copy} came after {one.copy}: {two}, {one}")

    def _check_single_active(self, queue: QueueLog) -> None:
        """In the order of the log: another one gets something when the one before is gone, or gives way to a higher
        priority and holds nothing."""
        handings = [each for copy in queue.copies.values() for each in copy.handings if each.since]
        handings.sort(key=lambda each: each.since)
        held_until: dict[Holder, int] = {}
        for before, handing in itertools.pairwise(handings):
            active, holder, now = before.holder, handing.holder, handing.since
            held_until[active] = max(held_until.get(active, 0), before.until)
            # Of what one entry has caused, the order is not known here.
            if active is holder or before.since == now or now >= active.detached_at:
                continue
            if holder.priority <= active.priority or now < held_until[active]:
                raise Violation(f"'{queue.kind.name}' has two active consumers: {active}, and {holder} from {now}")

    def _check_end(self, copy: Copy, letters: set[int]) -> None:
        kind = copy.queue.kind
        clock = self.group_of(copy.queue).clock
        if copy.end == "acknowledged" or copy.may_be_purged or (copy.may_be_absent and not copy.is_confirmed):
            return
        if kind.is_leased:
            return  # LeaseModel knows who has it
        if copy.end == "rejected" or (kind.ttl is not None and copy.clock + kind.ttl <= clock):
            why = copy.end or "expired"
        elif kind.delivery_limit is not None:
            why = "above its delivery limit"
        else:
            raise Violation(f"{copy} is gone: {[str(each) for each in copy.handings]}")
        self.counts[f"ended: {why}"] += 1
        if kind.has_dead_letters and copy.number not in letters:
            raise Violation(f"{copy} was {why}, and there is no dead letter: {[str(each) for each in copy.handings]}")

    def group_of(self, queue: QueueLog) -> GroupHistory:
        """The group that a queue is in."""
        return self.groups[queue.queue_id % self.group_count + 1]

    #: How many groups hold queues.
    group_count = 1
