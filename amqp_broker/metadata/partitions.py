"""Partitions: streams that are one behind a common name: the part of the metadata that is about these.

A partitioned stream is a queue, and so is each of its partitions: `NAME-0`, `NAME-1`, ..., whose records say of which
one they are a part. All come with one command, or none; and so do those that are added later.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import QueueRecord
from amqp_broker.metadata.vhost_state import VHostState
from amqp_broker.protocol.constants import MAX_SHORT_STRING


def partition_name(name: str, number: int) -> str:
    """What a partition is called: as in RabbitMQ's super streams."""
    return f"{name}-{number}"


def can_be_named(name: str, count: int) -> bool:
    """Whether methods can carry the names of so many partitions."""
    return len(partition_name(name, count - 1).encode("utf-8", "surrogateescape")) <= MAX_SHORT_STRING


class Partitions:
    """A part of Metadata."""

    _vhosts: dict[str, VHostState]

    def replace_queue(self, queue: QueueRecord) -> None:
        """Another record for a queue that is there."""
        raise NotImplementedError

    def declare_queue(self, command: Command) -> bool:
        """queue.declare"""
        raise NotImplementedError

    def partition_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """By command."""
        return {"partitions.declare": self._partition}

    def partitions(self, vhost: str, name: str) -> list[QueueRecord]:
        """Those of a stream, in order."""
        state = self._vhosts.get(vhost)
        found: list[QueueRecord] = []
        while state is not None:
            queue = state.queues.get(partition_name(name, len(found)))
            if queue is None or queue.part_of != name:
                break
            found.append(queue)
        return found

    def _partition(self, command: Command) -> bool:
        vhost, name, first, ids = command["vhost"], command["name"], command["first"], command["partition_ids"]
        state = self._vhosts.get(vhost)
        names = [partition_name(name, first + number) for number in range(len(ids))]
        if state is None or any(each in state.queues for each in names):
            return False
        present = state.queues.get(name)
        if (present is None) != (first == 0) or len(self.partitions(vhost, name)) != first:
            return False
        raw = commands.decode_arguments(command["arguments_raw"])
        if present is None:
            self.declare_queue(
                commands.declare_queue(
                    vhost, name, command["queue_id"], type_name=command["type"], arguments_raw=raw
                )
            )
        elif present.queue_id != command["queue_id"]:
            return False
        else:
            self.replace_queue(present._replace(arguments_raw=raw))
        raw = commands.decode_arguments(command["partition_arguments_raw"])
        for each, queue_id in zip(names, ids, strict=True):
            self.declare_queue(
                commands.declare_queue(
                    vhost, each, queue_id, type_name=command["type"], arguments_raw=raw, part_of=name
                )
            )
        return True
