"""DelayQueue: where a durable exchange holds persistent messages back: a queue of a group that nobody consumes.

    hold -> Enqueue, with the delay for its expiration -> stands in the order of what is due -> expires: a dead letter
    -> DeadLetterPublisher, on the node that leads -> release -> the exchange routes it -> its queues have it
    -> Dispatched

So what is held back is on a majority's disks, and whichever node leads when it is due publishes it
(queue_types/groups/dead_letters.py says to whom that may happen twice).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.metadata.queue_ids import is_numbered
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import read_property
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.quorum.queue import QuorumQueue
from queues.arguments import QueueArguments
from queues.message import NO_EXPIRATION, Message, make_message
from queues.quorum.settings import QuorumSettings
from queues.reason import Reason
from queues.receipts import Receipt

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup

_IS_NUMBER = re.compile(r"\+?[0-9]+", re.ASCII).fullmatch
#: Publishes a message that was held back: (message, time, receipt); whether it went anywhere.
Release = Callable[[Message, int, Receipt], bool]


class DelayQueue(QuorumQueue):
    """exchange: the exchange's name; its messages are dead letters, and go back to it."""

    def __init__(self, vhost: str, exchange: str, queue_id: int, group: QueueGroup, release: Release) -> None:
        declaration = QueueDeclaration(exchange, True, False, None, Table({}, b""), vhost)
        settings = QuorumSettings(QueueArguments(dead_letter_exchange=exchange), holds_back=True)
        super().__init__(declaration, queue_id, group, lambda: settings)
        self._release = release
        self._clock, self._metadata = group.clock, group.host.metadata

    def hold(self, message: Message, delay_ms: int, receipt: Receipt | None, is_again: bool = False) -> None:
        """Hold a message back for so long. The receipt is complete when the log has it. is_again: see
        Queue.publish."""
        self.publish(_with_expiration(message, delay_ms), receipt, is_again, self._clock.now)

    def delete(self) -> int:
        """The exchange is gone, with what it held back. The log keeps that until the exchange's end is committed."""
        count = super().delete()
        if is_numbered(self.queue_id, self._metadata):
            self.group.queue_deleted(self.queue_id)
        else:
            self.group.queue_ended(self.queue_id)
        return count

    def publish_letter(self, message: Message, reason: Reason, now: int, receipt: Receipt) -> bool:
        """A message is due."""
        expiration = read_property(message.properties(), "expiration")
        own = int(expiration) if isinstance(expiration, str) and _IS_NUMBER(expiration) else NO_EXPIRATION
        return self._release(_with_expiration(message, own), now, receipt)


def _with_expiration(message: Message, expiration: int) -> Message:
    """The message with another expiration for queues to go by; its octets stay."""
    return make_message(
        message.raw,
        message.content,
        message.header_end,
        message.body,
        message.body_size,
        message.is_persistent,
        message.priority,
        expiration,
        message.timestamp,
    )
