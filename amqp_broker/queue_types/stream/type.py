"""StreamType: append-only logs in the groups of queues, read by offset as often as wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp_broker.errors import precondition_failed
from amqp_broker.links.levels import STREAMS
from amqp_broker.queue_types.policy_keys import keys
from amqp_broker.queue_types.queue_type import Declared, QueueType, WrongProperty
from amqp_broker.queue_types.stream.arguments import OWN_ARGUMENTS, as_queue_arguments, parse_stream_arguments
from amqp_broker.queue_types.stream.group_reader import GroupSettings
from amqp_broker.queue_types.stream.queue import StreamQueue
from queues.arguments import QueueArguments
from queues.quorum.arguments import leads_locally

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.queue_types.declaration import QueueDeclaration
    from amqp_broker.turn.clock import TurnClock
    from queues.queue import Queue
    from queues.stream.settings import StreamSettings


class StreamType(QueueType):
    """See the module's docstring."""

    name = "stream"
    policy_kind = "streams"
    policy_keys = keys(
        "max-length-bytes", "consumer-timeout", "queue-leader-locator", "max-age", "stream-max-segment-size-bytes",
        "stream-filter-size-bytes", "initial-cluster-size",
    )  # fmt: skip
    own_arguments = OWN_ARGUMENTS
    lives_in_groups = True
    since = STREAMS
    inspected_as = name

    @classmethod
    def check(cls, declared: Declared) -> None:
        """See QueueType. The texts are RabbitMQ's."""
        if not declared.name:
            raise precondition_failed("Cannot declare a server-named queue for type rabbit_stream_queue")
        found = {
            "auto-delete": declared.is_auto_delete,
            "exclusive-owner": declared.is_exclusive,
            "non-durable": not declared.is_durable,
        }
        for what, is_wrong in found.items():
            if is_wrong:
                raise precondition_failed(
                    f"invalid property '{what}' for queue '{declared.name}' in vhost '{declared.vhost}'"
                )

    @classmethod
    def check_imported(cls, is_auto_delete: bool) -> None:
        """See QueueType."""
        if is_auto_delete:
            raise WrongProperty("auto_delete", "a stream cannot be one that is deleted with its last consumer")

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        return as_queue_arguments(parse_stream_arguments(arguments))

    def next_queue_id(self, lowest: int, vhost: str, name: str, arguments: Mapping[str, object]) -> int:
        """See QueueType."""
        policy, _ = self._host.policies_of(vhost, self.policy_kind, name)
        return self._host.place_queue(lowest, leads_locally(arguments, policy))

    # -- the queues of this node ---------------------------------------------------------------------------------------

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """See QueueType."""

        def settings() -> StreamSettings:
            policies = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            return parse_stream_arguments(declaration.arguments, *policies)

        group = self._host.group_of(queue_id)
        queue = StreamQueue(declaration, queue_id, group, settings, self._groups(group.clock))
        group.add_queue(queue)
        return queue

    def _groups(self, clock: TurnClock) -> GroupSettings:
        host = self._host
        config = host.config
        return GroupSettings(
            host.timers, clock, config.stream_position_messages, config.stream_position_ms, config.stream_handover_ms
        )

    def policies_changed(self, queue: Queue, now: int) -> None:
        """See QueueType."""
        assert isinstance(queue, StreamQueue)
        queue.policy_changed()

    def forget(self, queue_id: int) -> None:
        """See QueueType: groups forget what was in them, of whatever type (QuorumType.forget)."""

    # -- statistics ----------------------------------------------------------------------------------------------------

    @classmethod
    def figures(cls, queue: Queue) -> JsonObject:
        """See QueueType."""
        assert isinstance(queue, StreamQueue)
        stream = queue.stream()
        if stream is None:
            return {"first_offset": 0, "next_offset": 0, "stream_bytes": 0}
        return {"first_offset": stream.first, "next_offset": stream.next, "stream_bytes": stream.log.octets}
