"""Placement: where a new classic queue is to live, of those workers of this host that are there.

Of two that are picked at random the one with less to do: less processor time in the last second, if they differ by
much, else fewer octets of messages, if they differ by much, else fewer queues. What they have said of that
(resources/load_page.py) is up to a second old, so the one with less to do is given only some more queues at once than
the other, by how much less that is: whoever declares a thousand queues in a burst has them spread.

Invariants:
1. A worker that says nothing of the present (it is starting, or its loop stands still) gets no queue while the other
   one says what it does.
2. Without a page, as where hosts are simulated, the number of queues decides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.links.levels import WORKERS
from amqp_broker.settings.kinds import MIB
from amqp_broker.settings.workers import node_of_worker, worker_name, worker_number

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.resources.load_page import LoadPage, WorkerLoad
    from amqp_broker.settings.config import Config

#: Octets of a random number by which two workers are picked.
_PICK_BYTES: Final = 4
#: Who differ by less than this are as busy as each other, thousandths of a core; and what a new queue is taken for.
_BUSY_STEP: Final = 100
_BUSY_OF_QUEUE: Final = 10
#: The same of what they hold, octets; and so many queues a difference counts at most, however large it is.
_HELD_STEP: Final = 16 * MIB
_HELD_OF_QUEUE: Final = 1 * MIB
_MOST_AHEAD: Final = 100


class _Placed(NamedTuple):
    """What was placed at a home since it has said what it has to do. number: of what it has said. known: queues that
    the metadata had there before. placed: queues since."""

    number: int
    known: int
    placed: int


class Placement:
    """Of one process of a node. random_bytes: by which workers are picked."""

    def __init__(
        self, config: Config, replication: Replication, metadata: Metadata, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._config = config
        self._replication = replication
        self._metadata = metadata
        self._random_bytes = random_bytes
        self._page: LoadPage | None = None
        self._placed: dict[str, _Placed] = {}

    def look_at(self, page: LoadPage) -> None:
        """What the workers have to do is said there."""
        self._page = page

    def busy_workers(self) -> dict[str, int]:
        """How busy the workers of this host are that say so, thousandths of a core, by their names."""
        own, config = node_of_worker(self._replication.own_node), self._config
        loads = {} if self._page is None else {each: self._page.fresh(each) for each in range(config.workers)}
        return {worker_name(own, number): load.busy for number, load in loads.items() if load is not None}

    def home_of_new(self, is_own: bool, may_start: bool = False) -> str:
        """Where a new classic queue is to live. is_own: with its connection, if that is not at a worker that is to be
        emptied. may_start: workers count that have not been there yet, since the node has just started."""
        replication, config = self._replication, self._config
        own = replication.own_node
        if not replication.has_workers or (is_own and config.worker < config.workers):
            return own
        if replication.is_clustered and self._metadata.level < WORKERS:
            return own  # members of the version before know no such homes
        names = [worker_name(node_of_worker(own), number) for number in range(config.workers)]
        awaited = {*names} - {*replication.workers()} if may_start else set()
        homes = [name for name in names if name == own or replication.is_connected(name) or name in awaited] or [own]
        picked = int.from_bytes(self._random_bytes(_PICK_BYTES), "big")
        first = homes[picked % len(homes)]
        others = [name for name in homes if name != first] or [first]
        home = self._less_loaded(first, others[picked // len(homes) % len(others)], awaited)
        self._count(home)
        return home

    def _less_loaded(self, first: str, second: str, awaited: set[str]) -> str:
        load, other = self._load_of(first), self._load_of(second)
        if load is not None and other is not None:
            ahead = _queues_ahead(load, other)
            calm, more = (second, first) if ahead > 0 else (first, second)
            if ahead and self._placed_at(calm).placed - self._placed_at(more).placed < abs(ahead):
                return calm
        elif (load is None) != (other is None) and awaited.isdisjoint((first, second)):
            return first if other is None else second
        return min(first, second, key=self._queues_at)

    def _load_of(self, home: str) -> WorkerLoad | None:
        return None if self._page is None else self._page.fresh(worker_number(home))

    def _queues_at(self, home: str) -> int:
        """As the metadata have it, and those that are on their way there."""
        placed = self._placed_at(home)
        return max(self._metadata.count_at(home), placed.known + placed.placed)

    def _placed_at(self, home: str) -> _Placed:
        load = None if self._page is None else self._page.read(worker_number(home))
        number = 0 if load is None else load.number
        placed = self._placed.get(home)
        return placed if placed is not None and placed.number == number else _Placed(number, 0, 0)

    def _count(self, home: str) -> None:
        if self._page is None:
            return
        before = self._placed_at(home)
        known = before.known if before.placed else self._metadata.count_at(home)
        self._placed[home] = before._replace(known=known, placed=before.placed + 1)


def _queues_ahead(load: WorkerLoad, other: WorkerLoad) -> int:
    """So many queues more the less loaded one may be given at once, for what it has less to do; below 0: it is the
    first one; 0: they have as much to do, and the number of queues decides."""
    busier, fuller = load.busy - other.busy, load.held_bytes - other.held_bytes
    if abs(busier) >= _BUSY_STEP:
        ahead = busier / _BUSY_OF_QUEUE
    elif abs(fuller) >= _HELD_STEP:
        ahead = fuller / _HELD_OF_QUEUE
    else:
        ahead = 0
    return int(max(-_MOST_AHEAD, min(_MOST_AHEAD, ahead)))
