"""QueueIndex: the queues of all virtual hosts, by their ids, and how many live where.

By name they stand in VHostState. A virtual host that is deleted takes any number of queues along: they are gone at
once, and are forgotten in slices.

Invariants:
1. A queue is there if it is in its block, and its virtual host has this very record under its name. What else the
   blocks have is about to be forgotten, which shows in nothing.
2. The block of an id has BLOCK ids, those that there are in their order. None is empty; `_numbers` has those of all.
3. `_transients` has those that are not durable, by home. `_homes` counts those that are there.
4. All lists are in the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from amqp_broker.metadata.entities import QueueRecord
from amqp_broker.metadata.vhost_state import VHostState
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.turn.letting_go import SLICE, let_go

#: A block has so many ids.
BLOCK = 64

#: A queue, and the command that declares it, as JSON.
_Kept = tuple[QueueRecord, bytes]


class QueueIndex:
    """vhosts: those that are there, by name."""

    def __init__(self, vhosts: Mapping[str, VHostState]) -> None:
        self._vhosts = vhosts
        self._blocks: dict[int, dict[int, _Kept]] = {}
        self._numbers: SortedKeys[int] = SortedKeys()
        self._homes: dict[str, int] = {}
        self._transients: dict[str, dict[int, QueueRecord]] = {}
        self._forgetting = 0  # so many virtual hosts

    def get(self, queue_id: int) -> QueueRecord | None:
        """The queue of an id."""
        queue = self._kept(queue_id)
        return queue if queue is not None and self._is_there(queue) else None

    def put(self, queue: QueueRecord, line: bytes) -> None:
        """One more, or another record of one that is there. line: the command that declares it."""
        queue_id = queue.queue_id
        known = self._kept(queue_id)
        if known is not None and not self._is_there(known):
            self._forget(known)
            known = None
        if known is None:
            self._homes[queue.home] = self._homes.get(queue.home, 0) + 1
        self._vhosts[queue.vhost].put_queue(queue)
        self._keep(queue_id, (queue, line))
        if not queue.durable:
            self._transients.setdefault(queue.home, {})[queue_id] = queue

    def _keep(self, queue_id: int, kept: _Kept) -> None:
        number = _block_of(queue_id)
        block = self._blocks.get(number)
        if block is None:
            self._numbers.add(number)
            self._blocks[number] = {queue_id: kept}
        elif queue_id in block or queue_id > next(reversed(block)):
            block[queue_id] = kept
        else:  # others have been declared since its id was reserved
            self._blocks[number] = dict(sorted([*block.items(), (queue_id, kept)]))

    def remove(self, queue: QueueRecord) -> None:
        """One that is there."""
        self._vhosts[queue.vhost].remove_queue(queue)
        self._homes[queue.home] -= 1
        self._forget(queue)

    def remove_vhost(self, state: VHostState) -> Iterator[None]:
        """All queues of a virtual host, which is not there any more. They are not, either; the steps forget them."""
        for home, count in state.homes.items():
            self._homes[home] -= count
        self._forgetting += 1
        return self._forgotten(state.queues.values())

    def _forgotten(self, queues: Iterator[QueueRecord]) -> Iterator[None]:
        for number, queue in enumerate(queues, 1):
            if self._kept(queue.queue_id) is queue:
                self._forget(queue)
            if number % SLICE == 0:
                yield None
        self._forgetting -= 1

    def _forget(self, queue: QueueRecord) -> None:
        number = _block_of(queue.queue_id)
        block = self._blocks[number]
        del block[queue.queue_id]
        if not block:
            del self._blocks[number]
            self._numbers.discard(number)
        if not queue.durable:
            transients = self._transients[queue.home]
            del transients[queue.queue_id]
            if not transients:
                del self._transients[queue.home]

    def let_go(self) -> Iterator[None]:
        """Forget all of them, in slices: nobody needs the index any more."""
        yield from let_go(self._blocks, levels=2)
        yield from let_go(self._transients, levels=2)

    def all(self) -> list[QueueRecord]:
        """Those of all virtual hosts."""
        found = [queue for block in self._in_order() for queue, _ in block.values()]
        return found if not self._forgetting else [queue for queue in found if self._is_there(queue)]

    def lines(self) -> list[bytes]:
        """What was given with each, in the order of `all`."""
        if not self._forgetting:
            return [line for block in self._in_order() for _, line in block.values()]
        return [self.line(queue.queue_id) for queue in self.all()]

    def line(self, queue_id: int) -> bytes:
        """What was given with it."""
        return self._blocks[_block_of(queue_id)][queue_id][1]

    def after(self, number: int) -> tuple[int, list[QueueRecord]]:
        """Those of the first block behind that of this number, maybe none, and its number; 0 is before the first. The
        same number: there are no more."""
        numbers = self._numbers.after(number, 1)
        if not numbers:
            return number, []
        return numbers[0], [queue for queue, _ in self._blocks[numbers[0]].values() if self._is_there(queue)]

    def count_at(self, home: str) -> int:
        """How many live there."""
        return self._homes.get(home, 0)

    def transients(self, home: str) -> list[QueueRecord]:
        """Those that live there and are not durable."""
        return [queue for _, queue in sorted(self._transients.get(home, {}).items()) if self._is_there(queue)]

    def some_transients(self, home: str, most: int, below: int) -> list[QueueRecord]:
        """So many of them, at most, in any order, whose ids are below this one."""
        found = self._transients.get(home, {}).values()
        return list(islice((each for each in found if each.queue_id < below and self._is_there(each)), most))

    def _in_order(self) -> list[dict[int, _Kept]]:
        return [self._blocks[number] for number in self._numbers.after(0, len(self._numbers))]

    def _kept(self, queue_id: int) -> QueueRecord | None:
        block = self._blocks.get(_block_of(queue_id))
        kept = block.get(queue_id) if block is not None else None
        return kept[0] if kept is not None else None

    def _is_there(self, queue: QueueRecord) -> bool:
        if not self._forgetting:
            return True
        state = self._vhosts.get(queue.vhost)
        return state is not None and state.queues.get(queue.name) is queue


def _block_of(queue_id: int) -> int:
    """Its number, from 1 on."""
    return queue_id // BLOCK + 1
