"""Node: a whole broker node without sockets, clock, threads or asyncio. Time is an argument, output is data.

    inputs   open_connection  receive_data / receive_buffer  writable  connection_lost  synced  tick  shut_down
    output   end_turn() -> Turn: dirty, dropped, paused and resumed connections, passwords to be checked, whether a sync
                 is wanted, next deadline
             take_sync() -> SyncJob, which the driver runs wherever it likes and brings back with synced()

The law: append, then sync, then confirm. What a turn wrote is confirmed (or answered) when a SyncJob that was taken
after the turn's end has run; whatever arrives while one runs goes into the next, so commits group by themselves.

Invariants:
1. Between an input and `end_turn` everything runs to completion; nothing is left to a callback but timers.
2. A confirm that needs the disk is put into an output only in `synced`.
3. A connection is in `dirty` exactly while it has something to say that the driver has not taken.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from amqp_broker.alarms import Alarms
from amqp_broker.broker import Broker
from amqp_broker.channel.assemblies import Assemblies
from amqp_broker.channel.channel import Channel
from amqp_broker.channel.consumer_timeout import ConsumerTimeouts
from amqp_broker.config import Config
from amqp_broker.connection.connection import CLOSED, CLOSING, OPEN, Connection
from amqp_broker.connection.control import Control
from amqp_broker.connection.handshake import Handshake
from amqp_broker.connection.logins import PasswordCheck
from amqp_broker.connection.peer import Peer
from amqp_broker.declarations import Declarations
from amqp_broker.page_check import PageCheck
from amqp_broker.protocol.constants import HEARTBEAT_FRAME, ReplyCode
from amqp_broker.publisher import Publisher
from amqp_broker.sync_job import SyncJob
from amqp_broker.system import System
from queues.pager import Pager
from queues.store import LAZY_BYTES, MessageStore
from queues.timers import Timers
from storage.disk import Disk
from storage.journal import Journal
from storage.metadata_log import MetadataLog
from storage.page_store import PageStore

log = logging.getLogger("amqp_broker")

# Names of others as integers of this module, which a compiled one compares in C.
_LAZY_BYTES = LAZY_BYTES
#: Settlements that nobody waits for are written after this time at the latest, milliseconds.
LAZY_SYNC_MS = 20
_LAZY_SYNC_MS = LAZY_SYNC_MS
#: At most so much is paged out in one turn, octets.
_RELIEF_BYTES = 2 * 1024 * 1024
#: So many handshakes are looked at for one that does not wait for the broker.
_EXCUSED = 64
#: When nothing more can be paged out, this long passes until the next look, milliseconds.
_RELIEF_REST_MS = 100


class Turn:
    """What a turn leaves to the driver.

    dirty: connections with output. dropped: connections to be closed when their output is written. reading: connections
    whose `is_paused` has changed. checks: passwords to be compared anywhere, each to be brought back with `checked`.
    wants_sync: somebody waits for the disk. next_deadline: when `tick` is wanted, milliseconds since the epoch, or
    None.
    """

    __slots__ = ("checks", "dirty", "dropped", "next_deadline", "reading", "wants_sync")

    def __init__(
        self,
        dirty: list[Connection],
        dropped: list[Connection],
        reading: list[Connection],
        checks: list[PasswordCheck],
        wants_sync: bool,
        next_deadline: int | None,
    ) -> None:
        self.dirty = dirty
        self.dropped = dropped
        self.reading = reading
        self.checks = checks
        self.wants_sync = wants_sync
        self.next_deadline = next_deadline


class Node:
    """One broker node on one disk. `recover` comes first."""

    def __init__(self, config: Config, disk: Disk, now: int, random_bytes: Callable[[int], bytes]) -> None:
        self.config = config
        self.now = now
        self.timers = Timers()
        page_store = PageStore(disk, config.page_segment_size_bytes)
        pager = Pager(
            page_store,
            config.memory_budget_bytes,
            config.page_size_bytes,
            config.queue_head_messages,
            config.queue_head_size_bytes,
        )
        journal = Journal(disk, "journal", config.journal_segment_size_bytes)
        self.store = MessageStore(journal, pager, config.journal_limit_bytes)
        metadata_log = MetadataLog(disk)
        self._metadata_journal = metadata_log.journal
        self.broker = Broker(config, self.store, metadata_log, self.timers, random_bytes)
        self.broker.declarations = Declarations(self.broker)
        self.system = System(self)
        self.publisher = Publisher(self.broker, self.system)
        handshake = Handshake(self)
        self.logins = handshake.logins
        self.control = Control(self, handshake)
        self.alarms = Alarms(self, disk)
        self._publish_backlog = config.publish_backlog_bytes
        self.assemblies = Assemblies(pager, config.max_partial_messages_bytes)
        self.connections: dict[int, Connection] = {}
        self.pending_handshakes: dict[int, Connection] = {}
        self.dirty: list[Connection] = []
        self.dropped: list[Connection] = []
        self.reading: list[Connection] = []
        self.confirming: list[Channel] = []
        self._awaiting: list[Channel] = []
        self._consumer_timeouts = ConsumerTimeouts(self)
        self._parked: deque[tuple[int, Connection, Callable[[], None]]] = deque()
        self._next_number = 1
        self._synced_ticket = 0
        self._lazy_at: int | None = None
        self._is_syncing = False
        # Up to where these logs have been looked at for whether they are too long.
        self._shortened_at = -1
        self._rewritten_at = -1
        self._relief_rests_until = 0

    def recover(self, now: int) -> None:
        """Read the disk; what `take_page_checks` returns is to be run before clients come. Raises CorruptRecord."""
        self.set_time(now)
        self.broker.recover(now)
        self._synced_ticket = self.broker.ticket()
        self.alarms.start(now)
        self._consumer_timeouts.start(now)

    def take_page_checks(self) -> list[PageCheck]:
        """The stored pages that `recover` has not read. Once each."""
        checks, self.broker.page_checks = self.broker.page_checks, []
        return checks

    # -- inputs ----------------------------------------------------------------------------------------------------

    def open_connection(self, peer: Peer, now: int) -> Connection:
        """A client has connected."""
        self.set_time(now)
        number = self._next_number
        self._next_number += 1
        connection = Connection(self, self.control, self.publisher, self.config, peer, number, now)
        self.connections[number] = connection
        if len(self.pending_handshakes) >= self.config.max_pending_handshakes:
            pending = self.pending_handshakes.values()
            # The oldest has had the longest chance, unless it is waiting for the broker (to compare its password).
            slowest = next((each for each in islice(pending, _EXCUSED) if not each.is_parked), None)
            slowest = slowest or next(iter(pending))
            log.warning("connection %s dropped: %d handshakes are pending", slowest.peer, len(pending))
            self._abandon(slowest)
        self.pending_handshakes[number] = connection
        self.timers.at(now + self.config.handshake_timeout_ms, lambda now: self._end_handshake(connection))
        return connection

    def _end_handshake(self, connection: Connection) -> None:
        if connection.number in self.pending_handshakes:
            log.warning("connection %s dropped: its handshake took too long", connection.peer)
            self._abandon(connection)

    def _abandon(self, connection: Connection) -> None:
        self.pending_handshakes.pop(connection.number, None)
        if connection.state != CLOSED:
            self.control.release(connection)
            self.control.drop(connection)

    def receive_data(self, connection: Connection, data: bytes, now: int) -> None:
        """Octets from a client."""
        self.set_time(now)
        connection.receive_data(data, now)

    def writable(self, connection: Connection, now: int) -> None:
        """The transport has taken what it was given: deliveries that waited for room go on."""
        self.set_time(now)
        connection.is_writable = True
        connection.unsent_bytes = 0
        if connection.is_starved and connection.vhost is not None:
            connection.is_starved = False
            connection.vhost.now = now
            for channel in list(connection.channels.values()):
                if not channel.is_closing:
                    channel.revive_all()
        if connection.is_choked:
            connection.is_choked = False
            self.alarms.has_paused = True
            if connection.is_sated:
                connection.is_sated = connection.is_parked = False
                connection.receive_data(b"", now)

    def choke(self, connection: Connection) -> None:
        """Its unsent output is too long, because the client does not read its replies: read nothing more from it until
        `writable`."""
        connection.is_choked = True
        if not connection.is_paused:
            connection.is_paused = True
            self.reading.append(connection)

    def sate(self, connection: Connection) -> None:
        """What this turn has to say to the connection is too long: handle no more of its frames until `writable`."""
        connection.is_sated = connection.is_parked = connection.is_starved = True
        self.choke(connection)

    def feed_starved(self, now: int) -> None:
        """Deliveries that stopped for want of memory go on."""
        for connection in self.connections.values():
            if connection.is_starved and connection.is_writable:
                self.writable(connection, now)

    def unwritable(self, connection: Connection) -> None:
        """The transport is full: no deliveries until `writable`."""
        connection.is_writable = False

    def connection_lost(self, connection: Connection, now: int) -> None:
        """The transport is gone."""
        self.set_time(now)
        if connection.state not in (CLOSING, CLOSED):
            if connection.vhost is not None:
                connection.vhost.now = now
            self.control.release(connection)
        connection.state = CLOSED
        connection.output.clear()
        self.connections.pop(connection.number, None)
        self.pending_handshakes.pop(connection.number, None)

    def checked(self, check: PasswordCheck, now: int) -> None:
        """A check of `Turn.checks` has run."""
        self.set_time(now)
        self.logins.checked(check)

    def tick(self, now: int) -> None:
        """Time has passed: everything that is due happens."""
        self.set_time(now)
        for vhost in self.broker.vhosts.values():
            vhost.now = now
        self.timers.run(now)
        self._shortened_at = -1

    def shut_down(self, now: int) -> None:
        """Close every connection with 320 (RabbitMQ's text)."""
        self.set_time(now)
        for connection in list(self.connections.values()):
            self.control.close(
                connection,
                ReplyCode.CONNECTION_FORCED,
                "broker forced connection closure with reason 'shutdown'",
            )
        self.store.journal.mark()
        self.broker.metadata_log.mark()

    def set_time(self, now: int) -> None:
        """The present time, for everything that does not get it as an argument."""
        self.now = now
        self.broker.now = now

    # -- waiting for the disk ----------------------------------------------------------------------------------------

    def park(self, connection: Connection, ticket: int, answer: Callable[[], None]) -> None:
        """Handle no more frames of the connection until `ticket` is synced; then answer, and go on."""
        connection.is_parked = True
        self._parked.append((ticket, connection, answer))

    def take_sync(self) -> SyncJob | None:
        """Everything that is not on the disk yet, as one job; None when there is nothing. One at a time."""
        self._lazy_at = None
        self._is_syncing = True
        store = self.store
        pages = store.take_page_sync()
        ticket = self.broker.ticket()
        journal_position = store.journal.position
        batches = []
        for log_ in (store.journal, self.broker.metadata_log):
            batch = log_.take_batch()
            if batch is not None:
                batches.append((log_, batch))
        if not batches and pages is None:
            # A segment may be waiting for nothing but to hear that what left it has long been on the disk.
            if ticket > self._synced_ticket or self._parked or store.retiring_segment:
                return SyncJob(ticket, journal_position, [], None)
            self._is_syncing = False
            return None
        return SyncJob(ticket, journal_position, batches, pages)

    def synced(self, job: SyncJob, now: int) -> None:
        """A job has run: what waited for it is confirmed and answered."""
        self.set_time(now)
        self._is_syncing = False
        job.finish()
        self._shortened_at = -1
        ticket = self._synced_ticket = job.ticket
        self.store.synced(job.journal_position)
        self.broker.synced(ticket)
        self._awaiting = [channel for channel in self._awaiting if channel.synced(ticket)]
        while self._parked and self._parked[0][0] <= ticket:
            _, connection, answer = self._parked.popleft()
            connection.is_parked = False
            if connection.state == OPEN:
                connection.vhost.now = now
                answer()
            if connection.state != CLOSED:
                connection.receive_data(b"", now)

    def backlog_bytes(self) -> int:
        """Octets that were appended and are not on the disk."""
        return int(self.broker.ticket() - self._synced_ticket)

    # -- output ------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> Turn:
        """Finish the turn and tell the driver what there is to do."""
        checks = self.logins.take()
        broker, store = self.broker, self.store
        if broker.dead_letters.noted:
            broker.dead_letters.run(now)
        store.end_turn()
        if store.journal.position != self._shortened_at:
            store.shorten()
            # While a page finds no room nothing can leave a segment: look again once there is some.
            self._shortened_at = -1 if store.pager.has_no_room else store.journal.position
        if self._metadata_journal.position != self._rewritten_at and not self._parked:
            if broker.metadata_log.wants_rewrite():
                broker.metadata_log.rewrite(broker.metadata.snapshot())
            self._rewritten_at = self._metadata_journal.position
        ticket = store.journal.position + self._metadata_journal.position
        if self.confirming:
            confirming, self.confirming = self.confirming, []
            for channel in confirming:
                if channel.end_turn(ticket) and channel not in self._awaiting:
                    self._awaiting.append(channel)
        is_tight = store.pager.used + store.pager.assembling > store.pager.tight_bytes
        if is_tight and not now <= self._relief_rests_until <= now + _RELIEF_REST_MS:
            self._relieve()
        is_behind = ticket - self._synced_ticket > self._publish_backlog
        if is_behind or self._parked or self.alarms.has_paused or self.alarms.is_set or store.pager.has_no_room:
            self._choose_readers(is_behind)
        dirty, self.dirty = self.dirty, []
        dropped, self.dropped = self.dropped, []
        reading, self.reading = self.reading, []
        return Turn(dirty, dropped, reading, checks, self._wants_sync(now, ticket), self._next_deadline())

    def _wants_sync(self, now: int, ticket: int) -> bool:
        """Somebody waits, or what nobody waits for has waited long enough."""
        if self._awaiting or self._parked or self.store.retiring_segment:
            return True
        if ticket <= self._synced_ticket:
            # The job that was running when it was set has taken that along: without this it would be due for ever.
            self._lazy_at = None
            # Retired segments are removed by a job too.
            return self.store.journal.has_pending
        if self._lazy_at is None:
            self._lazy_at = now + _LAZY_SYNC_MS
        return now >= self._lazy_at or ticket - self._synced_ticket > _LAZY_BYTES

    def _next_deadline(self) -> int | None:
        deadline = self.timers.next_deadline()
        if self._lazy_at is not None and not self._is_syncing and (deadline is None or self._lazy_at < deadline):
            return self._lazy_at
        return deadline

    def _relieve(self) -> None:
        """Queues hold too much in RAM: those with the most pages store some, a little each turn."""
        pager = self.store.pager
        want = min(_RELIEF_BYTES, pager.used + pager.assembling - pager.tight_bytes)
        queues = [queue for vhost in self.broker.vhosts.values() for queue in vhost.queues.values()]
        sizes = [(queue.ready.ram_page_bytes(), index) for index, queue in enumerate(queues)]
        for size, index in sorted(sizes, reverse=True):
            if want <= 0 or not size:
                break
            want -= queues[index].ready.relieve(want)
        if want > 0 and pager.used + pager.assembling > pager.budget_bytes:
            # Only heads are left, and those of very many queues fill any budget: who has no consumer can do without.
            sizes = [
                (queue.ready.ram_head_bytes(), index)
                for index, queue in enumerate(queues)
                if not queue.dispatcher.consumers
            ]
            for size, index in sorted(sizes, reverse=True):
                if want <= 0 or not size:
                    break
                want -= queues[index].ready.relieve(min(want, size), keeps_head=False)
        if want > 0:
            # To look through very many queues takes long, and there is nothing to be found.
            self._relief_rests_until = self.now + _RELIEF_REST_MS

    def _choose_readers(self, is_behind: bool) -> None:
        """Publishers wait while the disk is behind or an alarm is on; a parked connection waits for its answer."""
        self.alarms.has_paused = False
        for connection in self.connections.values():
            is_blocked = connection.has_published and (is_behind or self.alarms.is_on)
            is_waiting = is_blocked or (connection.is_parked and not connection.is_sated)
            is_paused = is_waiting or connection.is_choked
            if is_waiting:
                self.alarms.has_paused = True
            if is_paused != connection.is_paused:
                connection.is_paused = is_paused
                self.reading.append(connection)
            self.alarms.tell(connection)

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def watch_heartbeat(self, connection: Connection) -> None:
        """Send a heartbeat when nothing was said for half the interval; end a connection that was silent for two."""
        interval = connection.session.heartbeat_ms
        if not interval:
            return

        def beat(now: int) -> None:
            if connection.state in (CLOSED, CLOSING):
                return
            if connection.is_paused:
                connection.last_received = now
            if now - connection.last_received > 2 * interval + 1000:
                log.warning("connection %s: no heartbeat for %d ms", connection.peer, now - connection.last_received)
                self.control.release(connection)
                self.control.drop(connection)
                return
            if now - connection.last_sent >= interval // 2:
                connection.output.put_raw(HEARTBEAT_FRAME)
                connection.touch()
            self.timers.at(now + interval // 2, beat)

        self.timers.at(self.now + interval // 2, beat)

    def count_channels(self, user: str) -> int:
        """Open channels of all connections of a user."""
        return sum(
            len(connection.channels)
            for connection in self.connections.values()
            if connection.session is not None and connection.session.user == user
        )

    def statistics(self) -> dict[str, Any]:
        """A snapshot of the node for whoever renders it: plain values only."""
        from amqp_broker.statistics import node_statistics

        return node_statistics(self)
