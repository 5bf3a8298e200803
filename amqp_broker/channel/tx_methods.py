"""The tx class (AMQP 0-9-1 §1.9): publishes and acknowledgements that take effect together at tx.commit.

As in RabbitMQ this is batching per channel: what a commit does (commit.py) is answered once it is on the disk, and
applied by the logs of queues elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel.commit import Commit, Transaction
from amqp_broker.channel.replies import Handler, reply
from amqp_broker.errors import precondition_failed
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def on_tx_select(channel: Channel, method: methods.TxSelect) -> None:
    """tx.select"""
    if channel.is_confirming:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.set_transaction(Transaction(channel.connection.config.max_tx_size_bytes))
    reply(channel, methods.TxSelectOk())


def on_tx_commit(channel: Channel, method: methods.TxCommit) -> None:
    """tx.commit: returns of mandatory messages come before the answer."""
    transaction = _transaction_of(channel)
    channel.set_transaction(None)
    commit = Commit(channel, transaction)
    if len(transaction) <= channel.connection.config.max_tx_at_once:
        commit.run()
    else:
        commit.start()


def on_tx_rollback(channel: Channel, method: methods.TxRollback) -> None:
    """tx.rollback: the deliveries stay unacknowledged."""
    _transaction_of(channel)
    channel.set_transaction(Transaction(channel.connection.config.max_tx_size_bytes))
    reply(channel, methods.TxRollbackOk())


def _transaction_of(channel: Channel) -> Transaction:
    transaction = channel.transaction
    if transaction is None:
        raise precondition_failed("channel is not transactional")
    assert isinstance(transaction, Transaction)
    return transaction


HANDLERS: dict[int, Handler] = {c.TX_SELECT: on_tx_select, c.TX_COMMIT: on_tx_commit, c.TX_ROLLBACK: on_tx_rollback}
