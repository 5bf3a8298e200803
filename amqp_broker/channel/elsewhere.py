"""What a channel asks of a queue whose log is elsewhere, and is answered later: to consume, to get, to have committed.

The connection's other frames wait meanwhile (PendingAnswers.hold), so that answers keep their order. Where the client
is gone when an answer comes, what was fetched goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_broker.channel.consumer import redelivered_message
from amqp_broker.channel.replies import reply
from amqp_broker.errors import ChannelException
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.receipts import JointReceipt
from queues.message import Entry, Message
from queues.quorum.effects import Refusal

if TYPE_CHECKING:
    from amqp_broker.channel.consumer import ChannelConsumer


def reply_with_message(channel: Any, tag: int, is_redelivered: bool, message: Message, left: int) -> None:
    """basic.get-ok with its content; `left` messages are ready behind it."""
    connection = channel.connection
    address = message.address
    reply(channel, methods.BasicGetOk(tag, is_redelivered, address.exchange, address.routing_key, left))
    channel.output.put_content(message, channel.channel_id, connection.frame_max)
    if channel.output.size() > connection.config.output_pause_bytes:
        # A few octets ask for a large message: a client that asks for thousands at once gets them by and by.
        channel.services.pauses.sate(connection)


def consume_elsewhere(channel: Any, queue: Any, consumer: ChannelConsumer, no_wait: bool) -> None:
    """basic.consume: the answer comes when the log has taken the consumer, and before its first delivery."""
    answers = channel.services.answers
    receipt = JointReceipt()
    hold = answers.hold(channel.connection, f"basic.consume from queue '{queue.name}'")
    holder = queue.attach(consumer, receipt)

    def answer(refusal: Refusal | None) -> None:
        if refusal is not None:
            channel.consumers.pop(consumer.tag, None)
            queue.consumers.pop(consumer, None)
            consumer.is_cancelled = True
            raise queue.refused(refusal)
        if not no_wait:
            reply(channel, methods.BasicConsumeOk(consumer.tag))
        holder.open()

    def done(refusals: list[Refusal]) -> None:
        refusal = holder.refusal or (refusals[0] if refusals else None)
        hold.release(lambda: answer(refusal))

    receipt.seal(done)


def get_elsewhere(channel: Any, queue: Any, getter: ChannelConsumer, no_ack: bool) -> None:
    """basic.get. Raises ChannelException where it is not possible."""
    queue.check_available()
    if queue.refuses_get:
        raise ChannelException(
            ReplyCode.RESOURCE_LOCKED,
            f"cannot obtain access to locked queue '{queue.name}' in vhost '{channel.vhost.name}'. "
            "basic.get operations are not supported by quorum queues with single active consumer",
        )
    hold = channel.services.answers.hold(channel.connection, f"basic.get from queue '{queue.name}'")
    is_taken = False

    def answer(refusal: Refusal | None, entry: Entry | None, left: int) -> None:
        nonlocal is_taken
        is_taken = True
        if refusal is not None:
            raise queue.refused(refusal)
        if entry is None:
            reply(channel, methods.BasicGetEmpty())
            return
        is_redelivered = entry.is_redelivered
        message = redelivered_message(queue, entry) if is_redelivered else entry.message
        if no_ack:
            tag = channel.pass_tag()
            queue.ack(entry)
        else:
            getter.credit -= 1
            tag = channel.hold(entry)
        reply_with_message(channel, tag, is_redelivered, message, left)

    def fetched(refusal: Refusal | None, entry: Entry | None, left: int) -> None:
        hold.release(lambda: answer(refusal, entry, left))
        if not is_taken and entry is not None:
            queue.give_back(entry)

    queue.fetch(getter, fetched)
