"""The exchange class (AMQP 0-9-1 §1.6), with RabbitMQ's exchange.bind and exchange.unbind."""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.replies import go_on_when_applied, reply_when_applied
from amqp_broker.declarations import Wanted
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from exchanges.bindings import EXCHANGE, Destination


def on_exchange_declare(channel: Any, method: Any) -> None:
    """exchange.declare"""
    declarations = channel.connection.node.broker.declarations
    proposal = declarations.declare_exchange(channel.connection, method)
    if isinstance(proposal, Wanted):
        what = f"exchange.declare '{method.exchange}'"
        go_on_when_applied(channel, what, proposal.command, lambda: on_exchange_declare(channel, method))
        return
    reply_when_applied(channel, proposal, methods.ExchangeDeclareOk(), method.nowait)


def on_exchange_delete(channel: Any, method: Any) -> None:
    """exchange.delete"""
    declarations = channel.connection.node.broker.declarations
    proposal = declarations.delete_exchange(channel.connection, method.exchange, method.if_unused)
    reply_when_applied(channel, proposal, methods.ExchangeDeleteOk(), method.nowait)


def on_exchange_bind(channel: Any, method: Any) -> None:
    """exchange.bind"""
    declarations = channel.connection.node.broker.declarations
    destination = Destination(EXCHANGE, method.destination)
    connection, source = channel.connection, method.source
    proposal = declarations.bind(connection, destination, source, method.routing_key, method.arguments)
    if isinstance(proposal, Wanted):
        what = f"exchange.bind '{method.destination}'"
        go_on_when_applied(channel, what, proposal.command, lambda: on_exchange_bind(channel, method))
        return
    reply_when_applied(channel, proposal, methods.ExchangeBindOk(), method.nowait)


def on_exchange_unbind(channel: Any, method: Any) -> None:
    """exchange.unbind"""
    declarations = channel.connection.node.broker.declarations
    destination = Destination(EXCHANGE, method.destination)
    proposal = declarations.unbind(channel.connection, destination, method.source, method.routing_key, method.arguments)
    reply_when_applied(channel, proposal, methods.ExchangeUnbindOk(), method.nowait)


HANDLERS = {
    c.EXCHANGE_DECLARE: on_exchange_declare,
    c.EXCHANGE_DELETE: on_exchange_delete,
    c.EXCHANGE_BIND: on_exchange_bind,
    c.EXCHANGE_UNBIND: on_exchange_unbind,
}
