"""DeadLetters: messages that queues give up go to the dead letter exchange, with RabbitMQ's x-death headers.

A classic queue hands a message over in the middle of its own work, so it is only noted here; `run` publishes what was
noted when the node has finished with the input. Both happen in the same turn, so the journal has the new place of a
message in the same batch as the settlement of the old one. Where the new place is a queue whose log is elsewhere,
nobody waits for it: a dead letter of a classic queue gets there once, or with a crash at the wrong moment not at all.

Those of quorum queues come through `publish`, with a receipt (proxies/letter_carrier.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.deaths import Deaths, past_deaths
from amqp_broker.message_facts import MessageFacts
from amqp_broker.receipts import Receipt
from exchanges.router import UnknownExchange
from queues.classic import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from queues.message import Message
from queues.queue import Queue

if TYPE_CHECKING:
    from amqp_broker.broker import Broker

log = logging.getLogger("amqp_broker")

_REASONS = {REJECTED: "rejected", EXPIRED: "expired", MAXLEN: "maxlen", DELIVERY_LIMIT: "delivery_limit"}


class DeadLetters:
    """The dead letters of a node that are still to be published."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._deaths = Deaths(broker.config.max_death_history_bytes)
        self.noted: list[tuple[Queue, Message, str]] = []  # always this list: the node looks into it in every turn
        self.cycles_dropped = 0

    def add(self, queue: Queue, message: Message, reason: str, now: int) -> None:
        """Note a dead letter; a queue without a dead letter exchange has only those above its delivery limit."""
        if queue.settings.dead_letter_exchange is None:
            self._broker.discards.note(queue.declaration.vhost, queue.name, 1, now)
        else:
            self.noted.append((queue, message, reason))

    def run(self, now: int) -> None:
        """Publish everything that was noted, and what that gives rise to."""
        while self.noted:
            noted = self.noted.copy()
            self.noted.clear()
            for queue, message, reason in noted:
                self.publish(queue, message, reason, now, None)

    def publish(self, queue: Queue, message: Message, reason: str, now: int, receipt: Receipt | None) -> bool:
        """Publish one dead letter. The receipt is told what becomes of it in queues whose log is elsewhere. Returns
        whether it went somewhere, or nowhere because it was going round in a circle."""
        vhost = self._broker.vhosts.get(queue.declaration.vhost)
        exchange = queue.settings.dead_letter_exchange
        if vhost is None or exchange is None or vhost.router.get(exchange) is None:
            return False
        own_key = queue.settings.dead_letter_routing_key
        letter, routing_keys = self._deaths.letter(message, queue.name, _REASONS[reason], exchange, own_key, now)
        try:
            route = vhost.router.route(exchange, routing_keys, MessageFacts(letter))
        except UnknownExchange:
            return False
        names = [name for name in route.queues if not self._is_cycle(queue, name, reason, message)]
        queues = [vhost.queues[name] for name in names if name in vhost.queues]
        if queues:
            vhost.publish(letter, queues, now, receipt, True)
        for name in route.delayed:
            vhost.delayed[name].add(letter, now, receipt, True)
        return bool(route.queues or route.delayed)

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

