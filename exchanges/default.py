"""The default exchange (AMQP 0-9-1 §3.1.2): every queue is bound to it by its name, implicitly and for good.

It keeps no binding: it asks whether there is a queue of the name. Each router holds one under the name "".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from exchanges.bindings import QUEUE, Destination
from exchanges.exchange import Exchange, MessageFacts


class DefaultExchange(Exchange):
    type_name = "direct"

    def __init__(self, queue_exists: Callable[[str], bool]) -> None:
        super().__init__({})
        self._queue_exists = queue_exists

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        raise ValueError(
            "the default exchange cannot be bound: each queue is bound to it by its name; use amq.direct"
        )

    def reached_by_all(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> list[Destination]:
        exists = self._queue_exists
        return [Destination(QUEUE, routing_key) for routing_key in routing_keys if exists(routing_key)]

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        return [Destination(QUEUE, routing_key)] if self._queue_exists(routing_key) else []
