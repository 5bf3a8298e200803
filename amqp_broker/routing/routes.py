"""PublishRoute: where messages of one exchange and routing key go, remembered while nothing changes; and RouteTable, in
which it is found by these as they stand in a publish.

A route that is in a table holds: what changes it takes it out (VHost). `generation` is the virtual host's counter when
it was found. All addresses with the same queues share one, so that a hundred thousand bindings of a queue
leave it in the processor's cache; what is an address's own is its octets, which its messages keep. A table holds for
one user: what it has was allowed to that user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.octets.index import OctetIndex
from queues.message import Message
from queues.queue import Queue
from queues.receipts import Receipt
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from amqp_broker.octets.buffer import Pointer
    from amqp_broker.queue_types.remote.home_link import HomeLink
    from exchanges.router import ExchangeEntry


def groups_of(queues: list[Queue]) -> list[tuple[WriteGroup, list[Queue]]]:
    """Queues by whose messages are written together, in order."""
    groups: dict[WriteGroup, list[Queue]] = {}
    for queue in queues:
        groups.setdefault(queue.writes, []).append(queue)
    return list(groups.items()) if len(groups) > 1 else [(group, queues) for group in groups]


def needs_receipt(queues: list[Queue]) -> bool:
    """Whether a receipt has to be told what became of a message in some of these queues."""
    return any(not queue.writes.is_local for queue in queues)


class PublishRoute:
    """queues: every queue that gets the message, in order. groups: the same, by whose messages are written together.
    elsewhere: the groups of which only a receipt is told what became of a message; needs_receipt: there are some;
    joins: it is one, which takes all messages of a turn with one receipt; is_serial: it is one, which completes
    receipts in their order. pacing: the groups that publishers may have to wait for. is_plain: nothing about the
    message itself can change that, and no special exchange is involved; otherwise the message takes the long way
    (Publisher.publish). only: the queue, where it is one, the route is plain and there is nothing else to see to.
    is_observed: as plain, but somebody looks at what goes there.
    by_headers: where the headers decide, plain routes by their octets, as far as they are remembered; None where they
    do not, or more than they may. Users share it (VHost.remember_route)."""

    def __init__(
        self,
        entry: ExchangeEntry | None,
        queues: list[Queue],
        is_plain: bool,
        generation: int,
        is_observed: bool = False,
    ) -> None:
        self.entry = entry
        self.queues = queues
        self.groups = groups_of(queues)
        self.elsewhere = [group for group, _ in self.groups if not group.is_local]
        self.needs_receipt = bool(self.elsewhere)
        self.is_serial = len(self.groups) == 1 and self.groups[0][0].is_serial
        self.joins = len(queues) == 1 and queues[0].writes.joins
        self.pacing: list[HomeLink] = [group for group, _ in self.groups if group.paces]  # type: ignore[misc]
        self.is_plain = is_plain
        self.is_observed = is_observed
        self.only = queues[0] if is_plain and len(queues) == 1 and not self.needs_receipt else None
        self.by_headers: HeaderRoutes | None = None
        self.generation = generation

    def remember_headers(self) -> None:
        """Headers alone decide: from now on plain routes are remembered by their octets."""
        self.by_headers = HeaderRoutes()

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """Hand a message to the queues, of which there is at least one. Returns a PublishOutcome (Queue.publish)."""
        if len(self.queues) == 1:
            first: Queue = self.queues[0]
            return first.publish(message, receipt, is_again, now)
        return publish_to_groups(self.groups, message, receipt, is_again, now)


class HeaderRoutes:
    """Plain routes of one address by the octets of headers. octets: what they take, more or less. is_kept: the virtual
    host knows of it and takes care that it holds; nothing is to be put into another."""

    def __init__(self) -> None:
        self.routes: dict[bytes, PublishRoute] = {}
        self.octets = 0
        self.is_kept = False

    def clear(self) -> None:
        """Forget everything."""
        self.routes.clear()
        self.octets = 0


def publish_to_groups(
    groups: list[tuple[WriteGroup, list[Queue]]], message: Message, receipt: Receipt | None, is_again: bool, now: int
) -> int:
    """Hand a message to each of `groups_of`. Returns the PublishOutcome of all."""
    outcome = 0
    for group, queues in groups:
        outcome = max(outcome, group.publish(message, queues, receipt, is_again, now))
    return outcome


class RouteTable:
    """Routes by number; `index` gives the number of an address's octets (Message.raw), of which None is left where the
    route does not hold any more. `only` has the same of each route, as with ten thousand queues to look at the route
    itself is to wait for memory. `connections`: how many open ones may use it."""

    def __init__(self) -> None:
        self.index = OctetIndex()
        self.routes: list[PublishRoute | None] = []
        self.only: list[Queue | None] = []
        self.connections = 0
        # The numbers of all routes from an exchange (by its octets, with their length), and of some that are gone.
        self._numbers: dict[bytes, list[int]] = {}

    def put(self, address: bytes, route: PublishRoute) -> int:
        """Remember a route, in the place of the one that was known. Returns its number."""
        raw: Pointer = address
        number = self.index.find(raw, 0, len(address))
        if number >= 0:
            if self.routes[number] is None:
                self._note(address, number)
            self.routes[number] = route
            self.only[number] = route.only
        else:
            number = len(self.index)
            # If there is no memory for one of them, the others are overwritten by the next.
            self.routes[number:] = [route]
            self.only[number:] = [route.only]
            self.index.add(address)
            self._note(address, number)
        return number

    def _note(self, address: bytes, number: int) -> None:
        exchange = address[: 1 + address[0]]
        numbers = self._numbers.get(exchange)
        if numbers is None:
            numbers = self._numbers[exchange] = []
        elif len(numbers) > 2 * len(self.routes):
            numbers[:] = dict.fromkeys(numbers)
        numbers.append(number)

    def drop(self, address: bytes) -> None:
        """The route of an address does not hold any more."""
        raw: Pointer = address
        number = self.index.find(raw, 0, len(address))
        if number >= 0:
            self.routes[number] = None
            self.only[number] = None

    def drop_all(self, exchange: bytes) -> None:
        """Those from an exchange (its octets, with their length) do not."""
        for number in self._numbers.pop(exchange, ()):
            self.routes[number] = None
            self.only[number] = None

    def drop_each(self) -> None:
        """None of them does; their numbers stay."""
        self.routes[:] = [None] * len(self.routes)
        self.only[:] = [None] * len(self.only)
        self._numbers.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.index.clear()
        self._numbers.clear()
        self.routes.clear()
        self.only.clear()
