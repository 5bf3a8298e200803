"""BindingIndex: the durable bindings of one vhost, found by either end.

It knows names only, not whether what they name exists, and nothing of routing.

Invariants:
1. A binding is in `_all` under its destination and its source, or not there at all. Its value is what was given with
   it.
2. `_sources` has the destinations that a source is bound to; `_count` counts the bindings.
3. A listing goes by destination, in the order of their first bindings; then by source; then in the order of binding. A
   copy that is made from a listing lists the same.
4. Adding and removing cost the same whatever the number of bindings; removing an end, what there is of other ends: a
   member of a cluster applies a deletion in one go, so that the ten thousand bindings of a queue may not cost it more
   than letting go of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_broker.metadata.entities import BindingRecord
from exchanges.bindings import EXCHANGE

_End = tuple[str, str]


class BindingIndex:
    def __init__(self) -> None:
        self._count = 0
        self._all: dict[_End, dict[str, dict[BindingRecord, bytes]]] = {}
        self._sources: dict[str, dict[_End, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __contains__(self, binding: BindingRecord) -> bool:
        return binding in self._all.get(_end_of(binding), {}).get(binding.source, ())

    def add(self, binding: BindingRecord, line: bytes = b"") -> bool:
        """line: what `lines` is to have of it. False: it was there already."""
        end = _end_of(binding)
        sources = self._all.setdefault(end, {})
        bindings = sources.setdefault(binding.source, {})
        if binding in bindings:
            return False
        bindings[binding] = line
        self._sources.setdefault(binding.source, {})[end] = None
        self._count += 1
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False: there is no such binding."""
        if binding not in self:
            return False
        end = _end_of(binding)
        bindings = self._all[end][binding.source]
        del bindings[binding]
        self._count -= 1
        if not bindings:
            self._take_out(end, binding.source)
        return True

    def remove_destination(self, kind: str, name: str) -> None:
        """Removes all that leads to a queue or an exchange."""
        for source in list(self._all.get((kind, name), ())):
            self._take_out((kind, name), source)

    def remove_exchange(self, name: str) -> None:
        """Removes all that starts at an exchange or leads to it."""
        for end in list(self._sources.get(name, ())):
            self._take_out(end, name)
        self.remove_destination(EXCHANGE, name)

    def all(self) -> list[BindingRecord]:
        return [each for bindings in self._pairs() for each in bindings]

    def lines(self) -> list[bytes]:
        """What was given with each."""
        return [line for bindings in self._pairs() for line in bindings.values()]

    def from_source(self, source: str) -> list[BindingRecord]:
        return [each for end in self._sources.get(source, ()) for each in self._all[end][source]]

    def to_destination(self, kind: str, name: str) -> list[BindingRecord]:
        return [each for bindings in self._all.get((kind, name), {}).values() for each in bindings]

    def _pairs(self) -> Iterator[dict[BindingRecord, bytes]]:
        for sources in self._all.values():
            yield from sources.values()

    def _take_out(self, end: _End, source: str) -> None:
        """Nothing leads from this source to this end any more."""
        sources = self._all[end]
        self._count -= len(sources.pop(source))
        if not sources:
            del self._all[end]
        ends = self._sources[source]
        del ends[end]
        if not ends:
            del self._sources[source]


def _end_of(binding: BindingRecord) -> _End:
    return binding.destination_kind, binding.destination
