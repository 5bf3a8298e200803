"""QuorumType: queues whose messages are in the log of a queue group, which all nodes of the cluster have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_broker.links.levels import DELAYED_RETRY, SINGLE_ACTIVE_PRIORITY
from amqp_broker.queue_types.contract.argument_names import arguments
from amqp_broker.queue_types.contract.policy_keys import keys
from amqp_broker.queue_types.groups.group_type import GroupType
from amqp_broker.queue_types.quorum.cursor import QueueOverStream
from amqp_broker.queue_types.quorum.cursor_arguments import CURSOR_ARGUMENTS, parse_cursor_arguments, source_of
from amqp_broker.queue_types.quorum.queue import QuorumQueue
from amqp_broker.queue_types.stream.queue import StreamQueue
from queues.arguments import OF_ALL_QUEUES, RETRY_ARGUMENTS, QueueArguments, read_fields, with_policy
from queues.quorum.arguments import LEADER_LOCATOR, check_locator, check_retry, parse_quorum_arguments
from queues.quorum.settings import QuorumSettings

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from queues.queue import Queue
    from queues.quorum.cursor_settings import CursorSettings

Settings = TypeVar("Settings", bound=QuorumSettings)

#: As in argument_names.py.
OF_QUORUM_QUEUES: Final[Mapping[str, JsonValue]] = {
    "x-dead-letter-strategy": "at-least-once",
    "x-message-deduplication": None,
    "x-deduplication-ttl": None,
    **dict.fromkeys(RETRY_ARGUMENTS),
    "x-quorum-initial-group-size": None,
    "x-max-in-memory-length": None,
    "x-max-in-memory-bytes": None,
}


class QuorumType(GroupType):
    """See the module's docstring."""

    name = "quorum"
    policy_kind = "quorum_queues"
    policy_keys = keys(
        "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange",
        "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "lease-expires", "consumer-timeout",
        "queue-leader-locator", "max-in-memory-length", "max-in-memory-bytes", "target-group-size",
        "delayed-retry-type", "delayed-retry-min", "delayed-retry-max",
    )  # fmt: skip
    arguments = {  # noqa: RUF012
        **arguments(*OF_ALL_QUEUES, "x-consumer-timeout", LEADER_LOCATOR), **OF_QUORUM_QUEUES,
        **dict.fromkeys(CURSOR_ARGUMENTS),
    }  # fmt: skip
    own_arguments = CURSOR_ARGUMENTS
    own_columns = ("next_offset", "messages_lost")
    title = "a quorum queue"
    rabbitmq_name = "rabbit_quorum_queue"
    keeps_dead_letters = True
    inspected_as = name

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        check_locator(arguments)
        check_retry(arguments)
        if source_of(arguments) is not None:
            return parse_cursor_arguments(arguments, 0).arguments
        return parse_quorum_arguments(arguments).arguments

    @classmethod
    def since_with(cls, arguments: Mapping[str, object]) -> int:
        """See QueueType."""
        return DELAYED_RETRY if any(key in arguments for key in RETRY_ARGUMENTS) else cls.since

    @classmethod
    def made_of(cls, arguments: Mapping[str, object]) -> str | None:
        """See QueueType."""
        return source_of(arguments)

    def next_queue_id(self, lowest: int, vhost: str, name: str, arguments: Mapping[str, object]) -> int:
        """See QueueType: a queue over a stream is in the stream's group."""
        source = source_of(arguments)
        stream = self._host.find_queue(vhost, source) if source is not None else None
        if stream is not None:
            return self._host.place_beside(lowest, stream.queue_id)
        return super().next_queue_id(lowest, vhost, name, arguments)

    # -- the queues of this node ---------------------------------------------------------------------------------------

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """See QueueType."""
        if source_of(declaration.arguments) is not None:
            return self._over_stream(declaration, queue_id)

        def settings() -> QuorumSettings:
            policies = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            return self._known(parse_quorum_arguments(declaration.arguments, *policies))

        def lease_expires() -> int | None:
            policy, operator = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            said = {key: value for key, value in declaration.arguments.items() if key == "x-lease-expires"}
            return with_policy(read_fields(said), policy or {}, operator).lease_expires

        group = self._host.group_of(queue_id)
        queue = QuorumQueue(declaration, queue_id, group, settings, lease_expires)
        group.add_queue(queue)
        return queue

    def _over_stream(self, declaration: QueueDeclaration, queue_id: int) -> Queue:
        found = self._host.find_queue(declaration.vhost, source_of(declaration.arguments) or "")
        stream = found if isinstance(found, StreamQueue) else None
        stream_id = stream.queue_id if stream is not None else 0

        def settings() -> CursorSettings:
            policies = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            return self._known(parse_cursor_arguments(declaration.arguments, stream_id, *policies))

        group = self._host.group_of(queue_id)
        queue = QueueOverStream(declaration, queue_id, group, settings, stream)
        group.add_queue(queue)
        return queue

    def _known(self, settings: Settings) -> Settings:
        """What all members of the cluster know of them."""
        level = self._host.level
        known = settings if level >= DELAYED_RETRY else replace(settings, retry=None)
        return known if level >= SINGLE_ACTIVE_PRIORITY else replace(known, gives_way=False)

    def policies_changed(self, queue: Queue, now: int) -> None:
        """See QueueType."""
        assert isinstance(queue, QuorumQueue)
        queue.policy_changed()

    def forget(self, queue_id: int) -> None:
        """See QueueType."""
        group = self._host.group_of(queue_id)
        if group.had(queue_id):
            group.queue_deleted(queue_id)

    # -- statistics ----------------------------------------------------------------------------------------------------

    @classmethod
    def figures(cls, queue: Queue) -> JsonObject:
        """See QueueType."""
        assert isinstance(queue, QuorumQueue)
        figures = queue.statistics()
        found: JsonObject = {
            "message_bytes_ready": figures.ready_bytes,
            "dead_letters": figures.dead_letters,
            "messages_delayed": figures.delayed,
        }
        if isinstance(queue, QueueOverStream):
            found["next_offset"], found["messages_lost"] = queue.place()
        return found
