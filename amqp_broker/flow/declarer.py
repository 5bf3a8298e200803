"""Declarer: an open connection as its virtual host knows it: who declares, deletes and binds there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.auth.session import Session
    from amqp_broker.flow.peer import Peer
    from amqp_broker.routing.vhost import VHost
    from queues.queue import Queue


class Declarer:
    """session: what it may do. exclusive_queues: those that are its own, and go with it."""

    def __init__(self, vhost: VHost, session: Session, peer: Peer) -> None:
        self.vhost = vhost
        self.session = session
        self.peer = peer
        self.exclusive_queues: dict[Queue, None] = {}
        self._has_left = False

    def is_in(self, vhost: object) -> bool:
        """Whether the connection is open, and to this virtual host."""
        return self.vhost is vhost and not self._has_left

    def own(self, queue: Queue) -> None:
        """It has declared the queue as exclusive."""
        self.exclusive_queues[queue] = None

    def disown(self, queue: Queue) -> None:
        """The queue is deleted."""
        self.exclusive_queues.pop(queue, None)

    def leave(self) -> list[Queue]:
        """The connection is not open any more. Returns the queues that go with it."""
        queues, self.exclusive_queues = list(self.exclusive_queues), {}
        self._has_left = True
        return queues
