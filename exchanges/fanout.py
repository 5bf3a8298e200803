"""Fanout exchange (AMQP 0-9-1 §3.1.3.2): a message goes to everything that is bound, whatever the keys.

It reads neither the routing key nor a header.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exchanges.bindings import Binding, Destination, Identity
from exchanges.exchange import Exchange, MessageFacts


class FanoutExchange(Exchange):
    type_name = "fanout"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.reads_every_key = False

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        return list(self._held)

    def each_reached(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> Iterator[Destination]:
        return iter(self._held)

    def _unlink_all(self, destination: Destination, held: dict[Identity, Binding]) -> None:
        """Nothing is linked here."""
