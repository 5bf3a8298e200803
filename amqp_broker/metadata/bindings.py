"""BindingIndex: the durable bindings of one vhost, found by either end.

It knows names only, not whether what they name exists, and nothing of routing.

Invariants:
1. A binding is in one of `_blocks`, and under the pair of its source and its destination, or in neither. Its value in
   the block is what was given with it, its value in the pair is the block's number. No block is empty, or larger than
   BLOCK; `_numbers` has those of all of them.
2. A pair is in `pairs` of both its ends; `_sources` and `_destinations` have the ends of all bindings that are there.
3. `all` and `lines` are in the order in which the bindings were added. What is bound to an end, or from it, goes by the
   other end, in the order of its first binding.
4. A block's number is never given again: who reads block by block sees once whatever stays, however much comes and
   goes meanwhile.
5. Adding and removing cost the same whatever the number of bindings. An end that goes with very many is gone at once,
   and its bindings are forgotten in slices (`forget`): until then some are in `_blocks`, and their pairs in `pairs` of
   their other ends. Nobody sees them; an end, a pair or a binding of the same names that comes meanwhile is another
   one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.turn.letting_go import SLICE, let_go
from exchanges.bindings import EXCHANGE

#: What a destination is known by: its kind and its name. A source is known by its name.
_Named = tuple[str, str]

#: So many bindings are in a block.
BLOCK = 64


class _End:
    """A source, or a destination, with the pairs that it belongs to, by what their other ends are known by."""

    __slots__ = ("is_gone", "pairs")

    def __init__(self) -> None:
        self.is_gone = False
        self.pairs: dict[_Named | str, _Pair] = {}


class _Pair:
    """The bindings from one source to one destination, each with the number of its block."""

    __slots__ = ("bindings", "destination", "source")

    def __init__(self, source: _End, destination: _End) -> None:
        self.source = source
        self.destination = destination
        self.bindings: dict[BindingRecord, int] = {}

    @property
    def is_gone(self) -> bool:
        return self.source.is_gone or self.destination.is_gone


class BindingIndex:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[BindingRecord, bytes]] = {}
        self._numbers: SortedKeys[int] = SortedKeys()
        self._newest = 0
        self._sources: dict[str, _End] = {}
        self._destinations: dict[_Named, _End] = {}
        self._gone: list[_End] = []
        self._is_at_it = False  # somebody calls `forget`

    def __contains__(self, binding: BindingRecord) -> bool:
        return self._number_of(binding) > 0

    def add(self, binding: BindingRecord, line: bytes = b"") -> bool:
        """line: what `lines` is to have of it. False: it was there already."""
        pair = self._pair_for(binding)
        if binding in pair.bindings:
            return False
        block = self._blocks.get(self._newest)
        if block is None or len(block) >= BLOCK:
            self._newest += 1
            block = self._blocks[self._newest] = {}
            self._numbers.add(self._newest)
        block.pop(binding, None)  # one that is gone, and is not forgotten yet
        block[binding] = line
        pair.bindings[binding] = self._newest
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False: there is no such binding."""
        number = self._number_of(binding)
        if not number:
            return False
        named = _destination_of(binding)
        pair = self._destinations[named].pairs[binding.source]
        del pair.bindings[binding]
        self._take_from_block(binding, number)
        if not pair.bindings:
            self._take_out(pair, binding)
        return True

    def remove_destination(self, kind: str, name: str) -> None:
        """Removes all that leads to a queue or an exchange."""
        self._remove(self._destinations.pop((kind, name), None))

    def remove_exchange(self, name: str) -> None:
        """Removes all that starts at an exchange or leads to it."""
        self._remove(self._sources.pop(name, None))
        self.remove_destination(EXCHANGE, name)

    def _remove(self, end: _End | None) -> None:
        if end is not None:
            end.is_gone = True
            self._gone.append(end)
            self.forget()

    def wants_slices(self) -> bool:
        """Whether somebody is to call `forget` until it is done, and nobody does yet."""
        wants = bool(self._gone) and not self._is_at_it
        self._is_at_it = bool(self._gone)
        return wants

    def forget(self) -> bool:
        """A slice: some of the bindings whose ends are gone are forgotten. Returns whether there are more."""
        left = SLICE
        while self._gone and left > 0:
            pairs = self._gone[-1].pairs
            while pairs and left > 0:
                pair = pairs[next(reversed(pairs))]
                while pair.bindings and left > 0:
                    binding, number = pair.bindings.popitem()
                    # It may have come again into the same block, and gone again from there.
                    if binding in self._blocks.get(number, ()) and self._number_of(binding) != number:
                        self._take_from_block(binding, number)
                    left -= 1
                    if not pair.bindings:
                        self._take_out(pair, binding)
            if not pairs:
                self._gone.pop()
        self._is_at_it = self._is_at_it and bool(self._gone)
        return bool(self._gone)

    def all(self) -> list[BindingRecord]:
        return [binding for number, block in self._blocks.items() for binding in self._there(number, block)]

    def after(self, number: int) -> tuple[int, list[BindingRecord]]:
        """Those of the first block behind that of this number, in the order of `all`, and its number; 0 is before the
        first. The same number: there are no more."""
        numbers = self._numbers.after(number, 1)
        return (numbers[0], list(self._there(numbers[0], self._blocks[numbers[0]]))) if numbers else (number, [])

    def lines(self) -> list[bytes]:
        """What was given with each."""
        if not self._gone:
            return [line for block in self._blocks.values() for line in block.values()]
        return [block[each] for number, block in self._blocks.items() for each in self._there(number, block)]

    def let_go(self) -> Iterator[None]:
        """Forget all of them, in slices: nobody needs the index any more. Its parts know each other in circles, which
        nothing but the collector would find, and not where they were there when the node started (gc.freeze)."""
        for number, _ in enumerate(self._emptied(), 1):
            if number % SLICE == 0:
                yield None
        yield from let_go(self._blocks, levels=2)

    def _emptied(self) -> Iterator[None]:
        gone, self._gone = self._gone, []  # `forget` has nothing to do any more
        for end in chain(gone, _taken(self._sources), _taken(self._destinations)):
            while end.pairs:
                bindings = end.pairs.popitem()[1].bindings
                while bindings:
                    bindings.popitem()
                    yield None
                yield None
            yield None

    def to_destination(self, kind: str, name: str) -> list[BindingRecord]:
        end = self._destinations.get((kind, name))
        if end is None:
            return []
        return [each for pair in end.pairs.values() if not pair.is_gone for each in pair.bindings]

    def sources_of(self, kind: str, name: str) -> list[str]:
        """From where something is bound to a destination, each once."""
        end = self._destinations.get((kind, name))
        pairs = end.pairs if end is not None else {}
        return [source for source, pair in pairs.items() if isinstance(source, str) and not pair.is_gone]

    def has_source(self, name: str) -> bool:
        """Whether anything is bound to that exchange. What goes with very many others is looked through."""
        end = self._sources.get(name)
        return end is not None and any(not pair.is_gone for pair in end.pairs.values())

    def _there(self, number: int, block: dict[BindingRecord, bytes]) -> Iterator[BindingRecord]:
        """Those of a block that are not gone."""
        if not self._gone:
            return iter(block)
        return (binding for binding in block if self._number_of(binding) == number)

    def _number_of(self, binding: BindingRecord) -> int:
        """The number of its block, 0 for a binding that is not there."""
        end = self._destinations.get(_destination_of(binding))
        pair = end.pairs.get(binding.source) if end is not None else None
        return 0 if pair is None or pair.is_gone else pair.bindings.get(binding, 0)

    def _pair_for(self, binding: BindingRecord) -> _Pair:
        """Where the binding belongs."""
        named = _destination_of(binding)
        source = self._sources.setdefault(binding.source, _End())
        destination = self._destinations.setdefault(named, _End())
        pair = destination.pairs.get(binding.source)
        if pair is None or pair.is_gone:
            source.pairs.pop(named, None)
            destination.pairs.pop(binding.source, None)
            pair = source.pairs[named] = destination.pairs[binding.source] = _Pair(source, destination)
        return pair

    def _take_out(self, pair: _Pair, last: BindingRecord) -> None:
        """There are no bindings any more between these ends. last: the last one of them."""
        named, name = _destination_of(last), last.source
        source, destination = pair.source, pair.destination
        if source.pairs.get(named) is pair:  # else another one is there by now
            del source.pairs[named]
            if not source.pairs and not source.is_gone:
                del self._sources[name]
        if destination.pairs.get(name) is pair:
            del destination.pairs[name]
            if not destination.pairs and not destination.is_gone:
                del self._destinations[named]

    def _take_from_block(self, binding: BindingRecord, number: int) -> None:
        block = self._blocks[number]
        del block[binding]
        if not block:
            del self._blocks[number]
            self._numbers.discard(number)


def _taken(ends: dict[str, _End] | dict[_Named, _End]) -> Iterator[_End]:
    """All of them, which are not there any more then."""
    while ends:
        yield ends.popitem()[1]


def _destination_of(binding: BindingRecord) -> _Named:
    return binding.destination_kind, binding.destination
