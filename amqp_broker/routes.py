"""PublishRoute: where messages with one exchange and routing key go, remembered while nothing changes.

It holds for one virtual host and one user: `generation` is the virtual host's counter at the time, which rises with
every change of exchanges, bindings, queues, policies and permissions.
"""

from __future__ import annotations

from typing import Any

from queues.message import Address


def homes_of(queues: list[Any]) -> list[Any]:
    """The links to the other nodes where some of these queues live."""
    return [queue.link for queue in queues if queue.is_remote]


class PublishRoute:
    """queues: every queue that gets the message, in order. has_proxies: the log of one of them is elsewhere. homes: the
    links to other nodes where some of them live. is_plain:
    nothing about the message itself can change that, and no special exchange is involved; otherwise the message takes
    the long way (Publisher.publish)."""

    def __init__(self, address: Address, entry: Any, queues: list[Any], is_plain: bool, generation: int) -> None:
        self.address = address
        self.entry = entry
        self.queues = queues
        self.has_proxies = any(queue.is_proxy for queue in queues)
        self.homes = homes_of(queues)
        self.is_plain = is_plain
        self.generation = generation
        self.unroutable = 0
