"""Declarer: whoever declares, deletes and binds in a virtual host, as a client's connection does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_broker.auth.session import Session
    from amqp_broker.routing.vhost import VHost
    from queues.queue import Queue


class Declarer(Protocol):
    """session: what it may do. exclusive_queues: those that are its own, and go with it."""

    vhost: VHost
    session: Session
    exclusive_queues: dict[Queue, None]
