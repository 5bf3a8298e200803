"""Channels of this node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.channel.channel import Channel
from amqp_broker.connection.connection import connection_of
from amqp_broker.management.objects.connections import Connections
from amqp_broker.management.objects.kind import DETAILS, Cursor, Kind, Scope, Things
from amqp_broker.management.objects.oldest_deliveries import oldest_of
from amqp_broker.management.objects.values import connection_name
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.channel.consumer import ChannelConsumer
    from amqp_broker.connection.connection import Connection
    from amqp_broker.flow.client import Client
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.request import Request

_NAME = re.compile(r"(.*) \((\d+)\)", re.DOTALL)


def channel_name(channel: Channel) -> str:
    """As RabbitMQ calls it."""
    return f"{connection_name(channel.connection)} ({channel.channel_id})"


class Channels(Kind[Channel, Channel]):
    """In the order of their connections, then of their numbers."""

    name = "channels"
    singular = "channel"
    cursor = (int, int)
    is_by_node = True
    _consumers: Kind[ChannelConsumer, ChannelConsumer]

    def __init__(self, counts: NodeCounts, connections: Connections) -> None:
        super().__init__(counts)
        self._connections = connections
        self.columns = {
            "name": channel_name,
            "number": lambda one: one.channel_id,
            "node": lambda one: self.node_name,
            "user": lambda one: one.session.user,
            "user_who_performed_action": lambda one: one.session.acting or one.session.user,
            "vhost": lambda one: one.vhost.name,
            "state": lambda one: "closing" if one.is_closing else ("running" if one.is_flowing else "flow"),
            "confirm": lambda one: one.is_confirming,
            "transactional": lambda one: one.transaction is not None,
            "consumer_count": lambda one: len(one.consumers),
            "prefetch_count": lambda one: one.consumer_prefetch,
            "global_prefetch_count": lambda one: one.prefetch,
            "messages_unacknowledged": lambda one: one.held_count(),
            "oldest_unacked_age_ms": self._oldest_age,
            "messages_unconfirmed": lambda one: (
                one.confirms.messages_published() - one.confirms.messages_confirmed()
            ),
            "messages_uncommitted": lambda one: len(one.transaction.messages) if one.transaction is not None else 0,
            "acks_uncommitted": lambda one: len(one.transaction.settlements) if one.transaction is not None else 0,
            "connection_details": lambda one: connection_details(one.connection),
            "publish": lambda one: one.published + one.confirms.published,
            "confirm_count": lambda one: one.confirms.messages_confirmed(),
            "return_unroutable": lambda one: one.returned,
            "drop_unroutable": lambda one: one.unroutable - one.returned,
            "deliver": lambda one: one.delivered_count() - one.passed - one.got,
            "deliver_no_ack": lambda one: one.passed - one.answered - one.got_no_ack,
            "get": lambda one: one.got,
            "get_no_ack": lambda one: one.got_no_ack,
            "get_empty": lambda one: one.got_nothing,
            "deliver_get": lambda one: one.messages_delivered(),
            "redeliver": lambda one: one.redelivered,
            "ack": lambda one: one.acked_count(),
        }

    def detail_with(self, consumers: Kind[ChannelConsumer, ChannelConsumer]) -> None:
        """Its details are of this kind, which knows channels."""
        self._consumers = consumers

    def _oldest_age(self, one: Channel) -> int | None:
        """Since the delivery that the channel has held for longest."""
        since = oldest_of(one)
        return None if since is None else max(0, self.clock.now - since)

    def things(self, scope: Scope, after: Cursor | None) -> Things[Channel]:
        """See Kind."""
        return self.walk(after, lambda one: self._connections.shows(scope, one))

    def walk(self, after: Cursor | None, is_shown: Callable[[Connection], bool]) -> Things[Channel]:
        """Those of connections that somebody wants."""
        if after is not None:
            client = self.clients.find(after[0])
            if client is not None and is_shown(one := connection_of(client)):
                yield from self._of(one, after[1])
        for found in self._connections.walk(after, is_shown):
            if found is not None:
                yield from self._of(found[1], -1)
            else:
                yield None

    def _of(self, one: Connection, after: int) -> Things[Channel]:
        """Those of one connection: at most channel_max."""
        for number in sorted(one.channels):
            if number > after and (channel := one.channels.get(number)) is not None:
                yield (one.number, number), channel

    def is_there(self, thing: Channel) -> bool:
        """See Kind."""
        return bool(thing.is_open)

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind."""
        said = _NAME.fullmatch(request.text("name"))
        one = (yield from self._connections.named(said[1])) if said is not None else None
        if said is None or one is None or not self._connections.shows(scope, one):
            return None
        return one.channels.get(int(said[2]))

    def details(self, scope: Scope, thing: Channel) -> Steps:
        """See Kind: its consumers."""
        consumers = self._consumers
        shown = [consumers.row(one) for one in list(thing.consumers.values())[:DETAILS]]
        return {"consumer_details": shown, "publishes": [], "deliveries": []}
        yield


def connection_details(one: Client) -> JsonObject:
    """What is said of the connection of something."""
    return {"name": connection_name(one), "peer_host": one.peer.host, "peer_port": one.peer.port}
