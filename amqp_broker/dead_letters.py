"""DeadLetters: messages that queues give up go to the dead letter exchange, with RabbitMQ's x-death headers.

A classic queue posts them in slices (queues/letters.py), and settles what it posts in the same turn, so the journal has
the new place of a message in the same batch as the settlement of the old one. Where the new place is a queue of another
node, the old one is settled when that has confirmed: a letter gets there at least once. A node alone has the log of a
quorum queue in the same journal, and does not wait.

Those of quorum queues come through `publish`, with a receipt (proxies/letter_carrier.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from amqp_broker.deaths import Deaths, past_deaths
from amqp_broker.message_facts import MessageFacts
from amqp_broker.receipts import JointReceipt, Receipt
from exchanges.router import UnknownExchange
from queues.classic import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from queues.letters import MOST_NOTED, UNDER_WAY
from queues.message import Entry, Message
from queues.queue import Queue
from queues.quorum.effects import Refusal

if TYPE_CHECKING:
    from amqp_broker.broker import Broker

log = logging.getLogger("amqp_broker")

#: So many letters of all queues may wait before publishers wait too.
_MOST_WAITING = MOST_NOTED

_REASONS = {REJECTED: "rejected", EXPIRED: "expired", MAXLEN: "maxlen", DELIVERY_LIMIT: "delivery_limit"}


class DeadLetters:
    """Publishes the dead letters of a node (Post of queues/letters.py). is_behind: so many wait for that, that
    publishers are to wait too."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._deaths = Deaths(broker.config.max_death_history_bytes)
        self._backlog = 0
        self.is_behind = False
        self.cycles_dropped = 0

    def discard(self, queue: Queue) -> None:
        """A queue without a dead letter exchange drops a message that is above its delivery limit."""
        self._broker.discards.note(queue.declaration.vhost, queue.name, 1, self._broker.now)

    @property
    def backlog(self) -> int:
        """How many letters of classic queues wait to be posted, and can be."""
        return self._backlog

    @backlog.setter
    def backlog(self, count: int) -> None:
        self._backlog = count
        self.is_behind = count > _MOST_WAITING

    def post(self, queue: Any, entry: Entry, reason: str, now: int) -> int:
        """Publish a dead letter of a classic queue. Returns how many queues have it, or UNDER_WAY: `queue.letters.done`
        is called when its fate is known."""
        if self._broker.replication.is_alone:
            return max(0, self._publish(queue, entry.message, reason, now, None))
        receipt = JointReceipt()
        copies = self._publish(queue, entry.message, reason, now, receipt)
        if not receipt.waiting:
            return max(0, copies)

        def done(refusals: list[Refusal]) -> None:
            queue.letters.done(entry, Refusal.UNKNOWN in refusals, self._broker.now)

        receipt.seal(done)
        return UNDER_WAY

    def publish(self, queue: Queue, message: Message, reason: str, now: int, receipt: Receipt | None) -> bool:
        """Publish one dead letter. The receipt is told what becomes of it in queues whose log is elsewhere. Returns
        whether it went somewhere, or nowhere because it was going round in a circle."""
        return self._publish(queue, message, reason, now, receipt) >= 0

    def _publish(self, queue: Queue, message: Message, reason: str, now: int, receipt: Receipt | None) -> int:
        """The same; returns to how many queues, -1 if there was none for it."""
        vhost = self._broker.vhosts.get(queue.declaration.vhost)
        exchange = queue.settings.dead_letter_exchange
        if vhost is None or exchange is None or vhost.router.get(exchange) is None:
            return -1
        own_key = queue.settings.dead_letter_routing_key
        letter, routing_keys = self._deaths.letter(message, queue.name, _REASONS[reason], exchange, own_key, now)
        try:
            route = vhost.router.route(exchange, routing_keys, MessageFacts(letter))
        except UnknownExchange:
            return -1
        names = [name for name in route.queues if not self._is_cycle(queue, name, reason, message)]
        queues = [vhost.queues[name] for name in names if name in vhost.queues]
        if queues:
            vhost.publish(letter, queues, now, receipt, True)
        for name in route.delayed:
            vhost.delayed[name].add(letter, now, receipt, True)
        if not route.queues and not route.delayed:
            return -1
        return len(queues) + len(route.delayed)

    def _is_cycle(self, source: Queue, target: str, reason: str, message: Message) -> bool:
        """A message that comes back to a queue in a cycle without a single rejection is dropped."""
        if reason == REJECTED:
            return False
        if target == source.name:
            is_cycle = True
        else:
            is_cycle = False
            for queue, past_reason in past_deaths(message):
                if past_reason == _REASONS[REJECTED]:
                    return False
                if queue == target:
                    is_cycle = True
                    break
        if is_cycle:
            self.cycles_dropped += 1
            log.warning(
                "dead letter cycle: a message from queue '%s' is dropped before queue '%s'", source.name, target
            )
        return is_cycle

