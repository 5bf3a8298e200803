"""SimulatedDriver: drives one Node as amqp_broker/server/driver.py does, with virtual time and a simulated disk.

Inputs, then `end_turn`; outputs are taken once a turn; one SyncJob at a time; `synced` and its turn's end together;
`tick` at deadlines; `writable` for who was starved. It tells the model what the node has handled and said, makes disks
fail, and boots the node again after a crash.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from amqp_broker.connection.connection import Connection
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.pending_answers import PendingAnswer
from amqp_broker.flow.state import ENDING
from amqp_broker.metadata import commands
from amqp_broker.node import Node, Turn
from amqp_broker.protocol import methods
from amqp_broker.turn.sync_job import SyncJob
from storage.errors import CorruptRecord, SyncFailed
from tests.simulation.client import Operation, SimulatedClient
from tests.simulation.model import Model
from tests.simulation.observer import Observer
from tests.simulation.pace import RandomPace
from tests.simulation.settings import FAN, PASSWORD_HASH, USER, queue_specs, simulated_config
from tests.simulation.simulated_disk import UNLIMITED, SimulatedCrash, SimulatedDisk
from tests.simulation.state import Violation
from tests.simulation.workload import Workload

EPOCH_MS = 1_700_000_000_000
_FULL_DISK_RETRY_MS = 1000
#: These take effect when their command is committed, and are done when the connection goes on.
_WAIT_FOR_COMMIT = ("declare_exchange", "declare", "bind", "bind_fixed")
_AMPLE_BYTES = 1_000_000


class Crashed(Exception):
    """The machine has gone down in the middle of an input; the world has to be booted again."""


class Defects(logging.Handler):
    """Collects what the broker logs as a defect of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Commits:
    """Listens with the node to what is applied to the metadata. `taken`: a command that changed something, and the id
    of its queue."""

    def __init__(self, node: Node, taken: list[tuple[commands.Command, int]]) -> None:
        self._metadata = node.broker.metadata
        self._node = node.replication
        self._taken = taken

    def applied(
        self, index: int, origin: str, session: int, number: int, command: commands.Command, changed: bool
    ) -> None:
        """See metadata_machine.Listener."""
        if changed:
            record = self._metadata.queue("/", command["name"]) if command["op"] == "queue.declare" else None
            self._taken.append((command, record.queue_id if record is not None else 0))
        self._node.applied(index, origin, session, number, command, changed)

    def replaced(self, index: int) -> None:
        """See metadata_machine.Listener."""
        raise Violation("the metadata of a node alone were replaced by those of another one")

    def leads(self, is_leader: bool, leader: str | None) -> None:
        """See metadata_machine.Listener."""
        self._node.leads(is_leader, leader)


def watched(kind: type[Node], before_release: Callable[[object], None]) -> type[Node]:
    """A node that says when a connection goes on that was held or parked: connections go on one after the other, and
    what each of them does then may be just what the next one finds."""

    class Watched(kind):  # type: ignore[misc,valid-type]  # a class that is only known now
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            answers = self.answers
            end, park = answers.end, answers.park

            def end_watched(hold: PendingAnswer, answer: Callable[[], None]) -> None:
                answers.timed.pop(hold, None)
                before_release(hold.connection)
                end(hold, answer)

            def park_watched(connection: Connection, position: int, answer: Callable[[], None]) -> None:
                def go_on() -> None:
                    before_release(connection)
                    answer()

                park(connection, position, go_on)

            answers.end, answers.park = end_watched, park_watched

    return Watched


