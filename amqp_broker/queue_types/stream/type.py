"""StreamType: append-only logs in the groups of queues, read by offset as often as wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from amqp_broker.links.levels import STREAMS
from amqp_broker.queue_types.contract.argument_names import arguments
from amqp_broker.queue_types.contract.policy_keys import idle_key, keys
from amqp_broker.queue_types.groups.group_type import GroupedHost, GroupType
from amqp_broker.queue_types.stream.arguments import (
    EXAMPLES,
    OWN_ARGUMENTS,
    PARTITIONS,
    RABBITMQ_NAME,
    as_queue_arguments,
    parse_stream_arguments,
    partitions_of,
    with_partitions,
)
from amqp_broker.queue_types.stream.compactor import Compactor
from amqp_broker.queue_types.stream.distant_stream import DistantRoom, DistantStream
from amqp_broker.queue_types.stream.group_reader import GroupSettings
from amqp_broker.queue_types.stream.mender import Mender
from amqp_broker.queue_types.stream.partitioned import PartitionedStream
from amqp_broker.queue_types.stream.parts import StreamParts
from amqp_broker.queue_types.stream.queue import StreamQueue
from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
from queues.arguments import QueueArguments

if TYPE_CHECKING:
    from amqp_broker.protocol.fields import Table
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from amqp_broker.queue_types.stream.page_exchange import PageExchange
    from amqp_broker.queue_types.stream.read_exchange import ReadExchange
    from amqp_broker.turn.clock import TurnClock
    from queues.queue import Queue
    from queues.stream.settings import StreamSettings


class StreamHost(GroupedHost, Protocol):
    """What a node gives to streams besides."""

    page_exchange: PageExchange
    read_exchange: ReadExchange


class StreamType(GroupType):
    """_parts: by virtual host and name, the partitions of those that have some."""

    name = "stream"
    is_source = True
    policy_kind = "streams"
    policy_keys = {  # noqa: RUF012
        **keys(
            "max-length-bytes", "queue-leader-locator", "max-age", "stream-max-segment-size-bytes",
            "stream-filter-size-bytes", "stream-tombstone-age", "stream-compression", "initial-cluster-size",
        ),
        **idle_key("consumer-timeout", "who reads a stream may hold what it gets for as long as it likes"),
    }  # fmt: skip
    arguments = {**arguments("x-max-length-bytes"), **dict.fromkeys(OWN_ARGUMENTS), **EXAMPLES}  # noqa: RUF012
    own_arguments = OWN_ARGUMENTS
    own_columns = (
        "first_offset", "next_offset", "stream_bytes", "stream_uncompressed_bytes", "stream_segments", "partitions",
        "stream_groups", "compacted_below", "dirty_percent", "tombstones",
    )  # fmt: skip
    title = "a stream"
    rabbitmq_name = RABBITMQ_NAME
    policy_wins = True
    since = STREAMS
    inspected_as = name

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        return as_queue_arguments(parse_stream_arguments(arguments))

    @classmethod
    def partitions(cls, arguments: Mapping[str, object]) -> int:
        """See QueueType."""
        return partitions_of(arguments)

    @classmethod
    def with_partitions(cls, arguments: Table, count: int) -> Table:
        """See QueueType."""
        return with_partitions(arguments, count)

    @classmethod
    def as_declared(cls, arguments: Table, present: Table) -> Table:
        """See QueueType: one that has got more partitions since is declared as before by those who know nothing of
        that."""
        said, there = arguments.get(PARTITIONS), present.get(PARTITIONS)
        if isinstance(said, int) and isinstance(there, int) and not isinstance(said, bool) and 0 < said < there:
            return with_partitions(arguments, there)
        return arguments

    # -- the queues of this node ---------------------------------------------------------------------------------------

    _host: StreamHost

    def __init__(self, host: StreamHost) -> None:
        super().__init__(host)
        self._parts: dict[tuple[str, str], StreamParts] = {}
        self._room: RewritingRoom | None = None
        self._distant_room: DistantRoom | None = None

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """See QueueType."""

        def settings() -> StreamSettings:
            policies = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.governed_as)
            return parse_stream_arguments(declaration.arguments, *policies)

        group = self._host.group_of(queue_id)
        groups = self._groups(group.clock)
        if partitions_of(declaration.arguments):
            parts = self._parts.setdefault((declaration.vhost, declaration.name), StreamParts())
            return PartitionedStream(declaration, queue_id, parts, groups, group)
        queue = StreamQueue(declaration, queue_id, group, settings, groups)
        if self._room is None:
            host = self._host
            self._room = RewritingRoom(host.config, host.timers, group.clock, host.background)
        if queue.wanted.key:
            queue.compact_with(Compactor(queue, self._room))
        queue.pack_in(self._room)
        room = self._room
        if self._distant_room is None:
            self._distant_room = DistantRoom(self._host.read_exchange, self._host.config.stream_ahead_bytes)
        queue.read_elsewhere(DistantStream(queue, self._distant_room))
        queue.mend_with(Mender(queue, self._host.page_exchange, room.background, room.timers, room.clock))
        group.add_queue(queue)
        if declaration.part_of:
            self._parts.setdefault((declaration.vhost, declaration.part_of), StreamParts()).add(queue)
        return queue

    def delete(self, queue: Queue) -> int:
        """See QueueType."""
        declaration = queue.declaration
        key = (declaration.vhost, declaration.part_of)
        if isinstance(queue, StreamQueue) and key in self._parts:
            self._parts[key].remove(queue)
            if not self._parts[key].streams:
                del self._parts[key]
        return super().delete(queue)

    def _groups(self, clock: TurnClock) -> GroupSettings:
        host = self._host
        config = host.config
        return GroupSettings(
            host.timers, clock, config.stream_position_messages, config.stream_position_ms, config.stream_handover_ms,
            config.stream_far_bytes,
        )

    def policies_changed(self, queue: Queue, now: int) -> None:
        """See QueueType."""
        if isinstance(queue, StreamQueue):  # what is partitioned has no settings of its own
            queue.policy_changed()

    def forget(self, queue_id: int) -> None:
        """See QueueType: groups forget what was in them, of whatever type (QuorumType.forget)."""

    # -- statistics ----------------------------------------------------------------------------------------------------

    @classmethod
    def figures(cls, queue: Queue) -> JsonObject:
        """See QueueType."""
        if isinstance(queue, PartitionedStream):
            each = [part.stream_counts() for part in queue.partitions()]
            return {
                "partitions": len(queue.parts), "stream_bytes": sum([counts.octets for counts in each]),
                "stream_uncompressed_bytes": sum([counts.unpacked_octets for counts in each]),
            }  # fmt: skip
        assert isinstance(queue, StreamQueue)
        stream, counts = queue.stream(), queue.stream_counts()
        figures: JsonObject = {
            "first_offset": counts.first, "next_offset": counts.next, "stream_bytes": counts.octets,
            "stream_uncompressed_bytes": counts.unpacked_octets, "stream_groups": counts.groups,
        }  # fmt: skip
        if stream is not None:
            figures["stream_segments"] = stream.log.segment_count()
        if queue.compactor is not None and stream is not None:
            below, dirty_percent, tombstones, _ = queue.compactor.figures(stream)
            figures |= {"compacted_below": below, "dirty_percent": dirty_percent, "tombstones": tombstones}
        return figures
