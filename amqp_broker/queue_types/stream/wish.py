"""Wish: what a consumer of a stream asks for, checked in the order in which RabbitMQ looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.errors import ConnectionException, precondition_failed
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.stream.arguments import RABBITMQ_NAME
from amqp_broker.queue_types.stream.filters import ReaderFilter, parse_filter
from amqp_broker.queue_types.stream.offsets import UNTIL, parse_start, parse_until
from queues.arguments import ArgumentError

if TYPE_CHECKING:
    from queues.consumer import Subscriber
    from queues.stream.start import Start

GROUP = "x-stream-group"
#: What a consumer cannot ask of a stream (RabbitMQ's).
_NOT_OF_STREAMS = ("x-priority", "x-cancel-on-ha-failover")
_MOST_NAME_BYTES = 255


class Wish(NamedTuple):
    """start: where it begins. filter: what it wants of that, None for everything. group: with whom it reads, None for
    nobody. until: before what it ends, None for never."""

    start: Start
    filter: ReaderFilter | None
    group: str | None
    until: Start | None = None

    @staticmethod
    def of(consumer: Subscriber, title: str) -> Wish:
        """Of a consumer of the queue that is called so in texts. Raises AmqpException, ArgumentError."""
        arguments = consumer.arguments if consumer.arguments is not None else {}
        for key in _NOT_OF_STREAMS:
            if key in arguments:
                raise precondition_failed(f"invalid arg '{key}' for {title} of queue type {RABBITMQ_NAME}")
        if not consumer.prefetch:
            raise precondition_failed(f"consumer prefetch count is not set for '{title}'")
        if consumer.no_ack and GROUP not in arguments:
            raise not_implemented(f"automatic acknowledgement not supported by stream queues {title}")
        if consumer.shared_limit():
            raise not_implemented(f"{title} does not support global qos")
        start, wanted, until = parse_start(arguments), parse_filter(arguments), parse_until(arguments)
        if until is not None and GROUP in arguments:
            raise ArgumentError(UNTIL, f"it is of who reads alone, and a group ({GROUP}) does not end: leave out one")
        return Wish(start, wanted, _name(arguments[GROUP]) if GROUP in arguments else None, until)


def not_implemented(text: str) -> ConnectionException:
    """What a stream does not do."""
    return ConnectionException(ReplyCode.NOT_IMPLEMENTED, text)


def _name(value: object) -> str:
    """What x-stream-group says. Raises AmqpException."""
    if isinstance(value, str) and value and len(value.encode("utf-8", "surrogateescape")) <= _MOST_NAME_BYTES:
        return value
    raise precondition_failed(f"{GROUP} is a name of up to {_MOST_NAME_BYTES} octets, not {value!r}")
