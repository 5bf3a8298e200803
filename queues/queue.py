"""Queue: what a channel and a virtual host use of a queue, wherever its messages are.

A ClassicQueue lives on this node and does all of it at once. A proxy (amqp_broker/proxies) stands for a queue whose log
is elsewhere: what it is told goes there as a command, and what comes of it comes back later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.consumer import Consumer
from queues.message import Entry

if TYPE_CHECKING:
    from queues.lease_source import LeasedAt, LeaseSource


class Queue:
    """One queue of a virtual host.

    is_proxy: its log is elsewhere. is_remote: only another node knows what it holds. counts_returns: a message that
    came back says how often, in a header. declaration, last_used, had_consumers: what the virtual host keeps about it;
    the queue does not look at them.
    """

    def __init__(self, name: str, queue_id: int, is_durable: bool) -> None:
        self.name = name
        self.queue_id = queue_id
        self.is_durable = is_durable
        self.is_proxy = False
        self.is_remote = False
        self.is_deleted = False
        self.counts_returns = False
        self.settings: Any = None
        self.declaration: Any = None
        self.last_used = 0
        self.had_consumers = False

    def message_count(self) -> int:
        """How many messages are ready."""
        raise NotImplementedError

    def unacked_count(self) -> int:
        """How many messages consumers hold."""
        raise NotImplementedError

    def leased_count(self) -> int:
        """How many messages its lease groups hold."""
        raise NotImplementedError

    def consumer_count(self) -> int:
        """How many consumers there are, on any node."""
        raise NotImplementedError

    def leases(self) -> LeaseSource | LeasedAt | None:
        """Its lease groups; the node that has them, where that is another one; None where its type has none."""
        return None

    def add_consumer(self, consumer: Consumer) -> None:
        """A consumer joins."""
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves; what it holds stays held."""
        raise NotImplementedError

    def credit_returned(self, consumer: Consumer) -> None:
        """The consumer may have credit again; call `dispatch` afterwards."""
        raise NotImplementedError

    def dispatch(self, now: int) -> None:
        """Hand messages to consumers while there are both."""
        raise NotImplementedError

    def ack(self, entry: Entry) -> None:
        """The consumer is done with it."""
        raise NotImplementedError

    def reject(self, entry: Entry, now: int) -> None:
        """The consumer refuses it for good: dead letter, or gone."""
        raise NotImplementedError

    def put_back(self, entries: list[Entry], now: int) -> None:
        """Entries come back unprocessed; call `dispatch` afterwards."""
        raise NotImplementedError

    def delete(self) -> int:
        """The queue is no more: its consumers are cancelled. Returns how many messages were ready."""
        raise NotImplementedError
