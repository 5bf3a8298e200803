"""QueueTypesVerb: `queue.types`: which types of queues there are, what can be said of one, and what it can do.

Whoever shows queues and knows no types (the management process, forms) learns them here, from the register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.metadata.entities import DEFAULT_TYPE
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.contract.queue_type import QueueType
from amqp_broker.queue_types.register import QUEUE_TYPES

if TYPE_CHECKING:
    from amqp_broker.management.request import Request

#: An answer's fields, and what it waits for: nothing.
Answer = tuple[JsonObject, None]


class QueueTypesVerb:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.verbs: dict[str, Callable[[Request], Answer]] = {"queue.types": self._types}

    def _types(self, request: Request) -> Answer:
        """default: what a queue is that is declared without a type, in a virtual host that says nothing."""
        return {"default": DEFAULT_TYPE, "types": [_described(each) for each in QUEUE_TYPES.values()]}, None


def _described(queue_type: type[QueueType]) -> JsonObject:
    """example: a value that a form may begin with, null for what it does not propose."""
    return {
        "name": queue_type.name,
        "policy_kind": queue_type.policy_kind,
        "arguments": [{"name": name, "example": example} for name, example in queue_type.arguments.items()],
        "policy_keys": [
            {"name": name, "example": key.example, "for_operators": key.for_operators}
            for name, key in queue_type.policy_keys.items()
        ],
        "has_home": queue_type.may_move,
        "has_replicas": queue_type.lives_in_groups,
        "has_offsets": queue_type.is_source,
        "keeps_dead_letters": queue_type.keeps_dead_letters,
    }
