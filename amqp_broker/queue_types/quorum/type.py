"""QuorumType: queues whose messages are in the log of a queue group, which all nodes of the cluster have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp_broker.queue_types.group_type import GroupType
from amqp_broker.queue_types.policy_keys import keys
from amqp_broker.queue_types.quorum.queue import QuorumQueue
from queues.arguments import QueueArguments, read_fields, with_policy
from queues.quorum.arguments import parse_quorum_arguments

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.queue_types.declaration import QueueDeclaration
    from queues.queue import Queue
    from queues.quorum.settings import QuorumSettings


class QuorumType(GroupType):
    """See the module's docstring."""

    name = "quorum"
    policy_kind = "quorum_queues"
    policy_keys = keys(
        "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange",
        "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "lease-expires", "consumer-timeout",
        "queue-leader-locator", "max-in-memory-length", "max-in-memory-bytes", "target-group-size",
    )  # fmt: skip
    title = "a quorum queue"
    rabbitmq_name = "rabbit_quorum_queue"
    exclusiveness = "exclusive-ownership"
    inspected_as = name

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        return parse_quorum_arguments(arguments).arguments

    # -- the queues of this node ---------------------------------------------------------------------------------------

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """See QueueType."""

        def settings() -> QuorumSettings:
            policies = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            return parse_quorum_arguments(declaration.arguments, *policies)

        def lease_expires() -> int | None:
            policy, operator = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
            said = {key: value for key, value in declaration.arguments.items() if key == "x-lease-expires"}
            found = QueueArguments(**read_fields(said))  # type: ignore[arg-type]
            return with_policy(found, policy or {}, operator).lease_expires

        return self._host.group_of(queue_id).open_queue(declaration, queue_id, settings, lease_expires)

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
        return {"message_bytes_ready": figures.ready_bytes, "dead_letters": figures.dead_letters}
