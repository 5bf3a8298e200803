"""The exchange class (AMQP 0-9-1 §1.6), with RabbitMQ's exchange.bind and exchange.unbind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel import audited
from amqp_broker.channel.replies import Handler, ask_again_when_applied, reply_when_applied, reply_when_known
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.vhosts.names import plain_name
from exchanges.bindings import EXCHANGE, Destination

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def on_exchange_declare(channel: Channel, method: methods.ExchangeDeclare, tries: int = 0) -> None:
    """exchange.declare"""
    declarations = channel.services.declarations
    wanted = declarations.declare_exchange(channel.declarer, method)
    if wanted is not None:
        ask_again_when_applied(on_exchange_declare, channel, method, wanted.command, tries)
    else:
        reply_when_known(channel, methods.ExchangeDeclareOk(), method.nowait, tries)


def on_exchange_delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    """exchange.delete"""
    declarations = channel.services.declarations
    name = plain_name(method.exchange)
    lasts = audited.exchange_lasts(channel, name)
    proposal = declarations.delete_exchange(channel.declarer, name, method.if_unused)
    if lasts:
        audited.record(channel, method.name, name)
    reply_when_applied(channel, proposal, methods.ExchangeDeleteOk(), method.nowait)


def on_exchange_bind(channel: Channel, method: methods.ExchangeBind, tries: int = 0) -> None:
    """exchange.bind"""
    declarations = channel.services.declarations
    destination, source = Destination(EXCHANGE, plain_name(method.destination)), plain_name(method.source)
    wanted = declarations.bind(channel.declarer, destination, source, method.routing_key, method.arguments)
    if wanted is not None:
        ask_again_when_applied(on_exchange_bind, channel, method, wanted.command, tries)
    else:
        reply_when_known(channel, methods.ExchangeBindOk(), method.nowait, tries)


def on_exchange_unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    """exchange.unbind"""
    declarations = channel.services.declarations
    destination, source = Destination(EXCHANGE, plain_name(method.destination)), plain_name(method.source)
    key = method.routing_key
    lasts = audited.binding_lasts(channel, source, destination)
    proposal = declarations.unbind(channel.declarer, destination, source, key, method.arguments)
    if lasts and proposal is not None:
        audited.record_unbound(channel, method.name, source, destination, key, method.arguments)
    reply_when_applied(channel, proposal, methods.ExchangeUnbindOk(), method.nowait)


HANDLERS: dict[int, Handler] = {
    c.EXCHANGE_DECLARE: on_exchange_declare,
    c.EXCHANGE_DELETE: on_exchange_delete,
    c.EXCHANGE_BIND: on_exchange_bind,
    c.EXCHANGE_UNBIND: on_exchange_unbind,
}
