"""Observer: holds what the broker says against the model.

Answers and deliveries of a turn are collected and judged at the turn's end, when all of them have been seen: which of
two connections' deliveries came first cannot be seen from outside, and must not matter.
"""

from __future__ import annotations

from typing import Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table, join_table, split_table
from amqp_broker.protocol.properties import decode_properties, replace_properties
from tests.simulation.client import Event
from tests.simulation.model import Model
from tests.simulation.settings import LETTERS
from tests.simulation.state import (
    DELAYED,
    GONE,
    HELD,
    NEVER,
    READY,
    Consumer,
    Copy,
    Delivery,
    Incarnation,
    ModelChannel,
    Purge,
    Violation,
)

#: Which method answers which operation.
_ANSWERS: dict[type[Any], tuple[str, ...]] = {
    methods.ChannelOpenOk: ("open_channel",),
    methods.ChannelCloseOk: ("close_channel",),
    methods.ExchangeDeclareOk: ("declare_exchange",),
    methods.QueueDeclareOk: ("declare",),
    methods.QueueBindOk: ("bind", "bind_fixed"),
    methods.QueueDeleteOk: ("delete",),
    methods.QueuePurgeOk: ("purge",),
    methods.ConfirmSelectOk: ("confirm_select",),
    methods.BasicConsumeOk: ("consume",),
    methods.BasicCancelOk: ("cancel",),
    methods.BasicQosOk: ("qos",),
    methods.BasicGetOk: ("get",),
    methods.BasicGetEmpty: ("get",),
    methods.TxSelectOk: ("tx_select",),
    methods.TxCommitOk: ("tx_commit",),
    methods.TxRollbackOk: ("tx_rollback",),
}


def message_number(body: bytes) -> int:
    """The number that a simulated message begins with."""
    return int(body.partition(b":")[0])


