"""The tx class (AMQP 0-9-1 §1.9): publishes and acknowledgements that take effect together at tx.commit.

As in RabbitMQ this is batching per channel: what a commit does is answered once it is on the disk, and it is one turn
of the node, so nothing of another client comes between.
"""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.basic_methods import settle_negatively
from amqp_broker.channel.replies import reply, reply_when_synced
from amqp_broker.errors import precondition_failed
from amqp_broker.message_facts import MessageFacts
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods

_ACK = 0
_REJECT = 1
_REQUEUE = 2


class Transaction:
    """What a channel in tx mode has done since the last commit or rollback."""

    def __init__(self, limit_bytes: int) -> None:
        self.messages: list[tuple[Any, Any, MessageFacts, bool]] = []
        self.settlements: list[tuple[int, int]] = []
        self._limit_bytes = limit_bytes
        self._size = 0
        self._claimed: set[int] = set()

    def add_message(self, route: Any, message: Any, facts: MessageFacts, is_mandatory: bool) -> None:
        """A publish. Raises ChannelException when the transaction gets too big."""
        self._size += message.size
        if self._size > self._limit_bytes:
            raise precondition_failed(
                f"transaction of {self._size} octets is above the limit of {self._limit_bytes} (max_tx_size): "
                "commit earlier"
            )
        self.messages.append((route, message, facts, is_mandatory))

    def add_ack(self, channel: Any, tag: int, multiple: bool) -> None:
        """An acknowledgement. Raises ChannelException (406) for an unknown tag."""
        self._claim(channel, tag, multiple, _ACK)

    def add_nack(self, channel: Any, tag: int, multiple: bool, requeue: bool) -> None:
        """A basic.nack or basic.reject. Raises ChannelException (406) for an unknown tag."""
        self._claim(channel, tag, multiple, _REQUEUE if requeue else _REJECT)

    def _claim(self, channel: Any, tag: int, multiple: bool, outcome: int) -> None:
        if multiple:
            tags = [each for each in channel.outstanding_tags(tag) if each not in self._claimed]
            if tag and tag not in tags:
                raise precondition_failed(f"unknown delivery tag {tag}")
        else:
            if not channel.is_outstanding(tag) or tag in self._claimed:
                raise precondition_failed(f"unknown delivery tag {tag}")
            tags = [tag]
        for each in tags:
            self._claimed.add(each)
            self.settlements.append((each, outcome))


def on_tx_select(channel: Any, method: Any) -> None:
    """tx.select"""
    if channel.is_confirming:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.connection.config.max_tx_size_bytes)
    reply(channel, methods.TxSelectOk())


def on_tx_commit(channel: Any, method: Any) -> None:
    """tx.commit: returns of mandatory messages come before the answer."""
    transaction = _transaction_of(channel)
    connection = channel.connection
    broker = connection.node.broker
    channel.transaction = None
    before = broker.ticket()
    for route, message, facts, is_mandatory in transaction.messages:
        if route.generation != channel.vhost.generation:
            route = connection.publisher.find_route(channel, route.address.raw)
        connection.publisher.route_message(channel, route, message, facts, is_mandatory)
    for tag, outcome in transaction.settlements:
        if outcome == _ACK:
            channel.receive_ack(tag, False)
        else:
            settle_negatively(channel, [channel.take_one(tag)], outcome == _REQUEUE)
    broker.dead_letters.run(channel.vhost.now)
    broker.store.end_turn()
    channel.transaction = Transaction(connection.config.max_tx_size_bytes)
    ticket = broker.ticket()
    reply_when_synced(channel, ticket if ticket > before else 0, methods.TxCommitOk())


def on_tx_rollback(channel: Any, method: Any) -> None:
    """tx.rollback: the deliveries stay unacknowledged."""
    _transaction_of(channel)
    channel.transaction = Transaction(channel.connection.config.max_tx_size_bytes)
    reply(channel, methods.TxRollbackOk())


def _transaction_of(channel: Any) -> Transaction:
    transaction = channel.transaction
    if transaction is None:
        raise precondition_failed("channel is not transactional")
    assert isinstance(transaction, Transaction)
    return transaction


HANDLERS = {c.TX_SELECT: on_tx_select, c.TX_COMMIT: on_tx_commit, c.TX_ROLLBACK: on_tx_rollback}
