"""The basic class (AMQP 0-9-1 §1.8), but for basic.publish and the common basic.ack (channel.py)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from amqp_broker.auth.permissions import Action
from amqp_broker.channel.asking import ask
from amqp_broker.channel.consumer import ChannelConsumer, redelivered_message
from amqp_broker.channel.lifecycle import cancel_consumer, end_replies, return_entries
from amqp_broker.channel.queue_methods import queue_name
from amqp_broker.channel.replies import Handler, reply
from amqp_broker.channel.reply_consumer import ReplyConsumer
from amqp_broker.channel.settlement import FEW, put_back_many, settle_many
from amqp_broker.errors import ConnectionException, precondition_failed
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.routing.reply_to import REPLY_TO
from amqp_broker.routing.taps import DELIVERED, REJECTED, RETURNED
from queues.message import Delivery, Message

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.commit import Transaction
    from queues.queue import Queue

#: So many deliveries at a time are taken out of a channel whose transaction has settled others.
_TAKEN = 256


def on_basic_qos(channel: Channel, method: methods.BasicQos) -> None:
    """basic.qos: without global for consumers that come later, with global for the whole channel, at once."""
    if method.prefetch_size:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
    else:
        channel.consumer_prefetch = method.prefetch_count
    reply(channel, methods.BasicQosOk())
    if method.global_:
        for consumer in channel.consumers.values():
            consumer.queue.prefetch_changed(consumer)
        channel.revive_all()


def on_basic_consume(channel: Channel, method: methods.BasicConsume) -> None:
    """basic.consume"""
    connection = channel.connection
    tag = method.consumer_tag or _generated_tag(channel)
    known = channel.consumers.get(tag)
    if known is not None and known.queue.is_deleted:  # one of so many that it has not been told yet
        cancel_consumer(channel, known)
    if tag in channel.consumers or (channel.reply_consumer is not None and channel.reply_consumer.tag == tag):
        raise ConnectionException(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == REPLY_TO:
        _consume_replies(channel, method, tag)
        return
    name = queue_name(channel, method.queue)
    channel.session.check(Action.READ, "queue", name)
    queue = channel.services.declarations.find_queue(channel.declarer, name)
    limit = connection.config.max_consumers_per_channel
    if len(channel.consumers) >= limit:
        raise precondition_failed(
            f"consumers of the channel have reached the limit of {limit} (max_consumers_per_channel)"
        )
    priority = method.arguments.get("x-priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise precondition_failed(
            f"invalid arg 'x-priority' for queue '{name}' in vhost '{channel.vhost.name}': expected an integer"
        )
    priority = max(-(1 << 31), min(priority, (1 << 31) - 1))
    consumer = ChannelConsumer(
        channel, tag, method.no_ack, method.exclusive, priority, channel.consumer_prefetch, method.arguments
    )
    consumer.queue = queue
    channel.consumers[tag] = consumer

    def answer() -> None:
        if not method.nowait:
            reply(channel, methods.BasicConsumeOk(tag))
        queue.credit_returned(consumer)
        queue.dispatch(channel.clock.now)

    def forget() -> None:
        channel.consumers.pop(tag, None)
        consumer.end()

    ask(channel, f"basic.consume from queue '{name}'", lambda then: queue.consume(consumer, then), answer, forget)


def _generated_tag(channel: Channel) -> str:
    octets = channel.services.random_bytes(16)
    return "amq.ctag-" + base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _consume_replies(channel: Channel, method: methods.BasicConsume, tag: str) -> None:
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise precondition_failed("reply consumer already set")
    channel.reply_consumer = ReplyConsumer(channel, tag)
    if not method.nowait:
        reply(channel, methods.BasicConsumeOk(tag))


def on_basic_cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """basic.cancel: the answer comes after the last delivery; an unknown tag is no error."""
    tag = method.consumer_tag
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        cancel_consumer(channel, consumer)
    elif channel.reply_consumer is not None and channel.reply_consumer.tag == tag:
        end_replies(channel)
    if not method.nowait:
        reply(channel, methods.BasicCancelOk(tag))


def on_basic_get(channel: Channel, method: methods.BasicGet) -> None:
    """basic.get"""
    name = queue_name(channel, method.queue)
    channel.session.check(Action.READ, "queue", name)
    queue = channel.services.declarations.find_queue(channel.declarer, name)
    queue.mark_used(channel.clock.now)
    if not method.no_ack:
        _check_held(channel)
    getter = _getter(channel, queue)

    def answer(delivery: Delivery | None, left: int) -> None:
        if delivery is None:
            queue.note_nothing_got()
            channel.note_nothing_got()
            reply(channel, methods.BasicGetEmpty())
            return
        is_redelivered = delivery.is_redelivered
        message = redelivered_message(queue, delivery) if is_redelivered else delivery.message
        queue.note_got(method.no_ack)
        channel.note_got(method.no_ack, is_redelivered)
        if method.no_ack:
            tag = channel.pass_tag()
            queue.ack(delivery)
        else:
            getter.credit -= 1
            channel.fetched += 1
            tag = channel.hold(delivery)
        _reply_with_message(channel, tag, is_redelivered, message, left)
        if channel.is_traced:
            channel.trace(DELIVERED, getter, message, is_redelivered)

    def give_back(delivery: Delivery | None, left: int) -> None:
        if delivery is not None:
            queue.take_back([delivery], channel.clock.now)
            queue.dispatch(channel.clock.now)

    if not queue.writes.is_local:
        # Who rejects a message and looks for its dead letter finds it, as where the queue is here (ClassicQueue.fetch).
        channel.services.background.run_newest(channel.clock.now)
    what = f"basic.get from queue '{name}'"
    ask(channel, what, lambda then: queue.fetch(getter, channel.clock.now, then), answer, unheard=give_back)


def _reply_with_message(channel: Channel, tag: int, is_redelivered: bool, message: Message, left: int) -> None:
    """basic.get-ok with its content; `left` messages are ready behind it."""
    connection = channel.connection
    address = message.address
    reply(channel, methods.BasicGetOk(tag, is_redelivered, address.exchange, address.routing_key, left))
    channel.output.put_content(message, channel.channel_id, connection.frame_max)
    # A few octets ask for a large message: a client that asks for thousands at once gets them by and by.
    connection.pause_unread()


def _getter(channel: Channel, queue: Queue) -> ChannelConsumer:
    """Who holds what basic.get has fetched from this queue."""
    getter: ChannelConsumer | None = channel.getters.get(queue)
    if getter is None or getter.queue is not queue:
        getter = ChannelConsumer(channel, "", False, False, 0, 0, None)
        getter.queue = queue
        getter.end()
        channel.getters[queue] = getter
    return getter


def _check_held(channel: Channel) -> None:
    """What basic.get has fetched and nobody has acknowledged stays in RAM. Raises ChannelException."""
    held = len(channel.unacked) - channel.head
    allowed = channel.pager.unacked_allowed()
    if held >= channel.max_unacked or (allowed and held >= allowed):
        raise precondition_failed(
            f"channel holds {held} unacknowledged messages and the broker is short of memory: acknowledge some first"
        )


def on_basic_ack(channel: Channel, method: methods.BasicAck) -> None:
    """basic.ack"""
    channel.receive_ack(method.delivery_tag, method.multiple)


def on_basic_nack(channel: Channel, method: methods.BasicNack) -> None:
    """basic.nack (RabbitMQ's extension)"""
    if channel.transaction is not None:
        channel.transaction.add_nack(channel, method.delivery_tag, method.multiple, method.requeue)
        return
    if method.multiple:
        if channel.places_until(method.delivery_tag) > FEW:
            _settle_many_negatively(channel, method)
            return
        entries = channel.take_until(method.delivery_tag)
    else:
        entries = [channel.take_one(method.delivery_tag)]
    settle_negatively(channel, entries, method.requeue)


def _settle_many_negatively(channel: Channel, method: methods.BasicNack) -> None:
    def refuse(entries: list[Delivery]) -> None:
        settle_negatively(channel, entries, False)

    entries = channel.take_places(method.delivery_tag)
    if method.requeue:
        put_back_many(channel, [entries], what="basic.nack")
    else:
        settle_many(channel, entries, "basic.nack", refuse)


def on_basic_reject(channel: Channel, method: methods.BasicReject) -> None:
    """basic.reject"""
    if channel.transaction is not None:
        channel.transaction.add_reject(channel, method.delivery_tag, method.requeue)
        return
    settle_negatively(channel, [channel.take_one(method.delivery_tag)], method.requeue, has_failed=True)


def settle_negatively(channel: Channel, entries: list[Delivery], requeue: bool, has_failed: bool = False) -> None:
    """Put deliveries back to their original positions, or refuse them for good (dead letters). has_failed: some queues
    have those rest that failed (`Queue.fail`)."""
    if channel.is_traced:
        channel.trace_settled(RETURNED if requeue else REJECTED, entries)
    queues: dict[Queue, None] = {}
    if requeue:
        return_entries(channel, entries, queues, has_failed)
    for queue in queues if requeue else channel.refuse(entries):
        channel.wants_dispatch(queue)
    channel.dispatch()


def on_basic_recover(channel: Channel, method: methods.BasicRecover) -> None:
    """basic.recover: everything unacknowledged on the channel returns to its queues, but for what an open transaction
    has settled."""
    _recover(channel, method.requeue, lambda: reply(channel, methods.BasicRecoverOk()))


def on_basic_recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    """basic.recover-async: basic.recover without an answer."""
    _recover(channel, method.requeue, lambda: None)


def _recover(channel: Channel, requeue: bool, then: Callable[[], None]) -> None:
    if not requeue:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    transaction = channel.transaction
    if channel.places_until(0) > FEW:
        held = [channel.take_places(0)] if transaction is None else _take_unsettled(channel, transaction)
        put_back_many(channel, held, what="basic.recover", then=then)
        return
    if transaction is None:
        entries = channel.take_all()
    else:
        tags = [tag for tag in channel.outstanding_tags(0) if not transaction.has_settled(tag)]
        entries = [channel.take_one(tag) for tag in tags]
    settle_negatively(channel, entries, True)
    then()


def _take_unsettled(channel: Channel, transaction: Transaction) -> Iterator[list[Delivery | None]]:
    """All that the channel holds and the transaction has not settled, some at a time, the last first. Somebody else may
    take the rest meanwhile."""
    end = channel.first_tag + len(channel.unacked)
    while end > channel.first_tag + channel.head:
        begin = max(end - _TAKEN, channel.first_tag + channel.head)
        yield [
            channel.take_one(tag) if channel.is_outstanding(tag) and not transaction.has_settled(tag) else None
            for tag in range(begin, end)
        ]
        end = begin


HANDLERS: dict[int, Handler] = {
    c.BASIC_QOS: on_basic_qos,
    c.BASIC_CONSUME: on_basic_consume,
    c.BASIC_CANCEL: on_basic_cancel,
    c.BASIC_GET: on_basic_get,
    c.BASIC_ACK: on_basic_ack,
    c.BASIC_NACK: on_basic_nack,
    c.BASIC_REJECT: on_basic_reject,
    c.BASIC_RECOVER: on_basic_recover,
    c.BASIC_RECOVER_ASYNC: on_basic_recover_async,
}
