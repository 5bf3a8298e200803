"""VHost: one virtual host at run time: its exchanges, its queues, and the way of a message from a route into queues.

Declarations live in vhosts/declarations.py, dead letters in dead_letters.py; both work on this object.

Invariants:
1. `generation` rises whenever a route or a permission may have changed.
2. What is in a RouteTable, or shared, holds. A change takes out what it can touch, and no more: a permission what the
   user has, a binding the routes from where its exchange is reached (Router tells which), a queue those that lead to
   it.
3. Once it is deleted, no route of it is found and no method on it is handled: a client whose connection is not closed
   yet hears of it at the next thing it says (`check_is_there`).
4. Routes by headers are of the virtual host, as what a user may do is asked before them. All that are kept take at most
   `_HEADER_OCTETS`; one more, and all are forgotten. They go with the routes of their address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.errors import vhost_deleted
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.routing.queue_table import QueueTable
from amqp_broker.routing.routes import HeaderRoutes, PublishRoute, RouteTable, groups_of, publish_to_groups
from amqp_broker.turn.task import Task
from exchanges.router import ExchangeEntry, Later, Router, at_once, take_out
from queues.message import Message
from queues.queue import Queue
from queues.receipts import Receipt
from queues.store import MessageStore
from queues.sums import QueueSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_broker.routing.delays import DelayedMessages
    from amqp_broker.routing.queue_table import Known
    from amqp_broker.routing.taps import Details, Taps


#: What routes by headers may take in memory, more or less; of headers with at most so many octets.
_HEADER_OCTETS = 8 << 20
_REMEMBERED_OCTETS = 1024
#: Routes to more queues than this are not shared by addresses.
_SHARED_QUEUES = 1024
# What one takes besides its headers, and by the queue.
_ROUTE_OCTETS = 300
_QUEUE_OCTETS = 8


class VHost:
    """max_cached_routes: how many routes are remembered. later: takes what is done in slices. queues: those that live
    elsewhere are made when they are used (QueueTable). forgotten: how often all routes were forgotten. queue_names: of
    `queues`, in their order. is_deleted: it is no more, and what is in it is being given back."""

    def __init__(
        self, name: str, store: MessageStore, max_cached_routes: int, later: Later = at_once,
        queues: QueueTable | None = None,
    ) -> None:
        self.name = name
        self.store = store
        self.generation = 1
        self.is_deleted = False
        self.queues = queues if queues is not None else QueueTable()
        self.queue_names: SortedKeys[str] = SortedKeys()
        self.dead_letters: list[Queue] = []
        self.delayed: dict[str, DelayedMessages] = {}
        self.connections = 0
        #: Who observes its messages, None for nobody.
        self.taps: Taps | None = None
        #: What was counted of queues that are gone.
        self.gone = QueueSums()
        #: Its queues and exchanges look for the policies that apply to them; and will do so once more behind that.
        self.look: Task | None = None
        self.next_look: Task | None = None
        self._max_routes = max_cached_routes
        self._tables: dict[str, RouteTable] = {}
        self._route_count = 0
        self.forgotten = 0
        # By exchange and queues; and what is there of an exchange, or with a queue: the routes themselves, because a
        # name of ten thousand queues takes long to look up.
        self._shared: dict[tuple[str, ...], PublishRoute] = {}
        self._shared_from: dict[str, dict[PublishRoute, None]] = {}
        self._shared_with: dict[str, dict[PublishRoute, None]] = {}
        # By address and by exchange, as octets; those with something in them; and what that takes.
        self._by_headers: dict[bytes, dict[bytes, HeaderRoutes]] = {}
        self._filled: dict[HeaderRoutes, None] = {}
        self._header_octets = 0
        self.router = Router(self.queues.__contains__, self._touched, later)

    def delete(self) -> None:
        """It is no more."""
        self.is_deleted = True
        self.changed()

    def check_is_there(self) -> None:
        """Raises ConnectionException (320) where it is no more."""
        if self.is_deleted:
            raise vhost_deleted(self.name)

    def find_queue(self, name: str) -> Queue | None:
        """The queue of that name, None where there is none."""
        return self.queues.get(name)

    def known_queue(self, name: str) -> Known | None:
        """What is known of the queue of that name, for who does not use it; None where there is none."""
        return self.queues.entry(name)

    def find_exchange(self, name: str) -> ExchangeEntry | None:
        """The exchange of that name, None where there is none."""
        return self.router.get(name)

    def look_later(self, look: Task) -> Task:
        """Its queues and exchanges will look for the policies that apply to them, behind the look under way."""
        self.next_look = look
        return look

    def look_now(self) -> None:
        """They do."""
        self.look, self.next_look = self.next_look, None

    def routes_of(self, user: str) -> RouteTable:
        """The routes that all channels of a user share."""
        table = self._tables.get(user)
        if table is None:
            table = self._tables[user] = RouteTable()
        return table

    def enter(self, user: str) -> None:
        """A connection of this user is open."""
        self.connections += 1
        self.routes_of(user).connections += 1

    def leave(self, user: str) -> None:
        """It is not any more. What nobody uses and holds nothing is not kept: there is no end of names."""
        self.connections -= 1
        table = self._tables[user]
        table.connections -= 1
        if not table.connections and not table.routes:
            del self._tables[user]

    def remember_route(self, table: RouteTable, address: bytes, route: PublishRoute) -> int:
        """Put a route among those of `routes_of`. Returns its number, which holds until they are `forgotten`. When
        there are too many, they are all forgotten."""
        if self._route_count >= self._max_routes:
            self._forget_routes()
        if route.by_headers is not None:
            route.by_headers = self._by_headers.setdefault(_exchange_of(address), {}).setdefault(
                address, route.by_headers
            )
            route.by_headers.is_kept = True
        known = len(table.routes)
        number = table.put(address, route)
        self._route_count += len(table.routes) - known
        return number

    def _forget_routes(self) -> None:
        self.forgotten += 1
        for exchange in list(self._by_headers):
            self._drop_by_headers(exchange, None)
        for table in self._tables.values():
            table.clear()
        self._tables = {user: table for user, table in self._tables.items() if table.connections}
        self._route_count = 0

    def route_to(self, entry: ExchangeEntry, names: list[str]) -> PublishRoute:
        """The plain route from an exchange to the queues of these names, as far as they are there. Many addresses
        share it, unless they are very many: to put it under the name of each takes long."""
        if len(names) > _SHARED_QUEUES:
            return self.unshared_route(entry, names)
        key = (entry.name, *names)
        route = self._shared.get(key)
        if route is None:
            queues = [self.queues[name] for name in names if name in self.queues]
            route = PublishRoute(entry, queues, True, self.generation)
            if len(queues) == len(names):
                self._share(key, route)
        return route

    def remember_by_headers(self, route: PublishRoute, headers: bytes, names: list[str]) -> PublishRoute:
        """The plain route of messages to the address of `route` with these headers: to the queues of these names, as
        far as they are there. It is remembered where that is possible."""
        entry, by_headers = route.entry, route.by_headers
        assert entry is not None  # a message has just been routed by it
        if by_headers is None or not by_headers.is_kept or len(headers) > _REMEMBERED_OCTETS:
            return self.unshared_route(entry, names)
        # A queue has many routes that it shares with others: they are not for its index.
        found = self.route_to(entry, names) if len(names) <= 1 else self.unshared_route(entry, names)
        octets = len(headers) + _ROUTE_OCTETS + _QUEUE_OCTETS * len(names)
        if self._header_octets + octets > _HEADER_OCTETS:
            for each in self._filled:
                each.clear()
            self._filled.clear()
            self._header_octets = 0
        by_headers.routes[headers] = found
        by_headers.octets += octets
        self._header_octets += octets
        self._filled[by_headers] = None
        return found

    def unshared_route(self, entry: ExchangeEntry, names: list[str]) -> PublishRoute:
        """As `route_to`: it is of one address, or of one message."""
        queues = [self.queues[name] for name in names if name in self.queues]
        return PublishRoute(entry, queues, True, self.generation)

    def _drop_by_headers(self, exchange: bytes, address: bytes | None) -> None:
        """The routes by headers of an address, or (None) of all from an exchange, hold no longer."""
        tables = self._by_headers.get(exchange)
        if tables is None:
            return
        dropped = list(tables) if address is None else [address]
        for each in dropped:
            by_headers = tables.pop(each, None)
            if by_headers is not None:
                self._header_octets -= by_headers.octets
                self._filled.pop(by_headers, None)
                by_headers.is_kept = False
                by_headers.clear()
        if not tables:
            del self._by_headers[exchange]

    def _share(self, key: tuple[str, ...], route: PublishRoute) -> None:
        if len(self._shared) >= self._max_routes:
            for each in (self._shared, self._shared_from, self._shared_with):
                each.clear()
        self._shared[key] = route
        self._shared_from.setdefault(key[0], {})[route] = None
        for name in key[1:]:
            self._shared_with.setdefault(name, {})[route] = None

    def _unshare(self, routes: list[PublishRoute]) -> None:
        for route in routes:
            assert route.entry is not None  # what is shared is from an exchange
            exchange, names = route.entry.name, [queue.name for queue in route.queues]
            del self._shared[(exchange, *names)]
            take_out(self._shared_from, exchange, route)
            for name in names:
                take_out(self._shared_with, name, route)

    def changed(self) -> None:
        """Routes that were found before are no longer valid, whichever they are."""
        self.generation += 1
        self._forget_routes()

    def set_taps(self, taps: Taps | None, exchange: str | None) -> None:
        """Others observe its messages than before: those to this exchange (None: to any) go another way."""
        self.taps = taps
        if exchange is None:
            self.changed()
        else:
            self._touched([exchange], None)

    def happened(self, now: int, what: str, message: Message, details: Details) -> None:
        """Somebody may observe its messages: what happened to one, besides that it was published."""
        if self.taps is not None:
            self.taps.happened(now, what, message, details)

    def count_published(self, exchange: str, messages: int, copies: int) -> None:
        """So many messages to an exchange, if it is there still, went to so many queues all together."""
        entry = self.router.get(exchange)
        if entry is not None:
            entry.count(messages, copies)

    @property
    def exchange_names(self) -> SortedKeys[str]:
        """Those of its exchanges, in their order."""
        return self.router.names

    @property
    def is_traced(self) -> bool:
        """Whether what its channels deliver and settle is observed."""
        return self.taps is not None and self.taps.follows

    def access_changed(self, user: str) -> None:
        """What a user may do has changed. The routes of all others hold."""
        self.generation += 1
        table = self._tables.get(user)
        if table is not None:
            table.drop_each()

    def queue_changed(self, name: str) -> None:
        """There is a queue of this name, or another one, or none any more."""
        if name in self.queues:
            self.queue_names.add(name)
        else:
            self.queue_names.discard(name)
        self._unshare(list(self._shared_with.get(name, ())))
        self.router.touch_queue(name)

    def exchange_removed(self, name: str) -> None:
        """An exchange is gone."""
        self._unshare(list(self._shared_from.get(name, ())))

    def _touched(self, exchanges: list[str], routing_key: str | None) -> None:
        """Routes from these exchanges may have changed: of one routing key, or (None) of all."""
        self.generation += 1
        begins = [_octets(name) for name in exchanges]
        end = None if routing_key is None else _octets(routing_key)
        for begin in begins:
            self._drop_by_headers(begin, None if end is None else begin + end)
        for table in self._tables.values():
            for begin in begins:
                if end is None:
                    table.drop_all(begin)
                else:
                    table.drop(begin + end)

    def publish(
        self,
        message: Message,
        queues: Sequence[Queue],
        now: int,
        receipt: Receipt | None = None,
        is_again: bool = False,
    ) -> int:
        """Hand a message to queues that are no PublishRoute's. Returns a PublishOutcome (Queue.publish)."""
        first: Queue = queues[0]
        if len(queues) == 1:
            return first.publish(message, receipt, is_again, now)
        return publish_to_groups(groups_of([*queues]), message, receipt, is_again, now)


def _octets(name: str) -> bytes:
    """A name as a short string; one that is too long for that is nobody's."""
    octets = name.encode("utf-8", "surrogateescape")
    return bytes([len(octets) & 0xFF]) + octets


def _exchange_of(address: bytes) -> bytes:
    """The exchange of an address, with its length."""
    return address[: 1 + address[0]]
