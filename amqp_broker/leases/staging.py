"""Staging: whether a blob may be staged, asked on the node where its publisher is, who has permissions.

It is as if each message were published (channel/publisher.py): the exchange has to be there and may be written to, the
properties have to be well formed, and, unless it was said not to matter, the message has to be routed to some queue. A
transaction that was committed has nothing left to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.channel.publisher import check_topics
from amqp_broker.errors import AmqpException
from amqp_broker.leases.blob import BlobReader, MalformedBlob
from amqp_broker.leases.errors import ACCESS_REFUSED, INVALID, NOT_FOUND, LeaseError
from amqp_broker.leases.staged_routes import StagedRoutes
from amqp_broker.messages.facts import MessageFacts, copy_keys
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.content import ContentScanner
from amqp_broker.routing.reply_to import REPLY_TO
from queues.message import Address
from queues.page import AddressBook

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.routing.routes import PublishRoute

#: Messages of one staged blob.
MAX_STAGED_MESSAGES = 10_000


#: Where what is published on a channel with this address goes; as Publisher.find_route.
FindRoute = Callable[["Channel", bytes], tuple[Address, "PublishRoute"]]


class Staging:
    """Looks through blobs for the channels of a node."""

    def __init__(self, find_route: FindRoute, max_table_depth: int, max_message_bytes: int) -> None:
        self._find_route = find_route
        self._max_table_depth = max_table_depth
        self._max_message_bytes = max_message_bytes
        self._scanner = ContentScanner(max_table_depth)

    def check(self, channel: Channel, blob: bytes, is_mandatory: bool) -> int:
        """Returns how many messages the blob has. Raises LeaseError."""
        try:
            return self._check(channel, blob, is_mandatory)
        except MalformedBlob as error:
            raise LeaseError(INVALID, f"txn.stage: {error}") from None

    def _check(self, channel: Channel, blob: bytes, is_mandatory: bool) -> int:
        reader = BlobReader(blob)
        if reader.count > MAX_STAGED_MESSAGES:
            raise LeaseError(
                INVALID, f"txn.stage: a blob of {reader.count} messages, at most {MAX_STAGED_MESSAGES} are taken"
            )
        known: dict[bytes, PublishRoute] = {}
        routes = StagedRoutes(channel.vhost, self._max_table_depth, AddressBook())
        scanner = self._scanner
        while reader.advance():
            if reader.body_end - reader.body_start > self._max_message_bytes:
                raise _invalid(reader, f"its body is larger than {self._max_message_bytes} octets (max_message_size)")
            properties = reader.properties()
            if not scanner.scan(properties, 0, len(properties)):
                raise _invalid(reader, "its properties are malformed")
            route = known.get(reader.address)
            if route is None:
                route = known[reader.address] = self._find(channel, reader.address)
            if scanner.is_special:
                self._check_special(channel, reader, routes, route)
            if not is_mandatory or (route.is_plain and route.queues and not scanner.has_copies):
                continue
            message, staged_route = routes.find(routes.message(reader, 0))
            if not staged_route.queues and not staged_route.delayed:
                address = message.address
                raise LeaseError(
                    NOT_FOUND,
                    f"txn.stage: message {reader.index} is routed to no queue: exchange '{address.exchange}', routing "
                    f"key '{address.routing_key}'",
                )
        return reader.count

    def _find(self, channel: Channel, raw: bytes) -> PublishRoute:
        try:
            address, route = self._find_route(channel, raw)
        except AmqpException as error:
            code = NOT_FOUND if error.reply_code == ReplyCode.NOT_FOUND else ACCESS_REFUSED
            raise LeaseError(code, f"txn.stage: {error.explanation}") from None
        if route.entry is None:
            raise LeaseError(
                INVALID, f"txn.stage: exchange '{address.exchange}', key '{address.routing_key}' takes no part in it"
            )
        return route

    def _check_special(
        self, channel: Channel, reader: BlobReader, routes: StagedRoutes, route: PublishRoute
    ) -> None:
        """As Publisher does."""
        scanner, session = self._scanner, channel.session
        if scanner.expiration < -1:
            raise _invalid(reader, "its expiration is not a number of milliseconds")
        facts = MessageFacts(routes.message(reader, 0))
        claimed = facts.properties.user_id
        if claimed and claimed != session.user and not session.has_tag("impersonator"):
            raise _invalid(reader, f"its user_id is '{claimed}', and the user is '{session.user}'")
        if facts.properties.reply_to == REPLY_TO:
            raise _invalid(reader, f"its reply_to is '{REPLY_TO}', which is for requests that are published")
        if scanner.has_copies:
            try:
                keys = copy_keys(facts)
            except ValueError as error:
                raise _invalid(reader, str(error)) from None
            if route.entry is not None and route.entry.is_topic:
                try:
                    check_topics(channel, Address(reader.address).exchange, keys)
                except AmqpException as error:
                    raise LeaseError(ACCESS_REFUSED, f"txn.stage: {error.explanation}") from None


def _invalid(reader: BlobReader, reason: str) -> LeaseError:
    return LeaseError(INVALID, f"txn.stage: message {reader.index} of the blob: {reason}")
