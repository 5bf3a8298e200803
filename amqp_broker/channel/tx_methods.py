"""The tx class (AMQP 0-9-1 §1.9): publishes and acknowledgements that take effect together at tx.commit.

As in RabbitMQ this is batching per channel: what a commit does is answered once it is on the disk, and applied by the
logs of queues elsewhere. It is one turn of the node, so that in its own queues nothing of another client comes between.
"""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.basic_methods import settle_negatively
from amqp_broker.channel.replies import reply, reply_when_synced
from amqp_broker.errors import precondition_failed
from amqp_broker.message_facts import MessageFacts
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.receipts import JointReceipt
from queues.quorum.effects import Refusal

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

    def has_settled(self, tag: int) -> bool:
        """Whether a delivery is to be settled by the commit."""
        return tag in self._claimed

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
    receipt = JointReceipt()
    for route, message, facts, is_mandatory in transaction.messages:
        if route.generation != channel.vhost.generation:
            _, route = connection.publisher.find_route(channel, message.raw)
        connection.publisher.route_message(channel, route, message, facts, is_mandatory, receipt)
    holders = _holders_of(channel, transaction.settlements)
    refusing: dict[Any, None] = {}
    for tag, outcome in transaction.settlements:
        if outcome == _ACK:
            channel.receive_ack(tag, False)
        else:
            entry = channel.take_one(tag)
            refusing[entry.consumer.queue] = None
            settle_negatively(channel, [entry], outcome == _REQUEUE)
    for queue in refusing:  # what it refuses is done when its dead letters are where they go
        if not queue.is_proxy and queue.call_when_posted(lambda: receipt.complete(None)):
            receipt.expect()
    broker.dead_letters.post_refused(channel.vhost.now)
    broker.store.end_turn()
    for holder in holders:
        holder.flush(receipt)
    channel.transaction = Transaction(connection.config.max_tx_size_bytes)
    ticket = broker.ticket()
    if ticket == before:
        ticket = 0
    if not receipt.waiting:
        reply_when_synced(channel, ticket, methods.TxCommitOk())
        return
    hold = connection.node.hold(connection, "tx.commit")

    def answer(refusals: list[Refusal]) -> None:
        if refusals:
            raise precondition_failed(_partly_done(refusals))
        broker.store.end_turn()
        reply_when_synced(channel, broker.ticket(), methods.TxCommitOk())

    receipt.seal(lambda refusals: hold.release(lambda: answer(refusals)))


def _partly_done(refusals: list[Refusal]) -> str:
    """What a client is told whose commit did not succeed everywhere (RabbitMQ's words first), and what to do. At most
    255 octets reach it."""
    if Refusal.UNKNOWN in refusals:
        return (
            "partial tx completion: the way to a queue was lost, and what was done there is not known: publish again "
            "(it may then be there twice); what was not acknowledged is delivered again"
        )
    return (
        "partial tx completion: a queue was full or gone and refused publishes, all else is done: publish those again "
        "when there is room"
    )


def _holders_of(channel: Any, settlements: list[tuple[int, int]]) -> list[Any]:
    """The consumers, in logs elsewhere, of the deliveries that a transaction settles."""
    entries = [channel.unacked[tag - channel.first_tag] for tag, _ in settlements]
    return list(dict.fromkeys([each.page for each in entries if each is not None and each.consumer.queue.is_proxy]))


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
