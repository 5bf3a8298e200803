"""The queue class (AMQP 0-9-1 §1.7)."""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.replies import ask_again_when_applied, reply, reply_when_applied, reply_when_known
from amqp_broker.errors import ChannelException
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.remote.queue import RemoteQueue
from amqp_broker.vhosts.declarations import Wanted
from exchanges.bindings import QUEUE, Destination


def queue_name(channel: Any, name: str) -> str:
    """The queue that a method means: an empty name is the queue declared last on the channel."""
    if name:
        return name
    if channel.last_queue is None:
        raise ChannelException(ReplyCode.NOT_FOUND, "no previously declared queue")
    return str(channel.last_queue)


def on_queue_declare(channel: Any, method: Any, tries: int = 0, is_counted: bool = False) -> None:
    """queue.declare"""
    connection = channel.connection
    declarations = channel.services.declarations
    name, found = declarations.declare_queue(connection, method)
    channel.last_queue = name
    if isinstance(found, Wanted):
        ask_again_when_applied(on_queue_declare, channel, method.replace(queue=name), found.command, tries)
        return
    if isinstance(found, RemoteQueue) and not is_counted:
        # The counts are its home's, and without its home there is no queue.
        hold = channel.services.answers.hold(connection, method.name)
        found.ask(hold, lambda: on_queue_declare(channel, method, tries, True))
        return
    ready = found.message_count() if found is not None else 0
    consumers = found.consumer_count() if found is not None else 1
    reply_when_known(channel, methods.QueueDeclareOk(name, ready, consumers), method.nowait, tries)


def on_queue_bind(channel: Any, method: Any, tries: int = 0) -> None:
    """queue.bind; with an empty queue name and an empty key, the key is that queue's name too."""
    declarations = channel.services.declarations
    name = queue_name(channel, method.queue)
    key = method.routing_key or ("" if method.queue else name)
    destination = Destination(QUEUE, name)
    wanted = declarations.bind(channel.connection, destination, method.exchange, key, method.arguments)
    if wanted is not None:
        again = method.replace(queue=name, routing_key=key)
        ask_again_when_applied(on_queue_bind, channel, again, wanted.command, tries)
    else:
        reply_when_known(channel, methods.QueueBindOk(), method.nowait, tries)


def on_queue_unbind(channel: Any, method: Any) -> None:
    """queue.unbind"""
    connection = channel.connection
    declarations = channel.services.declarations
    name = queue_name(channel, method.queue)
    key = method.routing_key or ("" if method.queue else name)
    proposal = None
    if name in connection.vhost.queues or not method.exchange:
        destination = Destination(QUEUE, name)
        proposal = declarations.unbind(connection, destination, method.exchange, key, method.arguments)
    reply_when_applied(channel, proposal, methods.QueueUnbindOk())


def on_queue_purge(channel: Any, method: Any) -> None:
    """queue.purge"""
    connection = channel.connection
    queue = channel.services.declarations.find_purged(connection, queue_name(channel, method.queue))

    def answer(count: int) -> None:
        if not method.nowait:
            reply(channel, methods.QueuePurgeOk(count))

    if not queue.is_proxy:
        answer(queue.purge())
        return
    hold = channel.services.answers.hold(connection, method.name)
    queue.clear(lambda refusal, count: hold.release(lambda: answer(queue.answered(refusal, count))))


def on_queue_delete(channel: Any, method: Any, is_counted: bool = False) -> None:
    """queue.delete"""
    connection = channel.connection
    declarations = channel.services.declarations
    name = queue_name(channel, method.queue)
    queue = connection.vhost.queues.get(name)
    if isinstance(queue, RemoteQueue) and queue.is_available and not is_counted:
        declarations.check_delete(connection, name)
        hold = channel.services.answers.hold(connection, method.name)
        queue.ask(hold, lambda: on_queue_delete(channel, method, True))
        return
    if isinstance(queue, RemoteQueue) and not queue.is_available and (method.if_unused or method.if_empty):
        raise queue.unavailable()
    connection.late_cancels = []
    try:
        count, proposal = declarations.delete_queue(connection, name, method.if_unused, method.if_empty)
    except ChannelException:
        connection.late_cancels = None
        raise
    answer = methods.QueueDeleteOk(count)
    reply_when_applied(channel, proposal, answer, method.nowait, lambda: _tell_cancels(channel))


def _tell_cancels(channel: Any) -> None:
    """Clients count on hearing of the deletion that they have asked for before what comes of it."""
    connection = channel.connection
    cancels, connection.late_cancels = connection.late_cancels, None
    channel.services.publisher.tell_cancelled(cancels)


HANDLERS = {
    c.QUEUE_DECLARE: on_queue_declare,
    c.QUEUE_BIND: on_queue_bind,
    c.QUEUE_UNBIND: on_queue_unbind,
    c.QUEUE_PURGE: on_queue_purge,
    c.QUEUE_DELETE: on_queue_delete,
}
