"""BindingIndex: the durable bindings of one vhost, found by either end.

It knows names only, not whether what they name exists, and nothing of routing.

Invariants:
1. A binding is in `_all`, under its source and under its destination, or in none of them.
2. The value of a binding in `_all` is what was given with it; elsewhere it is None.
3. Every listing is in the order in which the bindings were added; an end without bindings has no entry.
4. Adding and removing cost the same whatever the number of bindings.
"""

from __future__ import annotations

from typing import TypeVar

from amqp_broker.metadata.entities import BindingRecord
from exchanges.bindings import EXCHANGE

_Bindings = dict[BindingRecord, None]
_Key = TypeVar("_Key")


class BindingIndex:
    def __init__(self) -> None:
        self._all: dict[BindingRecord, bytes] = {}
        self._by_source: dict[str, _Bindings] = {}
        self._by_destination: dict[tuple[str, str], _Bindings] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, binding: BindingRecord) -> bool:
        return binding in self._all

    def add(self, binding: BindingRecord, line: bytes = b"") -> bool:
        """line: what `lines` is to have of it. False: it was there already."""
        if binding in self._all:
            return False
        self._all[binding] = line
        self._by_source.setdefault(binding.source, {})[binding] = None
        self._by_destination.setdefault((binding.destination_kind, binding.destination), {})[binding] = None
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False: there is no such binding."""
        if binding not in self._all:
            return False
        del self._all[binding]
        _take_out(self._by_source, binding.source, binding)
        _take_out(self._by_destination, (binding.destination_kind, binding.destination), binding)
        return True

    def remove_destination(self, kind: str, name: str) -> None:
        """Removes all that leads to a queue or an exchange."""
        for binding in self.to_destination(kind, name):
            self.remove(binding)

    def remove_exchange(self, name: str) -> None:
        """Removes all that starts at an exchange or leads to it."""
        for binding in self.from_source(name):
            self.remove(binding)
        self.remove_destination(EXCHANGE, name)

    def all(self) -> list[BindingRecord]:
        return list(self._all)

    def lines(self) -> list[bytes]:
        """What was given with each."""
        return list(self._all.values())

    def from_source(self, source: str) -> list[BindingRecord]:
        return list(self._by_source.get(source, ()))

    def to_destination(self, kind: str, name: str) -> list[BindingRecord]:
        return list(self._by_destination.get((kind, name), ()))


def _take_out(index: dict[_Key, _Bindings], key: _Key, binding: BindingRecord) -> None:
    bindings = index[key]
    del bindings[binding]
    if not bindings:
        del index[key]
