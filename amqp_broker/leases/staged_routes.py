"""StagedRoutes: where the messages of staged blobs go, as the bindings of a virtual host say now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.messages.facts import MessageFacts, copy_keys, with_plain_longs, without_header
from amqp_broker.protocol.content import ContentScanner
from exchanges.router import UnknownExchange
from queues.message import Message, build_message

if TYPE_CHECKING:
    from amqp_broker.leases.blob import BlobReader
    from amqp_broker.routing.vhost import VHost
    from queues.page import AddressBook
    from queues.queue import Queue


class StagedRoute(NamedTuple):
    """Queues in order, and the exchanges that hold a message back on its way."""

    queues: list[Queue]
    delayed: list[str]


_NOWHERE = StagedRoute([], [])


class StagedRoutes:
    """Of one virtual host. Ways that depend on the address alone are remembered for as long as this object is used,
    which is one blob."""

    def __init__(self, vhost: VHost, max_table_depth: int, addresses: AddressBook) -> None:
        self._vhost = vhost
        self._router = vhost.router
        self._scanner = ContentScanner(max_table_depth)
        self._addresses = addresses
        self._found: dict[bytes, StagedRoute | None] = {}

    def message(self, reader: BlobReader, now: int) -> Message:
        """The message where the reader is, to be kept on the disk, as it is when it is published. Raises ValueError
        when its properties are malformed."""
        properties = reader.properties()
        scanner = self._scanner
        if not scanner.scan(properties, 0, len(properties)):
            raise ValueError(f"message {reader.index} of a blob has malformed properties")
        if scanner.headers_end and scanner.has_capital_longs:
            properties = with_plain_longs(properties)
        return build_message(
            self._addresses.find(reader.address), properties, reader.body(), True, scanner.priority,
            scanner.expiration, now,
        )  # fmt: skip

    def find(self, message: Message) -> tuple[Message, StagedRoute]:
        """The way of the message that `message` has made last, and the message without what nobody is to see."""
        raw = message.raw
        route = self._found.get(raw)
        if route is None and raw not in self._found:
            route = self._found[raw] = self._plain(message)
        if route is not None and not self._scanner.has_copies:
            return message, route
        facts = MessageFacts(message)
        address = message.address
        try:
            keys = [address.routing_key, *copy_keys(facts)]
            found = self._router.route(address.exchange, keys, facts)
        except (UnknownExchange, ValueError):
            return message, _NOWHERE
        queues = self._vhost.queues
        route = StagedRoute([queues[name] for name in found.queues if name in queues], found.delayed)
        return without_header(message, facts, "BCC") if self._scanner.has_copies else message, route

    def _plain(self, message: Message) -> StagedRoute | None:
        """The way of all messages with this address; None if each has its own."""
        address, vhost = message.address, self._vhost
        if vhost.router.get(address.exchange) is None:
            return _NOWHERE
        if vhost.router.depends_on_message(address.exchange):
            return None
        found = vhost.router.route(address.exchange, [address.routing_key], None)
        return StagedRoute([vhost.queues[name] for name in found.queues if name in vhost.queues], [])
