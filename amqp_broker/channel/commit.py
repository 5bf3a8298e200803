"""Transaction and Commit: what a channel in tx mode has done since its last commit, and how that takes effect.

    claims: the deliveries leave the channel -> publishes -> settlements -> the answer

A short transaction does all that in the turn of its tx.commit. A long one, or one with a message for very many queues,
does it in slices (queues/background.py), while none of its connection's frames are handled; others see what is done so
far.

A message goes to the queues to which it was routed when it was published, as far as they are there still; who changes
exchanges, bindings or permissions in between changes nothing of it.

Invariants:
1. Settlements come after all publishes: whatever cuts a commit short, what it was to replace is delivered again.
2. A commit that has begun to publish goes on to its end though its client be gone. Before that it is given up then, and
   a commit that fails gives back what it has claimed and not settled.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_broker.channel.basic_methods import settle_negatively
from amqp_broker.channel.lifecycle import return_entries
from amqp_broker.channel.publisher import REFUSED_OUTCOME
from amqp_broker.channel.replies import reply_when_synced
from amqp_broker.channel.routed_message import present_route
from amqp_broker.channel.wide_publish import publish_parts
from amqp_broker.errors import AmqpException, precondition_failed
from amqp_broker.flow.turn_share import WIDE
from amqp_broker.protocol import methods
from queues.effects import Refusal
from queues.receipts import JointReceipt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.routed_message import RoutedMessage
    from amqp_broker.flow.pending_answers import PendingAnswer
    from amqp_broker.routing.routes import PublishRoute
    from queues.message import Delivery, Message
    from queues.queue import Queue

log = logging.getLogger("amqp_broker")

ACK = 0
REJECT = 1
REQUEUE = 2
#: As REQUEUE, by basic.reject.
FAIL = 3

_ENDED: Final = object()
# Of a way that is one message's own, and of that by the queue.
_WAY_OCTETS = 500
_QUEUE_OCTETS = 8
#: So many deliveries are claimed or settled, and so many messages published, in one slice.
_CLAIMS = 400
_PUBLISHES = 16
_SETTLEMENTS = 100


class Transaction:
    """What a channel in tx mode has done since the last commit or rollback."""

    def __init__(self, limit_bytes: int) -> None:
        self.messages: deque[RoutedMessage] = deque()
        self.settlements: deque[tuple[int, int]] = deque()
        self._limit_bytes = limit_bytes
        self._size = 0
        self._claimed: set[int] = set()
        self._claimed_until = 0

    def __len__(self) -> int:
        return len(self.messages) + len(self.settlements)

    def add_message(self, routed: RoutedMessage, has_own_way: bool) -> None:
        """A publish. has_own_way: its headers have made it another one than that of its address. Raises
        ChannelException when the transaction gets too big."""
        self._size += routed.message.size
        if has_own_way:
            self._size += _WAY_OCTETS + _QUEUE_OCTETS * len(routed.route.queues)
        if self._size > self._limit_bytes:
            raise precondition_failed(
                f"transaction of {self._size} octets is above the limit of {self._limit_bytes} (max_tx_size): "
                "commit earlier"
            )
        self.messages.append(routed)

    def add_ack(self, channel: Channel, tag: int, multiple: bool) -> None:
        """An acknowledgement. Raises ChannelException (406) for an unknown tag."""
        self._claim(channel, tag, multiple, ACK)

    def add_nack(self, channel: Channel, tag: int, multiple: bool, requeue: bool) -> None:
        """A basic.nack. Raises ChannelException (406) for an unknown tag."""
        self._claim(channel, tag, multiple, REQUEUE if requeue else REJECT)

    def add_reject(self, channel: Channel, tag: int, requeue: bool) -> None:
        """A basic.reject. Raises ChannelException (406) for an unknown tag."""
        self._claim(channel, tag, False, FAIL if requeue else REJECT)

    def has_settled(self, tag: int) -> bool:
        """Whether a delivery is to be settled by the commit."""
        return tag in self._claimed

    def _claim(self, channel: Channel, tag: int, multiple: bool, outcome: int) -> None:
        claimed = self._claimed
        if tag in claimed or ((tag or not multiple) and not channel.is_outstanding(tag)):
            raise precondition_failed(f"unknown delivery tag {tag}")
        if not multiple:
            claimed.add(tag)
            self.settlements.append((tag, outcome))
            return
        # What an earlier one has claimed is not looked at again.
        for each in channel.outstanding_tags(tag, self._claimed_until + 1):
            if each not in claimed:
                claimed.add(each)
                self.settlements.append((each, outcome))
            self._claimed_until = each


class Commit:
    """A transaction that takes effect. One of `run` and `start` is called, once."""

    def __init__(self, channel: Channel, transaction: Transaction) -> None:
        self._channel = channel
        self._connection = channel.connection
        self._services = channel.services
        self._vhost = channel.vhost
        self._store = channel.services.store
        self._clock = channel.clock
        self._journal = channel.services.store.journal
        self._claims = transaction.settlements
        self._messages = transaction.messages
        self._parts: Iterator[object] | None = None  # of a message for very many queues
        self._routes: dict[PublishRoute, PublishRoute] = {}  # as they are in `_generation`
        self._generation = 0
        self._entries: deque[tuple[Delivery, int]] = deque()
        self._settled: dict[Queue, bool] = {}  # of what is settled: whether some is refused or put back
        self._receipt = JointReceipt()
        self._before = self._journal.position
        self._pending: PendingAnswer | None = None

    def run(self) -> None:
        """All of it in this turn, unless it turns out to be much. Raises AmqpException."""
        now = self._clock.now
        while self._work(now):
            if self._parts is not None:
                self.start()
                return
        self._answer(self._end())

    def start(self) -> None:
        """In slices, none of the connection's frames being handled meanwhile."""
        services = self._services
        self._pending = services.answers.begin(self._connection, "tx.commit", is_timed=False)
        services.background.add(self._slice)

    def _slice(self, now: int) -> bool:
        pending = self._pending
        assert pending is not None
        try:
            if self._work(now):
                return True
            ticket = self._end()
        except Exception as error:
            self._give_back(now)
            if not self._is_client_there():
                # A defect of ours ends what it is about, and no more: here a commit that nobody waits for.
                defect = None if isinstance(error, AmqpException) else error
                level = logging.INFO if defect is None else logging.ERROR
                log.log(level, "tx.commit of %s, which is gone, ended early: %s", self._connection.peer, error,
                        exc_info=defect)  # fmt: skip
            failure = error

            def refuse() -> None:
                raise failure

            pending.release(refuse)
            return False
        pending.release(lambda: self._answer(ticket))
        return False

    def _work(self, now: int) -> bool:
        """One slice. Returns whether there is more to do. Raises AmqpException."""
        if self._claims:
            self._claim(now)
        elif self._parts is not None:
            if next(self._parts, _ENDED) is _ENDED:
                self._parts = None
        elif self._messages:
            self._publish()
        elif self._entries:
            self._settle()
        return bool(self._claims or self._parts or self._messages or self._entries)

    def _is_client_there(self) -> bool:
        return self._channel.is_open and not self._channel.is_closing

    def _claim(self, now: int) -> None:
        if not self._is_client_there():
            self._give_back(now)
            return
        channel, claims = self._channel, self._claims
        for _ in range(min(_CLAIMS, len(claims))):
            tag, outcome = claims.popleft()
            entry = channel.take_one(tag)
            self._entries.append((entry, outcome))
            queue = entry.consumer.queue
            self._settled[queue] = outcome != ACK or self._settled.get(queue, False)

    def _publish(self) -> None:
        channel, publisher = self._channel, self._services.publisher
        self._vhost.check_is_there()
        clients, is_there = self._connection.clients, self._is_client_there()
        for _ in range(min(_PUBLISHES, len(self._messages))):
            routed = self._messages.popleft()
            routed = routed._replace(route=self._present(routed.route))
            copies = publisher.hand_over(
                channel, routed, routed.is_mandatory and is_there, self._receipt, self._record_outcome,
                self._publish_to_many,
            )  # fmt: skip
            route = routed.route
            if route.entry is not None:
                route.entry.count_copies(copies)
            clients.count_routed(copies)  # the channel may be gone
            if copies >= WIDE:
                return

    def _present(self, route: PublishRoute) -> PublishRoute:
        """The way that a message has had when it was published, to the queues that are there still."""
        if self._generation != self._vhost.generation:
            self._generation = self._vhost.generation
            self._routes.clear()
        found = self._routes.get(route)
        if found is None:
            found = self._routes[route] = present_route(self._vhost, route)
        return found

    def _record_outcome(self, outcome: int) -> None:
        """Queues here say at once whether they take a message, and tell no receipt."""
        if outcome == REFUSED_OUTCOME:
            self._receipt.refuse(Refusal.FULL)

    def _publish_to_many(self, route: PublishRoute, message: Message) -> None:
        """What follows is for very many queues."""
        self._parts = self._hand_parts(route, message)

    def _hand_parts(self, route: PublishRoute, message: Message) -> Iterator[None]:
        outcome = 0
        for each in publish_parts(route, message, self._receipt, self._clock):
            outcome = max(outcome, each)
            yield None
        self._record_outcome(outcome)
        self._services.publisher.observe(self._channel, route, message, outcome)

    def _settle(self) -> None:
        """The next entries with the same outcome."""
        outcome = self._entries[0][1]
        entries: list[Delivery] = []
        while self._entries and self._entries[0][1] == outcome and len(entries) < _SETTLEMENTS:
            entries.append(self._entries.popleft()[0])
        if outcome == ACK:
            self._channel.ack_taken(entries)
        else:
            settle_negatively(self._channel, entries, outcome != REJECT, outcome == FAIL)

    def _give_back(self, now: int) -> None:
        """It comes to nothing more: what was claimed returns to its queues."""
        self._claims.clear()
        self._parts = None
        self._messages.clear()
        entries = [entry for entry, _ in self._entries]
        self._entries.clear()
        queues: dict[Queue, None] = {}
        return_entries(self._channel, entries, queues, True)
        for queue in queues:
            if not queue.is_deleted:
                queue.dispatch(now)
        if self._is_client_there():
            self._channel.dispatch()

    def _end(self) -> int:
        """Everything is done. Returns up to where the journal has to be synced before the answer, 0 for no matter."""
        self._services.dead_letters.work(self._clock.now)
        self._store.end_turn()
        for queue, has_refused in self._settled.items():
            queue.when_settled(self._receipt, has_refused)
        ticket = int(self._journal.position)
        return 0 if ticket == self._before else ticket

    def _answer(self, ticket: int) -> None:
        """Raises ChannelException when a queue elsewhere has refused some of it."""
        self._channel.set_transaction(Transaction(self._connection.config.max_tx_size_bytes))
        receipt = self._receipt
        if not receipt.waiting:
            self._tell(receipt.refusals, ticket)
            return
        pending = self._services.answers.begin(self._connection, "tx.commit")

        def tell(refusals: list[Refusal]) -> None:
            self._store.end_turn()
            self._tell(refusals, self._journal.position)

        receipt.seal(lambda refusals: pending.release(lambda: tell(refusals)))

    def _tell(self, refusals: list[Refusal], ticket: int) -> None:
        if refusals:
            raise precondition_failed(_partly_done(refusals))
        reply_when_synced(self._channel, ticket, methods.TxCommitOk())


def _partly_done(refusals: list[Refusal]) -> str:
    """What a client is told whose commit did not succeed everywhere (RabbitMQ's words first), and what to do. At most
    255 octets reach it."""
    if Refusal.UNKNOWN in refusals:
        return (
            "partial tx completion: the way to a queue was lost, and what was done there is not known: publish again "
            "(it may then be there twice); what was not acknowledged is delivered again"
        )
    return (
        "partial tx completion: a queue was full or gone and refused publishes, all else is done: publish those again "
        "when there is room"
    )
