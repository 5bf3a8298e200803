"""Exchange: what every exchange type does, and the bookkeeping of its bindings.

It knows nothing of the graph (router.py), of vhosts, policies or statistics, and of a message only its
routing key and, through MessageFacts, the headers and properties that it asks for.

Invariants:
1. `_held` has one entry per destination with at least one binding, in the order in which they were first
   bound.
2. `_link` and `_unlink` are called once for each binding that came or went, after `_held` has changed: `_unlink` maybe
   much later, where a destination goes that has very many. Until then `_leaving` has what is still to be forgotten.
3. Binding and unbinding cost the same however many others there are; removing a destination, too: what is more than a
   slice of work is left to `forget`.
4. `reached` returns each destination once, in an order that depends on the past calls only (never on a hash), and none
   that has gone. One that comes back while its old bindings are being forgotten is another one: `_stored` says which.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from exchanges.bindings import Binding, Destination, Identity, identity

#: Of a destination that goes, so many bindings are forgotten at once; more than that in slices.
MOST_AT_ONCE = 128


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
    `routes_by_properties`: on more of it than routing keys and headers.
    `reads_every_key`: each of a message's routing keys (CC, BCC) is matched, not only the first.
    `delays`: messages may have to wait before this exchange (delayed.py).
    """

    type_name = ""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """Takes the arguments of exchange.declare; raises ValueError with a text for a 406 on wrong ones."""
        self.routes_by_headers = False
        self.routes_by_properties = False
        self.reads_every_key = True
        self.delays = False
        self.arguments = arguments
        self._bound = 0
        self._changes = 0
        self._held: dict[Destination, dict[Identity, Binding]] = {}
        self._leaving: dict[Destination, dict[Identity, Binding]] = {}
        self._renamed: dict[Destination, Destination] = {}

    @property
    def binding_count(self) -> int:
        """How many bindings there are."""
        return self._bound

    @property
    def changes(self) -> int:
        """Another number when bindings have come or gone, or have been forgotten."""
        return self._changes

    @property
    def is_unused(self) -> bool:
        """Nothing is bound to this exchange as a source."""
        return not self._held

    def bindings(self) -> list[Binding]:
        """All bindings: destinations in the order of their first binding, then in the order of binding."""
        return [_plain(binding) for held in self._held.values() for binding in held.values()]

    def bindings_to(self, destination: Destination) -> list[Binding]:
        """The bindings to one destination in the order of binding."""
        return [_plain(binding) for binding in self._held.get(self._stored(destination), {}).values()]

    def each_binding_to(self, destination: Destination) -> Iterator[Binding]:
        """As `bindings_to`, one by one. Raises RuntimeError when these have changed meanwhile."""
        for binding in self._held.get(self._stored(destination), {}).values():
            yield _plain(binding)

    def destinations(self) -> list[Destination]:
        """Where bindings lead, in the order of the first binding of each."""
        return [Destination(each.kind, each.name) for each in self._held] if self._renamed else list(self._held)

    def each_destination(self) -> Iterator[Destination]:
        """As `destinations`, one by one. Raises RuntimeError where one comes or goes meanwhile."""
        for each in self._held:
            yield Destination(each.kind, each.name) if self._renamed else each

    def some_bindings_to(self, destination: Destination, most: int) -> list[Binding]:
        """As `bindings_to`, so many at most: it costs by these."""
        held = self._held.get(self._stored(destination), {})
        return [_plain(binding) for binding in islice(held.values(), most)]

    def keys_to(self, destination: Destination, most: int) -> list[str] | None:
        """The binding keys to one destination; None where there are more than `most`."""
        held = self._held.get(self._stored(destination), {})
        return None if len(held) > most else [binding.binding_key for binding in held.values()]

    def is_bound_to(self, destination: Destination) -> bool:
        return self._stored(destination) in self._held

    def has_binding(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Whether this very binding is there."""
        held = self._held.get(self._stored(destination))
        return held is not None and identity(binding_key, arguments) in held

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        """Raise ValueError with a text for a 406 where this type cannot take such a binding."""

    def bind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Add a binding. False: it was there already. Raises ValueError as `check_binding` does."""
        self.check_binding(binding_key, arguments)
        key = identity(binding_key, arguments)
        stored = self._stored(destination)
        held = self._held.get(stored)
        if held is None:
            if stored in self._leaving:
                stored = self._renamed[destination] = Destination(
                    destination.kind, destination.name, stored.again + 1
                )
            held = self._held[stored] = {}
        elif key in held:
            return False
        binding = held[key] = Binding(stored, binding_key, arguments)
        self._bound += 1
        self._changes += 1
        self._link(binding, key)
        return True

    def unbind(self, destination: Destination, binding_key: str, arguments: Mapping[str, object]) -> bool:
        """Remove a binding. False: there is none such (AMQP 0-9-1 calls that no error)."""
        stored = self._stored(destination)
        held = self._held.get(stored)
        if held is None:
            return False
        key = identity(binding_key, arguments)
        binding = held.pop(key, None)
        if binding is None:
            return False
        if not held:
            del self._held[stored]
        self._bound -= 1
        self._changes += 1
        self._unlink(binding, key)
        return True

    def remove_destination(self, destination: Destination) -> int:
        """A destination is going away: none of its bindings leads anywhere any more. Returns how many there were."""
        stored = self._stored(destination)
        held = self._held.pop(stored, None)
        if held is None:
            return 0
        count = len(held)
        self._bound -= count
        self._changes += 1
        self._unlink_all(stored, held)
        return count

    def remove_last_destination(self) -> tuple[Destination, int]:
        """As `remove_destination` of the one that was bound last, for an exchange that is itself going away. Returns
        which it was and how many bindings it had. Raises KeyError where there is none."""
        stored, held = self._held.popitem()
        count = len(held)
        self._bound -= count
        self._changes += 1
        self._unlink_all(stored, held)
        return Destination(stored.kind, stored.name), count

    @property
    def is_forgetting(self) -> bool:
        """Whether there is something for `forget` to do."""
        return bool(self._leaving)

    def forget(self, most: int) -> int:
        """So many bindings of destinations that are gone are forgotten. Returns how many it were."""
        left = most
        self._changes += 1
        while self._leaving and left > 0:
            destination, held = self._leaving.popitem()
            while held and left > 0:
                key, binding = held.popitem()
                self._unlink(binding, key)
                left -= 1
            if held:
                self._leaving[destination] = held
        if not self._leaving and self._renamed:
            self._renamed = {name: stored for name, stored in self._renamed.items() if stored in self._held}
        return most - left

    def reached(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        """Where a message with this routing key goes, each destination once; `facts` None: no headers."""
        destinations = self.matches(routing_key, facts)
        if self._leaving:
            return [each for each in destinations if each not in self._leaving]
        return destinations

    def reached_by_all(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> list[Destination]:
        """Where a message with several keys goes: a destination once for each key that leads there."""
        destinations = self.reached(routing_keys[0], facts)
        if self.reads_every_key:
            for routing_key in routing_keys[1:]:
                destinations += self.reached(routing_key, facts)
        return destinations

    def each_reached(self, routing_keys: Sequence[str], facts: MessageFacts | None) -> Iterator[Destination]:
        """The same, one by one, for who goes through them in slices: while `changes` stays the same. A type that finds
        them in a dictionary need not make a list of all."""
        found = self.reached_by_all(routing_keys, facts)
        found.reverse()  # its end is the first of them: it is given back bit by bit
        while found:
            yield found.pop()

    def leads_alone(self, binding: Binding, routing_keys: Sequence[str], facts: MessageFacts | None) -> bool:
        """Whether a message would go where this binding leads if there were no other: what a type says, whatever it
        is, of an exchange with nothing else."""
        alone = type(self)(self.arguments)
        alone.bind(binding.destination, binding.binding_key, binding.arguments)
        return bool(alone.reached_by_all(routing_keys, facts))

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        """Where what is linked leads for this routing key, each destination once: what a type has to say."""
        raise NotImplementedError(f"exchange type {self.type_name!r} has no matches(); define it")

    def only_key(self, binding_key: str) -> str | None:
        """The one routing key of the messages that a binding with this key is for; None: it is for others, too."""
        return None

    def _link(self, binding: Binding, key: Identity) -> None:
        """A binding came: let the type index it."""

    def _unlink(self, binding: Binding, key: Identity) -> None:
        """A binding went: let the type forget it."""

    def _unlink_all(self, destination: Destination, held: dict[Identity, Binding]) -> None:
        """All bindings to a destination went. A type that can forget them in one go, or has to, does so here."""
        if len(held) > MOST_AT_ONCE:
            self._leaving[destination] = held
            return
        for key, binding in held.items():
            self._unlink(binding, key)

    def _stored(self, destination: Destination) -> Destination:
        """What stands for this destination in here."""
        return self._renamed.get(destination, destination) if self._renamed else destination


def _plain(binding: Binding) -> Binding:
    """A binding as others know it."""
    kind, name, again = binding.destination
    return Binding(Destination(kind, name), binding.binding_key, binding.arguments) if again else binding
