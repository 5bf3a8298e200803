"""ClusterWorld: whole nodes, a network between them, their clients, and time; all from one seed.

Time is in microseconds. Events are kept in a heap; an event of a node is lost if the node has crashed since, and late
if it is paused. What goes wrong is weather.py's business.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from amqp_broker.connection.steering import Leaving
from amqp_broker.flow.state import ENDING
from amqp_broker.protocol import methods
from raft.errors import PeerProtocolError
from tests.cluster_simulation.application import Application, Question
from tests.cluster_simulation.client_model import ClientModel, Consumer
from tests.cluster_simulation.cluster_node import MAX_OFFSET, MS, ClusterNode, Crashed
from tests.cluster_simulation.cluster_settings import Configs, cluster_configs, small_raft_settings
from tests.cluster_simulation.group_checks import GroupChecks
from tests.cluster_simulation.log_model import LogModel
from tests.cluster_simulation.network import Network
from tests.cluster_simulation.queue_kinds import QueueKind, queue_kinds
from tests.cluster_simulation.routine import Routine
from tests.simulation.state import Violation

SECOND = 1000 * MS
JOINERS = 1
#: So long an answer to a declaration waits for members that are linked and silent, microseconds.
_SETTLE = 2 * SECOND

Action = Callable[[int], object]


class Defects(logging.Handler):
    """Collects what the broker logs as a defect of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class ClusterWorld:
    """`size` members, and nodes that may join. `trace` is called with a line for each event, for people."""

    node_kind: type[ClusterNode] = ClusterNode
    log_kind: type[LogModel] = LogModel

    def __init__(self, seed: int, size: int = 3, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.size = size
        self.chance = random.Random(f"cluster {seed} {size}")
        self.time = 0
        self.counts: Counter[str] = Counter()
        self.kinds = self.draw_kinds()
        self.clients = ClientModel(self.kinds)
        self.clients.skew = 2 * MAX_OFFSET * MS
        self.log = self.log_kind(self.kinds)
        self.members = [f"n{number}" for number in range(1, size + 1)]
        self.joiners = [f"n{number}" for number in range(size + 1, size + JOINERS + 1)]
        configs = self.draw_configs()
        raft = small_raft_settings(self.chance)
        self.nodes = {name: self.node_kind(name, configs[name], raft, self.chance.getrandbits(32)) for name in configs}
        self.checks = GroupChecks(self.nodes, self.log)
        timeout = self.chance.choice([200, 600]) * MS
        self.network = Network(self, list(self.nodes), self.chance, timeout)
        self.applications: list[Application] = []
        self.routine = Routine(self)
        self.is_calm = True
        self.calm_since = 0
        self.defects = Defects()
        self._trace = trace
        self._hash = hashlib.sha256()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._next_number = 1
        self._next_message = 1
        self._feeding: dict[Application, Any] = {}

    def draw_kinds(self) -> dict[str, QueueKind]:
        """The queues of this run."""
        return queue_kinds(self.chance)

    def draw_configs(self) -> dict[str, Configs]:
        """Two Configs for each node: see cluster_configs."""
        return cluster_configs(self.chance, self.members, self.joiners)

    def starters(self) -> list[str]:
        """The nodes that are there from the beginning."""
        return self.members

    # -- numbers and notes ---------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """The same for every run of the same seed, in whatever process."""
        return self._hash.hexdigest()

    def note(self, line: str) -> None:
        """Record an event in the digest and the trace."""
        line = f"{self.time / SECOND:9.4f} {line}"
        self._hash.update(line.encode())
        if self._trace is not None:
            self._trace(line)

    def next_number(self) -> int:
        self._next_number += 1
        return self._next_number

    def next_message(self) -> int:
        self._next_message += 1
        return self._next_message

    # -- time ----------------------------------------------------------------------------------------------------------

    def at(self, time: int, call: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, call))

    def after(self, delay: int, call: Callable[[], None]) -> None:
        """See Inputs."""
        self.at(self.time + delay, call)

    def run_until(self, end: int) -> None:
        events = self._events
        while events and events[0][0] <= end:
            self.time, _, call = heapq.heappop(events)
            self.clients.now = self.time
            call()
        self.time = self.clients.now = end

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def up(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def serving(self) -> list[ClusterNode]:
        """The nodes that accept clients."""
        return [node for node in self.up() if node.node.is_ready and node.frozen_until <= self.time]

    def on_node(self, node: ClusterNode, delay: int, action: Action) -> None:
        """Have something happen to a node later, in this life of it."""
        self._later(node, delay, lambda: self.input(node, action))

    def _later(self, node: ClusterNode, delay: int, call: Callable[[], None]) -> None:
        """Do something later, if this life of the node goes on, and after its pause, in order."""
        life = node.lives

        def in_life() -> None:
            if node.lives == life and node.is_up:
                call()

        def when_due() -> None:
            if node.frozen_until > self.time or node.deferred:
                if not node.deferred:
                    self.at(node.frozen_until, lambda: self._thaw(node))
                node.deferred.append(in_life)
            else:
                in_life()

        self.after(delay, when_due)

    def _thaw(self, node: ClusterNode) -> None:
        """A pause is over: what has come meanwhile is dealt with."""
        if node.frozen_until > self.time:
            self.at(node.frozen_until, lambda: self._thaw(node))
            return
        deferred, node.deferred = node.deferred, []
        for call in deferred:
            call()

    def input(self, node: ClusterNode, action: Action) -> None:
        """An input; the turn ends a little later, with whatever else has come."""
        try:
            node.guard(lambda: action(node.now(self.time)))
        except Crashed:
            self.crash(node)
            return
        self._absorb(node, node.turns)
        if node.is_up and not node.turn_is_due:
            node.turn_is_due = True
            if node.turns % 2:  # as after an input that came alone
                for connection in node.node.take_dirty():
                    self._take_output(node, connection)
            self._later(node, self.chance.choice([0, 20, 200]), lambda: self._end_turn(node))

    def _absorb(self, node: ClusterNode, turn: int) -> None:
        """Note what clients have had handled in a turn."""
        for application in list(node.clients.values()):
            if application.client is not None and application.client.operations:
                application.handled(turn)

    def _end_turn(self, node: ClusterNode) -> None:
        node.turn_is_due = False
        turns: list[Any] = []
        try:
            node.guard(lambda: turns.append(node.end_turn(self.time)))
        except Crashed:
            self.crash(node)
            return
        turn = turns[0]
        self._absorb(node, node.turns - 1)  # what had waited for something that came about at the turn's end
        self.checks.on_turn(node)
        if not self._follow_members(node):
            return
        for connection in turn.dirty:
            self._take_output(node, connection)
        for connection in turn.reading:
            application = node.clients.get(connection)
            if application is not None and not connection.is_paused:
                self.feed_later(application)
        ended = [connection for connection in turn.dirty if connection.state == ENDING]  # they have heard the last
        for connection in turn.dropped + ended:
            application = node.clients.get(connection)
            if application is not None:
                self.leave(application)
        for leaving in turn.leaving:
            self.hand_over(node, leaving)
        for check in turn.checks:
            check.run()
            self.on_node(node, 0, lambda now, check=check: node.node.checked(check, now))  # type: ignore[misc]
        for peer, frames in turn.peers:
            self.checks.on_frames(node, peer, frames)
            self.network.send(node.name, peer, frames)
        if turn.wants_sync:
            self._take_job(node)
        self._schedule_tick(node, turn.next_deadline)
        self._check_defects()

    def _follow_members(self, node: ClusterNode) -> bool:
        """Links to whom it knows, and none to others; False if the node is no more."""
        if node.node.membership.is_removed:
            self.note(f"{node.name} was removed, and stops")
            self.counts["removed nodes"] += 1
            node.is_removed = True
            self.crash(node, is_power=False)
            return False
        if node.node.replication.acquaintances.is_over:
            self.note(f"{node.name} has forgotten, and ends")
            self.counts["forgotten"] += 1
            node.is_removed = True
            self.crash(node, is_power=False)
            return False
        try:
            others = node.follow_members()
        except Crashed:
            self.crash(node)
            return False
        if others is not None:
            for peer in self.network.links_of(node.name):
                if peer not in others:
                    self.network.drop(node.name, peer)
        return True

    def _check_defects(self) -> None:
        if self.defects.records:
            record = self.defects.records[0]
            cause = record.exc_info[1] if record.exc_info else None
            raise Violation(f"the broker logged: {record.getMessage()}: {cause!r}") from cause

    def _take_output(self, node: ClusterNode, connection: Any) -> None:
        application = node.clients.get(connection)
        if application is None:
            return
        application.receive(b"".join(connection.take_output()))
        if connection.is_starved and connection.is_writable:
            self.on_node(node, 0, lambda now: self._revive(node, connection, now))

    def _revive(self, node: ClusterNode, connection: Any, now: int) -> None:
        if connection in node.clients and connection.is_writable:
            node.node.writable(connection, now)

    def _schedule_tick(self, node: ClusterNode, deadline: int | None) -> None:
        if deadline is None:
            return
        due = self.time + max(1, deadline - node.now(self.time)) * MS
        if node.tick_at is not None and node.tick_at <= due:
            return
        node.tick_at = due

        def tick(now: int) -> None:
            if node.tick_at is not None and node.tick_at <= self.time:
                node.tick_at = None
            node.node.tick(now)

        self.on_node(node, due - self.time, tick)

    # -- the disks -----------------------------------------------------------------------------------------------------

    def _take_job(self, node: ClusterNode) -> None:
        if node.job is not None:
            return
        node.job = node.node.take_sync()
        node.job_has_run = False
        if node.job is None:
            return
        delay = self.chance.randint(100, 3 * MS) + max(0, node.stalls_until - self.time)

        def run() -> None:
            try:
                node.run_job()
            except Crashed:
                self.note(f"{node.name}: its disk fails or goes down in a sync")
                self.counts["failed syncs"] += 1
                self.crash(node)
                return
            self.on_node(node, self.chance.choice([0, 0, 100, 1000]), bring_back)

        def bring_back(now: int) -> None:
            job, node.job = node.job, None
            assert job is not None
            node.node.synced(job, now)
            if node.turns % 2:  # as after a sync in the loop
                for peer, frames in node.node.take_peers():
                    self.checks.on_frames(node, peer, frames)
                    self.network.send(node.name, peer, frames)

        self._later(node, delay, run)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def start(self, node: ClusterNode) -> None:
        """Start a node; if it crashes while it recovers, once more."""
        self.note(f"{node.name} starts")
        node.frozen_until = 0
        node.deferred = []
        while True:
            try:
                node.start(self.time, self.checks.watch)
                break
            except Crashed:
                self.note(f"{node.name} crashes while it recovers")
                self.counts["crashes in recovery"] += 1
                node.disk.crash()
        if node.is_removed:
            self.note(f"{node.name} has forgotten, and says so at every start")
            return
        self.on_node(node, 0, lambda now: None)

    def crash(self, node: ClusterNode, *, is_power: bool | None = None) -> None:
        """A node dies at once."""
        if is_power is None:
            is_power = node.disk.is_down or self.chance.random() < 0.6
        self.note(f"{node.name} crashes{' (power)' if is_power else ''}")
        self.counts["crashes"] += 1
        clients = list(node.clients.values())
        node.crash(is_power=is_power)
        self.network.died(node.name, tells=not is_power or self.chance.random() < 0.5)
        for application in clients:
            application.lost()
        self.defects.records.clear()
        if self.is_calm and not node.is_removed:
            self.after(10 * MS, lambda: self.restart(node))

    def restart(self, node: ClusterNode) -> None:
        """Start a node that is down."""
        if not node.is_up and not node.is_removed:
            self.start(node)

    # -- the network's Inputs ------------------------------------------------------------------------------------------

    def is_up(self, name: str) -> bool:
        """See Inputs."""
        return self.nodes[name].is_up

    def is_frozen(self, name: str) -> bool:
        """See Inputs."""
        return self.nodes[name].frozen_until > self.time

    def knows(self, name: str, peer: str) -> bool:
        """See Inputs."""
        return self.nodes[name].knows(peer)

    def connected(self, name: str, peer: str) -> None:
        """See Inputs."""
        self.note(f"{name} has a link to {peer}")
        node = self.nodes[name]
        self.on_node(node, 0, lambda now: node.node.peer_connected(peer, now))

    def disconnected(self, name: str, peer: str) -> None:
        """See Inputs."""
        self.note(f"{name} has no link to {peer} any more")
        node = self.nodes[name]
        if node.is_up:
            self.on_node(node, 0, lambda now: node.node.peer_disconnected(peer, now))

    def receive(self, name: str, peer: str, frame: bytes) -> None:
        """See Inputs."""
        node = self.nodes[name]

        def take(now: int) -> None:
            try:
                node.node.receive_peer(peer, frame, now)
            except PeerProtocolError as error:
                raise Violation(f"{name} does not understand {peer}: {error}") from error

        self.on_node(node, 0, take)

    # -- applications --------------------------------------------------------------------------------------------------

    def connect(self, application: Application, node: ClusterNode) -> None:
        application.connect(node)
        self.input(node, lambda now: None)

    def feed_later(self, application: Application) -> None:
        """What an application has to say reaches its node, in pieces."""
        connection, its_node = application.connection, application.node
        if its_node is None or self._feeding.get(application) is connection:
            return
        self._feeding[application] = connection

        def feed() -> None:
            self._feeding.pop(application, None)
            client, node = application.client, application.node
            if client is None or node is None or application.connection is not connection or not client.outgoing:
                return
            if connection.is_paused:
                return  # the turn that ends the pause feeds it
            whole = len(client.outgoing)
            size = whole if self.chance.random() < 0.7 else self.chance.randint(1, whole)
            chunk = client.take_chunk(size)
            self._hash.update(chunk)
            self.input(node, lambda now: node.node.receive_data(connection, chunk, now))
            self.input(node, lambda now: node.node.input_goes_on(len(chunk) % 4 > 1, now))
            if client.outgoing:
                self.feed_later(application)

        self._later(its_node, self.chance.choice([10, 100, 1000]), feed)

    def hand_over(self, node: ClusterNode, leaving: Leaving) -> None:
        """A connection is to go on at another worker of its host."""
        raise Violation(f"{node.name} sends a connection to {leaving.home}, and is no worker")

    def leave(self, application: Application) -> None:
        """The transport of an application's connection is gone."""
        node, connection = application.node, application.connection
        application.lost()
        if node is not None and node.is_up and connection in node.clients:
            del node.clients[connection]
            self.on_node(node, 0, lambda now: node.node.connection_lost(connection, now))

    def answered(self, application: Application, question: Question, method: Any) -> None:
        """A question was answered; what was declared is there on every node that is linked (K7)."""
        self.counts[f"answered {question.kind}"] += 1
        if not isinstance(method, methods.QueueDeclareOk) or self.time - question.sent_at >= _SETTLE:
            return
        assert application.node is not None
        if application.node.clock_set_at >= question.sent_at:
            return  # by its clock it may have waited long enough
        queue = question.queue
        for removal in self.clients.removals:
            if removal.queue == queue and removal.answered_at >= question.sent_at:
                return
        if self.kinds[queue].is_durable:
            self.checks.declared(application.node, self.linked_with(application.node), queue)

    def linked_with(self, node: ClusterNode) -> list[str]:
        """Who has to know what this node answers. A link counts when both have said that they remember all that the
        other knows of them."""
        return [name for name in self.network.links_of(node.name) if node.node.replication.is_connected(name)]

    def cancelled_by_broker(self, consumer: Consumer) -> None:
        """basic.cancel from the broker."""
        self.counts["cancelled by the broker"] += 1
        kind = self.kinds[consumer.queue]
        if kind.is_quorum and not kind.is_scratch:
            raise Violation(f"consumer '{consumer.tag}' was cancelled, and '{consumer.queue}' is there")

    def channel_refused(self) -> None:
        """channel.close for something that is not there."""
        self.counts["channels closed by the broker"] += 1

    def closed_by_broker(self, application: Application, code: int, text: str) -> None:
        """connection.close from the broker."""
        self.counts[f"connections closed with {code}"] += 1
        if self.is_calm and code != 320 and self.time - self.calm_since > 15 * SECOND:
            raise Violation(f"{application.name}: connection.close {code} {text}, and all is calm")
