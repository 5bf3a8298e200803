"""ReplyConsumer: the consumer of amq.rabbitmq.reply-to on one channel (routing/reply_to.py). It has no queue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.channel.consumer import ChannelConsumer

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from queues.message import Message

log = logging.getLogger("amqp_broker")

#: Replies are dropped when so many times `output_pause` waits to be read by who asked.
_REPLY_LIMIT = 16


class ReplyConsumer(ChannelConsumer):
    """`address` is what requests carry as reply-to."""

    def __init__(self, channel: Channel, tag: str) -> None:
        super().__init__(channel, tag, True, False, 0, 0, None)
        self._client = channel.connection
        self.address = channel.services.reply_consumers.add(self)

    def reply(self, message: Message) -> None:
        """See Replied."""
        client = self._client
        unread = client.unread_bytes()
        if unread > _REPLY_LIMIT * client.config.output_pause_bytes:
            log.warning("reply to %s dropped: it does not read the %d octets that wait for it", client.peer, unread)
            return
        self.deliver_at_once(message, False)

    def answer(self, message: Message) -> None:
        """See Replied."""
        self.deliver_at_once(message, False)
        self.channel.count_answer()
        self._client.pause_unread()
