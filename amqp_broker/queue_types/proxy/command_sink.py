"""CommandSink: where the commands of proxies go, and where the effects of these commands come from.

    submit(command, receipt) -> the log (a quorum group), or the queue's home node
    take_effects <- what the commands of this node have come to, in order

What is common to both is here: who has which consumer number, what was fetched and counted, and the settlements of a
turn. A subclass numbers the commands and sends them, and completes the receipts.

Invariants:
1. Effects of a consumer come in the order of the log, and before the receipts of the commands that caused them.
2. With `epoch` everything ends that consumers held before.
3. Every consumer that has credit, and something waiting for it, is in `_late`, for which a job of the background is
   under way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from amqp_broker.messages.facts import MessageFacts
from amqp_broker.protocol.constants import MOVED_BY
from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
from queues.background import Background
from queues.effects import (
    AttachRefused,
    Confirmed,
    ConsumerCancelled,
    Counted,
    Delivered,
    Effect,
    GetAnswered,
    Refusal,
    SettleMissed,
)
from queues.message import Delivery, Message
from queues.outcomes import PublishOutcome
from queues.quorum.commands import Command, Detach, Enqueue, Get, How, Purge, Settle
from queues.receipts import LetterReceipt, Receipt
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from amqp_broker.queue_types.proxy.queue import QueueProxy

log = logging.getLogger("amqp_broker.proxies")

#: Called with why there is no answer, or the delivery (None: the queue is empty), and how many messages are left.
Fetched = Callable[[Refusal | None, Delivery | None, int], None]
#: Called with why there is no answer, or with how many messages there were.
Tallied = Callable[[Refusal | None, int], None]

#: The octet with the flag "there are headers" in a content header frame, and the header that names a producer.
_FLAGS_AT = 19
_HAS_HEADERS = 0x20
_PRODUCER_KEY = b"\x0dx-producer-id"
PRODUCER_ID = "x-producer-id"
#: As a producer of its dead letters a queue has this name, with its id.
LETTERS_OF = b"\x00letters of "
PRODUCER_SEQUENCE = "x-producer-sequence"
#: What is longer cannot be remembered by a queue.
_MOST_OCTETS = 255
_MOST_SEQUENCE = (1 << 64) - 1

#: Acknowledgements wait at most so long for something that they can go along with, milliseconds: as long as those of
#: classic queues, which are written within that time (LAZY_SYNC_MS).
ACK_REST_MS = 20
_ACK_REST_MS = ACK_REST_MS
#: What came at once is handed to clients at once up to so much, and the rest in slices of the background: in messages
#: that leave as they came, about a microsecond each.
HANDED_AT_ONCE = 2048
_HANDED_AT_ONCE = HANDED_AT_ONCE
#: One that came back, for which a header is made that says how often, counts as so many.
REMADE = 8
_REMADE = REMADE
#: Who fetches a message asks so often while the answer is that there may be one: each time as much has expired in front
#: of it, or is passed over, as one command does. Then there is none, for now.
MOST_FETCHES = 100
_MOST_FETCHES = MOST_FETCHES
#: So many consumers that are not known here are remembered, those that came last.
_MOST_STRANGERS = 1000
_TAKEN: int = PublishOutcome.TAKEN


class DetachReceipt(Receipt):
    """When a consumer is known to have gone, nothing comes for it any more."""

    def __init__(self, sink: CommandSink, delivery_owner: ProxyConsumer) -> None:
        self._sink = sink
        self._delivery_owner = delivery_owner

    def expect(self) -> None:
        """One command: the Detach."""

    def complete(self, refusal: Refusal | None) -> None:
        """It is done."""
        self._sink.forget_owner(self._delivery_owner)


class CommandSink(WriteGroup):
    """holders: the consumers by number, until it is known that they are gone. settling: those that have something to
    settle at the end of the turn. rest_ms: for how long that may rest, if the sink lets it. background: where the rest
    of very many deliveries is handed out, None to hand out any number at once. may_hand_out: some more now. strayed:
    how many deliveries were for nobody that is known here."""

    is_local = False

    def __init__(self) -> None:
        self.epoch = 1
        self.rest_ms = _ACK_REST_MS
        self.background: Background | None = None
        self.may_hand_out = True
        self._to_hand_out = _HANDED_AT_ONCE
        self._late: deque[ProxyConsumer] = deque()
        self._is_handing_out = False
        self.delivery_owners: dict[int, ProxyConsumer] = {}
        self.settling: list[ProxyConsumer] = []
        self._fetching: dict[int, tuple[ProxyConsumer, Fetched]] = {}
        self._tallying: deque[Tallied] = deque()
        self.strayed = 0
        self._strangers: dict[int, None] = {}

    def hand_out_in(self, background: Background) -> None:
        """The rest of very many deliveries is handed out there."""
        self.background = background

    # -- what a subclass does ------------------------------------------------------------------------------------------

    def submit(self, command: Command, receipt: Receipt | None = None) -> int:
        """Put a command behind the others. `receipt` is told to expect it, and completed with its fate. Returns the
        number of the command."""
        raise NotImplementedError

    def new_consumer(self) -> int:
        """A number for an Attach or a Get."""
        raise NotImplementedError

    def forget_owner(self, delivery_owner: ProxyConsumer) -> None:
        """Nothing comes for a consumer any more."""
        self.delivery_owners.pop(delivery_owner.number, None)

    def touch(self) -> None:
        """There is something to settle: `flush` has to be called at the end of this turn."""

    def add_settling(self, delivery_owner: ProxyConsumer) -> None:
        """A consumer has something to settle, for the first time since it was flushed."""
        self.settling.append(delivery_owner)
        self.touch()

    def limit_rest(self, rest_ms: int) -> None:
        """A consumer's settlements may rest for so long at most."""
        if rest_ms < self.rest_ms:
            self.rest_ms = rest_ms
            self.touch()

    # -- commands ------------------------------------------------------------------------------------------------------

    def publish(
        self, message: Message, proxies: Sequence[QueueProxy], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """One message for queues behind this sink (WriteGroup). One that comes back, maybe behind later ones, nobody is
        to take for a duplicate, but of itself."""
        wants_id = False
        for proxy in proxies:
            if not proxy.is_prepared:
                proxy.prepare()
            if proxy.knows_message_ids:
                wants_id = True
        queue_ids = (proxies[0].queue_id,) if len(proxies) == 1 else tuple([proxy.queue_id for proxy in proxies])
        content = message.content
        is_produced = (
            content[_FLAGS_AT] & _HAS_HEADERS and content.find(_PRODUCER_KEY, _FLAGS_AT, message.header_end) >= 0
        )
        if is_again:
            if isinstance(receipt, LetterReceipt):
                self.submit(Enqueue(queue_ids, message, receipt.sender, receipt.number), receipt)
            else:
                self.submit(Enqueue(queue_ids, message), receipt)
        elif is_produced or wants_id:
            self.submit(marked_enqueue(queue_ids, message, wants_id), receipt)
        else:
            self.submit(Enqueue(queue_ids, message), receipt)
        return _TAKEN

    def publish_numbered(
        self, message: Message, proxies: list[QueueProxy], producer: bytes, number: int, receipt: Receipt
    ) -> None:
        """See WriteGroup. The marks that the publisher has given the message come first."""
        for proxy in proxies:
            if not proxy.is_prepared:
                proxy.prepare()
        wants_id = any(proxy.knows_message_ids for proxy in proxies)
        enqueue = marked_enqueue(tuple([proxy.queue_id for proxy in proxies]), message, wants_id)
        if producer and not enqueue.producer:
            enqueue = Enqueue(enqueue.queue_ids, message, producer, number, enqueue.message_id)
        self.submit(enqueue, receipt)

    def attach(self, delivery_owner: ProxyConsumer) -> None:
        """Deliveries for this number are the holder's."""
        self.delivery_owners[delivery_owner.number] = delivery_owner

    def detach(self, delivery_owner: ProxyConsumer, gives_back: bool) -> None:
        """The consumer gets nothing more; what its client holds stays with it, or goes back."""
        self.flush()  # what was settled does not go back
        self.submit(Detach(delivery_owner.number, gives_back, delivery_owner.seen), DetachReceipt(self, delivery_owner))
        delivery_owner.is_released = gives_back
        delivery_owner.end()

    def fetch(self, delivery_owner: ProxyConsumer, queue_id: int, then: Fetched) -> None:
        """Fetch one message, which the holder then has."""
        delivery_owner.fetches += 1
        self._fetching[delivery_owner.number] = (delivery_owner, then)
        self.submit(Get(delivery_owner.number, queue_id))

    def purge(self, queue_id: int, then: Tallied) -> None:
        """Drop all ready messages of a queue."""
        self._tallying.append(then)
        self.submit(Purge(queue_id))

    def flush(self, receipt: Receipt | None = None) -> None:
        """Submit what the turn has settled."""
        if self.settling:
            settling, self.settling = self.settling, []
            self.rest_ms = _ACK_REST_MS
            for delivery_owner in settling:
                delivery_owner.is_settling = False
                delivery_owner.flush(receipt)

    # -- handing out ---------------------------------------------------------------------------------------------------

    def handed_out(self, delivery: Delivery) -> None:
        """A message was written for a client."""
        self._to_hand_out -= _REMADE if delivery.returns else 1
        if self._to_hand_out <= 0 and self.background is not None:
            self.may_hand_out = False

    def hand_out_later(self, delivery_owner: ProxyConsumer) -> None:
        """It has credit for what waits for it, and this turn has handed out enough."""
        if delivery_owner.is_late:
            return
        delivery_owner.is_late = True
        self._late.append(delivery_owner)
        if not self._is_handing_out and self.background is not None:
            self._is_handing_out = True
            self.background.add(self._hand_out_some)

    def _hand_out_some(self, now: int) -> bool:
        """A slice: those who are late, in order."""
        assert self.background is not None
        self._to_hand_out = self.background.slice
        self.may_hand_out = True
        late = self._late
        while late and self.may_hand_out:
            delivery_owner = late.popleft()
            delivery_owner.is_late = False
            if not delivery_owner.is_ended:
                delivery_owner.hand_out()
        self._is_handing_out = bool(late)
        return self._is_handing_out

    # -- effects -------------------------------------------------------------------------------------------------------

    def take_effects(self, effects: Sequence[Effect]) -> None:
        """Hand what came of commands to whom it concerns. Those of no client are `other_effect`'s."""
        self.begin_effects()
        delivery_owners = self.delivery_owners
        for effect in effects:
            if type(effect) is Delivered:
                delivery_owner = delivery_owners.get(effect.consumer)
                if delivery_owner is not None:
                    delivery_owner.deliver(
                        effect.delivery_id, effect.message, effect.redelivered, effect.delivery_count
                    )
                else:
                    self._end_stranger(effect.consumer)
            else:
                self.take_effect(effect)

    def _end_stranger(self, consumer: int) -> None:
        """A delivery is for a consumer of which this node knows nothing: it is ended, and what it was given returns to
        its queue. Until that is applied more may come for it."""
        self.strayed += 1
        if consumer not in self._strangers:
            if len(self._strangers) >= _MOST_STRANGERS:
                del self._strangers[next(iter(self._strangers))]
            self._strangers[consumer] = None
            log.error("consumer %d has deliveries and is not known here: it is ended, and they go back to their queue; "
                      "report it", consumer)  # fmt: skip
            self.submit(Detach(consumer, True, 0))

    def begin_effects(self) -> None:
        """Effects have come: so much of them is handed out at once."""
        if not self._is_handing_out:
            self._to_hand_out = _HANDED_AT_ONCE
            self.may_hand_out = True

    def take_effect(self, effect: Effect) -> None:
        """One of `take_effects` that is no delivery."""
        if isinstance(effect, GetAnswered):
            self._on_get_answered(effect)
        elif isinstance(effect, Counted):
            self._tallying.popleft()(None, effect.messages)
        elif isinstance(effect, AttachRefused):
            self._on_attach_refused(effect)
        elif isinstance(effect, ConsumerCancelled):
            self._on_consumer_cancelled(effect)
        elif isinstance(effect, SettleMissed):
            log.info("%d deliveries that a client has settled were not its any more", effect.deliveries)
        elif not isinstance(effect, Confirmed):
            self.other_effect(effect)

    def other_effect(self, effect: Effect) -> None:
        """An effect that is no answer to a client."""
        raise NotImplementedError

    def _on_get_answered(self, effect: GetAnswered) -> None:
        found = self._fetching.pop(effect.consumer, None)
        if found is None:
            return
        delivery_owner, then = found
        proxy = delivery_owner.proxy
        delivery = None
        if effect.message is not None:
            delivery = delivery_owner.delivery(
                effect.delivery_id, effect.message, effect.redelivered, effect.delivery_count
            )
            delivery.consumer = delivery_owner.consumer
        elif effect.delivery_id:  # the message is not to be had any more
            self.submit(Settle(effect.consumer, How.RETURN, ((effect.delivery_id, effect.delivery_id),)))
        if delivery is None and effect.ready and not proxy.is_deleted and delivery_owner.fetches < _MOST_FETCHES:
            delivery_owner.number = self.new_consumer()
            self.fetch(delivery_owner, proxy.queue_id, then)
        else:
            then(None, delivery, effect.ready)

    def _on_attach_refused(self, effect: AttachRefused) -> None:
        delivery_owner = self.delivery_owners.pop(effect.consumer, None)
        if delivery_owner is not None:
            delivery_owner.refusal = effect.refusal
            if delivery_owner.is_open:  # it was attached before, in a session that is over
                self.cancel(delivery_owner)

    def _on_consumer_cancelled(self, effect: ConsumerCancelled) -> None:
        delivery_owner = self.delivery_owners.pop(effect.consumer, None)
        if delivery_owner is None or delivery_owner.is_ended:
            return
        if delivery_owner.is_open:
            self.cancel(delivery_owner)
        else:
            delivery_owner.refusal = Refusal.NO_QUEUE

    def cancel(self, delivery_owner: ProxyConsumer) -> None:
        """The broker ends a consumer; what it held is not its any more."""
        delivery_owner.cancel()

    # -- the end of an epoch -------------------------------------------------------------------------------------------

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """A new session: consumers have new numbers (by the old ones), and hold nothing."""
        self.epoch += 1
        self.settling = []
        delivery_owners, self.delivery_owners = self.delivery_owners, {}
        fetching, self._fetching = self._fetching, {}
        for delivery_owner in (*delivery_owners.values(), *[each for each, _ in fetching.values()]):
            delivery_owner.is_settling = False
            delivery_owner.forget()
        for number, delivery_owner in delivery_owners.items():
            if number in numbers:
                delivery_owner.number = numbers[number]
                self.delivery_owners[delivery_owner.number] = delivery_owner
        for number, (delivery_owner, then) in fetching.items():
            delivery_owner.number = numbers[number]
            self._fetching[delivery_owner.number] = (delivery_owner, then)

    def give_up(self, refusal: Refusal) -> None:
        """All is lost that was on its way, and nothing comes after it: who waits is told, consumers are cancelled."""
        self.epoch += 1
        self.settling = []
        delivery_owners, self.delivery_owners = self.delivery_owners, {}
        fetching, self._fetching = self._fetching, {}
        tallying, self._tallying = self._tallying, deque()
        for delivery_owner in delivery_owners.values():
            delivery_owner.is_settling = False
            if delivery_owner.is_open and not delivery_owner.is_ended:
                self.cancel(delivery_owner)
            else:
                delivery_owner.refusal = refusal
                delivery_owner.forget()
        for _, then in fetching.values():
            then(refusal, None, 0)
        for tallied in tallying:
            tallied(refusal, 0)


def marked_enqueue(queue_ids: tuple[int, ...], message: Message, wants_id: bool) -> Enqueue:
    """An Enqueue with the marks by which a queue recognises the message: the headers x-producer-id (a string of up to
    255 octets) and x-producer-sequence (a number from 0), and the property message-id where a queue looks at it. What
    somebody moves was published before, and is no duplicate of itself: it is acknowledged when it is taken here."""
    facts = MessageFacts(message)
    if MOVED_BY in facts.headers:
        return Enqueue(queue_ids, message)
    producer = facts.headers.get(PRODUCER_ID)
    sequence = facts.headers.get(PRODUCER_SEQUENCE)
    octets = _octets(producer)
    if octets.startswith(LETTERS_OF):
        octets = b""  # these names are the broker's own
    if isinstance(sequence, str) and sequence.isascii() and sequence.isdigit():
        sequence = int(sequence[:20])
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= _MOST_SEQUENCE:
        octets, sequence = b"", 0
    message_id = _octets(facts.properties.message_id) if wants_id else b""
    return Enqueue(queue_ids, message, octets, sequence if octets else 0, message_id)


def _octets(value: object) -> bytes:
    """A name's octets; none for something else, or for too many of them."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) and len(value) <= _MOST_OCTETS else b""
