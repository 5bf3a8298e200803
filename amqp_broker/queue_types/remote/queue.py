"""RemoteQueue: a classic queue of another node, its home, as the channels of this node see it."""

from __future__ import annotations

from amqp_broker.errors import ChannelException
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.proxy.queue import QueueProxy
from amqp_broker.queue_types.remote.home_link import HomeLink
from queues.effects import Refusal
from queues.lease_source import LeasedAt
from queues.message import Message
from queues.queue import Done
from queues.receipts import Receipt


class RemoteQueue(QueueProxy):
    """Its counts are those of the last `count`: how many there are now, only the home knows."""

    def __init__(self, name: str, queue_id: int, is_durable: bool, link: HomeLink) -> None:
        super().__init__(name, queue_id, is_durable, link)
        self.link = link
        self.home = link.home
        # The home says how often a message came back only where the queue counts that.
        self.counts_returns = True
        self._messages = 0
        self._unacked = 0
        self._leased = 0
        self._consumers = 0

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        return self.link.publish_to_one(message, self.queue_id, receipt)

    def leases(self) -> LeasedAt:
        """See Queue."""
        return LeasedAt(self.home)

    def is_reachable(self) -> bool:
        """See Queue."""
        return bool(self.link.is_connected)

    def availability(self) -> ChannelException | None:
        """See QueueProxy; RabbitMQ's text."""
        return None if self.is_reachable() else self.unavailable()

    def unavailable(self) -> ChannelException:
        """What a client is told when the home is down, or was lost before it had answered."""
        kind = "durable queue" if self.is_durable else "queue"
        vhost = self.declaration.vhost if self.declaration is not None else ""
        return ChannelException(
            ReplyCode.NOT_FOUND,
            f"home node '{self.home}' of {kind} '{self.name}' in vhost '{vhost}' is down or inaccessible",
        )

    # -- counts --------------------------------------------------------------------------------------------------------

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue: the home is asked."""
        refusal = self.availability()
        if refusal is not None:
            then(refusal)
            return

        def counted(refusal: Refusal | None, messages: int, unacked: int, leased: int, consumers: int) -> None:
            if refusal is Refusal.NO_QUEUE:
                refusal = None  # it has just been deleted, and that is on its way: it has nothing
            if refusal is None:
                self._messages, self._unacked, self._leased, self._consumers = messages, unacked, leased, consumers
            then(self._refusal(refusal))

        self.link.count(self.queue_id, counted, is_use)

    def message_count(self) -> int:
        """How many messages were ready when they were counted."""
        return self._messages

    def leased_count(self) -> int:
        """How many messages its lease groups held when they were counted."""
        return self._leased

    def unacked_count(self) -> int:
        """How many messages consumers held when they were counted."""
        return self._unacked

    def consumer_count(self) -> int:
        """How many consumers there were on all nodes when they were counted."""
        return self._consumers
