"""Destinations: where a message is moved to: one place for all, or for each where its headers say that it came from.

Headers may be those of a delivery, or the JSON of one that was peeked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Place(NamedTuple):
    """An exchange and a routing key; a queue is its name at the default exchange."""

    exchange: str
    routing_key: str

    def __str__(self) -> str:
        if not self.exchange:
            return f"queue '{self.routing_key}'"
        return f"exchange '{self.exchange}' with routing key '{self.routing_key}'"


#: Headers of a message to its place; None: it stays.
Destination = Callable[[Mapping[str, object]], Place | None]


def to_place(place: Place) -> Destination:
    """All go there."""
    return lambda headers: place


def to_first_queue(headers: Mapping[str, object]) -> Place | None:
    """The queue in which the message died first: no other queue gets it a second time."""
    queue = headers.get("x-first-death-queue")
    return Place("", queue) if isinstance(queue, str) and queue else None


def to_first_exchange(headers: Mapping[str, object]) -> Place | None:
    """Where the message was published before it died first: all queues that are bound there get it."""
    queue, reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    deaths = headers.get("x-death")
    for death in reversed(deaths) if isinstance(deaths, list) else ():
        if isinstance(death, Mapping) and (death.get("queue"), death.get("reason")) == (queue, reason):
            exchange, keys = death.get("exchange"), death.get("routing-keys")
            if isinstance(exchange, str) and isinstance(keys, list) and keys and isinstance(keys[0], str):
                return Place(exchange, keys[0])
    return None
