"""What `serve` does in a worker: links to the other workers of its node, and clients that the supervisor hands over.

    supervisor -> worker   PLAIN or SECURE with a client's socket; SERVING: the node is ready; MOVE with the socket of a
                           client that another worker had (moves.py); BUSY: it is the bottleneck; LINK with the
                           socket of another node, and what was read of it (cluster_door.py); GONE: a worker that was to
                           be emptied is no more; SILENT: the loop of another one stands still; STOPPING: the node
                           stops, and whoever of the others goes does not come back; LEND: so much memory it may use
                           (lender.py)
    worker -> supervisor   READY and the node's name; WORD, now and then: its loop turns, so many clients it has, so
                           much memory it goes by and would like to have; EMPTY: it was to be emptied, and holds
                           nothing any more; MOVE: a client is another worker's; LATER: it serves when all nodes are
                           of a version that knows workers; OVER: the node is no member any more, or its folder is not
                           to be used, and ends

Each is a datagram of a Unix socket whose end is the end of the other process. What there is no room for waits in an
Outbox, but for WORD, which comes again, and sockets, which their worker keeps.

The links to the other workers are as those between nodes, but nearly without pings: the end of a process beside is the
end of its socket, and whether its loop turns is known to the supervisor. So that costs by the number of workers, and
not by that of their links. Who is at the other end is proved, and then frames have no MACs: only who may forge packets
(CAP_NET_RAW) can write into a connection of the loopback device, and so into those of clients on this machine.

Invariants:
1. A worker whose supervisor is gone leaves in peace, as for SIGTERM.
2. A client's socket belongs to one process: the supervisor has closed its copy.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final

from amqp_broker.management.busiest_queue import BusiestQueue, find_busiest
from amqp_broker.management.node_facts import ListenerFacts
from amqp_broker.server.cluster_door import MOST_OCTETS
from amqp_broker.server.cluster_side import ClusterSide
from amqp_broker.server.listener import Listener, TlsListener
from amqp_broker.server.moves import MOVE, Moves
from amqp_broker.server.outbox import Outbox
from amqp_broker.server.peers import PeerLinks
from amqp_broker.server.sockets import address_of, bind_all
from amqp_broker.server.tls import tls_context
from amqp_broker.server.workers_file import read_stored, write_workers
from amqp_broker.settings.kinds import Address
from amqp_broker.settings.workers import node_of_worker, worker_name
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Task

if TYPE_CHECKING:
    import ssl

    from amqp_broker.node import Node
    from amqp_broker.resources.load_page import LoadPage
    from amqp_broker.server.driver import Driver
    from amqp_broker.server.load_report import LoadReport
    from amqp_broker.server.management_process import ManagementProcess
    from amqp_broker.settings.config import Config
    from storage.disk import Disk

log = logging.getLogger("amqp_broker.server")

PLAIN, SECURE, SERVING, BUSY, LINK, GONE, SILENT, STOPPING, LEND = (
    b"P", b"T", b"G", b"B", b"L", b"X", b"H", b"S", b"N",
)  # fmt: skip
READY, WORD, EMPTY, LATER, OVER = b"R", b"W", b"E", b"A", b"O"
#: So often a worker whose clients come and go says how many it has, seconds.
_COUNT_S: Final = 0.2
#: So often it says at most and at least that its loop turns, seconds.
_WORD_S: Final = (0.05, 1.0)
#: Who has missed so many words is silent.
WORDS_MISSED: Final = 3
#: So often something is said on a link to another worker on which nothing is, milliseconds.
_PING_BESIDE_MS: Final = 60_000
#: So often a worker that is to be emptied looks whether it is, seconds.
_LOOK_S: Final = 5.0
#: A worker that is the bottleneck counts what its queues move for so long, seconds.
_COUNTED_S: Final = 2.0
#: Clients are taken for so long at a time, seconds, so that those who are connected are served too.
_TAKING_S: Final = 0.001
_MOST_OCTETS: Final = 1 + MOST_OCTETS
_NUMBER: Final = 8
#: The settings that a worker has of its own.
OF_WORKER: Final = (
    "node_name", "data_dir", "workers", "worker", "worker_processes", "worker_memory_bytes",
    "max_partial_messages_bytes", "max_connections", "load_definitions", "exit_with_parent", "cluster_listen",
    "group_workers", "worker_joins",
)  # fmt: skip
_LOOPBACK_FREE_PORT = Address("127.0.0.1", 0)


def word_s(config: Config) -> float:
    """So often a worker says that its loop turns, seconds."""
    least_s, most_s = _WORD_S
    patience_s = min(config.worker_timeout_ms, config.peer_timeout_ms) / 1000
    return max(least_s, min(most_s, patience_s / WORDS_MISSED))


@dataclass(frozen=True, slots=True)
class Seat:
    """What a worker has of its supervisor. config: the worker's. control: see above. link: where the others reach it,
    bound; links: where it reaches them, by their numbers; secret: by which they know each other. management: worker
    0's, its sockets bound. facts: where clients come in. page: where all say what they have to do."""

    config: Config
    control: socket.socket
    link: socket.socket
    links: Mapping[int, Address]
    secret: bytes
    management: ManagementProcess
    facts: tuple[ListenerFacts, ...]
    page: LoadPage

    @property
    def number(self) -> int:
        """Which of the workers it is."""
        return self.config.worker

    @property
    def is_closing(self) -> bool:
        """Whether it is there only for what its folder has."""
        return self.config.worker >= self.config.workers


