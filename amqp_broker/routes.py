"""PublishRoute: where messages of one exchange and routing key go, remembered while nothing changes; and RouteTable, in
which it is found by these as they stand in a publish.

A route holds for one virtual host: `generation` is the virtual host's counter at the time, which rises with every
change of exchanges, bindings, queues, policies and permissions. All addresses with the same queues share one, so that a
hundred thousand bindings of a queue leave it in the processor's cache; what is an address's own is its Address, which
its messages keep. A table holds for one user: what it has was allowed to that user.
"""

from __future__ import annotations

from typing import Any

from octets.index import OctetIndex
from queues.message import Address


def homes_of(queues: list[Any]) -> list[Any]:
    """The links to the other nodes where some of these queues live."""
    return [queue.link for queue in queues if queue.is_remote]


class PublishRoute:
    """queues: every queue that gets the message, in order. has_proxies: the log of one of them is elsewhere. homes: the
    links to other nodes where some of them live. is_plain: nothing about the message itself can change that, and no
    special exchange is involved; otherwise the message takes the long way (Publisher.publish)."""

    def __init__(self, entry: Any, queues: list[Any], is_plain: bool, generation: int) -> None:
        self.entry = entry
        self.queues = queues
        self.has_proxies = any(queue.is_proxy for queue in queues)
        self.homes = homes_of(queues)
        self.is_plain = is_plain
        self.generation = generation


class RouteTable:
    """Addresses and their routes by number; `index` gives the number of an address's octets (`Address.raw`)."""

    def __init__(self) -> None:
        self.index = OctetIndex()
        self.addresses: list[Address] = []
        self.routes: list[PublishRoute] = []

    def put(self, address: Address, route: PublishRoute) -> None:
        """Remember a route, in the place of the one that was known."""
        raw: Any = address.raw
        number = self.index.find(raw, 0, len(address.raw))
        if number >= 0:
            self.routes[number] = route
        else:
            number = len(self.index)
            # If there is no memory for one of them, the others are overwritten by the next.
            self.addresses[number:] = [address]
            self.routes[number:] = [route]
            self.index.add(address.raw)

    def clear(self) -> None:
        """Forget everything."""
        self.index.clear()
        self.addresses.clear()
        self.routes.clear()
