"""VHostState: one vhost and all that lives in it.

It holds; what may be put in is decided in metadata.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_broker.metadata.bindings import BindingIndex
from amqp_broker.metadata.entities import (
    AppRecord,
    ExchangeRecord,
    Parameter,
    Policy,
    QueueRecord,
    VHost,
    predeclared_exchanges,
)
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.turn.gradual_table import GradualDict


class VHostState:
    """One vhost and all that lives in it."""

    __slots__ = (
        "_at_place", "_newest_place", "_places", "_places_of", "apps", "bindings", "exchanges", "homes",
        "operator_policies", "parameters", "policies", "queues", "vhost",
    )  # fmt: skip

    def __init__(self, vhost: VHost) -> None:
        self.vhost = vhost
        self.exchanges: GradualDict[str, ExchangeRecord] = GradualDict()
        # Of exchanges, numbers in the order of their creation.
        self._places: SortedKeys[int] = SortedKeys()
        self._newest_place = 0
        self._places_of: GradualDict[str, int] = GradualDict()
        self._at_place: GradualDict[int, ExchangeRecord] = GradualDict()
        for exchange in predeclared_exchanges(vhost.name):
            self.put_exchange(exchange)
        self.queues: GradualDict[str, QueueRecord] = GradualDict()
        self.homes: dict[str, int] = {}  # so many of its queues live there
        self.bindings = BindingIndex()
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self.parameters: dict[tuple[str, str], Parameter] = {}
        self.apps: dict[str, AppRecord] = {}

    def put_exchange(self, exchange: ExchangeRecord) -> None:
        """A new one, or another record of one that is there."""
        place = self._places_of.get(exchange.name)
        if place is None:
            self._newest_place += 1
            place = self._places_of[exchange.name] = self._newest_place
            self._places.add(place)
        self.exchanges[exchange.name] = self._at_place[place] = exchange

    def remove_exchange(self, name: str) -> None:
        """With its bindings."""
        place = self._places_of.pop(name)
        self.exchanges.pop(name)
        self._at_place.pop(place)
        self._places.discard(place)
        self.bindings.remove_exchange(name)

    def exchanges_after(self, place: int, most: int) -> tuple[int, list[ExchangeRecord]]:
        """In the order of creation, so many at most behind a place, and the last one's place; 0 is before the first."""
        places = self._places.after(place, most)
        return (places[-1] if places else place), [self._at_place[each] for each in places]

    def put_queue(self, queue: QueueRecord) -> None:
        """A new one, or another record of one that is there: a queue's home stays as long as its id does."""
        if queue.name not in self.queues:
            self.homes[queue.home] = self.homes.get(queue.home, 0) + 1
        self.queues[queue.name] = queue

    def remove_queue(self, queue: QueueRecord) -> None:
        """Without its bindings."""
        self.queues.pop(queue.name)
        self.homes[queue.home] -= 1

    def let_go(self) -> Iterator[None]:
        """Forget what there may be very many of, in slices: nobody needs the state any more."""
        for held in (self.queues, self.exchanges, self._at_place, self._places_of, self.bindings):
            yield from held.let_go()

    def draft(self) -> VHostState:
        """The same state without bindings, exchanges of its own and queues, to be changed on its own."""
        other = VHostState(self.vhost)
        other.policies = dict(self.policies)
        other.operator_policies = dict(self.operator_policies)
        other.parameters = dict(self.parameters)
        other.apps = dict(self.apps)
        return other
