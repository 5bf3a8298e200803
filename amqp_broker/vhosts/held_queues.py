"""HeldQueues: the queues of this node's virtual hosts that nobody uses for a moment, because their homes change.

    hold    -> a HeldQueue stands for the queue: publishes are kept, methods that name it wait with their connections
    release -> the queue, or the one that has taken its place, gets what was kept, and connections go on

Invariants:
1. A queue is held once at a time; whoever deletes it releases it.
2. A connection that waits is paused for Reason.HELD, and goes on with the method that it has stopped in front of.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.flow.reason import Reason
from amqp_broker.queue_types.contract.held_queue import HeldQueue, HeldWrites

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.protocol.methods import Method
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.queue import Queue
    from queues.receipts import Receipt
    from storage.journal import Journal

_HELD = int(Reason.HELD)


class _Held(NamedTuple):
    """What stands for a queue, and the connections that wait."""

    queue: HeldQueue
    waiting: dict[Client, None]


class HeldQueues:
    """writes: those of the queues that are held."""

    def __init__(self, journal: Journal, background: Background, clock: TurnClock) -> None:
        self.writes: dict[HeldWrites, None] = {}
        self._journal = journal
        self._background = background
        self._clock = clock
        self._held: dict[Queue, _Held] = {}
        self._going_on: deque[Client] = deque()
        self.unsynced: deque[tuple[int, Receipt]] = deque()
        self._pauses: Pauses | None = None

    def pause_with(self, pauses: Pauses) -> None:
        """Who pauses connections."""
        self._pauses = pauses

    def hold(self, vhost: VHost, queue: Queue, home: str) -> HeldQueue:
        """A queue is not used until it is released. home: where it lives now."""
        held = HeldQueue(queue, home)
        self.writes[held.held_writes] = None
        self._held[held] = _Held(held, {})
        vhost.queues[queue.name] = held
        vhost.queue_changed(queue.name)
        return held

    def put_back(self, vhost: VHost, held: HeldQueue) -> None:
        """The queue is used again as it was."""
        if vhost.queues.get(held.name) is held:
            vhost.queues[held.name] = held.real
            vhost.queue_changed(held.name)
            self.release(held, held.real)

    def keeps(self, present: Queue) -> bool:
        """Whether something was published to a queue that is held, and waits."""
        return present in self._held and not self._held[present].queue.held_writes.is_idle

    def release(self, present: Queue, queue: Queue | None) -> None:
        """What was kept, if that was held, is for this queue, which is in the virtual host; None: for nobody. Of
        publishes there is what one turn has brought, as publishers wait."""
        if present not in self._held:
            return
        held, waiting = self._held.pop(present)
        del self.writes[held.held_writes]
        held.release(queue, self._complete_later, self._clock.now)
        if waiting and not self._going_on:
            self._background.add(self._go_on)
        self._going_on.extend(waiting)

    def _complete_later(self, receipt: Receipt) -> None:
        """When what it stands for, which was just written, is on the disk."""
        self.unsynced.append((self._journal.position, receipt))

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        while self.unsynced and self.unsynced[0][0] <= position:
            self.unsynced.popleft()[1].complete(None)

    # -- methods -------------------------------------------------------------------------------------------------------

    def holds_back(self, connection: Client, vhost: VHost, last_queue: str | None, method: Method) -> bool:
        """A method of a client, while queues are held. Whether it waits, and with it the connection. last_queue: of its
        channel, for a method that names none."""
        name = getattr(method, "queue", None)
        if name is None or self._pauses is None:
            return False
        queue = vhost.find_queue(name or last_queue or "")
        if queue is None or queue not in self._held:
            return False
        self._held[queue].waiting[connection] = None
        self._pauses.pause(connection, _HELD)
        return True

    def _go_on(self, now: int) -> bool:
        """A slice: one that has waited goes on. Returns whether there are more."""
        connection = self._going_on.popleft()
        if self._pauses is not None and connection.paused_for & _HELD:
            self._pauses.resume(connection, _HELD, now)
        return bool(self._going_on)
