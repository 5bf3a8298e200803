"""BindingIndex: the durable bindings of one vhost, found by either end.

It knows names only, not whether what they name exists, and nothing of routing.

Invariants:
1. A binding is in one of `_blocks`, and in `_pairs` under its destination and its source, or in neither. Its value in
   the block is what was given with it, its value in `_pairs` is the block's number. No block is empty, or larger than
   BLOCK; `_numbers` has those of all of them.
2. `_sources` has the destinations that a source is bound to.
3. `all` and `lines` are in the order in which the bindings were added. What is bound to an end, or from it, goes by the
   other end, in the order of its first binding.
4. A block's number is never given again: who reads block by block sees once whatever stays, however much comes and
   goes meanwhile.
5. Adding and removing cost the same whatever the number of bindings. Of an end that goes with very many, each costs as
   little as it can: every member applies a deletion in one go.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.turn.letting_go import let_go
from exchanges.bindings import EXCHANGE

_End = tuple[str, str]

#: So many bindings are in a block.
BLOCK = 64


class BindingIndex:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[BindingRecord, bytes]] = {}
        self._numbers: SortedKeys[int] = SortedKeys()
        self._newest = 0
        self._count = 0
        self._pairs: dict[_End, dict[str, dict[BindingRecord, int]]] = {}
        self._sources: dict[str, dict[_End, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __contains__(self, binding: BindingRecord) -> bool:
        return binding in self._pairs.get(_end_of(binding), {}).get(binding.source, {})

    def add(self, binding: BindingRecord, line: bytes = b"") -> bool:
        """line: what `lines` is to have of it. False: it was there already."""
        end = _end_of(binding)
        bindings = self._pairs.setdefault(end, {}).setdefault(binding.source, {})
        if binding in bindings:
            return False
        block = self._blocks.get(self._newest)
        if block is None or len(block) >= BLOCK:
            self._newest += 1
            block = self._blocks[self._newest] = {}
            self._numbers.add(self._newest)
        block[binding] = line
        bindings[binding] = self._newest
        self._count += 1
        self._sources.setdefault(binding.source, {})[end] = None
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False: there is no such binding."""
        end = _end_of(binding)
        bindings = self._pairs.get(end, {}).get(binding.source, {})
        number = bindings.pop(binding, None)
        if number is None:
            return False
        self._take_from_block(binding, number)
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
        return [binding for block in self._blocks.values() for binding in block]

    def after(self, block: int) -> tuple[int, list[BindingRecord]]:
        """Those of the first block behind this one, in the order of `all`, and its number; 0 is before the first.
        Without any: there are no more."""
        numbers = self._numbers.after(block, 1)
        return (numbers[0], list(self._blocks[numbers[0]])) if numbers else (block, [])

    def lines(self) -> list[bytes]:
        """What was given with each."""
        return [line for block in self._blocks.values() for line in block.values()]

    def let_go(self) -> Iterator[None]:
        """Forget all of them, in slices: nobody needs the index any more."""
        yield from let_go(self._blocks)
        yield from let_go(self._pairs, levels=3)
        yield from let_go(self._sources, levels=2)

    def to_destination(self, kind: str, name: str) -> list[BindingRecord]:
        return [each for bindings in self._pairs.get((kind, name), {}).values() for each in bindings]

    def _take_out(self, end: _End, source: str) -> None:
        """Nothing leads from this source to this end any more."""
        sources = self._pairs[end]
        for binding, number in sources.pop(source).items():
            self._take_from_block(binding, number)
        if not sources:
            del self._pairs[end]
        ends = self._sources[source]
        del ends[end]
        if not ends:
            del self._sources[source]


    def _take_from_block(self, binding: BindingRecord, number: int) -> None:
        block = self._blocks[number]
        del block[binding]
        self._count -= 1
        if not block:
            del self._blocks[number]
            self._numbers.discard(number)


def _end_of(binding: BindingRecord) -> _End:
    return binding.destination_kind, binding.destination
