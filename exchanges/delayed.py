"""x-delayed-message exchange: one of another type (argument `x-delayed-type`) before which messages wait.

How long, the header `x-delay` says in milliseconds. The exchange keeps no message and knows no clock: it says
which messages have to wait (`delay_of`) and routes those that need not, or whose time has come, as the inner
type does. The router reports the waiting ones; whoever publishes keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from exchanges.bindings import Binding, Destination
from exchanges.exchange import Exchange, MessageFacts

DELAY_HEADER = "x-delay"
TYPE_ARGUMENT = "x-delayed-type"
MAX_DELAY_MS = 315_360_000_000  # ten years, as for a message's time to live
_MAX_DIGITS = 18


def delay_of(headers: Mapping[str, object]) -> int:
    """How many milliseconds a message with these headers has to wait; 0 where it need not.

    As RabbitMQ's plugin: an integer, a decimal string or a number that is cut to an integer. Whatever else
    stands there, zero, a negative number (what was delayed once) or more than MAX_DELAY_MS, means no delay.
    """
    value = headers.get(DELAY_HEADER)
    if isinstance(value, str):
        # int() alone would take blanks, underscores and the digits of every script.
        if not value.isascii() or not value.isdigit() or len(value) > _MAX_DIGITS:
            return 0
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return 0
    return int(value) if 0 < value <= MAX_DELAY_MS else 0


class DelayedExchange(Exchange):
    """Hands its bindings and its routing to `inner`."""

    type_name = "x-delayed-message"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        # Here, not above: the registry lists this type too.
        from exchanges.registry import EXCHANGE_TYPES

        super().__init__(arguments)
        self.routes_by_headers = True
        self.delays = True
        inner_type = arguments.get(TYPE_ARGUMENT)
        known = [name for name in EXCHANGE_TYPES if name != self.type_name]
        if not isinstance(inner_type, str) or inner_type not in known:
            raise ValueError(
                f"Invalid argument, {TYPE_ARGUMENT!r} must be an existing exchange type "
                f"({', '.join(known)}), not {inner_type!r}"
            )
        self.inner = EXCHANGE_TYPES[inner_type](arguments)
        self.reads_every_key = self.inner.reads_every_key
        self.routes_by_properties = self.inner.routes_by_properties

    @property
    def binding_count(self) -> int:
        return self.inner.binding_count

    @property
    def changes(self) -> int:
        return self.inner.changes

    @property
    def is_unused(self) -> bool:
        return self.inner.is_unused

    def bindings(self) -> list[Binding]:
        return self.inner.bindings()

    def bindings_to(self, destination: Destination) -> list[Binding]:
        return self.inner.bindings_to(destination)

    def each_binding_to(self, destination: Destination) -> Iterator[Binding]:
        return self.inner.each_binding_to(destination)

    def destinations(self) -> list[Destination]:
        return self.inner.destinations()

    def each_destination(self) -> Iterator[Destination]:
        return self.inner.each_destination()

    def each_reached(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> Iterator[Destination]:
        return self.inner.each_reached(routing_keys, facts)

    def some_bindings_to(self, destination: Destination, most: int) -> list[Binding]:
        return self.inner.some_bindings_to(destination, most)

    def is_bound_to(self, destination: Destination) -> bool:
        return self.inner.is_bound_to(destination)

    def has_binding(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        return self.inner.has_binding(destination, binding_key, arguments)

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        self.inner.check_binding(binding_key, arguments)

    def bind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        return self.inner.bind(destination, binding_key, arguments)

    def unbind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        return self.inner.unbind(destination, binding_key, arguments)

    def remove_destination(self, destination: Destination) -> int:
        return self.inner.remove_destination(destination)

    def keys_to(self, destination: Destination, most: int) -> list[str] | None:
        return self.inner.keys_to(destination, most)

    def remove_last_destination(self) -> tuple[Destination, int]:
        return self.inner.remove_last_destination()

    @property
    def is_forgetting(self) -> bool:
        return self.inner.is_forgetting

    def forget(self, most: int) -> int:
        return self.inner.forget(most)

    def reached(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        return self.inner.reached(routing_key, facts)

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        return self.inner.matches(routing_key, facts)
