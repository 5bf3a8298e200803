"""One type of queues more, for as long as a test lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from amqp_broker.queue_types.contract.queue_type import QueueType
from amqp_broker.queue_types.register import QUEUE_TYPES


@contextmanager
def register(queue_type: type[QueueType]) -> Iterator[None]:
    """Nodes that are made meanwhile have this type, too."""
    assert queue_type.name not in QUEUE_TYPES
    QUEUE_TYPES[queue_type.name] = queue_type
    try:
        yield
    finally:
        del QUEUE_TYPES[queue_type.name]
