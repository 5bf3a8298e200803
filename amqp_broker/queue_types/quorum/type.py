"""QuorumType: queues whose messages are in the log of a queue group, which all nodes of the cluster have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp_broker.errors import precondition_failed
from amqp_broker.queue_types.policy_keys import keys
from amqp_broker.queue_types.queue_type import Declared, QueueType, WrongProperty
from amqp_broker.queue_types.quorum.queue import QuorumQueue
from queues.arguments import QueueArguments, read_fields, with_policy
from queues.quorum.arguments import leads_locally, parse_quorum_arguments

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.queue_types.declaration import QueueDeclaration
    from queues.queue import Queue
    from queues.quorum.settings import QuorumSettings


class QuorumType(QueueType):
    """See the module's docstring."""

    name = "quorum"
    policy_kind = "quorum_queues"
    policy_keys = keys(
        "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange",
        "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "lease-expires", "consumer-timeout",
        "queue-leader-locator", "max-in-memory-length", "max-in-memory-bytes", "target-group-size",
    )  # fmt: skip
    lives_in_groups = True
    inspected_as = name

    @classmethod
    def check(cls, declared: Declared) -> None:
        """See QueueType. The texts are RabbitMQ's."""
        if not declared.name:
            raise precondition_failed("Cannot declare a server-named queue for type rabbit_quorum_queue")
        found = {
            "auto-delete": declared.is_auto_delete,
            "exclusive-ownership": declared.is_exclusive,
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
            raise WrongProperty("auto_delete", "a quorum queue cannot be one that is deleted with its last consumer")

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        return parse_quorum_arguments(arguments).arguments

    def next_queue_id(self, lowest: int, vhost: str, name: str, arguments: Mapping[str, object]) -> int:
        """See QueueType."""
        policy, _ = self._host.policies_of(vhost, self.policy_kind, name)
        return self._host.place_queue(lowest, leads_locally(arguments, policy))

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
