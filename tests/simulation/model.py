"""Model: what a correct broker may do, written as simply as possible and without any of the broker's code.

It is told what the broker has handled (`apply`, in order), what it said (`observe`), when a turn ends (`end_turn`), how
far the disk is (`durable_turn`) and what a restart found (`recover`). It raises Violation.

    messages    a message that was stored in a durable turn is there after a crash, until it is settled
                a settlement in a durable turn is final; nothing is delivered that was never routed there
    order       within one queue and priority: publication, or the original position after a return
    deliveries  never above prefetch, `redelivered` is right, contents are unchanged, nobody starves
    confirms    in order, after the sync of what they confirm, after the return of what was unroutable
"""

from __future__ import annotations

from typing import Any

from tests.simulation.client import Operation
from tests.simulation.settings import DELAYED as DELAYED_QUEUE
from tests.simulation.settings import FAN, LATER, LETTERS, QueueSpec
from tests.simulation.state import (
    DELAYED,
    GONE,
    HELD,
    NEVER,
    READY,
    Consumer,
    Copy,
    Incarnation,
    ModelChannel,
    Publish,
    Published,
    Purge,
    Violation,
)


def _covers(settlement: Operation, tag: int) -> bool:
    """Whether an ack or nack is for this delivery tag."""
    return bool(tag == settlement.tag or (settlement.multiple and tag <= settlement.tag))


