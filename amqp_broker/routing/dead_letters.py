"""DeadLetters: messages that queues give up go to the dead letter exchange, with RabbitMQ's x-death headers.

A classic queue posts them in slices (queues/letters.py), and settles what it posts in the same turn, so the journal has
the new place of a message in the same batch as the settlement of the old one. Where the new place is a queue of another
node, the old one is settled when that has confirmed: a letter gets there at least once. A node alone has the log of a
quorum queue in the same journal, and does not wait.

Those of quorum queues come through `publish`, with a receipt (queue_types/groups/dead_letters.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.messages.deaths import Deaths, past_deaths, short_string
from amqp_broker.messages.facts import MessageFacts
from amqp_broker.routing.routes import groups_of, needs_receipt
from exchanges.router import UnknownExchange
from queues.arguments import Overflow
from queues.effects import Refusal
from queues.letters import UNDER_WAY
from queues.message import Entry, Message
from queues.outcomes import PublishOutcome
from queues.queue import Queue
from queues.reason import Reason
from queues.receipts import JointReceipt, Receipt, TriedReceipt

if TYPE_CHECKING:
    from amqp_broker.routing.discards import Discards
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.turn.clock import TurnClock
    from queues.classic import ClassicQueue

log = logging.getLogger("amqp_broker")

_REFUSED: int = PublishOutcome.REFUSED
#: Before the name of an exchange among those of queues.
_EXCHANGE = "\0exchange "
#: So many queues are remembered, and so many addresses of the letters of all of them together, with where they lead. An
#: address takes up to 700 octets.
_MOST_WAYS = 1000
_MOST_ROUTES = 16_384


class LetterRoute:
    """Where the letters of one queue go, remembered while nothing changes.

    exchange, own_key: as short strings; own_key None: that of the message. is_plain: nothing about a message but its
    routing key decides; then `routes` has the queues by address. may_need_receipt: `needs_receipt` of some of them.
    """

    def __init__(self, queue: Queue, vhost: VHost, exchange: str) -> None:
        self.queue = queue
        self.vhost = vhost
        self.router = vhost.router
        self.settings = queue.settings
        self.generation = vhost.generation
        self.exchange = short_string(exchange)
        own_key = queue.settings.dead_letter_routing_key
        self.own_key = None if own_key is None else short_string(own_key)
        self.is_plain = not vhost.router.depends_on_message(exchange)
        self.may_need_receipt = not self.is_plain
        self.routes: dict[bytes, list[Queue]] = {}

    def holds(self, vhosts: dict[str, VHost]) -> bool:
        """Whether nothing has changed."""
        return (
            self.queue.settings is self.settings
            and self.vhost.generation == self.generation
            and vhosts.get(self.vhost.name) is self.vhost
        )

    def remember(self, letter: Message) -> list[Queue]:
        """The queues of a letter, which is plain; none where there is no exchange any more."""
        address = letter.address
        try:
            found = self.router.route(address.exchange, [address.routing_key], None)
        except UnknownExchange:
            return []
        queues = [self.vhost.queues[name] for name in found.queues if name in self.vhost.queues]
        self.may_need_receipt = self.may_need_receipt or needs_receipt(queues)
        self.routes[letter.raw] = queues
        return queues


class DeadLetters:
    """Publishes the dead letters of a node (Post of queues/letters.py). backlog: how many that publishes to classic
    queues have made wait to be posted, and can be. is_posting: one is being published. refused: what full queues have
    refused in this turn, and are to post. published: how many went somewhere, by the type of their queue and by Reason;
    cycles_dropped: copies that did not because they would have come back. A letter counts when it is done, in both,
    however often it was tried. cycles: those of the letter published last.

    vhosts: of the node, by name. is_alone(): whether all queues are this node's, and nobody else has to
    agree."""

    def __init__(
        self,
        vhosts: dict[str, VHost],
        discards: Discards,
        clock: TurnClock,
        max_death_history_bytes: int,
        is_alone: Callable[[], bool],
    ) -> None:
        self._vhosts = vhosts
        self._discards = discards
        self._clock = clock
        self._is_alone = is_alone
        self._deaths = Deaths(max_death_history_bytes)
        self.backlog = 0
        self.is_posting = False
        self.refused: list[tuple[ClassicQueue, Message]] = []
        self._letter_routes: dict[Queue, LetterRoute] = {}
        self._route_count = 0
        self._receipt: JointReceipt | None = None
        self.cycles = self.cycles_dropped = 0
        self.published: dict[str, list[int]] = {}

    def refuse(self, queue: ClassicQueue, message: Message) -> None:
        """A full queue refuses a message, which becomes a dead letter before the turn ends (`work`)."""
        self.refused.append((queue, message))

    def work(self, now: int) -> None:
        """Post what full queues have refused in this turn, and what other full queues refuse of that. It is no mass
        event: each is the work of its publish, and there is no copy of it that could wait."""
        while self.refused:
            refused, self.refused = self.refused, []
            for queue, message in refused:
                queue.post_refused(message, now)

    def discard(self, queue: Queue) -> None:
        """A queue without a dead letter exchange drops a message that is above its delivery limit."""
        self._discards.note(queue.declaration.vhost, queue.name, 1, self._clock.now)

    def post(self, queue: ClassicQueue, entry: Entry, reason: Reason, now: int) -> int:
        """Publish a dead letter of a classic queue. Returns how many queues have it, or UNDER_WAY: `queue.letters.done`
        is called when its fate is known."""
        self._receipt = None
        copies = self._publish(queue, entry.message, reason, now, None, True)
        receipt = self._receipt
        if copies < 0:
            return 0
        if receipt is None or not receipt.waiting:
            self.count(queue, reason, self.cycles)
            return copies
        self._await(receipt, queue, entry, reason, self.cycles)
        return UNDER_WAY

    def _await(self, receipt: JointReceipt, queue: ClassicQueue, entry: Entry, reason: Reason, cycles: int) -> None:
        def done(refusals: list[Refusal]) -> None:
            assert queue.letters is not None  # they posted it
            is_lost = Refusal.UNKNOWN in refusals
            if not is_lost:
                self.count(queue, reason, cycles)
            queue.letters.done(entry, is_lost, self._clock.now)

        receipt.seal(done)

    def count(self, queue: Queue, reason: Reason, cycles: int) -> None:
        """A letter of a queue is where it was to go, and is not tried again. cycles: as they were when it was
        published."""
        published = self.published.get(queue.declaration.type)
        if published is None:
            published = self.published[queue.declaration.type] = [0] * (1 + len(Reason))
        published[reason] += 1
        self.cycles_dropped += cycles

    def publish(self, queue: Queue, message: Message, reason: Reason, now: int, receipt: Receipt | None) -> bool:
        """Publish one dead letter. The receipt is told what becomes of it in queues whose log is elsewhere; one that is
        a TriedReceipt, in all others, too. Returns whether it went somewhere, or nowhere because it was going round in
        a circle; who publishes it calls `count` when it is done."""
        return self._publish(queue, message, reason, now, receipt, False) >= 0

    def _publish(
        self, queue: Queue, message: Message, reason: Reason, now: int, receipt: Receipt | None, makes_receipt: bool
    ) -> int:
        """The same; returns to how many queues, -1 if there was none for it. makes_receipt: `_receipt` becomes the
        receipt, if one is needed: who has to agree is asked only then, as it takes long."""
        letter_route = self._letter_routes.get(queue)
        if letter_route is None or not letter_route.holds(self._vhosts):
            letter_route = self._find_letter_route(queue)
            if letter_route is None:
                return -1
        deaths, vhost = self._deaths, letter_route.vhost
        letter = deaths.letter(message, queue.name, reason.word, letter_route.exchange, letter_route.own_key, now)
        delayed: list[str] = []
        if letter_route.is_plain and not deaths.copies:
            queues = letter_route.routes.get(letter.raw)
            if queues is None:
                queues = self._remember(letter_route, letter)
            if not queues:
                return -1
        else:
            routing_keys = [letter.address.routing_key, *deaths.copies]
            route = vhost.router.route(letter.address.exchange, routing_keys, MessageFacts(letter))
            queues = [vhost.queues[name] for name in route.queues if name in vhost.queues]
            delayed = route.delayed
            if not route.queues and not delayed:
                return -1
        self.cycles = 0
        if reason is not Reason.REJECTED:
            queues = self._without_cycles(queue, queues, reason, message, deaths.has_history)
        if (
            makes_receipt
            and (delayed or (letter_route.may_need_receipt and needs_receipt(queues)))
            and not self._is_alone()
        ):
            receipt = self._receipt = JointReceipt()
        if vhost.taps is not None:
            vhost.taps.dead_lettered(now, queue, message, reason, letter.address, queues)
        if not makes_receipt and isinstance(receipt, TriedReceipt):
            self._try(vhost, letter, queues, delayed, now, receipt)
            return len(queues) + len(delayed)
        if queues:
            self.is_posting = True
            try:
                vhost.publish(letter, queues, now, receipt, True)
            finally:
                self.is_posting = False
        for name in delayed:
            vhost.delayed[name].add(letter, now, receipt, True)
        return len(queues) + len(delayed)

    def _try(
        self, vhost: VHost, letter: Message, queues: list[Queue], delayed: list[str], now: int, receipt: TriedReceipt
    ) -> None:
        """Publish a letter to those that do not have it yet. One that is full must not make the others get it again and
        again, nor bury it each time: those whose log is here are asked first; those that may refuse it elsewhere have
        it for themselves, and the others of a group together, as it is written once for all of them."""
        self.is_posting = True
        try:
            wanted: list[Queue] = []
            for queue in queues:
                if queue.name in receipt.has:
                    continue
                if queue.refuses(letter):
                    part = receipt.part(queue.name)
                    part.expect()
                    part.complete(Refusal.FULL)
                elif queue.writes.is_local or queue.settings.overflow in (None, Overflow.DROP_HEAD):
                    wanted.append(queue)
                else:
                    vhost.publish(letter, [queue], now, receipt.part(queue.name), True)
            for group, members in groups_of(wanted) if wanted else ():
                part = receipt.part(*[queue.name for queue in members])
                outcome = group.publish(letter, members, part, True, now)
                if group.is_local:  # it tells no receipt
                    part.expect()
                    part.complete(Refusal.FULL if outcome == _REFUSED else None)
        finally:
            self.is_posting = False
        for name in delayed:
            place = _EXCHANGE + name
            if place not in receipt.has:
                part = receipt.part(place)
                part.expect()
                vhost.delayed[name].add(letter, now, part, True)
                part.complete(None)

    def _find_letter_route(self, queue: Queue) -> LetterRoute | None:
        """Where the letters of a queue go now; None: nowhere."""
        self.forget(queue)
        vhost = self._vhosts.get(queue.declaration.vhost)
        exchange = queue.settings.dead_letter_exchange
        if vhost is None or exchange is None or vhost.router.get(exchange) is None:
            return None
        present = vhost.queues.get(queue.name)  # another one stands for it while its home changes
        if not queue.is_deleted and (present is None or present.queue_id != queue.queue_id):
            return None  # its virtual host is gone, and this is another one of that name
        letter_route = LetterRoute(queue, vhost, exchange)
        if not queue.is_deleted:
            if len(self._letter_routes) >= _MOST_WAYS:
                self._forget_all()
            self._letter_routes[queue] = letter_route
        return letter_route

    def _remember(self, letter_route: LetterRoute, letter: Message) -> list[Queue]:
        """The queues of a plain letter (Way.remember)."""
        if self._route_count >= _MOST_ROUTES:
            self._forget_all()
        if letter_route.queue in self._letter_routes:
            self._route_count += 1
        return letter_route.remember(letter)

    def _forget_all(self) -> None:
        self._letter_routes.clear()
        self._route_count = 0

    def forget(self, queue: Queue) -> None:
        """A queue is gone, or something has changed: where its letters go is looked up again."""
        letter_route = self._letter_routes.pop(queue, None)
        if letter_route is not None:
            self._route_count -= len(letter_route.routes)

    def _without_cycles(
        self, source: Queue, queues: list[Queue], reason: Reason, message: Message, has_history: bool
    ) -> list[Queue]:
        """The queues to which the letter does not come back in a circle."""
        name = source.name
        for queue in queues:
            if has_history or queue.name == name:
                return [each for each in queues if not self._is_cycle(source, each.name, reason, message)]
        return queues

    def _is_cycle(self, source: Queue, target: str, reason: Reason, message: Message) -> bool:
        """A message that comes back to a queue in a cycle without a single rejection is dropped."""
        if reason is Reason.REJECTED:
            return False
        if target == source.name:
            is_cycle = True
        else:
            is_cycle = False
            for queue, past_reason in past_deaths(message):
                if past_reason == Reason.REJECTED.word:
                    return False
                if queue == target:
                    is_cycle = True
                    break
        if is_cycle:
            self.cycles += 1
            log.warning(
                "dead letter cycle: a message from queue '%s' is dropped before queue '%s'", source.name, target
            )
        return is_cycle

