"""The queue class (AMQP 0-9-1 §1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_broker.channel.replies import ask_again_when_applied, reply, reply_when_applied, reply_when_known
from amqp_broker.declarations import Wanted
from amqp_broker.errors import ChannelException
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from exchanges.bindings import QUEUE, Destination


def queue_name(channel: Any, name: str) -> str:
    """The queue that a method means: an empty name is the queue declared last on the channel."""
    if name:
        return name
    if channel.last_queue is None:
        raise ChannelException(ReplyCode.NOT_FOUND, "no previously declared queue")
    return str(channel.last_queue)


def on_queue_declare(channel: Any, method: Any, tries: int = 0) -> None:
    """queue.declare"""
    connection = channel.connection
    declarations = connection.node.broker.declarations
    name, found = declarations.declare_queue(connection, method)
    channel.last_queue = name
    if isinstance(found, Wanted):
        ask_again_when_applied(on_queue_declare, channel, method.replace(queue=name), found.command, tries)
        return
    if found is None:
        reply_when_known(channel, methods.QueueDeclareOk(name, 0, 1), method.nowait, tries)
        return

    def answer() -> None:
        declared = methods.QueueDeclareOk(name, found.message_count(), found.consumer_count())
        reply_when_known(channel, declared, method.nowait, tries)

    when_counted(channel, found, method, answer)


def on_queue_bind(channel: Any, method: Any, tries: int = 0) -> None:
    """queue.bind; with an empty queue name and an empty key, the key is that queue's name too."""
    declarations = channel.connection.node.broker.declarations
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
    declarations = connection.node.broker.declarations
    name = queue_name(channel, method.queue)
    key = method.routing_key or ("" if method.queue else name)
    proposal = None
    if name in connection.vhost.queues or not method.exchange:
        destination = Destination(QUEUE, name)
        proposal = declarations.unbind(connection, destination, method.exchange, key, method.arguments)
    reply_when_applied(channel, proposal, methods.QueueUnbindOk())


def on_queue_purge(channel: Any, method: Any) -> None:
    """queue.purge"""
    declarations = channel.connection.node.broker.declarations
    queue = declarations.find_queue_to_purge(channel.connection, queue_name(channel, method.queue))
    if not queue.is_proxy:
        count = queue.purge()
        if not method.nowait:
            reply(channel, methods.QueuePurgeOk(count))
        return
    hold = channel.connection.node.hold(channel.connection, f"queue.purge '{queue.name}'")

    def answer(refusal: Any, count: int) -> None:
        if refusal is not None:
            raise queue.refused(refusal)
        if not method.nowait:
            reply(channel, methods.QueuePurgeOk(count))

    queue.clear(lambda refusal, count: hold.release(lambda: answer(refusal, count)))


def on_queue_delete(channel: Any, method: Any) -> None:
    """queue.delete"""
    connection = channel.connection
    declarations = connection.node.broker.declarations
    queue = declarations.find_queue_to_delete(connection, queue_name(channel, method.queue))
    if queue is None:
        proposal = connection.node.broker.unsettled_proposal()
        reply_when_applied(channel, proposal, methods.QueueDeleteOk(0), method.nowait)
        return

    def answer() -> None:
        count, proposal = declarations.delete_queue(connection, queue, method.if_unused, method.if_empty)
        reply_when_applied(channel, proposal, methods.QueueDeleteOk(count), method.nowait)

    when_counted(channel, queue, method, answer, is_strict=method.if_unused or method.if_empty)


def when_counted(
    channel: Any, queue: Any, method: Any, answer: Callable[[], None], is_strict: bool = True
) -> None:
    """Call `answer` when the counts of a queue are known: at once, or when its home node has told them. A home that is
    away is an error (404), unless not `is_strict`."""
    if not queue.is_remote:
        answer()
        return
    if not queue.is_available and not is_strict:
        answer()
        return
    queue.check_available()
    hold = channel.connection.node.hold(channel.connection, f"{method.name} '{queue.name}'")

    def counted(refusal: Any) -> None:
        if refusal is not None and is_strict:
            raise queue.refused(refusal)
        answer()

    queue.count(lambda refusal: hold.release(lambda: counted(refusal)))


HANDLERS = {
    c.QUEUE_DECLARE: on_queue_declare,
    c.QUEUE_BIND: on_queue_bind,
    c.QUEUE_UNBIND: on_queue_unbind,
    c.QUEUE_PURGE: on_queue_purge,
    c.QUEUE_DELETE: on_queue_delete,
}
