"""A whole queue type: "last-value" keeps the last message only, for who asks for a price now and then.

It is stored under its id in the node's journal, where recovery and `inspect` find it. Run as a program, this file is
the command `amqp-broker` with one type more in its register.
"""

from __future__ import annotations

import sys
from typing import Any

from amqp_broker.errors import precondition_failed
from amqp_broker.queue_types.contract.policy_keys import PolicyKey, at_least, keys
from amqp_broker.queue_types.contract.queue_type import QueueType
from queues.arguments import QueueArguments, WrongArgument, read_integer, with_policy
from queues.message import Entry, Message, make_entry
from queues.outcomes import PublishOutcome
from queues.peeking import PeekSteps, PeekWish, peeked
from queues.queue import Done, Fetched, Queue, Tallied
from queues.write_group import WriteGroup
from tests.queue_types.registering import register


class _OneByOne(WriteGroup):
    def publish(self, message: Message, queues: list[Any], receipt: Any, is_again: bool, now: int) -> int:
        return max(queue.publish(message, receipt, is_again, now) for queue in queues)


class LastValue(Queue):
    """last: the message that waits. replaced: how many made room for a newer one. The rest is what the store wants."""

    def __init__(self, declaration: Any, queue_id: int, settings: QueueArguments, store: Any) -> None:
        super().__init__(declaration.name, queue_id, declaration.is_durable, _OneByOne())
        self.settings, self.store = settings, store
        self.last: Entry | None = None
        self.held: dict[int, Entry] = {}
        self.consumers: list[Any] = []
        self.settled: list[int] = []
        self.next_sequence, self.last_segment, self.replaced = 1, 0, 0

    def publish(self, message: Message, receipt: Any, is_again: bool, now: int) -> int:
        ttl = self.settings.message_ttl
        entry = make_entry(message, self.next_sequence, 0 if ttl is None else now + ttl, 0)
        self.next_sequence += 1
        if message.is_persistent and self.is_durable:
            self._write(entry)
        self.keep(entry)
        self.dispatch(now)
        return PublishOutcome.STORED if entry.journal_segment else PublishOutcome.TAKEN

    def _write(self, entry: Entry) -> None:
        entry.journal_segment = self.store.segment(self)
        self.store.append_message(entry.message, self.queue_id, entry.sequence, entry.expires_at, 0)

    def keep(self, entry: Entry) -> None:
        """The newer one waits: this one, or the one that waited."""
        last = self.last
        if last is not None:
            self.replaced += 1
            self._forget(min(last, entry, key=lambda each: each.sequence))
        self.last = entry if last is None else max(last, entry, key=lambda each: each.sequence)

    def _forget(self, entry: Entry) -> None:
        if entry.journal_segment:
            if not self.settled:
                self.store.settling(self)
            self.settled.append(entry.sequence)

    def leave_segment(self, segment: int) -> bool:
        for entry in [*self.held.values(), *filter(None, [self.last])]:
            if 0 < entry.journal_segment <= segment:
                self._write(entry)
        return False

    def _take(self, now: int) -> Entry | None:
        entry, self.last = self.last, None
        if entry is not None and 0 < entry.expires_at <= now:
            self._forget(entry)
            return None
        return entry

    def dispatch(self, now: int) -> int:
        consumer = next((each for each in self.consumers if each.has_credit()), None)
        entry = self._take(now) if consumer is not None else None
        if consumer is not None and entry is not None:
            if consumer.no_ack:
                self._forget(entry)
                consumer.deliver_at_once(entry.message, entry.is_redelivered)
            else:
                self._hand_over(entry, consumer)
                consumer.deliver(entry)
        return 0

    def _hand_over(self, entry: Entry, consumer: Any) -> None:
        entry.consumer = consumer
        self.held[entry.sequence] = entry

    def fetch(self, getter: Any, now: int, then: Fetched) -> None:
        entry = self._take(now)
        if entry is not None:
            self._hand_over(entry, getter)
        then(None, entry, 0)

    def admit(self, consumer: Any, then: Done) -> None:
        consumer.queue, self.had_consumers = self, True
        self.consumers.append(consumer)
        then(None)

    def cancel(self, consumer: Any, gives_back: bool, now: int) -> None:
        self.consumers.remove(consumer)

    def credit_returned(self, consumer: Any) -> int:
        consumer.is_waiting = True
        return 0

    def ack(self, delivery: Any) -> int:
        self._forget(self.held.pop(delivery.sequence))
        return 0

    def reject(self, delivery: Any, now: int) -> int:
        return self.ack(delivery)

    def put_back(self, deliveries: list[Any], now: int) -> int:
        for entry in deliveries:
            entry.is_redelivered = True
        self.take_back(deliveries, now)
        return 0

    def take_back(self, deliveries: list[Any], now: int) -> None:
        for entry in deliveries:
            self.keep(self.held.pop(entry.sequence))

    def clear(self, then: Tallied) -> None:
        entry = self._take(0)
        if entry is not None:
            self._forget(entry)
        then(None, int(entry is not None))

    def message_count(self) -> int:
        return int(self.last is not None)

    def unacked_count(self) -> int:
        return len(self.held)

    def leased_count(self) -> int:
        return 0

    def consumer_count(self) -> int:
        return len(self.consumers)

    def attached(self) -> list[Any]:
        return self.consumers

    def peek(self, wish: PeekWish) -> PeekSteps:
        at = wish.start
        while (last := self.last) and (last.sequence <= at if wish.is_backwards else last.sequence >= at):
            yield peeked(last, wish)
            at = last.sequence + (-1 if wish.is_backwards else 1)

    def delete(self) -> int:
        self.is_deleted = True
        for consumer in self.consumers:
            consumer.on_queue_gone()
        return self.message_count()


class LastValueType(QueueType):
    """What there is to say of the type."""

    name = "last-value"
    policy_kind = "last_value_queues"
    policy_keys = {**keys("message-ttl"), "history": PolicyKey(at_least(1), example=2)}  # noqa: RUF012
    arguments = {"x-history": 2}  # noqa: RUF012
    own_arguments = ("x-history",)
    own_columns = ("replaced",)
    inspected_as = name

    @classmethod
    def check(cls, declared: Any) -> None:
        if not declared.name:
            raise precondition_failed("a last-value queue has a name")

    @classmethod
    def read(cls, arguments: Any) -> QueueArguments:
        if "x-max-length" in arguments:
            raise WrongArgument("x-max-length", cls.name)
        if "x-history" in arguments:
            read_integer("x-history", arguments["x-history"], 1, None)
        return QueueArguments()

    def _settings(self, declaration: Any) -> QueueArguments:
        policy, operator = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
        self.read(declaration.arguments)
        return with_policy({}, policy or {}, operator)

    def create(self, declaration: Any, queue_id: int, home: str, now: int) -> Queue:
        return LastValue(declaration, queue_id, self._settings(declaration), self._host.store)

    def recovered_ids(self, records: Any) -> list[int]:
        return [record.queue_id for record in records]

    def restore(self, queue: Any, now: int) -> None:
        recovered = self._host.recovery.queues.get(queue.queue_id)
        if recovered is not None:
            queue.next_sequence = recovered.next_sequence
            for entry in recovered.items:
                queue.store.touch(entry.journal_segment, queue)
                queue.keep(entry)

    def policies_changed(self, queue: Any, now: int) -> None:
        queue.settings = self._settings(queue.declaration)

    @classmethod
    def figures(cls, queue: Any) -> dict[str, Any]:
        return {"replaced": queue.replaced}


if __name__ == "__main__":
    from amqp_broker.cli.main import main

    with register(LastValueType):
        sys.exit(main())
