"""Partitioning: the commands that declare a stream with partitions, or add some to one, and what these keep to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.errors import precondition_failed
from amqp_broker.metadata import commands
from amqp_broker.metadata.partitions import can_be_named, partition_name
from amqp_broker.protocol.constants import MAX_SHORT_STRING
from queues.arguments import merged_definition

if TYPE_CHECKING:
    from amqp_broker.protocol.fields import Table
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue


def partition(broker: Broker, vhost: VHost, name: str, kind: str, arguments: Table) -> commands.Command:
    """A stream that is not there is to have the partitions that its arguments say. Raises ChannelException."""
    queue_type = broker.types[kind]
    count = queue_type.partitions(arguments)
    _check(broker, vhost, name, 0, count)
    size = _size(broker, vhost, name, kind, arguments)
    queue_id, *ids = broker.place_queues(broker.metadata.next_queue_id, count, size)
    rest = queue_type.with_partitions(arguments, 0).raw
    return commands.partition_stream(vhost.name, name, queue_id, kind, arguments.raw, 0, ids, rest)


def grow(broker: Broker, vhost: VHost, queue: Queue, count: int) -> commands.Command:
    """A partitioned stream is to have so many. Raises ChannelException."""
    name, present = queue.name, len(queue.partitions())
    if not present:
        raise precondition_failed(
            f"queue '{name}' in vhost '{vhost.name}' has no partitions: only a stream that was declared with "
            "x-stream-partitions can have more"
        )
    if count <= present:
        raise precondition_failed(
            f"queue '{name}' in vhost '{vhost.name}' has {present} partitions, and cannot have {count}: there can only "
            "be more"
        )
    _check(broker, vhost, name, present, count)
    arguments, kind = queue.declaration.arguments, queue.declaration.type
    size = _size(broker, vhost, name, kind, arguments)
    ids = broker.place_queues(broker.metadata.next_queue_id, count - present, size)[1:]
    whole, rest = (broker.types[kind].with_partitions(arguments, number).raw for number in (count, 0))
    return commands.partition_stream(vhost.name, name, queue.queue_id, kind, whole, present, ids, rest)


def _size(broker: Broker, vhost: VHost, name: str, kind: str, arguments: Table) -> int:
    """On how many nodes each partition is to be, by the arguments and policies of the whole."""
    queue_type = broker.types[kind]
    policy = merged_definition(*broker.policies_of(vhost.name, queue_type.policy_kind, name))
    return queue_type.size_of(arguments, policy)


def _check(broker: Broker, vhost: VHost, name: str, first: int, count: int) -> None:
    most = broker.config.max_stream_partitions
    what = f"queue '{name}' in vhost '{vhost.name}' cannot have {count} partitions"
    if count > most:
        raise precondition_failed(f"{what}: this node's limit is {most} (max_stream_partitions)")
    if not can_be_named(name, count):
        raise precondition_failed(
            f"names of partitions would be longer than {MAX_SHORT_STRING} octets: take a shorter one for queue '{name}'"
        )
    for each in (partition_name(name, number) for number in range(first, count)):
        if each in vhost.queues:
            raise precondition_failed(f"{what}: there is a queue '{each}' already; delete it, or choose another name")
