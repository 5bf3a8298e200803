"""The types of queues by name. To add one, write its package and its line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from amqp_broker.queue_types.classic.type import ClassicHost, ClassicType
from amqp_broker.queue_types.contract.queue_type import QueueType
from amqp_broker.queue_types.quorum.type import QuorumType
from amqp_broker.queue_types.stream.type import StreamHost, StreamType
from queues.arguments import ArgumentError, read_string

if TYPE_CHECKING:
    from queues.queue import Queue

QUEUE_TYPES: dict[str, type[QueueType]] = {
    ClassicType.name: ClassicType,
    QuorumType.name: QuorumType,
    StreamType.name: StreamType,
}

_TYPE = "x-queue-type"


class UnsupportedQueueType(ValueError):
    """A type of queue that this broker does not serve."""


def type_named(name: str) -> type[QueueType]:
    """The type of a queue that there is. Raises UnsupportedQueueType: it was declared with a newer version."""
    found = QUEUE_TYPES.get(name)
    if found is None:
        raise UnsupportedQueueType(f"unknown queue type '{name}'; known are {', '.join(QUEUE_TYPES)}")
    return found


def type_of(queue: Queue) -> type[QueueType]:
    """The type of a queue."""
    return QUEUE_TYPES[queue.declaration.type]


def lives_in_groups(name: str) -> bool:
    """Whether queues of this type are in the logs of groups. One that is not known is not."""
    return name in QUEUE_TYPES and QUEUE_TYPES[name].lives_in_groups


class NodeHost(ClassicHost, StreamHost, Protocol):
    """What a node gives to all of them."""


def make_types(host: NodeHost) -> dict[str, QueueType]:
    """The types of one node."""
    return {name: queue_type(host) for name, queue_type in QUEUE_TYPES.items()}


def asked_type(arguments: Mapping[str, object], default: str) -> str:
    """The type of a queue that is declared so; `default` where x-queue-type is not given. Raises ArgumentError."""
    kind = arguments.get(_TYPE)
    if kind is None:
        return default
    name = read_string(_TYPE, kind)
    if name in QUEUE_TYPES:
        return name
    raise ArgumentError(_TYPE, f"unsupported queue type '{name}'")