def of_worker(config: Config, own: Config) -> Config:
    """The node's settings, as a worker has them that runs with its own."""
    return replace(config, **{name: getattr(own, name) for name in OF_WORKER})


class WorkerSide(ClusterSide):
    """The links to the other workers, and the supervisor's word. on_client: is given a client's socket, and whether it
    comes with TLS; on_serving: called when the whole node is ready."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat.config, has_port=False)
        self._seat = seat
        self._beside: PeerLinks | None = None
        self._is_told_over = False
        self._taken = 0
        self._said = (0, 0, 0, 0)  # with the last word: clients, those that were taken, and what is said of memory
        self._lent = 0  # the number of what it was lent last
        self._word: asyncio.TimerHandle | None = None
        self._outbox: Outbox | None = None
        self._is_late = False
        self.on_client: Callable[[socket.socket, bool], None] | None = None
        self.on_serving: Callable[[], None] | None = None
        self._is_serving = False
        self._reached: dict[int, Address] = {}
        self._moves: Moves | None = None
        self._report: LoadReport | None = None

    def take_clients(self, on_client: Callable[[socket.socket, bool], None] | None) -> None:
        """Clients' sockets are for this; None: no more are taken."""
        self.on_client = on_client

    def settle(self, disk: Disk) -> Config:
        """See ClusterSide. Worker 0 says of a new folder which worker has which groups, before there is any log. Of any
        other the folder says it: also to one that starts again before the supervisor has heard of it."""
        config = super().settle(disk)
        if config.worker:
            return config
        stored, workers = read_stored(config.data_dir), self._seat.config.workers
        is_new = not stored.numbers and not disk.exists("journal")
        if is_new and config.spread_groups and workers > 1:
            groups = {group: group % workers for group in range(1, config.queue_groups + 1) if group % workers}
            write_workers(config.data_dir, range(1, workers), groups=groups)
            stored = read_stored(config.data_dir)
        self._config = replace(config, group_workers=stored.group_workers())
        return self._config

    async def start(self, node: Node, driver: Driver, disk: Disk) -> None:
        """See ClusterSide."""
        seat, loop = self._seat, asyncio.get_running_loop()
        config = seat.config
        if config.worker:  # of members it knows what the metadata say; until then it calls nobody
            self._config = replace(self._config, cluster=(), cluster_join=False)
        self._reached = dict(seat.links)
        self._loop = loop
        seat.control.setblocking(False)
        self._outbox = Outbox(seat.control, self._watch)
        await super().start(node, driver, disk)
        self._tell_workers()
        self._clients, self._broker, self._memory = node.clients, node.broker, node.memory
        placement = node.placement
        placement.look_at(seat.page)
        from amqp_broker.server.load_report import LoadReport  # late: only a worker has one

        own, metadata = self._replication.own_node, self._broker.metadata
        self._report = LoadReport(seat.page, seat.number, self._memory, lambda: metadata.count_at(own))
        log.info("worker %d of the %d that this node has", config.worker, config.worker_processes)
        self._moves = Moves(driver, loop, seat.control)
        loop.add_reader(seat.control.fileno(), self._hear)
        alone = replace(
            config, node_name=self._replication.own_node, cluster=(), cluster_listen=(), cluster_join=False,
            peer_ping_ms=_PING_BESIDE_MS, peer_timeout_ms=WORDS_MISSED * _PING_BESIDE_MS,
        )  # fmt: skip
        self._beside = self._make_links(alone, seat.secret, None, is_inside=True)
        if self._links is None:
            driver.link_with(self._beside)
        else:
            self._links.stand_beside(self._beside)
        await self._beside.start([seat.link])
        self._link_beside()
        self._give_word()

    def _tell_workers(self) -> None:
        numbers = tuple(sorted(self._reached))
        self._membership.have_workers(numbers, tuple(each for each in numbers if each >= self._seat.config.workers))

    def _link_beside(self) -> None:
        assert self._beside is not None
        host = node_of_worker(self._replication.own_node)
        self._beside.set_members({worker_name(host, number): address for number, address in self._reached.items()})

    def _take_members(self) -> dict[str, Address]:
        """See ClusterSide."""
        return {} if self._config.worker else super()._take_members()

    def _remember(self, others: Mapping[str, Address]) -> None:
        """See ClusterSide."""
        if not self._config.worker:
            super()._remember(others)

    def _follow(self) -> None:
        """See ClusterSide."""
        super()._follow()
        if self._acquaintances.is_over and not self._is_told_over:
            self._is_told_over = True
            self._tell(OVER)

    @property
    def is_over(self) -> bool:
        """See ClusterSide. That the supervisor is gone makes no folder useless."""
        return self.over.is_set() and self._acquaintances.is_over

    def describe_wait(self) -> str:
        """See ClusterSide."""
        if not self._config.worker and self._config.cluster_listen:
            return super().describe_wait()
        host = node_of_worker(self._replication.own_node)
        if self._replication.waits_for_level:
            return "waiting until all nodes of the cluster are of a version that knows workers"
        return f"waiting for the metadata of {host}: {'linked' if self._replication.is_connected(host) else 'no link'}"

    def ready(self) -> None:
        """It serves clients from now on."""
        name = self._replication.own_node
        self._tell(READY + name.encode())
        config = self._seat.config
        groups = [group for group, worker in enumerate(config.group_workers, 1) if worker == config.worker]
        if not self._seat.is_closing:
            return
        if groups:  # their logs stay where they are
            log.info("worker %d stays: it has the logs of groups %s", config.worker, ", ".join(map(str, groups)))
        else:
            self._look_whether_empty()

    def when_serving(self, then: Callable[[], None]) -> None:
        """Call `then` once all workers are ready."""
        self.on_serving = then
        if self._is_serving:
            then()

    def _give_word(self) -> None:
        """Often while clients come and go, or memory is given back; rarely at rest, of which there are many workers."""
        memory = self._memory
        said = (len(self._clients.connections), self._taken, self._lent, memory.kept_bytes)
        has_changed, self._said = said != self._said, said
        pause_s = word_s(self._seat.config)
        self._word = self._loop.call_later(min(_COUNT_S, pause_s) if has_changed else pause_s, self._give_word)
        if self._outbox is not None:
            self._outbox.flush()
            # Without room it comes again soon, and says more than this one.
            numbers = (*said, memory.needed_bytes)
            self._outbox.offer(WORD + b"".join(each.to_bytes(_NUMBER, "big") for each in numbers), ())
        if self._report is not None:
            self._report.write_if_due()
        if self._replication.waits_for_level and not self._is_late:
            self._is_late = True
            self._tell(LATER)

    def _give_word_soon(self) -> None:
        """Clients come: the supervisor shares them out by what it is told."""
        if self._word is not None and self._word.when() > self._loop.time() + _COUNT_S:
            self._word.cancel()
            self._word = self._loop.call_later(_COUNT_S, self._give_word)

    def _take_loan(self, said: bytes) -> None:
        """It goes by that from now on, and says so at once."""
        self._lent, octets = (int.from_bytes(said[begin : begin + _NUMBER], "big") for begin in (0, _NUMBER))
        self._memory.go_by(octets)
        self._driver.wants_turn()  # what is too much goes to the disk
        if self._word is not None:
            self._word.cancel()
            self._give_word()

    def _look_whether_empty(self) -> None:
        """Queues, transactions, and letters of queues that are gone."""
        own, broker = self._replication.own_node, self._broker
        metadata = broker.metadata
        apps = [app for vhost in metadata.vhosts() for app in metadata.apps(vhost.name)]
        if metadata.count_at(own) or broker.dead_letters.backlog or any(app.home == own for app in apps):
            self._loop.call_later(_LOOK_S, self._look_whether_empty)
        else:
            self._tell(EMPTY)

    def _say_what_makes_it_busy(self, share: int, others: int) -> None:
        """One line, when it is known which queue it is. share, others: of a core, percent."""
        pause: Completion[None] = Completion()
        self._loop.call_later(_COUNTED_S, pause.complete, None)
        own, broker = self._replication.own_node, self._broker

        def say(busiest: BusiestQueue | None) -> None:
            work = "no queue moves anything: its clients' connections, declarations or settings do"
            if busiest is not None:
                made = 100 * busiest.messages // busiest.all_messages
                work = f"queue '{busiest.name}' in vhost '{busiest.vhost}' makes {made} % of what its queues move"
            log.warning(
                "%s is a bottleneck: it has used %d %% of a core for %g s or more, and the other workers %d %% on "
                "average; %s", own, share, self._seat.config.worker_busy_after_ms / 1000, others, work,
            )  # fmt: skip

        Task(broker.background, find_busiest(broker.vhosts.values(), pause)).when_done(say)

    def _tell(self, said: bytes) -> None:
        if self._outbox is None:
            return
        try:
            self._outbox.put(said)
        except OSError as error:
            log.error("the supervisor is not told what it has to know: %s", error.strerror)

    def _watch(self, for_room: bool) -> None:
        if for_room:
            log.warning("the supervisor does not read")
            self._loop.add_writer(self._seat.control.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._seat.control.fileno())

    def _flush(self) -> None:
        if self._outbox is not None:
            self._outbox.flush()

    def _hear(self) -> None:
        control, until = self._seat.control, monotonic() + _TAKING_S
        while monotonic() < until:
            try:
                said, descriptors, _, _ = socket.recv_fds(control, _MOST_OCTETS, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                said, descriptors = b"", []
            if not said:
                self._supervisor_is_gone()
                return
            if said == SERVING:
                self._is_serving = True
                if self.on_serving is not None:
                    self.on_serving()
            if said[:1] == STOPPING:
                self._call_nobody()
            if said[:1] == GONE:
                self._forget(int.from_bytes(said[1:], "big"))
            if said[:1] == SILENT:
                self._drop_silent(int.from_bytes(said[1:], "big"))
            if said[:1] == LEND:
                self._take_loan(said[1:])
            if said[:1] == BUSY:
                self._say_what_makes_it_busy(*said[1:3])
            if said[:1] in (PLAIN, SECURE, MOVE):
                self._taken += 1
                self._give_word_soon()
                if not descriptors:
                    log.error("a client is lost: this process has no descriptor for it; raise `ulimit -n`")
            for each in descriptors:
                self._take(said, socket.socket(fileno=each))

    def _forget(self, number: int) -> None:
        """A worker that was to be emptied is no more."""
        name = worker_name(node_of_worker(self._replication.own_node), number)
        self._reached.pop(number, None)
        self._tell_workers()
        self._link_beside()
        if self._replication.is_connected(name):  # its link was closed just now, of which nobody is told
            self._driver.on_disconnected(name)
        self._replication.forget_worker(name)

    def _drop_silent(self, number: int) -> None:
        """The loop of another worker stands still: what waits for that is told, as for any node that is silent."""
        if self._beside is not None:
            name = worker_name(node_of_worker(self._replication.own_node), number)
            self._beside.drop(name, f"it has said nothing for {self._seat.config.peer_timeout_ms} ms")

    def _take(self, said: bytes, client: socket.socket) -> None:
        if said[:1] == LINK:
            # A worker k that knows of no members yet knows nobody who calls.
            knows = self._links is not None and (self._links.members or not self._config.worker)
            if self._links is not None and knows and not self.over.is_set():
                self._links.take(client, said[1:])
            else:
                client.close()
        elif self.on_client is None or self._moves is None or self.over.is_set():
            client.close()
        elif said[:1] == MOVE:
            self._moves.adopt(client, said[1:])
        else:
            self.on_client(client, said == SECURE)

    def _call_nobody(self) -> None:
        """All workers stop, one before the other: who has gone is not to be reached any more."""
        if self._beside is not None:
            self._beside.call_nobody()

    def _supervisor_is_gone(self) -> None:
        if not self.over.is_set():
            log.warning("the supervisor is gone: this worker stops")
            self._call_nobody()
            self._look_away()
            self.over.set()

    def _look_away(self) -> None:
        self._loop.remove_reader(self._seat.control.fileno())
        self._loop.remove_writer(self._seat.control.fileno())

    async def close(self) -> None:
        """See ClusterSide."""
        if self._moves is not None:
            self._moves.close()
        if self._beside is not None:
            self._look_away()
            await self._beside.close()
        await super().close()


class HandedClients(TlsListener):
    """Clients that somebody else has accepted, with TLS or without."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None) -> None:
        self._take_part(driver, loop)
        self._context = context
        self._handshakes = {}

    def take(self, client: socket.socket, is_secure: bool) -> None:
        """One has come."""
        self._room.take()
        if is_secure:
            self._open(client)
        else:
            Listener._open(self, client)

    def close(self) -> None:
        """Handshakes of TLS that go on end."""
        self.end_handshakes()


class WorkerListeners:
    """See Listeners of `serve`: the supervisor has them. Worker 0 has one of its own besides, which only this machine
    reaches, for who belongs to the node."""

    def __init__(self, seat: Seat, side: WorkerSide) -> None:
        self._seat = seat
        self._side = side
        self._context = tls_context(seat.config) if seat.config.tls_listen else None
        is_wanted = seat.number == 0 and seat.management.is_wanted
        self._own = bind_all((_LOOPBACK_FREE_PORT,), "--management-listen") if is_wanted else []
        self._listeners: list[Listener] = []
        self._handed: HandedClients | None = None

    def open(self, driver: Driver) -> str:
        """Take clients. Returns "": it is the supervisor's to say."""
        loop = asyncio.get_running_loop()
        for listener in self._own:
            self._listeners.append(Listener(driver, loop, listener, self._seat.config.listen_backlog))
        self._handed = HandedClients(driver, loop, self._context)
        self._side.take_clients(self._handed.take)
        self._side.ready()
        return ""

    def when_serving(self, then: Callable[[], None]) -> None:
        """See Listeners of `serve`."""
        self._side.when_serving(then)

    def use(self, context: ssl.SSLContext) -> None:
        """See Listeners of `serve`."""
        self._context = context
        if self._handed is not None:
            self._handed.use(context)

    def urls(self) -> list[str]:
        """See Listeners of `serve`."""
        facts = self._seat.facts
        return [f"{'amqps' if each.tls else 'amqp'}://{Address(each.ip_address, each.port)}" for each in facts]

    def own_address(self) -> Address | None:
        """See Listeners of `serve`."""
        return address_of(self._own[0]) if self._own else None

    def facts(self) -> tuple[ListenerFacts, ...]:
        """See Listeners of `serve`."""
        return self._seat.facts

    def close(self) -> None:
        """Take nobody any more."""
        self._side.take_clients(None)
        for each in self._listeners:
            each.close()
        if self._handed is not None:
            self._handed.close()

    def close_sockets(self) -> None:
        """See Listeners of `serve`."""
        if self._handed is None:
            for each in self._own:
                with suppress(OSError):
                    each.close()