class Observer:
    """Everything that clients see passes through here."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.statistics = {"deliveries": 0, "confirms": 0, "letters": 0, "answers": 0, "nacks": 0}
        self._forget_turn()

    def _forget_turn(self) -> None:
        self._deliveries: list[Delivery] = []
        self._confirms: list[tuple[ModelChannel, int, bool, bool]] = []
        self._answers: list[tuple[Any, Any]] = []
        self._start_now = self.model.now

    # -- events ------------------------------------------------------------------------------------------------------

    def observe(self, client: Any, event: Event) -> None:
        """One method of the broker's on a channel."""
        channel: ModelChannel = client.channels[event.channel_id]
        method = event.method
        if isinstance(method, methods.BasicDeliver):
            consumer: Consumer = client.consumers[method.consumer_tag]
            if consumer.is_over:
                raise Violation(f"delivery to consumer '{consumer.tag}' after its cancel-ok")
            self._note_delivery(channel, consumer, consumer.queue, consumer.no_ack, event)
        elif isinstance(method, (methods.BasicAck, methods.BasicNack)):
            is_nack = isinstance(method, methods.BasicNack)
            self._confirms.append((channel, method.delivery_tag, method.multiple, is_nack))
        elif isinstance(method, methods.BasicReturn):
            channel.returned.append(message_number(event.body))
        elif isinstance(method, methods.BasicCancel):
            consumer = client.consumers[method.consumer_tag]
            if not consumer.queue.is_deleted:
                raise Violation(f"consumer '{consumer.tag}' was cancelled, but its queue is there")
            channel.client_consumers.pop(consumer.tag, None)
            consumer.is_over = True
        elif isinstance(method, methods.ChannelClose):
            if not channel.is_dead:
                raise Violation(f"unexpected channel.close: {method.reply_code} {method.reply_text}")
            channel.is_closed = True
        else:
            self._note_answer(channel, event)

    def _note_answer(self, channel: ModelChannel, event: Event) -> None:
        method = event.method
        self.statistics["answers"] += 1
        if isinstance(method, methods.ChannelCloseOk) and channel.is_leaving and channel.is_closed:
            return  # its close has crossed the broker's
        if not channel.replies:
            raise Violation(f"{method.name} on channel {channel.number} answers nothing")
        operation = channel.replies.popleft()
        if operation.kind not in _ANSWERS[type(method)]:
            raise Violation(f"{method.name} on channel {channel.number} where {operation.kind} was asked")
        if isinstance(method, methods.BasicGetOk):
            self._note_delivery(channel, None, operation.queue, operation.no_ack, event)
        elif isinstance(method, methods.BasicCancelOk):
            if operation.tag in channel.client.consumers:
                channel.client.consumers[operation.tag].is_over = True
        elif isinstance(method, methods.ChannelCloseOk):
            channel.is_closed = True
        if isinstance(method, (methods.QueueDeclareOk, methods.QueueDeleteOk, methods.QueueBindOk)):
            self._check_declared(operation, method)
        self._answers.append((operation, method))

    def _check_declared(self, operation: Any, method: Any) -> None:
        """A change that has to survive is answered when it does."""
        if operation.kind == "bind_fixed" or operation.kind == "delete":
            return
        queue = operation.values.get("queue") or self.model.live.get(operation.values.get("name", ""))
        if queue is None or not queue.spec.is_durable:
            return
        turn = queue.declared_turn if operation.kind == "declare" else queue.bound_turn
        if turn == operation.turn and turn > self.model.durable_turn and not queue.is_deleted:
            raise Violation(f"{method.name} for '{queue.spec.name}' came before its sync")

    def _note_delivery(
        self, channel: ModelChannel, consumer: Consumer | None, queue: Incarnation, no_ack: bool, event: Event
    ) -> None:
        self.statistics["deliveries"] += 1
        method = event.method
        if method.delivery_tag != channel.next_tag:
            raise Violation(f"delivery tag {method.delivery_tag} on channel {channel.number}, not {channel.next_tag}")
        channel.next_tag += 1
        source = ""
        if queue.spec.name == LETTERS:
            headers = decode_properties(event.properties).headers
            deaths = headers.get("x-death") if headers is not None else None
            if not isinstance(deaths, list) or not deaths:
                raise Violation(f"a dead letter without x-death: {headers}")
            source = deaths[0]["queue"]
        self._deliveries.append(
            Delivery(
                channel,
                consumer,
                queue,
                no_ack,
                message_number(event.body),
                source,
                method.redelivered,
                event.properties,
                event.body,
                method.delivery_tag,
            )
        )

    # -- the end of a turn -------------------------------------------------------------------------------------------

    def end_turn(self, has_work: bool) -> None:
        """Judge what this turn has brought; the next one begins. has_work: see Model.end_turn."""
        model = self.model
        for delivery in self._deliveries:
            if delivery.channel.is_dead:
                self._deliver(delivery)
        for delivery in self._deliveries:
            if not delivery.channel.is_dead:
                self._deliver(delivery)
        self._check_order()
        self._check_prefetch()
        for channel, tag, multiple, is_nack in self._confirms:
            self._confirm(channel, tag, multiple, is_nack)
        for operation, method in self._answers:
            self._check_answer(operation, method)
        model.purged = []
        model.end_turn(has_work)
        self._forget_turn()

    def _deliver(self, delivery: Delivery) -> None:
        model = self.model
        queue = delivery.queue
        copy = queue.copies.get((delivery.number, delivery.source))
        if copy is None:
            copy = self._unseen_letter(delivery)
        delivery.copy = copy
        self._check_copy(copy, delivery)
        self._check_contents(copy, delivery)
        copy.was_delivered = True
        if copy.source and copy.is_maybe:
            copy.stored_turn = model.turn  # it may have been pushed out again, and just now
        copy.is_maybe = False
        channel, consumer = delivery.channel, delivery.consumer
        if delivery.no_ack:
            model._settle(copy, "no_ack")
        elif channel.is_dead:
            if copy.state != HELD:
                was_purged = copy.state == GONE
                copy.state = HELD
                model._requeue(copy)
                if was_purged and copy.state == READY and channel.ended_at < queue.purged_at:
                    model._settle(copy, "purge")  # it was back before; else it was held, and the purge has spared it
        else:
            copy.state = HELD
            copy.settled_turn = NEVER
            channel.outstanding[delivery.tag] = copy
            channel.unsettled[delivery.tag] = None
            if consumer is not None:
                copy.consumer = consumer
                consumer.held += 1
                channel.held += 1

    def _unseen_letter(self, delivery: Delivery) -> Copy:
        """A letter of a message that expired or was pushed out, which could not be seen."""
        model = self.model
        if delivery.queue.spec.name == LETTERS:
            for queue in [*model.live.values(), *model.past, *model.buried]:
                copy = queue.copies.get((delivery.number, ""))
                if queue.spec.name != delivery.source or copy is None:
                    continue
                may_have = copy.may_have_letter or copy.is_maybe or copy.reason == "refused"
                if not may_have and not (copy.state == READY and model.may_be_gone(copy)):
                    raise Violation(f"a dead letter of {copy}, which its queue had not given up")
                if copy.state == READY:
                    model._settle(copy, "dead-lettered unseen")
                self.statistics["letters"] += 1
                return model.add_letter(copy)
        raise Violation(
            f"message {delivery.number} came from '{delivery.queue.spec.name}' {delivery.source}, where it was never "
            "routed or had long been settled"
        )

    def _check_copy(self, copy: Copy, delivery: Delivery) -> None:
        model = self.model
        if copy.state == HELD:
            raise Violation(f"{copy} is delivered again while it is held")
        is_just_gone = (copy.settled_turn == model.turn and copy.reason == "purge") or (
            copy.queue.deleted_turn == model.turn
        )
        if copy.state == GONE and not is_just_gone:
            raise Violation(f"{copy} is delivered although it was settled")
        if copy.queue.deleted_turn < model.turn:
            raise Violation(f"{copy} is delivered although its queue is deleted")
        if copy.state == DELAYED and copy.due > model.latest_now:
            raise Violation(f"{copy} is delivered at {model.now} although it is due at {copy.due}")
        if copy.is_ordered and copy.expires_at and copy.expires_at <= self._start_now and copy.ready_since < model.turn:
            raise Violation(f"{copy} is delivered after {self._start_now}, it expired at {copy.expires_at}")
        wanted = copy.must_be_redelivered
        if wanted is not None and wanted != delivery.is_redelivered and not delivery.channel.is_dead:
            raise Violation(f"{copy} is delivered with redelivered={delivery.is_redelivered}")

    @staticmethod
    def _check_contents(copy: Copy, delivery: Delivery) -> None:
        if delivery.body != copy.message.body:
            raise Violation(f"{copy} is delivered with another body ({len(delivery.body)} octets)")
        properties = delivery.properties
        if copy.queue.spec.delivery_limit is not None and delivery.is_redelivered:
            properties, count = _without_count(properties)
            if copy.returns_are_known and not delivery.channel.is_dead and count != copy.returns:
                raise Violation(f"{copy} is delivered with x-delivery-count {count}, it came back {copy.returns} times")
        if not copy.source and properties != (copy.message.released or copy.message.properties):
            raise Violation(f"{copy} is delivered with other properties")

    def _check_order(self) -> None:
        """Nothing that was ready before is passed over; within one connection, places rise."""
        model = self.model
        latest: dict[int, tuple[Incarnation, dict[int, Copy]]] = {}
        by_client: dict[tuple[int, int, int], Copy] = {}
        for delivery in self._deliveries:
            copy = delivery.copy
            assert copy is not None
            if not copy.is_ordered or delivery.channel.is_dead:
                continue
            queue = delivery.queue
            levels = latest.setdefault(id(queue), (queue, {}))[1]
            if copy.level not in levels or levels[copy.level].place < copy.place:
                levels[copy.level] = copy
            key = (id(delivery.channel.client), id(queue), copy.level)
            before = by_client.get(key)
            if before is not None and before.place > copy.place and copy.ready_since < model.turn:
                raise Violation(f"{copy} is delivered after {before}")
            by_client[key] = copy
        for queue, levels in latest.values():
            for other in queue.copies.values():
                if not other.is_ordered or not model.is_surely_ready(other):
                    continue
                for level, copy in levels.items():
                    if other.level > level or (other.level == level and other.place < copy.place):
                        raise Violation(f"{copy} is delivered while {other} waits before it")

    def _check_prefetch(self) -> None:
        for delivery in self._deliveries:
            channel, consumer = delivery.channel, delivery.consumer
            if consumer is None or consumer.no_ack or channel.is_dead:
                continue
            if consumer.prefetch and consumer.held > consumer.prefetch:
                raise Violation(f"consumer '{consumer.tag}' holds {consumer.held}, its prefetch is {consumer.prefetch}")
            if channel.held > channel.highest_prefetch:
                raise Violation(f"channel {channel.number} holds {channel.held}, its prefetch is {channel.prefetch}")
        for operation, method in self._answers:
            if isinstance(method, methods.BasicQosOk):
                operation.channel.highest_prefetch = operation.channel.prefetch or NEVER

    # -- confirms ----------------------------------------------------------------------------------------------------

    def _confirm(self, channel: ModelChannel, tag: int, multiple: bool, is_nack: bool) -> None:
        if tag not in channel.unconfirmed:
            raise Violation(f"confirm of {tag} on channel {channel.number}, which was not published or was confirmed")
        tags = [each for each in channel.unconfirmed if each <= tag] if multiple else [tag]
        if min(channel.unconfirmed) != tags[0]:
            raise Violation(f"confirm of {tags[0]} on channel {channel.number} before that of those before it")
        for each in tags:
            publish = channel.unconfirmed.pop(each)
            if is_nack:
                self.statistics["nacks"] += 1
                self._nack(publish)
                continue
            self.statistics["confirms"] += 1
            if publish.message.must_return and publish.message.number not in channel.returned:
                raise Violation(f"message {publish.message.number} is confirmed, but was not returned")
            for copy in publish.copies:
                self._check_synced(copy, "a confirm")
                if copy.queue.spec.rejects and copy.state == READY and copy.is_maybe and copy.returns_are_known:
                    copy.is_maybe = False

    def _nack(self, publish: Any) -> None:
        refusing = [copy for copy in publish.copies if copy.queue.spec.rejects]
        if not refusing:
            raise Violation(f"message {publish.message.number} is refused, but none of its queues may refuse")
        for copy in refusing:
            if copy.was_delivered:
                raise Violation(f"{copy} was delivered, and then refused")
            copy.state = GONE
            copy.reason = "refused"
            if copy.queue.spec.has_dead_letters and not copy.has_letter:
                self.model.add_letter(copy).stored_turn = publish.turn

    def _check_synced(self, copy: Copy, what: str) -> None:
        if copy.is_durable and copy.stored_turn > self.model.durable_turn and copy.reason != "no_ack":
            raise Violation(f"{what} for {copy} came before its sync (turn {self.model.durable_turn} is durable)")

    # -- answers -----------------------------------------------------------------------------------------------------

    def _check_answer(self, operation: Any, method: Any) -> None:
        model = self.model
        if isinstance(method, methods.TxCommitOk):
            for copy in operation.copies:
                if not copy.is_maybe:
                    self._check_synced(copy, "tx.commit-ok")
        if operation.turn != model.turn:
            return
        if isinstance(method, methods.QueueDeclareOk):
            low, high = self._bounds(operation.queue)
            if operation.queue.spec.name == LETTERS:
                high = method.message_count  # letters of what expired or was pushed out cannot be foreseen
            if not low <= method.message_count <= high:
                raise Violation(
                    f"declare-ok for '{operation.queue.spec.name}' counts {method.message_count} messages; "
                    f"there are {low} to {high}"
                )
            if method.consumer_count != operation.consumer_count:
                raise Violation(f"declare-ok counts {method.consumer_count} consumers, not {operation.consumer_count}")
        elif isinstance(method, methods.BasicGetEmpty):
            left = [copy for copy in operation.queue.copies.values() if model.is_surely_ready(copy)]
            if left:
                raise Violation(f"get-empty, but there is {left[0]}")
        elif isinstance(method, methods.QueuePurgeOk):
            for purge in model.purged:
                if purge.operation is operation and method.message_count > (most := self._most_of(purge)):
                    raise Violation(f"purge-ok counts {method.message_count} messages, there were {most}")

    def _most_of(self, purge: Purge) -> int:
        """How many messages a purge may have found: those that the model had then, and those that a channel had got in
        this turn and gave back before. An earlier purge has spared them, though the model took them for gone."""
        returned = {
            id(delivery.copy): delivery
            for delivery in self._deliveries
            if delivery.queue is purge.queue
            and delivery.channel.is_dead
            and delivery.channel.ended_at < purge.at
            and delivery.copy not in purge.gone
        }
        return len(purge.gone) + len(returned)

    def _bounds(self, queue: Incarnation) -> tuple[int, int]:
        """How many messages may have been ready in the queue at some moment of this turn."""
        model = self.model
        low = high = 0
        for copy in queue.copies.values():
            if model.is_surely_ready(copy):
                low += 1
                high += 1
            elif copy.state in (READY, DELAYED) or model.turn <= copy.settled_turn < NEVER:
                high += 1
        high += sum(1 for delivery in self._deliveries if delivery.queue is queue)
        return low, high

    def check_nobody_starves(self) -> None:
        """After a turn: while a message is ready, no consumer has credit (ClassicQueue, invariant 1)."""
        model = self.model
        for queue in model.live.values():
            for consumer in queue.consumers:
                if not self._has_credit(consumer):
                    continue
                for copy in queue.copies.values():
                    if copy.is_ordered and model.is_surely_ready(copy):
                        raise Violation(f"{copy} waits, but consumer '{consumer.tag}' has credit")

    @staticmethod
    def _has_credit(consumer: Consumer) -> bool:
        channel = consumer.channel
        transport = channel.client.transport
        if channel.is_dead or transport is None or not transport.is_writable or transport.is_starved:
            return False
        if channel.prefetch and channel.held >= channel.prefetch:
            return False
        return consumer.no_ack or not consumer.prefetch or consumer.held < consumer.prefetch


def _without_count(properties: bytes) -> tuple[bytes, object]:
    """A property section without the header x-delivery-count, and the value of that."""
    headers = decode_properties(properties).headers
    if headers is None or "x-delivery-count" not in headers:
        return properties, None
    kept = [(key, value) for key, value in split_table(headers.raw) if key != "x-delivery-count"]
    table = Table({}, join_table(kept)) if kept else None
    return replace_properties(properties, headers=table), headers["x-delivery-count"]
