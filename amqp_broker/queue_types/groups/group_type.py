"""GroupType: what types of queues have in common whose messages are in the log of a queue group, which all nodes of the
cluster have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

from amqp_broker.errors import precondition_failed
from amqp_broker.queue_types.contract.queue_type import Declared, QueueType, TypeHost, WrongProperty
from queues.arguments import merged_definition
from queues.quorum.arguments import group_size, leads_locally

if TYPE_CHECKING:
    from amqp_broker.queue_types.contract.policy_keys import Definition
    from amqp_broker.queue_types.groups.group import QueueGroup


class GroupedHost(TypeHost, Protocol):
    """What a node gives to a type whose queues live in groups."""

    def group_of(self, queue_id: int) -> QueueGroup:
        """The group that a queue of this id lives in, if its type lives in groups."""

    def place_queue(self, lowest: int, is_local: bool, size: int = 0) -> int:
        """The id, from `lowest` on, that puts a new queue into the right group: one on `size` nodes, if one is."""

    def place_beside(self, lowest: int, queue_id: int) -> int:
        """The id, from `lowest` on, that puts a new queue into the group of another one."""


class GroupType(QueueType):
    """title: what one is, in a sentence. rabbitmq_name: RabbitMQ's word for the type. policy_wins: over the arguments
    that say where a queue is to be."""

    lives_in_groups = True
    policy_wins: ClassVar[bool] = False
    title: ClassVar[str]
    rabbitmq_name: ClassVar[str]
    _host: GroupedHost

    def __init__(self, host: GroupedHost) -> None:
        super().__init__(host)

    @classmethod
    def check(cls, declared: Declared) -> None:
        """See QueueType. The texts are RabbitMQ's."""
        if not declared.name:
            raise precondition_failed(f"Cannot declare a server-named queue for type {cls.rabbitmq_name}")
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
            raise WrongProperty("auto_delete", f"{cls.title} cannot be one that is deleted with its last consumer")

    def next_queue_id(self, lowest: int, vhost: str, name: str, arguments: Mapping[str, object]) -> int:
        """See QueueType."""
        policy = merged_definition(*self._host.policies_of(vhost, self.policy_kind, name))
        is_local = leads_locally(arguments, policy, policy_wins=self.policy_wins)
        return self._host.place_queue(lowest, is_local, self.size_of(arguments, policy))

    @classmethod
    def size_of(cls, arguments: Mapping[str, object], policy: Definition) -> int:
        """See QueueType."""
        return group_size(arguments, policy, policy_wins=cls.policy_wins)
