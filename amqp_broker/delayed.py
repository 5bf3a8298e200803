"""DelayedMessages: what an x-delayed-message exchange holds back until it is due (header x-delay, milliseconds).

Persistent messages of a durable exchange are in the journal, like those of a queue, under an id of the exchange's own;
the due time takes the place of the expiry.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from amqp_broker.message_facts import MessageFacts, copy_keys
from amqp_broker.receipts import JointReceipt, Receipt
from exchanges.delayed import delay_of
from exchanges.router import UnknownExchange
from queues.message import Entry, Message, make_entry
from queues.quorum.effects import Refusal
from queues.recovery import RecoveredQueue

if TYPE_CHECKING:
    from amqp_broker.broker import Broker
    from amqp_broker.vhost import VHost

#: A message whose queue was cut off is published again after so long, milliseconds.
_AGAIN_MS = 1000


class DelayedMessages:
    """The messages that one exchange holds back."""

    def __init__(self, broker: Broker, vhost: VHost, exchange: str, queue_id: int, is_durable: bool) -> None:
        self.queue_id = queue_id
        self.is_durable = is_durable
        self.is_deleted = False
        self.next_sequence = 1
        self.last_segment = 0
        self.settled: list[int] = []
        self._broker = broker
        self._vhost = vhost
        self._exchange = exchange
        self._due: list[tuple[int, int, Entry]] = []
        # Published to queues whose log is elsewhere, which have not said yet that they have it.
        self._under_way: dict[int, Entry] = {}
        self._timer_at = 0

    def __len__(self) -> int:
        return len(self._due) + len(self._under_way)

    def add(self, message: Message, now: int, receipt: Receipt | None = None) -> bool:
        """Hold a message back as its header says. Returns whether it was written to the journal."""
        due = now + delay_of(MessageFacts(message).headers)
        segment = 0
        store = self._broker.store
        if self.is_durable and message.is_persistent:
            segment = store.segment(self)
            store.append_message(message, self.queue_id, self.next_sequence, due, 0)
        self._hold(make_entry(message, self.next_sequence, due, segment))
        self.next_sequence += 1
        return segment != 0

    def _hold(self, entry: Entry) -> None:
        store = self._broker.store
        store.pager.used += entry.message.size
        heapq.heappush(self._due, (entry.expires_at, entry.sequence, entry))
        self._watch()

    def _watch(self) -> None:
        if self._due and (self._timer_at == 0 or self._due[0][0] < self._timer_at):
            self._timer_at = self._due[0][0]
            self._broker.timers.at(self._timer_at, self._release)

    def _release(self, now: int) -> None:
        """Route what is due, in the order in which it is due."""
        if self._timer_at > now or self.is_deleted:
            return
        self._timer_at = 0
        while self._due and self._due[0][0] <= now:
            entry = heapq.heappop(self._due)[2]
            self._publish(entry, now)
        self._broker.dead_letters.run(now)
        self._watch()

    def _publish(self, entry: Entry, now: int) -> None:
        receipt = JointReceipt()
        self._under_way[entry.sequence] = entry
        self._route(entry.message, now, receipt)
        receipt.seal(lambda refusals: self._published(entry, refusals))

    def _published(self, entry: Entry, refusals: list[Refusal]) -> None:
        """All of its queues have it, or have refused it."""
        del self._under_way[entry.sequence]
        if Refusal.UNKNOWN not in refusals or self.is_deleted:
            self._settle(entry)
            return
        # Its way was cut off. Queues that have it get it again: better twice than never.
        entry.expires_at = self._broker.now + _AGAIN_MS
        heapq.heappush(self._due, (entry.expires_at, entry.sequence, entry))
        self._watch()

    def _route(self, message: Message, now: int, receipt: Receipt) -> None:
        facts = MessageFacts(message)
        routing_keys = [message.address.routing_key, *copy_keys(facts)]
        try:
            route = self._vhost.router.route(self._exchange, routing_keys, facts, follow_delayed=True)
        except UnknownExchange:
            return
        queues = [self._vhost.queues[name] for name in route.queues if name in self._vhost.queues]
        if queues:
            self._vhost.publish(message, queues, now, receipt)

    def _settle(self, entry: Entry) -> None:
        store = self._broker.store
        store.pager.used -= entry.message.size
        if entry.journal_segment:
            if not self.settled:
                store.settling(self)
            self.settled.append(entry.sequence)

    def restore(self, recovered: RecoveredQueue | None, now: int) -> None:
        """Take over what was found in the journal."""
        if recovered is None:
            return
        self.next_sequence = max(self.next_sequence, recovered.next_sequence)
        for item in recovered.items:
            if isinstance(item, Entry):
                self._broker.store.touch(item.journal_segment, self)
                self._hold(item)

    def leave_segment(self, segment: int) -> None:
        """Write again what relies on a journal segment up to `segment`."""
        store = self._broker.store
        for entry in (*[each for _, _, each in self._due], *self._under_way.values()):
            if 0 < entry.journal_segment <= segment:
                entry.journal_segment = store.segment(self)
                store.append_message(entry.message, self.queue_id, entry.sequence, entry.expires_at, 0)

    def delete(self) -> None:
        """The exchange is gone, and so is what it held."""
        for _, _, entry in self._due:
            self._settle(entry)
        self._due = []
        # Now: an exchange that is declared with this name in this turn has the same id and counts from 1 again.
        self._broker.store.end_turn()
        self.is_deleted = True
