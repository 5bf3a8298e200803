"""The queue class (AMQP 0-9-1 §1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.channel import audited
from amqp_broker.channel.asking import ask
from amqp_broker.channel.replies import Handler, ask_again_when_applied, reply, reply_when_applied, reply_when_known
from amqp_broker.errors import ChannelException
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.vhosts.declarations import Wanted
from amqp_broker.vhosts.names import plain_name
from exchanges.bindings import QUEUE, Destination

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def queue_name(channel: Channel, name: str) -> str:
    """The queue that a method means: an empty name is the queue declared last on the channel."""
    if name:
        return name
    if channel.last_queue is None:
        raise ChannelException(ReplyCode.NOT_FOUND, "no previously declared queue")
    return str(channel.last_queue)


def on_queue_declare(channel: Channel, method: methods.QueueDeclare, tries: int = 0) -> None:
    """queue.declare"""
    declarations = channel.services.declarations
    name, found = declarations.declare_queue(channel.declarer, method)
    channel.last_queue = name
    if isinstance(found, Wanted):
        ask_again_when_applied(on_queue_declare, channel, method.replace(queue=name), found.command, tries)
        return
    if found is None:
        reply_when_known(channel, methods.QueueDeclareOk(name, 0, 1), method.nowait, tries)
        return

    def answer() -> None:
        if found.is_deleted:  # while it was counted
            on_queue_declare(channel, method.replace(queue=name), tries)
            return
        answered = methods.QueueDeclareOk(name, found.message_count(), found.consumer_count())
        reply_when_known(channel, answered, method.nowait, tries)

    ask(channel, method.name, lambda then: found.count(True, then), answer)


def on_queue_bind(channel: Channel, method: methods.QueueBind, tries: int = 0) -> None:
    """queue.bind; with an empty queue name and an empty key, the key is that queue's name too."""
    declarations = channel.services.declarations
    name = plain_name(queue_name(channel, method.queue))
    key = method.routing_key or ("" if method.queue else name)
    destination, source = Destination(QUEUE, name), plain_name(method.exchange)
    wanted = declarations.bind(channel.declarer, destination, source, key, method.arguments)
    if wanted is not None:
        again = method.replace(queue=name, routing_key=key)
        ask_again_when_applied(on_queue_bind, channel, again, wanted.command, tries)
    else:
        reply_when_known(channel, methods.QueueBindOk(), method.nowait, tries)


def on_queue_unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    """queue.unbind"""
    declarations = channel.services.declarations
    name, source = plain_name(queue_name(channel, method.queue)), plain_name(method.exchange)
    key = method.routing_key or ("" if method.queue else name)
    proposal = None
    if name in channel.vhost.queues or not source:
        destination = Destination(QUEUE, name)
        lasts = audited.binding_lasts(channel, source, destination)
        proposal = declarations.unbind(channel.declarer, destination, source, key, method.arguments)
        if lasts and proposal is not None:
            audited.record_unbound(channel, method.name, source, destination, key, method.arguments)
    reply_when_applied(channel, proposal, methods.QueueUnbindOk())


def on_queue_purge(channel: Channel, method: methods.QueuePurge) -> None:
    """queue.purge"""
    queue = channel.services.declarations.find_purged(channel.declarer, queue_name(channel, method.queue))

    def answer(count: int) -> None:
        if audited.lasts(queue):
            audited.record(channel, method.name, queue.name, {"messages": count})
        if not method.nowait:
            reply(channel, methods.QueuePurgeOk(count))

    ask(channel, method.name, queue.clear, answer)


def on_queue_delete(channel: Channel, method: methods.QueueDelete) -> None:
    """queue.delete: what the queue holds is counted first. One that cannot be counted can be deleted all the same, if
    nothing depends on it."""
    name = plain_name(queue_name(channel, method.queue))
    queue = channel.vhost.find_queue(name)
    if queue is None:
        _delete_queue(channel, method, name)
        return
    channel.services.declarations.check_delete(channel.declarer, name)

    def question(then: Callable[[Exception | None], None]) -> None:
        if method.if_unused or method.if_empty:
            queue.count_for_certain(then)
        else:
            queue.count(True, lambda refusal: then(None))

    def answer() -> None:
        if channel.vhost.find_queue(name) is queue:
            _delete_queue(channel, method, name)
        else:  # another one has its name by now, of which nobody has said what it holds
            on_queue_delete(channel, method)

    ask(channel, method.name, question, answer)


def _delete_queue(channel: Channel, method: methods.QueueDelete, name: str) -> None:
    connection = channel.connection
    declarations = channel.services.declarations
    lasts = audited.lasts(channel.vhost.find_queue(name))
    connection.hold_cancels()  # clients count on hearing of the deletion they have asked for before what comes of it
    try:
        count, proposal = declarations.delete_queue(channel.declarer, name, method.if_unused, method.if_empty)
    except ChannelException:
        connection.release_cancels()
        raise
    if lasts:
        audited.record(channel, method.name, name, {"messages": count})
    answer = methods.QueueDeleteOk(count)
    reply_when_applied(channel, proposal, answer, method.nowait, connection.release_cancels)


HANDLERS: dict[int, Handler] = {
    c.QUEUE_DECLARE: on_queue_declare,
    c.QUEUE_BIND: on_queue_bind,
    c.QUEUE_UNBIND: on_queue_unbind,
    c.QUEUE_PURGE: on_queue_purge,
    c.QUEUE_DELETE: on_queue_delete,
}