class Model:
    """The state of a correct broker, as far as it is determined."""

    def __init__(self, specs: dict[str, QueueSpec]) -> None:
        self.specs = specs
        self.turn = 1
        self.durable_turn = 0
        self.now = 0
        self.latest_now = 0
        self.live: dict[str, Incarnation] = {}
        self.past: list[Incarnation] = []
        self.buried: list[Incarnation] = []
        self.messages: dict[int, Published] = {}
        self.purged: list[Purge] = []
        self._next_place = 1
        self._next_event = 1
        self._in_slices: list[tuple[Copy, Copy | None]] = []  # what is settled in them, and the letter if it has one

    def set_time(self, now: int) -> None:
        """The time at which the broker handles what follows."""
        self.now = now
        self.latest_now = max(self.latest_now, now)

    # -- what clients did --------------------------------------------------------------------------------------------

    def apply(self, operation: Operation) -> None:
        """The broker has handled an operation."""
        operation.turn = self.turn
        channel = operation.channel
        if channel is not None and channel.is_dead:
            return
        getattr(self, f"_on_{operation.kind}")(channel, operation)

    def _on_open_channel(self, channel: ModelChannel, operation: Operation) -> None:
        channel.replies.append(operation)

    def _on_close_channel(self, channel: ModelChannel, operation: Operation) -> None:
        channel.replies.append(operation)
        self._end_channel(channel)

    def _on_close_connection(self, channel: None, operation: Operation) -> None:
        self.connection_ended(operation.client)

    def _on_close_channel_ok(self, channel: None, operation: Operation) -> None:
        """The answer to the broker's channel.close changes nothing."""

    def connection_ended(self, client: Any) -> None:
        """Its channels end, and so what they hold returns."""
        for channel in client.channels.values():
            self._end_channel(channel)

    def _take_event(self) -> int:
        """Numbers what ends in the order in which the broker ends it."""
        self._next_event += 1
        return self._next_event - 1

    def _end_channel(self, channel: ModelChannel) -> None:
        if channel.is_dead:
            return
        channel.is_dead = True
        channel.ended_at = self._take_event()
        channel.transaction = None
        for consumer in channel.consumers.values():
            self._end_consumer(consumer)
        copies = list(channel.outstanding.values())
        channel.outstanding.clear()
        channel.unsettled.clear()
        for copy in copies:
            self._requeue(copy)

    def _kill(self, channel: ModelChannel) -> None:
        """A channel exception: the broker closes the channel."""
        self._end_channel(channel)

    @staticmethod
    def _end_consumer(consumer: Consumer) -> None:
        if consumer in consumer.queue.consumers:
            consumer.queue.consumers.remove(consumer)

    # -- declarations ------------------------------------------------------------------------------------------------

    def _on_declare_exchange(self, channel: ModelChannel, operation: Operation) -> None:
        channel.replies.append(operation)

    def _on_bind_fixed(self, channel: ModelChannel, operation: Operation) -> None:
        channel.replies.append(operation)

    def committed(self, command: dict[str, Any], queue_id: int) -> None:
        """The broker has applied a metadata command: what it declares is there, and must be there after any crash."""
        if command["op"] == "queue.declare":
            spec = self.specs[command["name"]]
            if spec.name in self.live:
                raise Violation(f"queue '{spec.name}' is made a second time")
            self.live[spec.name] = Incarnation(spec, self.durable_turn, queue_id)
        elif command["op"] == "binding.add" and command["source"] == FAN:
            queue = self.live.get(command["destination"])
            if queue is not None:
                queue.bound_turn = self.durable_turn

    def _on_declare(self, channel: ModelChannel, operation: Operation) -> None:
        spec: QueueSpec = operation.spec
        queue = self.live.get(spec.name)
        if queue is None:
            if operation.passive:
                self._kill(channel)
                return
            if spec.is_durable:
                raise Violation(f"queue '{spec.name}' is declared, and its command was not committed")
            queue = self.live[spec.name] = Incarnation(spec, self.turn)
        operation.values["queue"] = queue
        operation.values["consumer_count"] = len(queue.consumers)
        channel.replies.append(operation)

    def _on_bind(self, channel: ModelChannel, operation: Operation) -> None:
        queue = self.live.get(operation.name)
        if queue is None:
            self._kill(channel)
            return
        if queue.bound_turn == NEVER:
            if queue.spec.is_durable:
                raise Violation(f"queue '{operation.name}' is bound, and the command was not committed")
            queue.bound_turn = self.turn
        channel.replies.append(operation)

    def _on_delete(self, channel: ModelChannel, operation: Operation) -> None:
        queue = self.live.pop(operation.name, None)
        channel.replies.append(operation)
        if queue is None:
            return
        queue.deleted_turn = self.turn
        self.past.append(queue)
        for consumer in list(queue.consumers):
            consumer.channel.consumers.pop(consumer.tag, None)
            self._end_consumer(consumer)

    def _on_purge(self, channel: ModelChannel, operation: Operation) -> None:
        queue = self.live.get(operation.name)
        if queue is None:
            self._kill(channel)
            return
        queue.purged_at = self._take_event()
        gone = [copy for copy in queue.copies.values() if copy.state == READY]
        self.purged.append(Purge(operation, queue, queue.purged_at, gone))
        for copy in gone:
            copy.may_have_letter = self.may_be_gone(copy)
            self._settle(copy, "purge")
        channel.replies.append(operation)

    # -- publishing --------------------------------------------------------------------------------------------------

    def _on_confirm_select(self, channel: ModelChannel, operation: Operation) -> None:
        channel.is_confirming = True
        channel.replies.append(operation)

    def _on_publish(self, channel: ModelChannel, operation: Operation) -> None:
        operation.values["queues"] = self._queues_of(operation)
        if channel.transaction is not None:
            channel.transaction.append(operation)
            return
        copies = self._route(operation)
        if channel.is_confirming:
            channel.published += 1
            channel.unconfirmed[channel.published] = Publish(operation.message, copies, self.turn)

    def _queues_of(self, operation: Operation) -> list[Incarnation]:
        """Where a message goes that is published now, if in a transaction."""
        exchange, key = operation.exchange, operation.key
        if exchange == FAN:
            return [queue for queue in self.live.values() if queue.bound_turn != NEVER]
        if exchange == LATER:
            return [self.live[DELAYED_QUEUE]]
        return [self.live[key]] if key in self.live else []

    def _route(self, operation: Operation) -> list[Copy]:
        """It is handed to those that are there still."""
        message: Published = operation.message
        queues = [queue for queue in operation.queues if self.live.get(queue.spec.name) is queue]
        message.must_return = operation.mandatory and not queues
        delay = operation.delay if operation.exchange == LATER else 0
        return [self._add(message, queue, delay) for queue in queues]

    def _add(self, message: Published, queue: Incarnation, delay: int = 0) -> Copy:
        spec = queue.spec
        levels = spec.max_priority
        copy = Copy(
            message,
            queue,
            self._next_place,
            0 if levels is None else min(message.priority, levels),
            spec.is_durable and message.is_persistent,
            self.turn,
            self.turn,
        )
        self._next_place += 1
        ttls = [ttl for ttl in (spec.ttl, message.ttl) if ttl is not None]
        if ttls:
            copy.expires_at = self.now + min(ttls)
        if delay:
            copy.state = DELAYED
            copy.due = self.now + delay
            copy.is_ordered = False
            copy.expires_at = copy.due + message.ttl if message.ttl is not None else 0
        if spec.name == DELAYED_QUEUE:
            copy.is_ordered = False
        if spec.rejects:
            copy.is_maybe = True
        queue.copies[message.number, ""] = copy
        return copy

    # -- settling ----------------------------------------------------------------------------------------------------

    def _on_ack(self, channel: ModelChannel, operation: Operation) -> None:
        if channel.transaction is not None:
            channel.transaction.append(operation)
            return
        for copy in self._take(channel, operation):
            self._settle(copy, "ack")

    def _on_nack(self, channel: ModelChannel, operation: Operation) -> None:
        if channel.transaction is not None:
            channel.transaction.append(operation)
            return
        for copy in self._take(channel, operation):
            if operation.requeue:
                self._requeue(copy)
            else:
                self._refuse(copy, "rejected")

    def _on_wrong_ack(self, channel: ModelChannel, operation: Operation) -> None:
        """An acknowledgement of a tag that is not outstanding."""
        self._kill(channel)

    def _take(self, channel: ModelChannel, operation: Operation) -> list[Copy]:
        tag = operation.tag
        tags = [each for each in channel.outstanding if each <= tag] if operation.multiple else [tag]
        return [self._release(channel, each) for each in tags]

    def _release(self, channel: ModelChannel, tag: int) -> Copy:
        copy = channel.outstanding.pop(tag)
        if copy.consumer is not None:
            copy.consumer.held -= 1
            channel.held -= 1
            copy.consumer = None
        return copy

    def _settle(self, copy: Copy, reason: str) -> None:
        copy.state = GONE
        copy.reason = reason
        # What is settled in a deleted queue is not written down, should the queue come back in a crash.
        copy.settled_turn = NEVER if copy.queue.is_deleted else self.turn
        if reason == "purge":
            self._in_slices.append((copy, None))

    def _refuse(self, copy: Copy, reason: str) -> None:
        self._settle(copy, reason)
        if copy.queue.spec.has_dead_letters:
            letter = self.add_letter(copy)
            letter.stored_turn = self.turn
            self._in_slices.append((copy, letter))

    def end_turn(self, has_work: bool) -> None:
        """The next turn begins. has_work: slices of some work are left. Letters are posted in slices, too, and what
        they come from is settled with them, and a purge settles in slices: how far they come is not known here."""
        if not has_work:
            self._in_slices = []
        for copy, letter in self._in_slices:
            if copy.state == GONE and copy.settled_turn == self.turn:
                copy.settled_turn += 1
            if letter is not None and letter.stored_turn == self.turn:
                letter.stored_turn += 1
        self.turn += 1

    def add_letter(self, copy: Copy, *, is_maybe: bool = False) -> Copy:
        """The message goes to the dead letter exchange, and so to the queue behind it."""
        letter = Copy(
            copy.message,
            self.live[LETTERS],
            self._next_place,
            0,
            copy.message.is_persistent,
            self.turn,
            self.turn,
            source=copy.queue.spec.name,
            is_ordered=False,
            is_maybe=is_maybe,
        )
        self._next_place += 1
        copy.has_letter = True
        self.live[LETTERS].copies[copy.message.number, letter.source] = letter
        return letter

    def _requeue(self, copy: Copy) -> None:
        copy.consumer = None
        if copy.queue.is_deleted:
            # It may have returned, and been pushed out, before its queue was deleted.
            copy.may_have_letter = self.may_be_gone(copy)
            copy.must_be_redelivered = True  # others may have got it in the turn of the deletion
            self._settle(copy, "queue deleted")
            return
        copy.returns += 1
        limit = copy.queue.spec.delivery_limit
        if limit is not None and copy.returns > limit:
            if copy.returns_are_known:
                self._refuse(copy, "delivery limit")
                return
            copy.is_maybe = True
        copy.state = READY
        copy.reason = ""
        copy.settled_turn = NEVER
        copy.ready_since = self.turn
        copy.must_be_redelivered = True

    # -- consuming ---------------------------------------------------------------------------------------------------

    def _on_consume(self, channel: ModelChannel, operation: Operation) -> None:
        queue = self.live.get(operation.name)
        if queue is None:
            self._kill(channel)
            return
        consumer = Consumer(operation.tag, channel, queue, operation.no_ack, channel.consumer_prefetch)
        queue.consumers.append(consumer)
        channel.consumers[consumer.tag] = consumer
        channel.client.consumers[consumer.tag] = consumer
        channel.replies.append(operation)

    def _on_cancel(self, channel: ModelChannel, operation: Operation) -> None:
        consumer = channel.consumers.pop(operation.tag, None)
        if consumer is not None:
            self._end_consumer(consumer)
        channel.replies.append(operation)

    def _on_qos(self, channel: ModelChannel, operation: Operation) -> None:
        if operation.is_global:
            channel.prefetch = operation.count
            channel.highest_prefetch = max(channel.highest_prefetch, operation.count or NEVER)
        else:
            channel.consumer_prefetch = operation.count
        channel.replies.append(operation)

    def _on_get(self, channel: ModelChannel, operation: Operation) -> None:
        queue = self.live.get(operation.name)
        if queue is None:
            self._kill(channel)
            return
        operation.values["queue"] = queue
        channel.replies.append(operation)

    # -- transactions ------------------------------------------------------------------------------------------------

    def _on_tx_select(self, channel: ModelChannel, operation: Operation) -> None:
        channel.transaction = []
        channel.replies.append(operation)

    def _on_tx_commit(self, channel: ModelChannel, operation: Operation) -> None:
        work = channel.transaction or []
        channel.transaction = None
        copies: list[Copy] = []
        for each in work:
            if each.kind == "publish":
                copies += self._route(each)
        for each in work:
            if each.kind != "publish":
                self.apply(each)
        channel.transaction = []
        operation.values["copies"] = copies
        channel.replies.append(operation)

    def _on_tx_rollback(self, channel: ModelChannel, operation: Operation) -> None:
        waiting = operation.client.operations
        sent = [each for each in waiting if each.channel is channel and each.kind in ("ack", "nack")]
        for each in channel.transaction or []:
            if each.kind != "publish":
                for tag in channel.outstanding:
                    # The client may have settled it again meanwhile.
                    if _covers(each, tag) and not any(_covers(later, tag) for later in sent):
                        channel.unsettled[tag] = None
        channel.transaction = []
        channel.replies.append(operation)

    # -- what may be ---------------------------------------------------------------------------------------------------

    def may_be_gone(self, copy: Copy) -> bool:
        """Whether a ready copy may have left its queue without the model having seen it."""
        if copy.is_maybe or copy.queue.spec.drops_head:
            return True
        return copy.expires_at != 0 and copy.expires_at <= self.latest_now

    def is_surely_ready(self, copy: Copy) -> bool:
        """Whether the copy was ready before this turn, and still is if nothing of this turn has taken it."""
        return copy.state == READY and copy.ready_since < self.turn and not self.may_be_gone(copy)

    # -- crashes -----------------------------------------------------------------------------------------------------

    def recover(self, found: dict[str, tuple[int, bool]], in_doubt: list[str]) -> None:
        """After a restart. `found`: for each queue that there is, its id and whether it is bound to the fanout.
        in_doubt: queues whose declarations were on their way."""
        known = [*self.live.values(), *self.past]
        for queue in known:
            is_safe = queue.spec.is_durable and queue.declared_turn <= self.durable_turn and not queue.is_deleted
            if is_safe and found.get(queue.spec.name, (0, False))[0] != queue.queue_id:
                raise Violation(
                    f"queue '{queue.spec.name}' ({queue.queue_id}), declared in the durable turn "
                    f"{queue.declared_turn}, is not there after the restart: {found}"
                )
        self.live = {}
        self.past = []
        self._in_slices = []
        for name, (queue_id, is_bound) in found.items():
            same = [queue for queue in known if queue.spec.name == name and queue.queue_id == queue_id]
            if not same and name in in_doubt:
                same = [Incarnation(self.specs[name], self.turn, queue_id)]
            if len(same) != 1 or not same[0].spec.is_durable:
                raise Violation(f"queue '{name}' ({queue_id}) is there after the restart: nobody declared it")
            queue = same[0]
            if queue.deleted_turn <= self.durable_turn:
                raise Violation(f"queue '{name}' ({queue_id}) is back: it was deleted in turn {queue.deleted_turn}")
            if queue.bound_turn <= self.durable_turn and not is_bound:
                raise Violation(f"queue '{name}' ({queue_id}) has lost its binding of turn {queue.bound_turn}")
            self._revive(queue, is_bound)
            self.live[name] = queue
        self.buried += [queue for queue in known if self.live.get(queue.spec.name) is not queue]
        # What was read is durable now.
        self.durable_turn = self.turn
        self.turn += 1

    def _revive(self, queue: Incarnation, is_bound: bool) -> None:
        queue.deleted_turn = NEVER
        queue.declared_turn = self.turn
        queue.bound_turn = self.turn if is_bound else NEVER
        queue.consumers = []
        kept = {}
        for key, copy in queue.copies.items():
            if not copy.is_durable:
                continue
            if copy.reason == "refused" or copy.settled_turn <= self.durable_turn:
                if queue.spec.has_dead_letters:
                    kept[key] = copy
                continue
            if copy.stored_turn > self.durable_turn or copy.state == GONE:
                copy.is_maybe = True
            copy.stored_turn = self.turn
            copy.settled_turn = NEVER
            copy.reason = ""
            if copy.state != DELAYED:
                copy.state = READY
            copy.ready_since = self.turn
            copy.consumer = None
            copy.must_be_redelivered = None if copy.was_delivered else False
            copy.returns_are_known = False
            kept[key] = copy
        queue.copies = kept

    def final_losses(self) -> list[str]:
        """After everything was drained: what should have been delivered and was not."""
        losses = []
        for queue in self.live.values():
            for copy in queue.copies.values():
                if copy.state == GONE or copy.is_maybe:
                    continue
                if copy.state == HELD:
                    losses.append(f"{copy} is still held")
                elif not self.may_be_gone(copy):
                    losses.append(f"{copy} is lost")
                elif copy.is_durable and queue.spec.has_dead_letters and not copy.has_letter:
                    losses.append(f"{copy} is lost: neither delivered nor dead-lettered")
        return losses