class SimulatedDriver:
    """One node and its world. `trace` is called with a line for each event, for people."""

    disk_type: type[SimulatedDisk] = SimulatedDisk
    workload_type: type[Workload] = Workload

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self._pace = RandomPace(seed)
        self.disk = self.disk_type(random.Random(self.chance.getrandbits(64)))
        self.config = simulated_config(self.chance)
        self.specs = queue_specs(self.chance)
        self.model = Model(self.specs)
        self.workload = self.workload_type(
            self.chance, self.specs, memory_may_be_short=self.config.memory_budget_bytes < _AMPLE_BYTES
        )
        self.observer = Observer(self.model)
        self.now = EPOCH_MS
        self.clients: list[SimulatedClient] = []
        self.counts: dict[str, int] = {}
        self._trace = trace
        self._hash = hashlib.sha256()
        self._turn_is_open = False
        self._deadline: int | None = None
        self._job: SyncJob | None = None
        self._job_turn = 0
        self._job_has_run = False
        self._job_retry_at = 0
        self._parked: list[SimulatedClient] = []
        self._committed: list[tuple[commands.Command, int]] = []
        self._to_revive: list[SimulatedClient] = []
        self._to_lose: list[SimulatedClient] = []
        self._has_faults = False
        self._capacity = UNLIMITED
        self._next_client = 1
        self._defects = Defects()
        self.node: Node

    @property
    def digest(self) -> str:
        """The same for every run of the same seed, in whatever process."""
        return self._hash.hexdigest()

    def note(self, what: str, octets: bytes = b"") -> None:
        """Record an event in the digest and the trace."""
        line = f"{self.now - EPOCH_MS} turn {self.model.turn} {what}"
        self._hash.update(line.encode())
        self._hash.update(octets)
        if self._trace is not None:
            self._trace(f"{line} {octets.hex() if len(octets) <= 40 else f'{len(octets)} octets'}" if octets else line)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # -- inputs -------------------------------------------------------------------------------------------------------

    def _set_time(self, now: int) -> None:
        self.now = now
        self.model.set_time(now)

    def _input(self, call: Callable[[], object]) -> None:
        """Call the node, and tell the model what it has handled. Raises Crashed."""
        self._turn_is_open = True
        try:
            call()
        except SimulatedCrash:
            raise Crashed from None
        except Exception as error:
            if self.disk.is_down:
                raise Crashed from None
            raise Violation(f"the node failed: {error!r}") from error
        if self.disk.is_down:
            raise Crashed
        self._absorb()

    def _absorb(self, released: object = None) -> None:
        """Give the model what was handled: those who were parked go on in the order in which they were parked.
        released: the connection that goes on; what it was held for comes now."""
        for command, queue_id in self._committed:
            self.note(f"committed {command['op']} {command.get('name', '')}")
            self.model.committed(command, queue_id)
        self._committed.clear()
        others = [client for client in self.clients if client not in self._parked]
        held = [hold.connection for hold in self.node.answers.timed]
        waiting: list[SimulatedClient] = []
        parked_again: list[SimulatedClient] = []
        for client in [*self._parked, *others]:
            handled: list[Operation] = []
            while (operation := client.take_handled()) is not None:
                handled.append(operation)
            has_moved = bool(handled)
            is_held = client.transport in held or client.transport is released
            if client.waiting is not None and (handled or not is_held):
                handled.insert(0, client.waiting)
                client.waiting = None
            if handled and is_held and handled[-1].kind in _WAIT_FOR_COMMIT:
                client.waiting = handled.pop()
            for operation in handled:
                self.note(f"{client.name} handled {operation.kind}")
                operation.values["client"] = client
                self.model.apply(operation)
            if client.transport.is_parked:
                (waiting if client in self._parked and not has_moved else parked_again).append(client)
        self._parked = waiting + parked_again
        self._learn_queue_ids()

    def _connect(self, name: str = "") -> SimulatedClient:
        client = SimulatedClient(name or f"client{self._next_client}")
        self._next_client += 1
        peer = Peer("127.0.0.1", 10_000 + self._next_client, "127.0.0.1", 5672, is_loopback=True)
        self.note(f"{client.name} connects")
        connection = self.node.open_connection(peer, self.now)
        connection.transport = client
        client.transport = connection
        self.clients.append(client)
        self._turn_is_open = True
        return client

    def _feed_client(self, client: SimulatedClient, size: int) -> None:
        chunk = client.take_chunk(size)
        self.note(f"{client.name} sends", chunk)
        self._input(lambda: self.node.receive_data(client.transport, chunk, self.now))
        self.node.input_goes_on(len(chunk) % 4 > 1, self.now)
        if len(chunk) % 2:  # as after an input that came alone
            self._tell(self.node.take_dirty())

    def _lose(self, client: SimulatedClient) -> None:
        """The transport is gone; what was written before had been seen."""
        self.note(f"{client.name} is lost")
        self._take_output(client)
        self.clients.remove(client)
        if client in self._parked:
            self._parked.remove(client)
        for group in (self._to_revive, self._to_lose):
            if client in group:
                group.remove(client)
        self.model.connection_ended(client)
        client.operations.clear()
        client.waiting = None
        self._input(lambda: self.node.connection_lost(client.transport, self.now))

    def _tick(self) -> None:
        self.note("tick")
        self._deadline = None
        self._input(lambda: self.node.tick(self.now))

    # -- turns --------------------------------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        turns: list[Turn] = []
        # Who waits at the gate goes on before others that a turn's end lets go on, in the order of the gate.
        at_gate = [connection.transport for connection in self.node.pauses.held]
        self._parked = at_gate + [client for client in self._parked if client not in at_gate]
        self._input(lambda: turns.append(self.node.end_turn(self.now)))
        turn = turns[0]
        self._turn_is_open = False
        self._tell(turn.dirty)
        for connection in turn.reading:
            connection.transport.is_paused = connection.is_paused
        self._to_lose += [connection.transport for connection in turn.dropped]
        # These close when they have heard the last.
        self._to_lose += [connection.transport for connection in turn.dirty if connection.state == ENDING]
        ended = self.model.turn
        self.observer.end_turn(bool(self.node.background.jobs))
        if self.chance.random() < 0.2 and not self.node.background.jobs:  # what stands behind work to be done waits
            self.observer.check_nobody_starves()
        if turn.wants_sync and self._job is None:
            self._take_job(ended)
        self._deadline = turn.next_deadline
        for client in list(self._to_lose):
            if client in self.clients:
                self._lose(client)
        self._to_lose = []
        revived, self._to_revive = self._to_revive, []
        for client in revived:
            if client in self.clients and client.transport.is_writable:
                self._input(lambda client=client: self.node.writable(client.transport, self.now))  # type: ignore[misc]
        for check in turn.checks:
            check.run()
            self._input(lambda check=check: self.node.checked(check, self.now))  # type: ignore[misc]

    def _tell(self, dirty: list[Connection]) -> None:
        for connection in dirty:
            client: SimulatedClient = connection.transport
            if client in self.clients:
                self._take_output(client)
                if connection.is_starved and connection.is_writable and client not in self._to_revive:
                    self._to_revive.append(client)

    def _take_output(self, client: SimulatedClient) -> None:
        data = b"".join(client.transport.take_output())
        self.note(f"{client.name} is told", data)
        for event in client.receive(data):
            if event.channel_id:
                self.observer.observe(client, event)
                if isinstance(event.method, methods.ChannelClose):
                    operation = Operation("close_channel_ok", None, {})
                    client.send(operation, event.channel_id, methods.ChannelCloseOk())
            elif isinstance(event.method, methods.ConnectionOpenOk):
                client.is_open = True
            elif isinstance(event.method, methods.ConnectionClose):
                raise Violation(f"unexpected connection.close: {event.method.reply_text}")

    # -- the disk -----------------------------------------------------------------------------------------------------

    def _take_job(self, turn: int) -> None:
        self._job = self.node.take_sync()
        self._job_turn = turn
        self._job_has_run = False
        self._job_retry_at = 0
        if self._job is not None:
            self.note("a sync is taken")

    def _disk_step(self) -> None:
        if self._job is None:
            return
        if not self._job_has_run:
            if self.now < self._job_retry_at:
                return
            self._run_job(self._job)
            if self.chance.random() < 0.5:
                return
        if self._job is not None and self._job_has_run:
            self._bring_job_back(self._job)

    def _run_job(self, job: SyncJob) -> None:
        self._arm()
        try:
            job.run()
        except SimulatedCrash:
            self.note("crash in a sync")
            raise Crashed from None
        except SyncFailed:
            # The driver stops the node.
            self.note("a sync has failed")
            self._count("failed syncs")
            raise Crashed from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.note("the disk is full")
            self._count("full disk")
            self.node.alarms.disk_full(True)
            self._job_retry_at = self.now + _FULL_DISK_RETRY_MS
            self._turn_is_open = True
            return
        finally:
            self.disk.capacity = self._capacity
            if not self.disk.is_down:
                self.disk.crash_at = None
                self.disk.fail_sync_at = None
        self._job_has_run = True
        self.model.durable_turn = self._job_turn
        self.note(f"synced up to turn {self._job_turn}")

    def _fill_disk(self) -> None:
        """From now on only a little more can be written, be it by a sync or by a queue that pages."""
        self._capacity = UNLIMITED - self.disk.free_bytes() + self.chance.randint(0, 3000)
        self.disk.capacity = self._capacity
        self.note("the disk fills up")

    def _empty_disk(self) -> None:
        self._capacity = self.disk.capacity = UNLIMITED
        self.note("there is room on the disk again")

    def _arm(self) -> None:
        """Decide on what goes wrong in this sync."""
        if not self._has_faults:
            return
        draw = self.chance.random()
        if draw < 0.02:
            self.disk.crash_at = self.chance.randint(1, 5)
        elif draw < 0.025:
            self.disk.fail_sync_at = self.chance.randint(1, 2)
        elif draw < 0.05 and self._capacity == UNLIMITED:
            self.disk.capacity = UNLIMITED - self.disk.free_bytes() + self.chance.randint(0, 300)

    def _bring_job_back(self, job: SyncJob) -> None:
        self._job = None
        self._job_has_run = False
        if self.node.alarms.is_disk_full:
            self.node.alarms.disk_full(False)
        self._input(lambda: self.node.synced(job, self.now))
        if job.position % 2:  # as after a sync in the loop
            self._tell(self.node.take_dirty())
        self._end_turn()

    # -- crashes ------------------------------------------------------------------------------------------------------

    def _note_paging(self) -> None:
        store = self.node.store
        for what, number in (("pages", store.pager.pages_stored), ("retired", store.journal.oldest_segment - 1)):
            self.counts[what] = self.counts.get(what, 0) + number

    def _crash(self) -> None:
        self._count("crashes")
        self._note_paging()
        # Of these nobody was told; whether they take effect depends on what the crash has left of the journal.
        in_doubt = [proposal.command for proposal in self.node.replication.stream.unapplied]
        if self.disk.is_down or self.chance.random() < 0.7:
            self.disk.crash()
        else:
            self.note("only the process has died")
            self.disk.crash() if self.disk._failure is not None else self.disk.come_back()
        self.note("crashed")
        # What clients that were lost in this turn had got is judged as of now, and not as of after the restart.
        self.observer.end_turn(bool(self.node.background.jobs))
        for client in self.clients:
            self.model.connection_ended(client)
        self.clients.clear()
        self._defects.records.clear()
        if self.chance.random() < 0.3:
            self._set_time(self.now + self.chance.choice([-10_000, -100, 1000, 100_000]))
        while True:
            try:
                self._boot(in_doubt)
                return
            except Crashed:
                self._count("crashes in recovery")
                self.note("crashed while it recovered")
                self.disk.crash()

    def _boot(self, in_doubt: Sequence[commands.Command] = ()) -> None:
        """Start a node on the disk, with a user to log in as. Raises Crashed."""
        self._turn_is_open = False
        self._deadline = None
        self._job = None
        self._job_has_run = False
        self._parked, self._to_revive, self._to_lose = [], [], []
        if self._has_faults and self.chance.random() < 0.2:
            self.disk.crash_at = self.chance.randint(1, 12)
        self._capacity = self.disk.capacity = UNLIMITED
        self.node = watched(Node, self._absorb)(self.config, self.disk, self.now, self.chance.randbytes)
        self.node.store.leave_slice, self.node.store.leave_bytes = 1, 200
        self._pace.set(self.node.background)
        try:
            try:
                self.node.recover(self.now)
                for check in self.node.take_page_checks():
                    check.run()
            except CorruptRecord as error:
                raise Violation(f"the node does not start: {error}") from error
            if self.node.broker.metadata.user(USER) is None:
                self.node.broker.propose(commands.put_user(USER, PASSWORD_HASH, ["administrator"]))
                self.node.broker.propose(commands.set_permission(USER, "/", ".*", ".*", ".*"))
            if self.disk.crash_at is not None and self.chance.random() < 0.5:
                self.disk.crash_at = None
            self.node.end_turn(self.now)
            job = self.node.take_sync()
            if job is not None:
                job.run()
                self.node.synced(job, self.now)
        except Violation:
            raise
        except Exception:
            if self.disk.is_down:
                raise Crashed from None
            raise
        if self.disk.is_down:
            raise Crashed
        self.disk.crash_at = None
        self.note("booted")
        self._tell_model(in_doubt)
        self._committed.clear()
        machine = self.node.replication.machine
        machine._listener = Commits(self.node, self._committed)
        self._turn_is_open = True

    def _tell_model(self, in_doubt: Sequence[commands.Command]) -> None:
        vhost = self.node.broker.vhosts["/"]
        fan = vhost.router.get(FAN)
        bound = [] if fan is None else [binding.destination.name for binding in fan.exchange.bindings()]
        found = {each.name: (each.queue_id, each.name in bound) for each in vhost.queues.all_made()}
        self.model.recover(found, [each["name"] for each in in_doubt if each["op"] == "queue.declare"])

    def _learn_queue_ids(self) -> None:
        """Which number the broker gave to a queue that is not durable."""
        for name, queue in self.model.live.items():
            if not queue.queue_id:
                queue.queue_id = self.node.broker.vhosts["/"].queues[name].queue_id
