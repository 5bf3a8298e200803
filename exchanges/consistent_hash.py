"""x-consistent-hash exchange: a message goes to one destination, chosen by a hash; binding keys are weights.

What is hashed: the routing key, or the header named by the argument `hash-header`, or the property named by
`hash-property` (correlation_id, message_id or timestamp); a message that lacks it hashes like an empty one.

The ring: each unit of a destination's weight (the sum over its bindings) owns POINTS_PER_WEIGHT points on a
circle of 128-bit numbers, and a message goes to the owner of the first point at or behind its hash. So a
binding that comes or goes moves only the keys that it gains or loses. Weight 0 takes nothing.

Invariant: the ring is a function of the weights alone: neither the process nor the order of the bindings moves a key.
Points are long enough to never coincide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from struct import Struct

from exchanges.bindings import Binding, Destination, Identity
from exchanges.exchange import Exchange, MessageFacts
from exchanges.hash_ring import POINT_OCTETS, HashRing

# At weight 1 a share deviates by one part in eight (the standard deviation), at larger weights by less.
POINTS_PER_WEIGHT = 64
MAX_WEIGHT = 1000  # bounds what one binding costs in time and memory

_PROPERTIES = ("correlation_id", "message_id", "timestamp")
_WEIGHT = re.compile(r"\+?[0-9]+")
_POINTS_PER_DIGEST = 4
_points_in = Struct(f"{POINT_OCTETS}s" * _POINTS_PER_DIGEST).unpack


def ring_points(destination: Destination, first: int, end: int) -> Iterator[bytes]:
    """The points that units of a destination's weight (counted from 0) own."""
    name = destination.name.encode("utf-8", "surrogateescape")
    kind = destination.kind.encode()
    for unit in range(first, end):
        for part in range(POINTS_PER_WEIGHT // _POINTS_PER_DIGEST):
            yield from _points_in(blake2b(b"%b %d %d %b" % (kind, unit, part, name)).digest())


class ConsistentHashExchange(Exchange):
    type_name = "x-consistent-hash"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.reads_every_key = False
        self._header = _name_argument(arguments, "hash-header")
        self._property = _name_argument(arguments, "hash-property")
        if self._header is not None and self._property is not None:
            raise ValueError("hash-header and hash-property are mutually exclusive")
        if self._property is not None and self._property not in _PROPERTIES:
            raise ValueError(f"Unsupported property: {self._property}; expected {', '.join(_PROPERTIES)}")
        self.routes_by_headers = self._header is not None or self._property is not None
        self.routes_by_properties = self._property is not None
        #: By the destination; and that itself, as the ring has it.
        self._weights: dict[Destination, int] = {}
        self._owners: dict[Destination, Destination] = {}
        self._ring = HashRing()

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        if _WEIGHT.fullmatch(binding_key) is None or not binding_key.strip("0"):
            raise ValueError(f"The binding key must be a positive integer, the weight: {binding_key!r}")
        if len(binding_key) > 255 or int(binding_key) > MAX_WEIGHT:
            raise ValueError(
                f"The binding key is a weight of at most {MAX_WEIGHT}, not {binding_key}; "
                "scale the weights of all bindings of this exchange down"
            )

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        owner = self._ring.owner_at(blake2b(self._hashed(routing_key, facts), digest_size=POINT_OCTETS).digest())
        return [] if owner is None else [owner]

    def _hashed(self, routing_key: str, facts: MessageFacts | None) -> bytes:
        """The octets that decide about a message."""
        value: object
        if self._header is not None:
            value = facts.headers.get(self._header) if facts is not None else None
        elif self._property is not None:
            value = facts.property(self._property) if facts is not None else None
        else:
            value = routing_key
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")

    def _link(self, binding: Binding, key: Identity) -> None:
        destination = binding.destination
        weight = self._weights.get(destination, 0)
        self._weights[destination] = heavier = weight + int(binding.binding_key)
        owner = self._owners.setdefault(destination, destination)
        self._ring.add(owner, ring_points(destination, weight, heavier))

    def _unlink(self, binding: Binding, key: Identity) -> None:
        self._give_up(binding.destination, self._weights[binding.destination] - int(binding.binding_key))

    def _unlink_all(self, destination: Destination, held: dict[Identity, Binding]) -> None:
        # At once: a place of one that has gone would take the keys of another.
        self._give_up(destination, 0)

    def _give_up(self, destination: Destination, weight: int) -> None:
        """A destination keeps this weight of what it has."""
        heavier = self._weights[destination]
        if weight:
            self._weights[destination] = weight
            self._ring.remove(ring_points(destination, weight, heavier))
            return
        del self._weights[destination]
        owner = self._owners.pop(destination)
        if self._ring.is_large_part(heavier * POINTS_PER_WEIGHT):
            self._ring.remove_owner(owner)
        else:
            self._ring.remove(ring_points(destination, 0, heavier))


def _name_argument(arguments: Mapping[str, object], key: str) -> str | None:
    """A string argument of the exchange, None where it is absent."""
    value = arguments.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"Invalid argument, {key!r} must be a string, not {value!r}")
    return value
