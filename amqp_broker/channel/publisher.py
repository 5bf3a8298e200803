"""Publisher: the long way of a published message, for everything that is not simply "these queues".

It checks permissions when a route is first needed, and it knows the special cases: headers exchanges, CC and BCC,
expiration and user-id checks, direct reply-to, delayed messages, transactions, the system exchange.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from amqp_broker.auth.permissions import Action
from amqp_broker.channel.routed_message import RoutedMessage
from amqp_broker.channel.wide_publish import AT_ONCE, publish_in_slices
from amqp_broker.errors import ChannelException, ConnectionException, not_found, precondition_failed
from amqp_broker.flow.turn_share import LONG_WAY
from amqp_broker.messages.facts import (
    MessageFacts,
    copy_keys,
    with_plain_longs,
    with_properties,
    without_header,
)
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.properties import replace_properties
from amqp_broker.routing.reply_to import REPLY_PREFIX, REPLY_TO
from amqp_broker.routing.routes import PublishRoute
from amqp_broker.routing.taps import REFUSED
from exchanges.router import Route
from queues.message import Address, Message
from queues.outcomes import PublishOutcome
from queues.receipts import Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.consumer import ChannelConsumer
    from amqp_broker.routing.taps import Details
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from queues.background import Background

#: The exchange at which the broker itself answers requests (management/verbs/system.py).
SYSTEM_EXCHANGE = "amq.system"

REFUSED_OUTCOME: int = PublishOutcome.REFUSED
_NOT_DELAYED: list[str] = []
#: So many consumers hear in one slice that they were cancelled.
_CANCELS = 32


class SystemRequests(Protocol):
    """Serves what is published to the broker itself (management/verbs/system.py)."""

    def request(self, channel: Channel, verb: str, message: Message, facts: MessageFacts) -> None: ...


class Publisher:
    """Shared by all channels of a node."""

    def __init__(self, broker: Broker, background: Background, system: SystemRequests) -> None:
        self._broker = broker
        self._background = background
        self._reply_consumers = broker.reply_consumers
        self._system = system
        self._cancels: deque[tuple[Channel, str]] = deque()

    def find_route(self, channel: Channel, raw: bytes) -> tuple[Address, PublishRoute]:
        """The address that two short strings are, exchange and routing key, and its route. Raises ChannelException
        (403, 404), and ConnectionException once the virtual host is deleted, or (540) where the message is to be
        delivered at once: that comes first."""
        vhost = channel.vhost
        vhost.check_is_there()
        _check_not_immediate(channel)
        session = channel.session
        split = 1 + raw[0]
        exchange = raw[1:split].decode("utf-8", "surrogateescape")
        routing_key = raw[split + 1 :].decode("utf-8", "surrogateescape")
        address = Address(raw)
        if exchange == SYSTEM_EXCHANGE:
            return address, PublishRoute(None, [], False, vhost.generation)
        session.check(Action.WRITE, "exchange", exchange)
        if not exchange and routing_key.startswith(REPLY_PREFIX):
            return address, PublishRoute(None, [], False, vhost.generation)
        entry = vhost.router.get(exchange)
        if entry is None:
            raise not_found("exchange", exchange, vhost.name)
        if entry.internal:
            raise ChannelException(
                ReplyCode.ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange}' in vhost '{vhost.name}'"
            )
        if entry.exchange.type_name == "topic":
            check_topics(channel, exchange, [routing_key])
        if vhost.router.depends_on_message(exchange):
            route = PublishRoute(entry, [], False, vhost.generation)
            if not vhost.router.depends_on_properties(exchange):
                route.remember_headers()
            return address, route
        route = vhost.route_to(entry, vhost.router.route(exchange, [routing_key], None).queues)
        if vhost.taps is not None and vhost.taps.covers(exchange):
            return address, PublishRoute(entry, route.queues, False, vhost.generation, True)
        return address, route

    def publish(self, channel: Channel, route: PublishRoute, message: Message) -> None:
        """Check and route one message. Raises ChannelException or ConnectionException."""
        if channel.scanner.headers_end and channel.scanner.has_capital_longs:
            message = with_properties(message, with_plain_longs(message.properties()))
        headers, may_copy = channel.scanner.headers_of(message.content), channel.scanner.has_copies
        facts = MessageFacts(message, headers, may_copy)
        self._check(channel, message, facts)
        if channel.scanner.has_reply_to and facts.properties.reply_to == REPLY_TO:
            message = self._with_reply_address(channel, message)
            facts = MessageFacts(message, headers, may_copy)
        if route.entry is None and message.address.exchange == SYSTEM_EXCHANGE:
            _check_reply_queue(channel, facts.properties.reply_to)
            channel.count_request(message.body_size)
        if channel.scanner.has_copies:
            try:
                keys = copy_keys(facts)
            except ValueError as error:
                raise precondition_failed(str(error)) from None
            if route.entry is not None and route.entry.is_topic:
                check_topics(channel, message.address.exchange, keys)
        routed = self._find_way(channel, route, message, facts)
        if channel.transaction is not None:
            channel.transaction.add_message(routed, routed.route is not route)
            channel.services.turn_share.note(channel.connection, LONG_WAY)
            return
        receipt = channel.confirms.new_receipt() if channel.is_confirming else None
        copies = self.hand_over(
            channel, routed, channel.is_mandatory, receipt, channel.record_outcome,
            lambda found, given: self.publish_to_many(channel, found, given),
        )  # fmt: skip
        channel.count_copies(copies)
        # Not in a commit, which is parked for an answer of its own.
        channel.services.turn_share.note(channel.connection, max(copies, LONG_WAY))

    def _find_way(self, channel: Channel, route: PublishRoute, message: Message, facts: MessageFacts) -> RoutedMessage:
        """The message that a channel has published last, with where it goes as things are now."""
        found, delayed = route, _NOT_DELAYED
        if route.entry is not None and (facts.may_copy or not (route.is_plain or route.is_observed)):
            found, delayed = self._walk(channel.vhost, route, message, facts)
        # The blind copies route the message (`facts` still has them) and are not seen by who gets it.
        seen = without_header(message, facts, "BCC") if channel.scanner.has_copies else message
        return RoutedMessage(found, delayed, seen, message, facts, channel.is_mandatory)

    def hand_over(
        self,
        channel: Channel,
        routed: RoutedMessage,
        is_told: bool,
        receipt: Receipt | None,
        record_outcome: Callable[[int], None],
        to_many: Callable[[PublishRoute, Message], None],
    ) -> int:
        """Hand a message to where it belongs. is_told: the channel hears of it if it went nowhere. The receipt is told
        what becomes of it in queues that tell nobody else; record_outcome the PublishOutcome of the others. to_many:
        hands it to very many, and sees to their outcome. Returns to how many queues it goes."""
        vhost, found, message = channel.vhost, routed.route, routed.message
        if found.entry is None:
            self._publish_specially(channel, message, routed.facts, is_told)
            return 0
        delayed = routed.delayed
        if vhost.taps is not None:
            who = publisher_of(channel, routed.is_mandatory)
            vhost.taps.published(channel.clock.now, message, routed.facts, found.queues, who)
        if delayed:
            channel.connection.stay()
        for name in delayed:
            holder = vhost.delayed.get(name)
            if holder is not None:  # else it went before the commit, with all that it held
                holder.add(routed.held, channel.clock.now, receipt)
        if found.queues:
            if found.needs_receipt:
                channel.connection.record_elsewhere(found.elsewhere, found.pacing, message)
            if len(found.queues) > AT_ONCE:
                to_many(found, message)
            else:
                outcome = found.publish(message, receipt, False, channel.clock.now)
                if outcome:
                    record_outcome(outcome)
                self.observe(channel, found, message, outcome)
        elif not delayed:
            self.record_unroutable(channel, message, is_told)
            if is_told:
                channel.return_message(message)
        return len(found.queues)

    def publish_to_many(self, channel: Channel, route: PublishRoute, message: Message) -> None:
        """Hand the message that a channel has published last to the queues of a route, which are very many."""
        receipt = channel.confirms.new_receipt() if channel.is_confirming else None
        publish_in_slices(
            channel, route, message, receipt, lambda outcome: self.observe(channel, route, message, outcome)
        )

    @staticmethod
    def observe(channel: Channel, route: PublishRoute, message: Message, outcome: int) -> None:
        """Somebody may want to know of messages that are refused."""
        vhost = channel.vhost
        if outcome == REFUSED_OUTCOME and vhost.taps is not None:
            refusing = [queue.name for queue in route.queues]
            vhost.happened(channel.clock.now, REFUSED, message, {"queues": refusing})

    def record_unroutable(self, channel: Channel, message: Message, is_returned: bool) -> None:
        """A message went to no queue."""
        channel.record_unroutable(is_returned)
        self._broker.record_unroutable(
            channel.vhost.name, message.raw, channel.session.user, channel.connection.peer, is_returned
        )

    def _walk(
        self, vhost: VHost, route: PublishRoute, message: Message, facts: MessageFacts
    ) -> tuple[PublishRoute, list[str]]:
        """Where a message goes whose headers matter, and the exchanges that hold it back. It is remembered where
        headers alone decide; with copies, routes of other addresses do, too."""
        address = message.address
        headers = facts.headers_raw or b""
        if facts.may_copy:
            found: Route = vhost.router.route(address.exchange, [address.routing_key, *copy_keys(facts)], facts)
        else:
            known = None if route.by_headers is None else route.by_headers.routes.get(headers)
            if known is not None:
                return known, []
            found = vhost.router.route(address.exchange, [address.routing_key], facts)
            if not found.delayed:
                return vhost.remember_by_headers(route, headers, found.queues), []
        assert route.entry is not None  # it has just routed
        return vhost.unshared_route(route.entry, found.queues), found.delayed

    def _check(self, channel: Channel, message: Message, facts: MessageFacts) -> None:
        _check_not_immediate(channel)
        if message.expiration < -1:
            value = facts.properties.expiration
            raise precondition_failed(f"invalid expiration '{value}': not a number of milliseconds")
        session = channel.session
        if channel.scanner.has_user_id:
            claimed = facts.properties.user_id
            if claimed and claimed != session.user and not session.has_tag("impersonator"):
                raise precondition_failed(
                    f"user_id property set to '{claimed}' but authenticated user was '{session.user}'"
                )

    def _with_reply_address(self, channel: Channel, message: Message) -> Message:
        """The message with its reply-to replaced by the address of the channel's reply consumer."""
        consumer = channel.reply_consumer
        if consumer is None:
            raise precondition_failed("fast reply consumer does not exist")
        return with_properties(message, replace_properties(message.properties(), reply_to=consumer.address))

    def _publish_specially(self, channel: Channel, message: Message, facts: MessageFacts, is_told: bool) -> None:
        """A reply to a reply consumer, or a request to the broker itself."""
        channel.connection.stay()
        if message.address.exchange == SYSTEM_EXCHANGE:
            self._system.request(channel, message.address.routing_key, message, facts)
            return
        if not self._reply_consumers.deliver(message) and is_told:
            channel.return_message(message)

    def cancel_consumer(self, channel: Channel, consumer: ChannelConsumer) -> None:
        """The queue of a consumer is gone: tell a client that wants to know (RabbitMQ's consumer_cancel_notify); after
        the queue.delete-ok that it waits for."""
        channel.consumers.pop(consumer.tag, None)
        channel.connection.tell_cancelled(channel, consumer.tag)

    @property
    def is_telling(self) -> bool:
        """Whether clients have still to hear that consumers of theirs were cancelled."""
        return bool(self._cancels)

    def tell_cancelled(self, channel: Channel, consumer_tag: str) -> None:
        """basic.cancel from the broker for a consumer, in slices: a queue may have very many."""
        if not self._cancels:
            self._background.add(self._tell_some)
        self._cancels.append((channel, consumer_tag))

    def _tell_some(self, now: int) -> bool:
        cancels = self._cancels
        for _ in range(min(_CANCELS, len(cancels))):
            channel, consumer_tag = cancels.popleft()
            if channel.is_closing or not channel.connection.has_channel(channel):
                continue  # nobody is there to be told
            if consumer_tag in channel.consumers:
                continue  # the client has cancelled it, and used the tag again
            if "consumer_cancel_notify" in channel.session.capabilities:
                payload = methods.encode_method(methods.BasicCancel(consumer_tag, True))
                channel.output.put_frame(1, channel.channel_id, payload)
                channel.connection.touch()
        return bool(cancels)


def _check_not_immediate(channel: Channel) -> None:
    if channel.is_immediate:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "immediate=true", 60, 40)


def publisher_of(channel: Channel, is_mandatory: bool) -> Details:
    """Whose a message is, for who observes it."""
    return {
        "connection": str(channel.connection.peer),
        "channel": channel.channel_id,
        "user": channel.session.user,
        "mandatory": is_mandatory,
    }


def check_topics(channel: Channel, exchange: str, routing_keys: list[str]) -> None:
    """Whether the user's topic permission lets these keys through, copies too. Raises ChannelException (403)."""
    session = channel.session
    for key in routing_keys:
        if not session.allows_topic(Action.WRITE, exchange, key):
            raise ChannelException(
                ReplyCode.ACCESS_REFUSED,
                f"write access to topic '{key}' in exchange '{exchange}' in vhost '{channel.vhost.name}' "
                f"refused for user '{session.user}'",
            )


def _check_reply_queue(channel: Channel, reply_to: str | None) -> None:
    """The broker's answers go to a queue as if the user had published them there, so the user has to be allowed to.
    Raises ChannelException (403)."""
    if reply_to and not reply_to.startswith(REPLY_PREFIX):
        channel.session.check(Action.WRITE, "exchange", "")
