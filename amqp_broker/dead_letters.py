"""DeadLetters: messages that queues give up go to the dead letter exchange, with RabbitMQ's x-death headers.

A classic queue posts them in slices (queues/letters.py), and settles what it posts in the same turn, so the journal has
the new place of a message in the same batch as the settlement of the old one. Where the new place is a queue of another
node, the old one is settled when that has confirmed: a letter gets there at least once. A node alone has the log of a
quorum queue in the same journal, and does not wait.

Those of quorum queues come through `publish`, with a receipt (proxies/letter_carrier.py).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amqp_broker.message_facts import MessageFacts, copy_keys
from amqp_broker.protocol.fields import Table, encode_value, join_table, split_table, typed
from amqp_broker.protocol.properties import replace_properties
from amqp_broker.receipts import JointReceipt, Receipt
from exchanges.router import UnknownExchange
from queues.classic import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from queues.letters import MOST_NOTED, UNDER_WAY
from queues.message import Address, Entry, Message, build_message
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
        self._backlog = 0
        self.is_behind = False
        self.cycles_dropped = 0

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
        facts = MessageFacts(message)
        own_key = queue.settings.dead_letter_routing_key
        routing_keys = [message.address.routing_key, *copy_keys(facts)] if own_key is None else [own_key]
        letter = _make_letter(queue, message, reason, facts, exchange, routing_keys[0], own_key is not None, now)
        try:
            route = vhost.router.route(exchange, routing_keys, MessageFacts(letter))
        except UnknownExchange:
            return -1
        deaths = facts.headers.get("x-death")
        names = [name for name in route.queues if not self._is_cycle(queue, name, reason, deaths)]
        queues = [vhost.queues[name] for name in names if name in vhost.queues]
        if queues:
            vhost.publish(letter, queues, now, receipt, True)
        for name in route.delayed:
            vhost.delayed[name].add(letter, now, receipt, True)
        if not route.queues and not route.delayed:
            return -1
        return len(queues) + len(route.delayed)

    def _is_cycle(self, source: Queue, target: str, reason: str, deaths: object) -> bool:
        """A message that comes back to a queue in a cycle without a single rejection is dropped."""
        if reason == REJECTED:
            return False
        if target == source.name:
            is_cycle = True
        else:
            is_cycle = False
            if isinstance(deaths, list):
                for death in deaths:
                    if not isinstance(death, dict):
                        continue
                    if death.get("reason") == REJECTED:
                        return False
                    if death.get("queue") == target:
                        is_cycle = True
                        break
        if is_cycle:
            self.cycles_dropped += 1
            log.warning(
                "dead letter cycle: a message from queue '%s' is dropped before queue '%s'", source.name, target
            )
        return is_cycle


def _make_letter(
    queue: Queue,
    message: Message,
    reason: str,
    facts: MessageFacts,
    exchange: str,
    routing_key: str,
    has_own_key: bool,
    now: int,
) -> Message:
    """The message with its death recorded: other headers and properties stay octet for octet."""
    raw = facts.headers_raw
    pairs = [] if raw is None else list(split_table(raw))
    old = facts.headers.get("x-death")
    deaths = _record_death(old if isinstance(old, list) else [], queue, message, reason, facts, now)
    drop = {"x-death", "BCC"} | ({"CC"} if has_own_key else set())
    kept: list[tuple[str, bytes]] = [(key, value) for key, value in pairs if key not in drop]
    present = {key for key, _ in kept}
    facts_of_death = {"reason": _REASONS[reason], "queue": queue.name, "exchange": message.address.exchange}
    for key, value in facts_of_death.items():
        if f"x-first-death-{key}" not in present:
            kept.append((f"x-first-death-{key}", encode_value(value)))
    kept = [(key, value) for key, value in kept if not key.startswith("x-last-death-")]
    for key, value in facts_of_death.items():
        kept.append((f"x-last-death-{key}", encode_value(value)))
    kept.insert(0, ("x-death", encode_value(deaths)))
    properties = replace_properties(message.properties(), headers=Table({}, join_table(kept)), expiration=None)
    names = [name.encode("utf-8", "surrogateescape") for name in (exchange, routing_key)]
    address = Address(b"".join(bytes([len(name)]) + name for name in names))
    return build_message(
        address, properties, message.body_bytes(), message.is_persistent, message.priority, -1, message.timestamp
    )


def _record_death(
    deaths: list[Any], queue: Queue, message: Message, reason: str, facts: MessageFacts, now: int
) -> list[Any]:
    """x-death with this death counted: one entry for each (queue, reason), the newest first."""
    found = None
    others = []
    for death in deaths:
        if isinstance(death, dict) and death.get("queue") == queue.name and death.get("reason") == _REASONS[reason]:
            found = death
        else:
            others.append(death)
    if found is not None:
        count = found.get("count", 0)
        entry = {**found, "count": typed("l", (count if isinstance(count, int) else 0) + 1)}
    else:
        keys = [message.address.routing_key]
        copies = facts.headers.get("CC")
        if isinstance(copies, list):
            keys += [key for key in copies if isinstance(key, str)]
        entry = {
            "count": typed("l", 1),
            "reason": _REASONS[reason],
            "queue": queue.name,
            "time": datetime.fromtimestamp(now // 1000, UTC).replace(tzinfo=None),
            "exchange": message.address.exchange,
            "routing-keys": keys,
        }
        if message.expiration >= 0:
            entry["original-expiration"] = str(message.expiration)
    return [entry, *others]
