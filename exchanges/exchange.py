"""Exchange: what every exchange type does, and the bookkeeping of its bindings.

It knows nothing of the graph (router.py), of vhosts, policies or statistics, and of a message only its
routing key and, through MessageFacts, the headers and properties that it asks for.

Invariants:
1. `_held` has one entry per destination with at least one binding, in the order in which they were first
   bound.
2. `_link` and `_unlink` are called once for each binding that came or went, after `_held` has changed.
3. Binding, unbinding and removing a destination cost what that destination's bindings cost, however many
   others there are.
4. `matches` returns each destination once, in an order that depends on the past calls only (never on a hash).
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Protocol

from exchanges.bindings import Binding, Destination, Identity, identity


class MessageFacts(Protocol):
    """What an exchange may ask of a message besides its routing key; decoded only when asked."""

    @builtins.property
    def headers(self) -> Mapping[str, object]:
        """The headers table; empty where the message has none."""
        ...

    def property(self, name: str) -> object | None:
        """A basic property by its AMQP name with underscores, such as message_id; None where it is absent."""
        ...


class Exchange:
    """Base of all types.

    `routes_by_headers`: routes depend on more than the routing key, so that nobody may cache them.
    `reads_every_key`: each of a message's routing keys (CC, BCC) is matched, not only the first.
    `delays`: messages may have to wait before this exchange (delayed.py).
    """

    type_name = ""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """Takes the arguments of exchange.declare; raises ValueError with a text for a 406 on wrong ones."""
        self.routes_by_headers = False
        self.reads_every_key = True
        self.delays = False
        self.arguments = arguments
        self._held: dict[Destination, dict[Identity, Binding]] = {}

    @property
    def is_unused(self) -> bool:
        """Nothing is bound to this exchange as a source."""
        return not self._held

    def bindings(self) -> list[Binding]:
        """All bindings: destinations in the order of their first binding, then in the order of binding."""
        return [binding for held in self._held.values() for binding in held.values()]

    def bindings_to(self, destination: Destination) -> list[Binding]:
        """The bindings to one destination in the order of binding."""
        return list(self._held.get(destination, {}).values())

    def is_bound_to(self, destination: Destination) -> bool:
        return destination in self._held

    def has_binding(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Whether this very binding is there."""
        held = self._held.get(destination)
        return held is not None and identity(binding_key, arguments) in held

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        """Raise ValueError with a text for a 406 where this type cannot take such a binding."""

    def bind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Add a binding. False: it was there already. Raises ValueError as `check_binding` does."""
        self.check_binding(binding_key, arguments)
        key = identity(binding_key, arguments)
        held = self._held.get(destination)
        if held is None:
            held = self._held[destination] = {}
        elif key in held:
            return False
        binding = held[key] = Binding(destination, binding_key, arguments)
        self._link(binding, key)
        return True

    def unbind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Remove a binding. False: there is none such (AMQP 0-9-1 calls that no error)."""
        held = self._held.get(destination)
        if held is None:
            return False
        key = identity(binding_key, arguments)
        binding = held.pop(key, None)
        if binding is None:
            return False
        if not held:
            del self._held[destination]
        self._unlink(binding, key)
        return True

    def remove_destination(self, destination: Destination) -> list[Binding]:
        """Remove all bindings to a destination that is going away; returns them in the order of binding."""
        held = self._held.pop(destination, {})
        for key, binding in held.items():
            self._unlink(binding, key)
        return list(held.values())

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        """Where a message with this routing key goes, each destination once; `facts` None: no headers."""
        raise NotImplementedError(f"exchange type {self.type_name!r} has no matches(); define it")

    def only_key(self, binding_key: str) -> str | None:
        """The one routing key of the messages that a binding with this key is for; None: it is for others, too."""
        return None

    def _link(self, binding: Binding, key: Identity) -> None:
        """A binding came: let the type index it."""

    def _unlink(self, binding: Binding, key: Identity) -> None:
        """A binding went: let the type forget it."""
