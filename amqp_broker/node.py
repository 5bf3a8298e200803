"""Node: a whole broker node without sockets, clock, threads or asyncio. Time is an argument, output is data.

    inputs   open_connection  receive_data / receive_buffer  writable  connection_lost  synced  tick  shut_down
             peer_connected  receive_peer  peer_disconnected  adopt  moved  kept
    output   end_turn() -> Turn: dirty, dropped, paused, resumed and leaving connections, frames for other nodes,
                 passwords to be checked, the audit log's files, whether a sync is wanted, next deadline; take_dirty(),
                 take_peers() -> two of these, earlier
             serve_behind() -> connections that have something to say, behind all that the turn leaves: readers that
                 are far behind, where the driver has a pace for them
             take_sync() -> SyncJob, which the driver runs wherever it likes and brings back with synced()

The law: append, then sync, then confirm. What a turn wrote is confirmed (or answered) when a SyncJob that was taken
after the turn's end has run; whatever arrives while one runs goes into the next, so commits group by themselves.

Invariants:
1. Between an input and `end_turn` everything runs to completion; nothing is left to a callback but timers, what waits
   for a command to be committed (`answers`), and what costs by the number of messages, queues, bindings or consumers,
   which is done in slices (`background`), some at the end of each turn.
2. A confirm that needs the disk is put into an output only in `synced`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from amqp_broker.audit.audit_log import AuditLog
from amqp_broker.audit.work import AuditWork
from amqp_broker.auth.hashing import PasswordHash
from amqp_broker.auth.service_account import ServiceAccount
from amqp_broker.channel.assemblies import Assemblies
from amqp_broker.channel.channel import Channel
from amqp_broker.channel.confirms import Confirming
from amqp_broker.channel.consumer_timeout import ConsumerTimeouts
from amqp_broker.channel.publisher import Publisher
from amqp_broker.channel.services import ChannelServices
from amqp_broker.cluster.group_places import GroupPlaces
from amqp_broker.cluster.journal_port import JournalPort, RandomSource
from amqp_broker.cluster.membership import Membership
from amqp_broker.cluster.replication import Replication
from amqp_broker.cluster.transfers import Transfers
from amqp_broker.connection.connection import Connection, connection_of, connections_of
from amqp_broker.connection.control import Control
from amqp_broker.connection.handshake import Handshake
from amqp_broker.connection.logins import PasswordCheck
from amqp_broker.connection.steering import Leaving, Steering, SteeringServices
from amqp_broker.flow.clients import Clients
from amqp_broker.flow.pauses import Pauses
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.pending_answers import PendingAnswers
from amqp_broker.flow.state import AWAIT_HEADER, CLOSING
from amqp_broker.flow.turn_share import TurnShare
from amqp_broker.leases.answer import Replies
from amqp_broker.leases.service import Leases
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import FOLDER_FORMATS
from amqp_broker.links.tenants import Tenants
from amqp_broker.management.kept_totals import KeptTotals
from amqp_broker.management.node_counts import NodeCounts
from amqp_broker.management.node_facts import NodeFacts
from amqp_broker.management.verbs.system import System
from amqp_broker.queue_types.groups.groups import QuorumGroups
from amqp_broker.queue_types.remote.remote_queues import RemoteQueues
from amqp_broker.queue_types.stream.page_exchange import PageExchange
from amqp_broker.queue_types.stream.read_exchange import ReadExchange
from amqp_broker.rehoming.rehoming import Rehoming
from amqp_broker.resources.alarms import Alarms
from amqp_broker.resources.memory_share import MemoryShare
from amqp_broker.resources.page_check import PageCheck
from amqp_broker.resources.paging_out import PagingOut
from amqp_broker.settings.config import Config
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.turn.clock import TurnClock
from amqp_broker.turn.disk_counts import DiskCounts
from amqp_broker.turn.file_work import FileWork
from amqp_broker.turn.histogram import DELAYS_MS, TURNS_S, Histogram
from amqp_broker.turn.sync_job import SyncJob
from amqp_broker.turn.task import Steps, Task
from amqp_broker.turn.timings import Timings
from amqp_broker.vhosts.broker import Broker
from amqp_broker.vhosts.projection import Projection
from queues.background import Background
from queues.letters import MOST_PUBLISHED
from queues.pager import Pager, share_budget, take_named
from queues.store import LAZY_BYTES, MessageStore
from queues.timers import Timers
from raft.host import RaftHost
from raft.outbox import Outbox
from storage.disk import Disk
from storage.folder_format import raise_format
from storage.journal import Journal
from storage.page_store import PageStore

# Names of others as integers of this module, which a compiled one compares in C.
_LAZY_BYTES = LAZY_BYTES
_MOST_LETTERS = MOST_PUBLISHED
#: Settlements that nobody waits for are written after this time at the latest, milliseconds.
LAZY_SYNC_MS = 20
_LAZY_SYNC_MS = LAZY_SYNC_MS
#: At most so much is paged out in one turn, octets.
_PAGE_OUT_BYTES = 2 * 1024 * 1024
#: A turn that has nothing for peers.
_NO_PEERS: list[tuple[str, list[bytes]]] = []
#: One in which no connection leaves.
_NOBODY: list[Leaving] = []
#: What `Node.end_turn` calls, in this order, those left out that have nothing to do. `part.method` is a phase of a part
#: (turn/part.py); the rest are steps of the node.
PARTS = (
    "logins.take",  # whose password is to be checked; who is let in or refused speaks in this turn
    "turn_share.work",  # nobody has had anything of the next turn's share
    "choose_readers",  # the gate, if it is shut: who may go on does so in this turn, as a job
    "background.work",  # jobs write, publish and settle: before anything is closed
    "leases.work",  # claims and transactions move messages: before the store's end
    "dead_letters.work",  # a refused message's letter is in the batch of its publish
    "remote_queues.work",  # who waited for a home that is down goes on, and may have something for groups
    "replication.work",  # commands of this turn are proposed: metadata, quorum queues
    "write",  # settlements are written; the journal's length is looked at, which may move messages and so write
    "remote_queues.end_turn",  # what other nodes hear of what was written for them
    "steering.work",  # what another worker has to know of a connection is behind all that it has had said there
    "replication.end_turn",  # groups append: behind `write`, as their entries may retire segments
    "replication.take_peers",
    "confirming.end_turn",  # the position that confirms wait for covers everything above
    "share_budget",  # memory, between the node and its groups
    "relieve",  # when all that needs memory has been counted
    "choose_readers",  # as of the end: the gate, and whom the driver reads
    "steering.take_leaving",  # nothing changes any more for those who leave; who does not has a deadline
    "clients.take_dropped",
    "pauses.take_reading",
    "hashing.take",
    "audit.take",  # behind all that may have something to be written down
    "wants_sync",
    "next_deadline",
    "turn_share.end_turn",  # deliveries that were held back may have something to leave with
    "clients.take_dirty",  # the last: whoever was called above may have said something
)
#: When nothing more can be paged out, this long passes until the next look, milliseconds.
_RELIEF_REST_MS = 100
#: Of those that get deliveries again so many do in one slice.
_FED = 32
#: What `Node.synced` calls, in this order.
SYNCED = (
    "count_sync",  # how long it took
    "store.synced",  # what was moved may leave its segment
    "replication.synced",  # what is on this disk is acknowledged, and may so be committed
    "remote_queues.synced",
    "leases.synced",
    "after_peers",  # what was committed may be what the node has waited for to be ready
    "confirming.synced",  # behind those above, which may have a part of what is confirmed
    "answers.synced",  # the last: its connections go on with what they sent behind
)


class Turn:
    """What a turn leaves to the driver. All of it may leave at once: what has to wait for the disk is put into it only
    by `synced`, in the turn behind that.

    dirty: connections with output. What is in it needs no disk, or is on it: confirms, and answers to what was written.
    dropped: connections to be closed: our half when the output is written, or both at once (`is_abandoned`).
    reading: connections whose `is_paused` has changed.
    leaving: connections whose sockets are to be handed to other workers, when all that they have to say is written;
    each is told of at once with `moved` or `kept`.
    checks: passwords to be compared or hashed, and files of the audit log to be written or read, anywhere; each to be
    brought back with `checked`.
    peers: frames for other nodes, by name, in order. A leader's appends before its own sync; votes, and answers to
    appends, behind the sync of what they promise; what other nodes hear of the queues that live here: deliveries at
    once, confirms behind the sync.
    wants_sync: somebody waits for the disk. next_deadline: when `tick` is wanted, milliseconds since the epoch, or
    None.
    """

    __slots__ = ("checks", "dirty", "dropped", "leaving", "next_deadline", "peers", "reading", "wants_sync")

    def __init__(
        self,
        dirty: list[Connection],
        dropped: list[Connection],
        reading: list[Connection],
        leaving: list[Leaving],
        checks: list[PasswordCheck | PasswordHash | FileWork],
        peers: list[tuple[str, list[bytes]]],
        wants_sync: bool,
        next_deadline: int | None,
    ) -> None:
        self.dirty = dirty
        self.dropped = dropped
        self.reading = reading
        self.leaving = leaving
        self.checks = checks
        self.peers = peers
        self.wants_sync = wants_sync
        self.next_deadline = next_deadline


class Node:
    """One broker node on one disk. `recover` comes first. service_token: lets in who logs in as the node's own user
    (auth/service_account.py); None: nobody can."""

    def __init__(
        self,
        config: Config,
        disk: Disk,
        now: int,
        random_bytes: Callable[[int], bytes],
        service_token: str | None = None,
    ) -> None:
        self.config = config
        self.clock = TurnClock(now)
        self.timers = Timers()
        self.background = Background()
        self._jobs, self._behind = self.background.jobs, self.background.behind
        page_store = PageStore(disk, config.page_segment_size_bytes)
        head = (config.queue_head_messages, config.queue_head_size_bytes, config.queue_large_head_size_bytes)
        memory = config.worker_memory_bytes or config.memory_budget_bytes
        pager = Pager(page_store, memory, config.page_size_bytes, *head)
        journal = self._journal = Journal(disk, "journal", config.journal_segment_size_bytes)
        self._pager = pager
        self.store = MessageStore(journal, pager, config.journal_limit_bytes)
        self.broker = Broker(config, journal, self.store, self.timers, self.background, self.clock, random_bytes)
        self._projection = Projection(
            self.broker, self.broker.metadata, self.broker.vhosts, self.broker.declarations,
            lambda vhost: self.control.close_vhost(vhost), lambda name: self.control.close_user(name),
        )  # fmt: skip
        self._replicate(random_bytes, disk)
        self.audit = AuditLog(config, disk, self.clock, self.timers)
        self._file_work = self.audit.waiting
        self._kept_totals = KeptTotals(disk, self._file_work, self.clock, self.timers)
        self.remote_queues = RemoteQueues(
            self.replication, self.tenants, self.broker.vhosts, self.broker.queue_by_id, self.broker.remove_queue,
            pager, self.timers, self.background, self.clock, journal, lambda: self.alarms.is_on,
        )  # fmt: skip
        self._reply_consumers = self.broker.reply_consumers
        self._send_reply = self.tenants.register(FrameKind.DIRECT_REPLY, self._reply_consumers.receive)
        self._home_links = self.remote_queues.links
        self._home_sessions = self.remote_queues.sessions
        self.hashing = self.broker.hashing
        # Memory and disk, and who is paused for them.
        self.facts = NodeFacts(now)
        self.clients = Clients(config.max_connections)
        self.alarms: Alarms = Alarms(disk, pager, self.memory, config, self.timers, self.sync_age, self.feed_starved)
        self.pauses = Pauses(self.background, self.alarms.tell)
        self.rehoming = Rehoming(
            self.broker, self.replication, self.remote_queues, self.tenants, lambda: self.is_ready,
            lambda: self.facts.is_drained, lambda: bool(self.alarms.is_on), self.pauses,
        )  # fmt: skip
        self.answers = PendingAnswers(self.pauses, self.clock, config.command_timeout_ms)
        self.turn_share = TurnShare(self.pauses, self.clients, config.max_turn_copies, config.max_delivery_delay_ms)
        self._resting = self.turn_share.resting
        # What comes from clients, and what is for them.
        self._serve_leases()
        handshake = Handshake(
            config, self.broker.metadata, self.broker.passwords, self.broker.vhosts, self.clients, self.pauses,
            self.timers, self.clock, ServiceAccount(service_token), self.audit, lambda: self.facts.is_drained,
        )  # fmt: skip
        self.disk_counts, self.loop_delays, self.turn_times = DiskCounts(), Histogram(DELAYS_MS), Histogram(TURNS_S)
        counts = NodeCounts(
            config, self.broker, self.store, self.groups, self.leases, self.alarms, self.clients,
            self.membership, handshake.logins, self.facts, lambda: self.is_ready, self.backlog_bytes,
            lambda: self.timings, self.disk_counts, self._kept_totals,
            self.loop_delays, self.turn_times, self.remote_queues, self.pauses, handshake.entries,
        )  # fmt: skip
        self.system = System(
            self.broker, self.replication, self.transfers, self.groups, self.membership, self.leases,
            self.answers.begin, counts, self.tenants, self.audit, self.remote_queues.home, self.rehoming,
        )  # fmt: skip
        self._serve_clients(handshake, random_bytes)
        self._steer(handshake, random_bytes)
        self._begin(now)

    def _serve_clients(self, handshake: Handshake, random_bytes: Callable[[int], bytes]) -> None:
        """What handles their methods."""
        config, pager = self.config, self._pager
        self.publisher = Publisher(self.broker, self.background, self.system)
        self.assemblies = Assemblies(pager, config.max_partial_messages_bytes)
        self.confirming = Confirming(self._journal, self.timers, self.clock, config.confirm_delay_ms)
        self._dead_letters = self.broker.dead_letters
        self.services = ChannelServices(
            self.clock, self.timers, self.background, self.store, pager, self.broker.metadata, self.broker.declarations,
            self.publisher, self.broker.reply_consumers, self._dead_letters, self.assemblies, self.confirming,
            self.answers, self.pauses, self.turn_share, self.clients.message_sizes, random_bytes, self.broker.propose,
            self.replication.settling, self.audit, self.broker.held,
        )  # fmt: skip
        self.logins = handshake.logins
        self._waiting_logins = self.logins.waiting
        self.control: Control = Control(config, self.clients, self.services, handshake)
        self._consumer_timeouts = ConsumerTimeouts(
            self._channels, self.timers, self.background, config.consumer_timeout_ms
        )

    def _steer(self, handshake: Handshake, random_bytes: Callable[[int], bytes]) -> None:
        """Which of its clients other workers go on with."""
        broker = self.broker
        services = SteeringServices(
            self.config, self.replication, self.remote_queues, self.groups, self.tenants, self.clients, self.pauses,
            self.alarms, broker.metadata, broker.vhosts, self.timers, self.clock, random_bytes, self.services,
            self.publisher, self.control, handshake, self._new_connection, lambda: self.is_ready,
        )  # fmt: skip
        self.steering = Steering(services)
        self._leaving = self.steering.leaving
        if self.steering.is_on:
            self.control.steer_with(self.steering)

    def _replicate(self, random_bytes: Callable[[int], bytes], disk: Disk) -> None:
        """What it agrees on with other nodes, and keeps as they do."""
        config, broker = self.config, self.broker
        outbox = Outbox()
        self.tenants = Tenants(outbox)
        self._frames = outbox.frames
        port = JournalPort(self.store)
        settings = config.raft_settings(config.memory_budget_bytes)
        # A member of a group is a node: all of its processes have the name of worker 0 there.
        host = RaftHost(node_of_worker(config.node_name), port, settings, RandomSource(random_bytes), outbox)
        host.work_in_slices(broker.background.add)
        self.store.prepare_with(host.prepare_to_leave)
        self._raft = host
        self.tenants.register_raft(host.receive_peer)
        places = GroupPlaces(config, host, broker.metadata)
        host.route_with(places)
        self.transfers = Transfers(host, self.tenants, places.process_of)
        self.groups = QuorumGroups(
            config, host, places, self.tenants, self.transfers, broker, self.clock,
            lambda: self.replication.is_ready, lambda: self.replication.is_alone,
        )  # fmt: skip
        self.replication = Replication(
            config, host, port, self.groups, self.tenants, outbox, self.store, broker.metadata, self._projection,
            broker.populate, self.timers, self.clock, random_bytes,
            lambda level: raise_format(disk, FOLDER_FORMATS[level]),
        )  # fmt: skip
        self.memory = MemoryShare(
            self.groups.pagers, self._pager.page_store, self.background, lambda want: self._paging_out.page_out(want)
        )
        exchange = PageExchange(self.tenants, self.groups, broker.background, self.timers, self.clock)
        self.stream_reads = ReadExchange(
            self.tenants, self.groups, broker.background, self.timers, self.clock, broker.metadata.members
        )
        broker.join(host, self.replication, self.groups, exchange, self.stream_reads)
        self.placement = broker.placement
        self.acquaintances = self.replication.acquaintances
        self.acquaintances.listen(self._admitted, self._dismissed, self._farewell)
        self._links = self.acquaintances.links
        self.membership = Membership(
            config,
            self.replication,
            self.tenants,
            self.transfers,
            self.broker.metadata,
            places,
            self.timers,
            lambda: self.is_ready,
            self._why_not_leading,
            broker.give_cluster_id,
        )

    def _why_not_leading(self) -> str:
        if self.alarms.is_disk_useless:
            return "the disk of this node takes nothing"
        return "this node is drained" if self.facts.is_drained else ""

    def _serve_leases(self) -> None:
        """Leases and transactions of its queues."""
        broker = self.broker
        replies = Replies(self._pager.addresses, broker.reply_consumers, self.clock)
        self.leases = Leases(
            broker,
            self._journal,
            self.tenants,
            replies,
            self.remote_queues.home,
            lambda channel, raw: self.publisher.find_route(channel, raw),
            self._begin_leases,
            lambda: bool(self.alarms.is_on),
            lambda: self.is_ready,
        )
        broker.serve(self.remote_queues, self.leases.apps, self.leases.expiry)
        self._paging_out = PagingOut(self._pager, broker.vhosts, self.groups.all, self.leases.holders)

    def _begin(self, now: int) -> None:
        """What a node that has just been built knows of its clients and of its disk."""
        self.serves_leases = False  # they were asked for since the start, or go on from before it
        self._publish_backlog = self.config.publish_backlog_bytes
        self.timings: Timings | None = None
        self.is_ready: bool = False
        self._next_number = 1
        self._synced_position = 0
        self._lazy_at: int | None = None
        self._is_syncing = False
        self._sync_began = now
        # Up to where the journal has been looked at for whether it is too long.
        self._shortened_at = -1
        self._relief_rests_until = 0
        # Whether somebody waits, for the asking of nobody.
        self._arriving, self._held_unsynced = self.rehoming.arriving, self.rehoming.unsynced
        self._timed_answers, self._parked_answers = self.answers.timed, self.answers.parked

    def _begin_leases(self) -> None:
        if not self.serves_leases:
            self.serves_leases = True
            self.leases.synced(self._synced_position)  # who served none was not told

    def recover(self, now: int) -> None:
        """Read the disk; what `take_page_checks` returns is to be run before clients come. A node alone is ready then;
        one of several is when it has heard from the others (`is_ready`). Raises StorageError, OSError."""
        self.set_time(now)
        self.broker.recover(now)
        self.audit.open()
        self._kept_totals.open()
        self.replication.open(now)
        self._reply_consumers.open(self.replication.own_node, self._send_reply, self.replication.connected)
        self._synced_position = self._journal.position
        self.leases.synced(self._synced_position)
        self.run_alone(lambda: self.is_ready or not self.replication.is_alone, now)

    def run_alone(self, is_over: Callable[[], bool], now: int) -> None:
        """Turns without clients and other nodes, with everything that is to be run elsewhere run here, until
        `is_over`."""
        while not is_over():
            turn = self.end_turn(now)
            for check in turn.checks:
                check.run()
                self.checked(check, now)
            job = self.take_sync()
            if job is not None:
                job.run()
                self.synced(job, now)
            elif not turn.checks and not self._jobs and not is_over():
                raise RuntimeError("the node waits for something else than its disk: a defect")

    def _channels(self) -> Iterator[Channel]:
        """Those of all connections, with room for some to come and go meanwhile."""
        for connection in connections_of(self.clients.all()):
            yield from list(connection.channels.values())

    def _get_ready(self, now: int) -> None:
        """The metadata are those of the cluster: build what clients use."""
        self.is_ready = True
        self.broker.start(now)
        self._projection.go_live()
        self.groups.compare(now)
        self.remote_queues.start(now)
        if self.groups.has_groups:
            self.membership.start(now)
        if not self.config.worker:
            self.acquaintances.joined(self.replication.last_applied)
        self.leases.start(now)
        self.alarms.start(now)
        self._consumer_timeouts.start(now)

    def measure(self, timings: Timings) -> None:
        """Tell it how long things take from now on."""
        self.timings = timings
        self.replication.measure(timings)
        self.groups.measure(timings)

    @property
    def identity(self) -> bytes:
        """By which the others tell it from a node of the same name that began anew."""
        return self.replication.identity

    def members(self) -> list[str]:
        """The nodes of its cluster, itself among them."""
        return [*self.replication.members()]

    def go_on_alone(self) -> None:
        """Before `recover`: the others of its cluster are no more, and what it has counts as decided."""
        self._raft.go_on_alone()

    def take_page_checks(self) -> list[PageCheck]:
        """The stored pages that `recover` has not read. Once each."""
        return self.broker.take_page_checks()

    # -- inputs ----------------------------------------------------------------------------------------------------

    def open_connection(self, peer: Peer, now: int) -> Connection:
        """A client has connected."""
        self.set_time(now)
        clients = self.clients
        connection = self._new_connection(peer)
        number = connection.number
        clients.add(connection)
        pending = clients.pending_handshakes
        if len(pending) >= self.config.max_pending_handshakes:
            why = f"{len(pending)} handshakes are pending (max_pending_handshakes), its is the slowest"
            self._abandon(connection_of(clients.slowest_handshake()), why)
        elif len(clients.connections) > clients.max_transports and pending:
            why = "there is no room for more transports, and its handshake is the slowest"
            self._abandon(connection_of(clients.slowest_handshake()), why)
        pending[number] = connection
        give_up_at = now + self.config.handshake_timeout_ms
        connection.set_timer(self.timers.at(give_up_at, lambda now: self._give_up_handshake(connection)))
        return connection

    def _new_connection(self, peer: Peer) -> Connection:
        number = self._next_number
        self._next_number += 1
        return Connection(self.clients, self.pauses, self.clock, self.config, peer, number, self.control)

    def adopt(self, token: bytes, now: int) -> tuple[Connection, bytes] | None:
        """The socket of a connection has come that another worker had. Returns the connection, whose transport it is
        from now on, and the octets that it gets first with `receive_data`; None: nobody waits for it, close it."""
        self.set_time(now)
        return self.steering.adopt(token, now)

    def moved(self, connection: Connection, now: int) -> None:
        """The socket of one of `Turn.leaving` is another worker's."""
        self.set_time(now)
        self.steering.moved(connection)
        self._let_go(connection)

    def kept(self, connection: Connection, now: int) -> None:
        """It could not be handed over, and is still here."""
        self.set_time(now)
        self.steering.kept(connection, now)

    def _give_up_handshake(self, connection: Connection) -> None:
        self._abandon(connection, "its handshake took too long (handshake_timeout)")

    def _abandon(self, connection: Connection, why: str) -> None:
        self.clients.end_handshake(connection)
        if connection.state < CLOSING:
            self.control.log_end(connection, why, logging.WARNING)
            self.control.release(connection)
        self.control.abandon(connection)

    def receive_data(self, connection: Connection, data: bytes, now: int) -> None:
        """Octets from a client."""
        self.set_time(now)
        connection.receive_data(data, now)

    def writable(self, connection: Connection, now: int) -> None:
        """The transport has taken what it was given: deliveries that waited for room go on."""
        self.set_time(now)
        if connection.become_writable():
            for channel in list(connection.channels.values()):
                if not channel.is_closing:
                    channel.revive_all()
        self.pauses.resume_output(connection, now)

    def feed_starved(self, now: int) -> None:
        """Deliveries that stopped for want of memory go on, in slices."""
        if self.clients.starved:
            Task(self.background, self._feed(connections_of(list(self.clients.starved))))

    def _feed(self, starved: list[Connection]) -> Steps:
        for number, connection in enumerate(starved, 1):
            if connection in self.clients.starved and connection.is_writable:
                self.writable(connection, self.clock.now)
            if number % _FED == 0:
                yield None

    def unwritable(self, connection: Connection) -> None:
        """The transport is full: no deliveries until `writable`."""
        connection.become_unwritable()

    def connection_lost(self, connection: Connection, now: int) -> None:
        """The transport is gone."""
        self.set_time(now)
        if connection.state < CLOSING:
            if connection.state != AWAIT_HEADER:  # as of those who only look whether somebody listens
                self.control.log_end(connection, "the client closed the transport, or it was lost")
            self.control.release(connection)
        self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        connection.forget()
        self.alarms.forget(connection)
        self.clients.forget(connection)

    def checked(self, check: PasswordCheck | PasswordHash | FileWork, now: int) -> None:
        """A check of `Turn.checks` has run."""
        self.set_time(now)
        if isinstance(check, PasswordHash):
            self.hashing.done(check)
        elif isinstance(check, AuditWork):
            self.audit.done(check)
        elif isinstance(check, FileWork):
            check.finish()
        else:
            self.logins.checked(check)

    def tick(self, now: int) -> None:
        """Time has passed: everything that is due happens."""
        self.set_time(now)
        self.timers.run(now)
        self.replication.tick(now)
        self.answers.tick(now)
        if self._resting:
            self.turn_share.tick(now)
        self._shortened_at = -1
        self._after_peers(now)

    def peer_connected(self, name: str, now: int) -> None:
        """There is a link to another node."""
        self.set_time(now)
        self.acquaintances.link_up(name, now)
        self._after_peers(now)

    def _admitted(self, name: str, now: int) -> None:
        """What another node says counts from now on."""
        self.tenants.link_up(name, self.acquaintances.level_of(name))
        self.replication.peer_connected(name, now)
        self.remote_queues.peer_connected(name, now)
        self.stream_reads.peer_connected()
        self.membership.peer_connected(name)

    def _farewell(self, name: str, frame: bytes, now: int) -> bool:
        """A word that counts from everybody: who says that this node is no member."""
        return bool(self.membership.heard_farewell(name, frame, now))

    def _dismissed(self, name: str, now: int) -> None:
        """It does not any more."""
        self.tenants.link_down(name)
        self.replication.peer_disconnected(name, now)
        self.remote_queues.peer_disconnected(name, now)
        self._reply_consumers.peer_disconnected(name, now)
        self.leases.peer_disconnected(name)
        self.steering.peer_disconnected(name, now)
        self.stream_reads.peer_disconnected(name)

    def peer_disconnected(self, name: str, now: int) -> None:
        """The link to another node is gone, with what was on it."""
        self.set_time(now)
        self.acquaintances.link_down(name, now)
        self._after_peers(now)

    def receive_peer(self, name: str, frame: bytes, now: int) -> None:
        """A frame of another node. Raises PeerProtocolError: its link has to be closed."""
        self.set_time(now)
        link = self._links.get(name)
        if link is not None and link.is_admitted:
            self.replication.receive_peer(name, frame, now)
        elif (counts := self.acquaintances.receive(name, frame, now)) is not None:
            self.replication.receive_peer(name, counts, now)
        self._after_peers(now)

    def _after_peers(self, now: int) -> None:
        if not self.is_ready and self.replication.is_ready:
            self._get_ready(now)

    def shut_down(self, now: int) -> Task:
        """Close every connection with 320, in slices. Done when all have been told."""
        self.set_time(now)
        closing = self.control.close_all()
        closing.when_done(lambda _: self._journal.mark())
        return closing

    def set_time(self, now: int) -> None:
        """The present time, for everything that does not get it as an argument."""
        self.clock.set(now)

    # -- waiting for the disk ----------------------------------------------------------------------------------------

    def take_sync(self) -> SyncJob | None:
        """Everything that is not on the disk yet, as one job; None when there is nothing. One at a time."""
        self._lazy_at = None
        self._is_syncing = True
        self._sync_began = self.clock.now
        store = self.store
        if take_named(self.groups.pagers):
            store.name_stored()
        pages = store.take_page_sync()
        position = store.journal.position
        batch = store.journal.take_batch()
        # A segment may be waiting for nothing but to hear that what left it has long been on the disk.
        is_awaited = position > self._synced_position or self._parked_answers or store.retiring_segment
        if batch is None and pages is None and not is_awaited:
            self._is_syncing = False
            return None
        return SyncJob(position, store.journal, batch, pages)

    def _count_sync(self, job: SyncJob) -> None:
        self.disk_counts.add(job.journal_bytes, job.seconds)

    def synced(self, job: SyncJob, now: int) -> None:
        """A job has run: what waited for it is confirmed and answered."""
        self.set_time(now)
        self._is_syncing = False
        job.finish()
        self._count_sync(job)
        self._shortened_at = -1
        position = self._synced_position = job.position
        self.store.synced(position)
        self.replication.synced(position)
        if self._home_sessions or self._arriving or self._held_unsynced:
            self.remote_queues.synced(position)
        if self.serves_leases:
            self.leases.synced(position)
        self._after_peers(now)
        self.confirming.synced(position)
        if self._parked_answers:
            self.answers.synced(position)

    def input_goes_on(self, is_more: bool, now: int) -> None:
        """A read of much was handled. is_more: it was as much as one may take, so that there is more of that client,
        which is read in the next turn, or behind others."""
        self.groups.input_goes_on(is_more, now)

    def sync_age(self) -> int:
        """For how long the sync that is running has been running, milliseconds; 0 when there is none."""
        return int(self.clock.now - self._sync_began) if self._is_syncing else 0

    def backlog_bytes(self) -> int:
        """Octets that were appended and are not on the disk."""
        return int(self._journal.position - self._synced_position) + self.store.unwritten_bytes()

    # -- output ------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> Turn:
        """Finish the turn and tell the driver what there is to do."""
        self.set_time(now)
        checks: list[PasswordCheck | PasswordHash | FileWork]
        checks = [*self.logins.take()] if self._waiting_logins else []
        replication, groups, remote_queues = self.replication, self.groups, self.remote_queues
        if self.turn_share.copies:
            self.turn_share.work(now)
        if self.pauses.is_shut:
            # Those who may go on do so in this turn, as a job.
            self._choose_readers()
        if self._jobs:
            self.background.work(now)
        if self.serves_leases and self.leases.is_busy:
            self.leases.work(now)
        if self._dead_letters.refused:
            self._dead_letters.work(now)
        if self._home_links:
            remote_queues.work(now)
        if replication.is_busy or groups.is_busy:
            replication.work(now)
        self._write()
        if self._home_sessions:
            remote_queues.end_turn(now)
        if self._leaving:
            self.steering.work(now)
        if replication.is_busy or groups.is_busy or replication.dirty or self._frames:
            replication.end_turn(now)
            peers = replication.take_peers()
        else:
            peers = _NO_PEERS
        position = self._journal.position
        if self.confirming.noted:
            self.confirming.end_turn(now)
        if groups.is_active:
            share_budget(groups.pagers)
        self._relieve(now)
        self._choose_readers()
        leaving = self.steering.take_leaving() if self._leaving else _NOBODY
        dropped = connections_of(self.clients.take_dropped())
        reading = connections_of(self.pauses.take_reading())
        if self.hashing.has_waiting:
            checks += self.hashing.take()
        if self._file_work:
            checks += self.audit.take()
        wants_sync, deadline = self._wants_sync(now, position), self._next_deadline()
        if self.clients.held:
            self.turn_share.end_turn(now)
        dirty = connections_of(self.clients.take_dirty())
        return Turn(dirty, dropped, reading, leaving, checks, peers, wants_sync, deadline)

    def _write(self) -> None:
        """What this turn has settled, and what keeps the journal short."""
        store = self.store
        store.end_turn()
        if self.is_ready and (store.journal.position != self._shortened_at or store.leaving_segment):
            store.shorten()
            # While a page finds no room nothing can leave a segment: look again once there is some.
            self._shortened_at = -1 if store.pager.has_no_room else store.journal.position

    def _relieve(self, now: int) -> None:
        """Page out what is too much for the memory."""
        excess = self._pager.excess()  # also where other pagers, those of groups, hold all of it
        rests = now <= self._relief_rests_until <= now + _RELIEF_REST_MS
        if excess > 0 and not rests and self._paging_out.page_out(min(_PAGE_OUT_BYTES, excess)) > 0:
            # To look through very many queues takes long, and there is nothing to be found.
            self._relief_rests_until = now + _RELIEF_REST_MS

    def _choose_readers(self) -> None:
        """Whether publishers have to wait, and who is to be read."""
        pauses, remote_queues, groups = self.pauses, self.remote_queues, self.groups
        backlog = self._journal.position - self._synced_position
        is_behind = backlog > self._publish_backlog or self._dead_letters.backlog >= _MOST_LETTERS
        if groups.is_active and not is_behind:
            is_behind = groups.is_behind or backlog + self.store.unwritten_bytes() > self._publish_backlog
        is_on = self.alarms.is_set or self._pager.has_no_room
        has_homes = bool(self._home_links)
        if is_on or has_homes or pauses.is_alarmed:
            pauses.tell([*([""] if is_on else ()), *(remote_queues.blocked_homes() if has_homes else ())])
        is_home_behind = has_homes and remote_queues.is_behind(self._publish_backlog)
        if is_behind or is_on or is_home_behind or pauses.is_shut:
            pauses.set_gate(is_behind or is_on, self._publish_backlog if is_home_behind else None)
        if pauses.changed:
            pauses.choose()

    def serve_behind(self, now: int) -> list[Connection]:
        """Those who are far behind have their share. Returns connections that have something to say."""
        self.background.work_behind(now)
        return connections_of(self.clients.take_dirty())

    def take_dirty(self) -> list[Connection]:
        """Connections that have something to say: after an input that came alone, before its turn ends."""
        return connections_of(self.clients.take_dirty())

    def take_peers(self) -> list[tuple[str, list[bytes]]]:
        """Frames for other nodes that need not wait for the turn's end: after `synced`."""
        return self.replication.take_early()

    def _wants_sync(self, now: int, position: int) -> bool:
        """Somebody waits, or what nobody waits for has waited long enough."""
        if self.confirming.awaiting or self._parked_answers:
            return True
        if self.store.retiring_segment or self.replication.wants_sync:
            return True
        if self.serves_leases and self.leases.wants_sync:
            return True
        if self._home_sessions and self.remote_queues.wants_sync:
            return True
        if position <= self._synced_position:
            # The job that was running when it was set has taken that along: without this it would be due for ever.
            self._lazy_at = None
            # Retired segments are removed by a job too.
            return self._journal.has_pending
        if self._lazy_at is None:
            self._lazy_at = now + _LAZY_SYNC_MS
        unsynced = position - self._synced_position
        return now >= self._lazy_at or unsynced > _LAZY_BYTES or unsynced > self._publish_backlog

    def _next_deadline(self) -> int | None:
        if self._jobs or self._resting or (self.is_ready and self.store.leaves_more()):
            return self.clock.now
        deadline = self.timers.next_deadline()
        if self._behind:
            deadline = self.clock.now + 1
        if self._lazy_at is not None and not self._is_syncing and (deadline is None or self._lazy_at < deadline):
            deadline = self._lazy_at
        later = self.replication.deadline
        if later and (deadline is None or later < deadline):
            deadline = later
        if self._timed_answers and (deadline is None or self.answers.deadline < deadline):
            deadline = self.answers.deadline
        return deadline
