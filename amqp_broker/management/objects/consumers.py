"""Consumers on channels of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.connection.connection import connection_of
from amqp_broker.management.objects.channels import Channels, channel_name
from amqp_broker.management.objects.connections import Connections
from amqp_broker.management.objects.kind import Cursor, Kind, Scope, Things
from amqp_broker.management.objects.oldest_deliveries import held_count
from amqp_broker.management.objects.values import as_object, connection_name
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.connection.connection import Connection
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.request import Request


class Consumers(Kind[ChannelConsumer, ChannelConsumer]):
    """In the order of their channels, then of their tags."""

    name = "consumers"
    singular = "consumer"
    cursor = (int, int, str)
    is_by_node = True

    def __init__(self, counts: NodeCounts, connections: Connections, channels: Channels) -> None:
        super().__init__(counts)
        self._connections = connections
        self._channels = channels
        self.columns = {
            "consumer_tag": lambda one: one.tag,
            "queue": _queue_details,
            "ack_required": lambda one: not one.no_ack,
            "active": lambda one: one.queue.is_active(one),
            "activity_status": _activity,
            "exclusive": lambda one: one.is_exclusive,
            "prefetch_count": lambda one: one.prefetch,
            "arguments": lambda one: as_object(one.arguments),
            "messages_unacknowledged": held_count,
            "consumer_timeout": lambda one: counts.config.consumer_timeout_ms,
            "channel_details": self._channel_details,
        }

    def _channel_details(self, one: ChannelConsumer) -> JsonObject:
        channel = one.channel
        connection = channel.connection
        return {
            "name": channel_name(channel),
            "number": channel.channel_id,
            "connection_name": connection_name(connection),
            "node": self.node_name,
            "peer_host": connection.peer.host,
            "peer_port": connection.peer.port,
            "user": channel.session.user,
        }

    def things(self, scope: Scope, after: Cursor | None) -> Things[ChannelConsumer]:
        """See Kind. Whose virtual host one may see, one sees also the consumers of others in it."""

        def is_shown(one: Connection) -> bool:
            return one.vhost is not None and scope.covers(one.vhost.name)

        if after is not None and (client := self.clients.find(after[0])) is not None:
            one = connection_of(client)
            channel = one.channels.get(after[1])
            if channel is not None and is_shown(one):
                yield from self._of(channel, after[2])
        for found in self._channels.walk(after, is_shown):
            if found is not None:
                yield from self._of(found[1], None)
            else:
                yield None

    def _of(self, channel: Channel, after: str | None) -> Things[ChannelConsumer]:
        """Those of one channel: at most max_consumers_per_channel."""
        number = channel.connection.number
        for tag in sorted(channel.consumers):
            if (after is None or tag > after) and (consumer := channel.consumers.get(tag)) is not None:
                yield (number, channel.channel_id, tag), consumer

    def is_there(self, thing: ChannelConsumer) -> bool:
        """See Kind."""
        return not thing.is_cancelled

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind. `name` is the tag, which is that of one consumer on a channel only."""
        number, tag = request.number("channel", None, 0, 0xFFFF), request.text("name")
        one = yield from self._connections.named(request.text("connection"))
        if one is None or number not in one.channels or one.vhost is None or not scope.covers(one.vhost.name):
            return None
        return one.channels[number].consumers.get(tag)


def _queue_details(one: ChannelConsumer) -> JsonObject:
    channel = one.channel
    return {"name": one.queue.name, "vhost": channel.vhost.name}


def _activity(one: ChannelConsumer) -> str | None:
    """None: whose turn it is, another node knows."""
    is_active = one.queue.is_active(one)
    if is_active is None:
        return None
    if not one.queue.has_single_active_consumer():
        return "up"
    return "single_active" if is_active else "waiting"
