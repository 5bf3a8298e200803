"""Direct exchange (AMQP 0-9-1 §3.1.3.1): a message goes where the binding key equals its routing key.

It reads no header. Invariant: `_routes[key][destination]` counts the bindings (they may differ in their
arguments), and neither an empty table nor a zero stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exchanges.bindings import Binding, Destination, Identity
from exchanges.exchange import Exchange, MessageFacts


class DirectExchange(Exchange):
    type_name = "direct"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self._routes: dict[str, dict[Destination, int]] = {}

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        destinations = self._routes.get(routing_key)
        return [] if destinations is None else list(destinations)

    def each_reached(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> Iterator[Destination]:
        for key in routing_keys:
            yield from (each for each in self._routes.get(key, ()) if each not in self._leaving)

    def only_key(self, binding_key: str) -> str | None:
        return binding_key

    def _link(self, binding: Binding, key: Identity) -> None:
        destinations = self._routes.setdefault(binding.binding_key, {})
        destinations[binding.destination] = destinations.get(binding.destination, 0) + 1

    def _unlink(self, binding: Binding, key: Identity) -> None:
        destinations = self._routes[binding.binding_key]
        destinations[binding.destination] -= 1
        if not destinations[binding.destination]:
            del destinations[binding.destination]
            if not destinations:
                del self._routes[binding.binding_key]
