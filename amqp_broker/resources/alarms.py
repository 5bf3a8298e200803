"""Alarms: when memory or disk run short, publishers are held and told so (connection.blocked): those of this node, and
those of other nodes that have published to a queue that lives here. How they are held is in flow/pauses.py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.flow.state import OPEN
from amqp_broker.protocol import methods
from storage.disk import Disk

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.resources.memory_share import MemoryShare
    from amqp_broker.settings.config import Config
    from queues.pager import Pager
    from queues.timers import Timers

log = logging.getLogger("amqp_broker")

#: How often memory and disk are looked at, milliseconds.
_PERIOD_MS = 1000
#: A sync that takes so long is a disk that is about to fail, milliseconds.
STALL_MS = 2000


class Alarms:
    """The alarms of a node. `is_on` while any is; `reason` is what blocked clients are told. sync_age: for how long a
    sync has been running, milliseconds. on_memory: called with the time whenever memory was looked at."""

    def __init__(
        self,
        disk: Disk,
        pager: Pager,
        memory: MemoryShare,
        config: Config,
        timers: Timers,
        sync_age: Callable[[], int],
        on_memory: Callable[[int], None],
    ) -> None:
        self._disk = disk
        self._pager = pager
        self._memory = memory
        self._config = config
        self._timers = timers
        self._sync_age = sync_age
        self._on_memory = on_memory
        self.is_disk_low = False
        self.is_disk_full = False
        self.is_memory_high = False
        self.is_full = False  # no more clients can be accepted; nobody is blocked by that
        self.is_set = False  # any of the three
        self._told: dict[Client, None] = {}  # clients that are blocked, and know it

    @property
    def is_on(self) -> bool:
        return self.is_set or self._pager.has_no_room

    @property
    def is_disk_useless(self) -> bool:
        """Nothing can be written, or a sync has been running for very long: others should lead."""
        return self.is_disk_full or self._sync_age() > STALL_MS

    @property
    def reason(self) -> str:
        """As RabbitMQ words it."""
        is_disk_on = self.is_disk_low or self.is_disk_full or self._pager.has_no_room
        low = [name for name, is_low in (("disk", is_disk_on), ("memory", self.is_memory_high)) if is_low]
        return f"low on {' & '.join(low)}"

    def start(self, now: int) -> None:
        """Look once, and then regularly."""
        self._look(now)

    def _look(self, now: int) -> None:
        config = self._config
        free = self._disk.free_bytes()
        wanted = config.disk_free_limit_bytes
        self._set("is_disk_low", free < wanted, f"{free} octets free, {wanted} wanted (disk_free_limit)")
        pager = self._pager
        if pager.has_no_room:
            log.warning("a queue's page could not be stored: the disk is full; it is tried again")
            pager.try_again()
        limit = self._memory.kept_bytes  # also of a worker that has just been told to keep less
        # Who waits with half a message cannot finish it while the alarm is on: these alone never turn it on.
        used = pager.used + pager.others_bytes + min(pager.assembling, limit // 4)
        # Pages are stored long before this; what is left then is unacknowledged or delayed.
        why = f"messages hold {used} octets, the budget is {limit} (memory_budget)"
        self._set("is_memory_high", used > limit + limit // 4, why)
        # Not only when there is room again: others may have taken it, and who holds nothing may always have something.
        self._on_memory(now)
        self._timers.at(now + _PERIOD_MS, self._look)

    def set_full(self, is_full: bool) -> None:
        """Whether no more clients can be accepted."""
        self.is_full = is_full

    def disk_full(self, is_full: bool) -> None:
        """A write has failed for want of room, or has worked again."""
        self._set("is_disk_full", is_full, "a write failed for want of room")

    def _set(self, name: str, is_on: bool, why: str) -> None:
        if getattr(self, name) != is_on:
            setattr(self, name, is_on)
            self.is_set = self.is_disk_low or self.is_disk_full or self.is_memory_high
            state = "on: publishers are blocked" if is_on else "off"
            log.warning("alarm %s %s: %s", name.removeprefix("is_"), state, why)

    def tell(self, connection: Client) -> None:
        """connection.blocked and connection.unblocked, to clients that can take them and that publish."""
        is_blocked = connection.has_published and (self.is_on or self._blocking_home(connection) is not None)
        if (connection in self._told) == is_blocked or connection.state != OPEN:
            return
        session = connection.session
        if session is None or "connection.blocked" not in session.capabilities:
            return
        if is_blocked:
            self._told[connection] = None
            reason = self.reason if self.is_on else f"low on disk or memory: node {self._blocking_home(connection)}"
            connection.send(0, methods.ConnectionBlocked(reason))
        else:
            del self._told[connection]
            connection.send(0, methods.ConnectionUnblocked())

    def has_told(self, connection: Client) -> bool:
        """Whether a client is blocked, and knows it."""
        return connection in self._told

    def forget(self, connection: Client) -> None:
        """The connection is gone."""
        self._told.pop(connection, None)

    @staticmethod
    def _blocking_home(connection: Client) -> str | None:
        """A node with an alarm to which the connection has published."""
        return next((link.home for link in connection.homes if link.is_blocked), None)
