"""The exchange class (AMQP 0-9-1 §1.6), with RabbitMQ's exchange.bind and exchange.unbind."""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.replies import reply_when_synced
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from exchanges.bindings import EXCHANGE, Destination


def on_exchange_declare(channel: Any, method: Any) -> None:
    """exchange.declare"""
    declarations = channel.connection.node.broker.declarations
    ticket = declarations.declare_exchange(channel.connection, method)
    reply_when_synced(channel, ticket, methods.ExchangeDeclareOk(), method.nowait)


def on_exchange_delete(channel: Any, method: Any) -> None:
    """exchange.delete"""
    declarations = channel.connection.node.broker.declarations
    ticket = declarations.delete_exchange(channel.connection, method.exchange, method.if_unused)
    reply_when_synced(channel, ticket, methods.ExchangeDeleteOk(), method.nowait)


def on_exchange_bind(channel: Any, method: Any) -> None:
    """exchange.bind"""
    declarations = channel.connection.node.broker.declarations
    destination = Destination(EXCHANGE, method.destination)
    ticket = declarations.bind(channel.connection, destination, method.source, method.routing_key, method.arguments)
    reply_when_synced(channel, ticket, methods.ExchangeBindOk(), method.nowait)


def on_exchange_unbind(channel: Any, method: Any) -> None:
    """exchange.unbind"""
    declarations = channel.connection.node.broker.declarations
    destination = Destination(EXCHANGE, method.destination)
    ticket = declarations.unbind(channel.connection, destination, method.source, method.routing_key, method.arguments)
    reply_when_synced(channel, ticket, methods.ExchangeUnbindOk(), method.nowait)


HANDLERS = {
    c.EXCHANGE_DECLARE: on_exchange_declare,
    c.EXCHANGE_DELETE: on_exchange_delete,
    c.EXCHANGE_BIND: on_exchange_bind,
    c.EXCHANGE_UNBIND: on_exchange_unbind,
}
