"""BindingIndex: the durable bindings of one vhost, found by either end.

It knows names only, not whether what they name exists, and nothing of routing.

Invariants:
1. A binding is in `_all`, and in `_pairs` under its destination and its source, or in neither. Its value in `_all` is
   what was given with it.
2. `_sources` has the destinations that a source is bound to.
3. `all` and `lines` are in the order in which the bindings were added. What is bound to an end, or from it, goes by the
   other end, in the order of its first binding.
4. Adding and removing cost the same whatever the number of bindings. Of an end that goes with very many, each costs as
   little as it can: every member applies a deletion in one go.
"""

from __future__ import annotations

from amqp_broker.metadata.entities import BindingRecord
from exchanges.bindings import EXCHANGE

_End = tuple[str, str]


class BindingIndex:
    def __init__(self) -> None:
        self._all: dict[BindingRecord, bytes] = {}
        self._pairs: dict[_End, dict[str, dict[BindingRecord, None]]] = {}
        self._sources: dict[str, dict[_End, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, binding: BindingRecord) -> bool:
        return binding in self._all

    def add(self, binding: BindingRecord, line: bytes = b"") -> bool:
        """line: what `lines` is to have of it. False: it was there already."""
        if binding in self._all:
            return False
        self._all[binding] = line
        end = _end_of(binding)
        self._pairs.setdefault(end, {}).setdefault(binding.source, {})[binding] = None
        self._sources.setdefault(binding.source, {})[end] = None
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False: there is no such binding."""
        if binding not in self._all:
            return False
        del self._all[binding]
        end = _end_of(binding)
        bindings = self._pairs[end][binding.source]
        del bindings[binding]
        if not bindings:
            self._take_out(end, binding.source)
        return True

    def remove_destination(self, kind: str, name: str) -> None:
        """Removes all that leads to a queue or an exchange."""
        for source in list(self._pairs.get((kind, name), ())):
            self._take_out((kind, name), source)

    def remove_exchange(self, name: str) -> None:
        """Removes all that starts at an exchange or leads to it."""
        for end in list(self._sources.get(name, ())):
            self._take_out(end, name)
        self.remove_destination(EXCHANGE, name)

    def all(self) -> list[BindingRecord]:
        return list(self._all)

    def lines(self) -> list[bytes]:
        """What was given with each."""
        return list(self._all.values())

    def from_source(self, source: str) -> list[BindingRecord]:
        return [each for end in self._sources.get(source, ()) for each in self._pairs[end][source]]

    def to_destination(self, kind: str, name: str) -> list[BindingRecord]:
        return [each for bindings in self._pairs.get((kind, name), {}).values() for each in bindings]

    def _take_out(self, end: _End, source: str) -> None:
        """Nothing leads from this source to this end any more."""
        sources = self._pairs[end]
        for binding in sources.pop(source):
            del self._all[binding]
        if not sources:
            del self._pairs[end]
        ends = self._sources[source]
        del ends[end]
        if not ends:
            del self._sources[source]


def _end_of(binding: BindingRecord) -> _End:
    return binding.destination_kind, binding.destination
