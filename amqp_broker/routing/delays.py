"""DelayedMessages: what an x-delayed-message exchange holds back until it is due (header x-delay, milliseconds).

Persistent messages of a durable exchange wait in a queue of a queue group (queue_types/quorum/delay_queue.py), which
outlives this node. The others wait here, in RAM.

Invariant: what an older version of this program has written to the journal is there until the group has it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol

from amqp_broker.links.levels import BLIND_COPIES
from amqp_broker.messages.facts import MessageFacts, copy_keys, with_header, without_header
from amqp_broker.protocol.fields import typed
from amqp_broker.queue_types.quorum.delay_queue import DelayQueue
from amqp_broker.routing.routes import PublishRoute
from exchanges.delayed import DELAY_HEADER, DelayedExchange, delay_of
from exchanges.router import UnknownExchange
from queues.effects import Refusal
from queues.message import Entry, Message, make_entry
from queues.receipts import JointReceipt, Receipt
from queues.recovery import RecoveredQueue

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.store import MessageStore
    from queues.timers import Timer, Timers

#: So many messages are released in one slice.
_RELEASES = 16
#: So many of those of a deleted exchange are given back in one slice.
_GIVEN_BACK = 512
#: So many routes are remembered.
_ROUTES = 1000
#: A message whose queue was cut off is published again after so long, milliseconds.
_AGAIN_MS = 1000
_MOST_SIGNED_INT = (1 << 31) - 1


class DelayHost(Protocol):
    """What a node gives to what it holds back. now: the time of the turn, milliseconds since the epoch."""

    store: MessageStore
    timers: Timers
    background: Background
    clock: TurnClock

    @property
    def level(self) -> int:
        """The level of the cluster (links/levels.py)."""

    def group_of(self, queue_id: int) -> QueueGroup:
        """The group that has a queue of this id."""


class DelayedMessages:
    """The messages that one exchange holds back. queue_id: of its queue in a group, and in journals of old."""

    def __init__(self, host: DelayHost, vhost: VHost, exchange: str, queue_id: int, is_durable: bool) -> None:
        self.queue_id = queue_id
        self.is_durable = is_durable
        self._host = host
        self.is_deleted = False
        self.last_segment = 0
        self.settled: list[int] = []
        self._background = host.background
        self._timers = host.timers
        self._pager = host.store.pager
        self._store = host.store
        self._clock = host.clock
        self._vhost = vhost
        self._router = vhost.router
        self._exchange = exchange
        self._next_number = 1
        self._due: list[tuple[int, int, Entry]] = []
        # Published to queues whose log is elsewhere, which have not said yet that they have it.
        self._under_way: dict[int, Entry] = {}
        self._recovered: dict[int, Entry] = {}
        self._timer: Timer | None = None
        self._timer_at = 0
        self._is_releasing = False
        # Where messages go by Message.raw, while the virtual host's generation is the same.
        self._routes: dict[bytes, PublishRoute] = {}
        self._generation = 0
        self._looks_at_headers = True
        self._queue: DelayQueue | None = None
        if is_durable:
            group = host.group_of(queue_id)
            self._queue = DelayQueue(vhost.name, exchange, queue_id, group, self.publish)
            group.add_queue(self._queue)

    def __len__(self) -> int:
        waiting = self._queue.message_count() if self._queue is not None else 0
        return len(self._due) + len(self._under_way) + waiting

    def add(self, message: Message, now: int, receipt: Receipt | None, is_again: bool = False) -> None:
        """Hold a message back as its header says. It may have a header BCC, which counts when it is routed, and is
        taken out then. The receipt is told when that outlives this node. is_again: see VHost.publish."""
        facts = MessageFacts(message)
        delay = delay_of(facts.headers)
        if self._queue is not None and message.is_persistent:
            if self._host.level < BLIND_COPIES and b"BCC" in message.properties():
                message = without_header(message, facts, "BCC")  # whoever releases it would show it
            self._queue.hold(message, delay, receipt, is_again)
            return
        self._pager.add_used(message.size)
        self._hold(make_entry(message, self._next_number, now + delay, 0))
        self._next_number += 1

    def _hold(self, entry: Entry) -> None:
        heapq.heappush(self._due, (entry.expires_at, entry.sequence, entry))
        if self._timer_at == 0 or entry.expires_at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = entry.expires_at
            self._timer = self._timers.at(self._timer_at, self._release)

    def _release(self, now: int) -> None:
        """Something is due."""
        self._timer_at = 0
        self._timer = None
        if not self._is_releasing:
            self._is_releasing = True
            self._background.add(self._release_some)

    def _release_some(self, now: int) -> bool:
        """One slice: route what is due, in the order in which it is due."""
        if self.is_deleted:
            return False
        for _ in range(_RELEASES):
            if not self._due or self._due[0][0] > now:
                self._is_releasing = False
                break
            self._route(heapq.heappop(self._due)[2], now)
        if not self._is_releasing and self._due:
            self._hold(heapq.heappop(self._due)[2])
        return self._is_releasing

    def _route(self, entry: Entry, now: int) -> None:
        message, route = self._release_one(entry.message)
        if route is not None and route.needs_receipt:
            receipt = JointReceipt()
            self._under_way[entry.sequence] = entry
            route.publish(message, receipt, True, now)
            receipt.seal(lambda refusals: self._published(entry, refusals))
            return
        if route is not None and route.queues:
            route.publish(message, None, True, now)
        self._pager.add_used(-entry.message.size)

    def _published(self, entry: Entry, refusals: list[Refusal]) -> None:
        """All of its queues have it, or have refused it."""
        if self._under_way.pop(entry.sequence, None) is None:
            return
        if Refusal.UNKNOWN in refusals:
            # Its way was cut off. Queues that have it get it again: better twice than never.
            entry.put_off(self._clock.now + _AGAIN_MS)
            self._hold(entry)
        else:
            self._pager.add_used(-entry.message.size)

    def publish(self, message: Message, now: int, receipt: Receipt) -> bool:
        """A message is due: it goes where the exchange's bindings say now. Returns whether it went anywhere."""
        message, route = self._release_one(message)
        if route is None or not route.queues:
            return False
        route.publish(message, receipt, True, now)
        return True

    def _release_one(self, message: Message) -> tuple[Message, PublishRoute | None]:
        """A message as its queues get it, and where it goes. As RabbitMQ's plugin does it, its delay is negative from
        now on: it is not held back again where it comes to such an exchange as a dead letter, and who gets it sees that
        it has waited."""
        facts = MessageFacts(message)
        delay = delay_of(facts.headers)
        if delay:
            kind = "I" if delay <= _MOST_SIGNED_INT else "l"
            message = with_header(message, facts, DELAY_HEADER, typed(kind, -delay))
        route = self._route_of(message)
        if b"BCC" in message.properties():
            message = without_header(message, MessageFacts(message), "BCC")
        return message, route

    def _route_of(self, message: Message) -> PublishRoute | None:
        """Where a message goes now, remembered for its exchange and routing key; None when the exchange is gone."""
        vhost = self._vhost
        if self._generation != vhost.generation or len(self._routes) >= _ROUTES:
            self._generation = vhost.generation
            self._routes.clear()
            self._looks_at_headers = self._depends_on_headers()
        # A message that may have further keys, in CC or BCC, is asked for them.
        is_plain = not self._looks_at_headers and b"CC" not in message.properties()
        route = self._routes.get(message.raw) if is_plain else None
        if route is None:
            facts = MessageFacts(message)
            routing_keys = [message.address.routing_key, *copy_keys(facts)]
            try:
                found = vhost.router.route(self._exchange, routing_keys, facts, follow_delayed=True)
            except UnknownExchange:
                return None
            queues = [vhost.queues[name] for name in found.queues if name in vhost.queues]
            route = PublishRoute(None, queues, False, vhost.generation)
            if is_plain:
                self._routes[message.raw] = route
        return route

    def _depends_on_headers(self) -> bool:
        """Whether it, or an exchange behind it, routes by more than the routing key."""
        entry = self._vhost.find_exchange(self._exchange)
        if entry is None:
            return True
        exchange = entry.exchange
        assert isinstance(exchange, DelayedExchange)
        following = [each.destination.name for each in exchange.bindings() if each.destination.kind == "exchange"]
        if entry.alternate is not None:
            following.append(entry.alternate)
        return exchange.inner.routes_by_headers or any(
            self._router.depends_on_message(name) for name in following
        )

    # -- what the journal has of old ---------------------------------------------------------------------------------

    def restore(self, recovered: RecoveredQueue | None, now: int) -> None:
        """Hand over to the group what was found in the journal."""
        if recovered is None or self._queue is None:
            return
        for item in recovered.items:
            if isinstance(item, Entry):
                self._store.touch(item.journal_segment, self)
                self._recovered[item.sequence] = item
                receipt = JointReceipt()
                self._queue.hold(item.message, max(1, item.expires_at - now), receipt)
                receipt.seal(lambda refusals, item=item: self._settle(item))  # type: ignore[misc]

    def _settle(self, entry: Entry) -> None:
        """The group has it."""
        del self._recovered[entry.sequence]
        if not self.settled:
            self._store.settling(self)
        self.settled.append(entry.sequence)

    def leave_segment(self, segment: int) -> bool:
        """Write again what relies on a journal segment up to `segment`: there is no more then."""
        store = self._store
        for entry in self._recovered.values():
            if 0 < entry.journal_segment <= segment:
                entry.rely_on(store.segment(self))
                store.append_message(entry.message, self.queue_id, entry.sequence, entry.expires_at, 0)
        return False

    def delete(self) -> None:
        """The exchange is gone, and so is what it held; very much is given back in slices."""
        if self._timer is not None:
            self._timer.cancel()
        if self._give_back(0):
            self._background.add(self._give_back)
        for entry in self._under_way.values():
            self._pager.add_used(-entry.message.size)
        self._under_way = {}
        if self._queue is not None:
            self._queue.delete()
        self.is_deleted = True

    def _give_back(self, now: int) -> bool:
        """A slice of what is held by an exchange that is gone. Returns whether there is more."""
        due = self._due
        for _ in range(min(_GIVEN_BACK, len(due))):
            self._pager.add_used(-due.pop()[2].message.size)
        return bool(due)
