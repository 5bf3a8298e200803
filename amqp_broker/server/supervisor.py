"""The supervisor of `serve --workers N`: has the ports of clients, and N processes that serve them.

    ports bound -> worker 0 started -> READY -> the others started -> all READY -> `ready` printed, clients accepted
    -> SIGTERM -> no more clients -> workers 1 to N-1 leave -> worker 0 leaves

It knows no messages, no metadata and nothing of AMQP. A worker is this process, forked, and goes on as `serve` in a
folder of its own (worker.py): `supervise` returns in each of them, too.

Invariants:
1. There is one thread here, as a fork copies one only.
2. A worker that has ended, or whose loop has stood still for worker_timeout, is started again: at once, then after 0.5,
   1, 2 ... 10 s. One that dies MOST_DEATHS times in DEATHS_S ends the node with status 1.
3. Every folder that has a worker's name in WORKERS has its worker, whatever the setting says: those above it get no
   clients and no new queues, and their folders go when they are empty.
4. A client goes to the worker with the fewer connections of two that are picked at random, of those that are ready and
   whose loop turns.
5. A socket that a worker gives away goes to the one that it names, as soon as that has room for it; it is closed if
   that one ends before.
6. A worker that is the bottleneck (bottleneck.py) hears of it, and says what makes its work.
7. A link of another node goes to the worker that it looks for, from when worker 0 listens (cluster_door.py).
8. A node that is no member any more ends with the status of its worker 0.
9. What a SIGHUP has had read again, a worker that starts later has read again, too.
10. What all workers may keep of messages in RAM is never more than memory_budget (lender.py).
11. A worker whose folder is gone is not started: the node does not start, or stops.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
import secrets
import selectors
import shutil
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_broker.server.bottleneck import BottleneckWatch
from amqp_broker.server.cluster_door import ClusterDoor
from amqp_broker.server.descriptors import EXHAUSTED, raise_limit
from amqp_broker.server.management_process import ManagementProcess
from amqp_broker.server.moves import MOVE, NUMBER_BYTES
from amqp_broker.server.outbox import Outbox
from amqp_broker.server.processors import usable_processors
from amqp_broker.server.service_manager import ServiceManager
from amqp_broker.server.sockets import address_of, bind_all, facts_of
from amqp_broker.server.worker import (
    BUSY,
    EMPTY,
    GONE,
    LATER,
    LEND,
    LINK,
    OVER,
    PLAIN,
    READY,
    SECURE,
    SERVING,
    SILENT,
    STOPPING,
    WORD,
    WORDS_MISSED,
    Seat,
    word_s,
)
from amqp_broker.server.workers_file import (
    WORKERS_FILE,
    folder_of,
    has_lost_folder,
    read_stored,
    read_workers,
    why_lost,
    write_workers,
)
from amqp_broker.settings.kinds import AUTO, MIB, Address
from amqp_broker.settings.workers import worker_name
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from amqp_broker.settings.config import Config

log = logging.getLogger("amqp_broker.server")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
MOST_DEATHS: Final = 5
DEATHS_S: Final = 60.0
#: Who has said nothing for so long gets no new clients, seconds.
SILENT_S: Final = 3.0
#: Exit statuses that say that to start again would say the same: a wrong setting or folder, a folder that was given up.
_FINAL: Final = (2, 3)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOPBACK: Final = (Address("127.0.0.1", 0),)
_BACKLOG: Final = 100
_ACCEPTED_AT_ONCE: Final = 64
_LOOK_S: Final = 0.1
_REST_S: Final = 1.0
#: So often it is looked how busy the workers are, seconds.
_BUSY_LOOK_S: Final = 1.0
#: So often memory is lent, seconds, besides whenever some is given back.
_LEND_S: Final = 1.0
#: A worker that stops has so long besides shutdown_timeout, seconds.
_STOP_S: Final = 10.0
_SECRET_OCTETS: Final = 32
_MOST_OCTETS: Final = 1024
_NUMBER: Final = 8
#: From so many processors on, `auto` leaves one for the rest.
_MANY: Final = 8


def wanted_workers(config: Config) -> int:
    """How many workers the settings ask for."""
    if config.workers != AUTO:
        return config.workers
    usable = usable_processors()
    return usable - 1 if usable >= _MANY else usable


def is_supervised(config: Config) -> bool:
    """Whether there are several workers: asked for, or with folders that are there."""
    return wanted_workers(config) > 1 or bool(read_workers(config.data_dir))


def supervise(config: Config, reload: Callable[[], None]) -> int | Seat:
    """Run all workers until SIGTERM or SIGINT. reload: called at SIGHUP, for the log of this process. Returns the exit
    status, or, in each worker, its seat. Raises OSError before any worker is started, StorageError for a WORKERS file
    that cannot be read."""
    raise_limit()
    supervisor = Supervisor(config, reload)
    try:
        return supervisor.run()
    finally:
        supervisor.close()


class Worker:
    """One of them, whether its process runs or not. connections: as it has said; taken: how many it had been handed
    then; handed: how many there were."""

    def __init__(self, number: int, link: socket.socket) -> None:
        self.number = number
        self.link = link
        self.process_id = 0
        self.watched = -1
        self.control: socket.socket | None = None
        self.outbox: Outbox | None = None  # of what is said there
        self.is_ready = False
        self.is_told = False  # that the node serves
        self.is_empty = False
        self.is_late = False  # it waits for all nodes to be of a version that knows workers
        self.is_over = False  # with it the node ends
        self.is_silent = False  # and the others have been told
        self.connections = self.taken = self.handed = 0
        self.word_at = 0.0
        self.deaths: deque[float] = deque()
        self.start_at: float | None = None
        self.pause_s = 0.0

    @property
    def load(self) -> int:
        """How many clients it has, those on their way to it included."""
        return self.connections + self.handed - self.taken

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self.process_id != 0


class Supervisor:
    """See the module's docstring. Made, the ports are bound."""

    def __init__(self, config: Config, reload: Callable[[], None] = lambda: None) -> None:
        self._reload = reload
        self._selector = selectors.DefaultSelector()
        self._door = ClusterDoor(config, self._selector, self._give_link)
        self._config = config = replace(config, cluster_listen=tuple(map(address_of, self._door.sockets)))
        self._count = wanted_workers(config)
        self._node = config.node_name
        self._secret = secrets.token_bytes(_SECRET_OCTETS)
        self._is_worker = False
        self._is_stopping = False
        self._is_serving = False
        self._is_to_reload = False
        self._status = 0
        self._stop_by = 0.0
        self._looked_at = time.monotonic()
        self._bottleneck = BottleneckWatch(config.worker_busy_after_ms / 1000)
        self._busy_look_at = 0.0
        self._rests_until = 0.0
        self._held: deque[tuple[socket.socket, bytes]] = deque()  # clients whom no worker could take yet
        self._accepting: list[socket.socket] = []
        self._manager = ServiceManager(os.environ)
        self._rare_look_s = min(word_s(config), self._manager.ping_s or _BUSY_LOOK_S)
        self._silence_s = max(config.peer_timeout_ms / 1000, WORDS_MISSED * word_s(config))
        self._plain = bind_all(config.listen, "--listen")
        self._secure = bind_all(config.tls_listen, "--tls-listen")
        self._management = ManagementProcess(config)
        stored = read_stored(config.data_dir)
        self._begun, self._group_workers = {*stored.begun}, stored.group_workers()
        self._look_for_folders(stored.numbers)
        numbers = sorted({*range(self._count), *stored.numbers})
        self._links = bind_all(_LOOPBACK * len(numbers), "--workers")
        for each in self._links:
            each.listen(_BACKLOG)
        self._addresses = {number: address_of(link) for number, link in zip(numbers, self._links, strict=True)}
        self.workers = {number: Worker(number, link) for number, link in zip(numbers, self._links, strict=True)}
        # late: a node that is one process has neither
        from amqp_broker.resources.load_page import LoadPage
        from amqp_broker.server.lender import Lender

        self._page = LoadPage(1 + max(numbers), time.monotonic)
        self._lender = Lender(config.memory_budget_bytes, numbers)
        self._lend_at = 0.0
        self._wakes, self._woken = socket.socketpair()
        for each in (self._wakes, self._woken):
            each.setblocking(False)
        self._handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def _look_for_folders(self, known: list[int]) -> None:
        for number in known:
            if number in self._begun and has_lost_folder(self._config.data_dir, number):
                if not self._config.recover:
                    raise StorageError(why_lost(self._config.data_dir, number))
                log.warning("worker %d has lost its folder, and what its queues held: it begins anew", number)
                self._begun.discard(number)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> int | Seat:
        """See `supervise`."""
        # The collectors of the workers do not look at it, so its pages stay shared. To look for garbage before takes
        # 40 ms: the loading of modules leaves some hundred objects in cycles, among a hundred thousand.
        gc.freeze()
        self._listen_to_signals()
        self._selector.register(self._wakes, selectors.EVENT_READ, self._on_signal)
        if self._config.exit_with_parent:
            self._selector.register(0, selectors.EVENT_READ, self._on_parent)
        self.workers[0].start_at = time.monotonic()
        while True:
            seat = self._start_due()
            if seat is not None:
                return seat
            if self._is_over():
                return self._status
            for key, _ in self._selector.select(self._pause_s()):
                key.data()
            if time.monotonic() >= self._looked_at + self._look_s():
                self._look()

    def _pause_s(self) -> float:
        dues = [each.start_at for each in self.workers.values() if each.start_at is not None]
        return max(0.0, min([*dues, self._looked_at + self._look_s()]) - time.monotonic())

    def _look_s(self) -> float:
        """The time between two looks. Where nothing waits for one they are rare: a node at rest is to cost nothing."""
        waits = self._is_stopping or not self._is_serving or self._held or self._rests_until or self._door.is_busy
        if waits or any(each.outbox is not None and each.outbox.is_waiting for each in self.workers.values()):
            return _LOOK_S
        return self._rare_look_s

    def _is_over(self) -> bool:
        return self._is_stopping and not any(each.is_running for each in self.workers.values())

    # -- signals -------------------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, lambda number, frame: None)
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)

    def _on_signal(self) -> None:
        with suppress(BlockingIOError):
            for number in self._wakes.recv(_MOST_OCTETS):
                if number == signal.SIGHUP:
                    self._reload()
                    self._is_to_reload = True
                    for worker in self._running():
                        if worker.is_ready:  # who is not has no handler yet, and would die of it
                            os.kill(worker.process_id, signal.SIGHUP)
                elif number in (signal.SIGTERM, signal.SIGINT):
                    self._stop(0)

    def _on_parent(self) -> None:
        if not os.read(0, 4096):
            self._selector.unregister(0)
            self._stop(0)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _running(self) -> list[Worker]:
        return [each for each in self.workers.values() if each.is_running]

    def _start_due(self) -> Seat | None:
        """Start who is to be started now. Returns the seat in the worker's process."""
        now = time.monotonic()
        for worker in self.workers.values():
            if worker.start_at is not None and worker.start_at <= now and not self._is_stopping:
                worker.start_at = None
                seat = self._start(worker)
                if seat is not None:
                    return seat
        return None

    def _start(self, worker: Worker) -> Seat | None:
        if worker.number in self._begun and has_lost_folder(self._config.data_dir, worker.number):
            log.critical("%s; the node stops", why_lost(self._config.data_dir, worker.number))
            self._stop(1)
            return None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            self._cannot_start(worker, error)
            return None
        # A signal that comes before the worker has handlers of its own is not to be lost.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process_id = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            self._cannot_start(worker, error)
            return None
        else:
            if process_id == 0:
                ours.close()
                return self._become(worker, theirs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()
        ours.setblocking(False)
        try:
            worker.watched = os.pidfd_open(process_id)
        except OSError as error:  # nobody would hear of its end
            ours.close()
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            self._cannot_start(worker, error)
            return None
        worker.process_id = process_id
        self._connect(worker, ours)
        self._selector.register(worker.watched, selectors.EVENT_READ, lambda: self._ended(worker))
        return None

    def _connect(self, worker: Worker, control: socket.socket) -> None:
        """It has begun: so it is spoken with."""
        worker.control = control
        worker.outbox = Outbox(control, partial(self._watch, worker, control))
        worker.is_ready = worker.is_told = worker.is_late = worker.is_silent = False
        worker.connections = worker.taken = worker.handed = 0
        worker.word_at = 0.0
        self._lender.begin(worker.number)
        self._selector.register(control, selectors.EVENT_READ, partial(self._attend, worker))

    def _cannot_start(self, worker: Worker, error: OSError) -> None:
        worker.pause_s = max(FIRST_PAUSE_S, worker.pause_s)
        self._start_later(worker)
        log.error(
            "worker %d cannot be started: %s; trying again in %g s", worker.number, error.strerror, worker.pause_s
        )

    def _become(self, worker: Worker, control: socket.socket) -> Seat:
        """In the worker's process: let go of what is the supervisor's."""
        self._is_worker = True
        os.setpgid(0, 0)  # Ctrl-C is for the supervisor, who then stops the workers
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for other in self.workers.values():
            if other.control is not None:
                other.control.close()
            if other.watched >= 0:
                os.close(other.watched)
            if other is not worker:
                other.link.close()
        if worker.number:
            self._management.close_sockets()
        return Seat(
            config=self._config_of(worker),
            control=control,
            link=worker.link,
            links={number: address for number, address in self._addresses.items() if number != worker.number},
            secret=self._secret,
            management=self._management,
            facts=facts_of(self._plain, self._secure),
            page=self._page,
        )

    def _config_of(self, worker: Worker) -> Config:
        config, number = self._config, worker.number
        return replace(
            config,
            node_name=worker_name(self._node, number),
            data_dir=folder_of(config.data_dir, number),
            workers=self._count,
            worker=number,
            worker_processes=len(self.workers),
            worker_joins=any(each is not worker for each in self._running()),
            group_workers=self._group_workers,
            worker_memory_bytes=self._lender.sure_bytes,
            max_partial_messages_bytes=max(MIB, config.max_partial_messages_bytes // len(self.workers)),
            max_connections=-(-config.max_connections // self._count),
            load_definitions=None if number else config.load_definitions,
            exit_with_parent=False,
        )

    def _watch(self, worker: Worker, control: socket.socket, for_room: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if for_room else 0)
        self._selector.modify(control, events, partial(self._attend, worker))

    def _attend(self, worker: Worker) -> None:
        """Its socket has something to be read, or room for what waits."""
        self._flush(worker)
        self._hear(worker)

    def _flush(self, worker: Worker) -> None:
        if worker.outbox is not None and worker.outbox.is_waiting:
            worker.outbox.flush()

    def _say(self, worker: Worker, said: bytes) -> None:
        """Tell a worker, as soon as there is room. One that ends meanwhile does not need it."""
        if worker.outbox is None:
            return
        try:
            worker.outbox.put(said)
        except OSError as error:
            log.error("worker %d is not told what it has to know: %s", worker.number, error.strerror)

    def _tell_others(self, worker: Worker, what: bytes) -> None:
        for other in self._running():
            if other is not worker:
                self._say(other, what + worker.number.to_bytes(_NUMBER, "big"))

    def _let_go(self, worker: Worker) -> None:
        """Nothing is said or heard any more."""
        if worker.control is None or worker.outbox is None:
            return
        lost = worker.outbox.clear()
        if lost:
            log.warning("worker %d has ended before it could be given %d clients of others: they are lost",
                        worker.number, lost)  # fmt: skip
        self._selector.unregister(worker.control)
        worker.control.close()
        worker.control = worker.outbox = None
        worker.is_ready = False

    def _hear(self, worker: Worker) -> None:
        while worker.control is not None:
            sockets: list[int] = []
            try:
                said, sockets, _, _ = socket.recv_fds(worker.control, _MOST_OCTETS, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                said = b""
            if not said:  # it ends: its process is waited for
                self._let_go(worker)
                return
            what, rest = said[:1], said[1:]
            worker.word_at = time.monotonic()
            worker.is_silent = False
            if what == WORD:
                if not worker.number:
                    self._door.open()
                numbers = [int.from_bytes(rest[each : each + _NUMBER], "big") for each in range(0, len(rest), _NUMBER)]
                worker.connections, worker.taken, *memory = numbers
                if self._lender.hear(worker.number, *memory):
                    self._lend()  # somebody may be waiting for it
                if worker.deaths and worker.word_at - worker.deaths[-1] > DEATHS_S:
                    worker.pause_s = 0.0
            elif what == MOVE:
                self._move(worker, rest, sockets)
            elif what == READY:
                self._ready(worker, rest.decode())
            elif what == LATER:
                worker.is_late = True
                self._serve_if_ready()
            elif what == OVER:
                worker.is_over = True
            elif what == EMPTY and not worker.is_empty:
                worker.is_empty = True
                log.info("worker %d holds nothing any more: it stops, and its folder goes", worker.number)
                os.kill(worker.process_id, signal.SIGTERM)

    def _ready(self, worker: Worker, name: str) -> None:
        worker.is_ready = True
        if self._is_to_reload:
            os.kill(worker.process_id, signal.SIGHUP)
        if worker.number and worker.number not in self._begun:
            self._begun.add(worker.number)
            self._write_workers()
        if worker.number == 0 and not any(each.is_running for each in self.workers.values() if each.number):
            self._start_others(name)
        if self._is_serving:
            self._tell_serving(worker)
            log.info("worker %d is ready", worker.number)
        self._serve_if_ready()

    def _serve_if_ready(self) -> None:
        may_serve = all(each.is_ready or each.is_late for each in self.workers.values())
        if may_serve and not self._is_serving and not self._is_stopping:
            self._serve()

    def _start_others(self, name: str) -> None:
        """Worker 0 has its folder, and knows how the node is called."""
        self._node = name
        others = [number for number in self.workers if number]
        write_workers(self._config.data_dir, others, self._begun)
        self._group_workers = read_stored(self._config.data_dir).group_workers()  # worker 0 says it of a new folder
        for number in others:
            worker = self.workers[number]
            if not worker.is_running:
                worker.start_at = time.monotonic()

    def _write_workers(self) -> bool:
        """Whether it is on the disk."""
        try:
            write_workers(self._config.data_dir, [number for number in self.workers if number], self._begun)
        except OSError as error:
            log.error("%s cannot be written: %s", self._config.data_dir / WORKERS_FILE, error.strerror)
            return False
        return True

    def _ended(self, worker: Worker) -> None:
        """Its process is gone."""
        self._selector.unregister(worker.watched)
        os.close(worker.watched)
        worker.watched = -1
        _, status = os.waitpid(worker.process_id, 0)
        code = os.waitstatus_to_exitcode(status)
        worker.process_id = 0
        self._page.forget(worker.number)
        self._lender.begin(worker.number)
        self._let_go(worker)
        if worker.is_empty and code == 0 and not self._is_stopping:
            self._remove(worker)
        elif self._is_stopping:
            if code not in (0, -signal.SIGTERM):
                log.error("worker %d %s while the node stopped", worker.number, _how(code))
            self._status = self._status or (code if code >= 0 else int(-code != signal.SIGTERM))
            if worker.number and not any(each.is_running for each in self.workers.values() if each.number):
                self._set_stop_by()  # it has as long as the others had
                self._stop_worker(self.workers[0])
        elif worker.is_over or (not self._is_serving and code in _FINAL):
            self._stop(max(0, code))
        else:
            self._died(worker, code)

    def _died(self, worker: Worker, code: int) -> None:
        now = time.monotonic()
        worker.is_empty = False  # it starts again, and says so again if it is
        worker.deaths.append(now)
        while now - worker.deaths[0] > DEATHS_S:
            worker.deaths.popleft()
        how = _how(code)
        if len(worker.deaths) >= MOST_DEATHS:
            folder = folder_of(self._config.data_dir, worker.number)
            log.critical(
                "worker %d %s, and has died %d times in %d s: the node stops; its folder is %s",
                worker.number, how, len(worker.deaths), DEATHS_S, folder,
            )  # fmt: skip
            self._stop(1)
            return
        self._start_later(worker)
        log.error("worker %d %s; it is started again in %g s", worker.number, how, worker.pause_s)
        worker.pause_s = min(max(FIRST_PAUSE_S, 2 * worker.pause_s), LONGEST_PAUSE_S)

    def _start_later(self, worker: Worker) -> None:
        worker.start_at = time.monotonic() + worker.pause_s

    def _remove(self, worker: Worker) -> None:
        """Its folder has nothing any more."""
        del self.workers[worker.number]
        self._lender.remove(worker.number)
        self._begun.discard(worker.number)
        folder = folder_of(self._config.data_dir, worker.number)
        if not self._write_workers():
            log.error("%s is empty, and stays until the next start", folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        # Nobody is to call it any more: neither those who run now nor who starts later.
        del self._addresses[worker.number]
        worker.link.close()
        self._tell_others(worker, GONE)
        self._serve_if_ready()

    def _look(self) -> None:
        """Now and then: who hangs, and which clients wait."""
        now, limit_s = time.monotonic(), self._config.worker_timeout_ms / 1000
        late_s, self._looked_at = now - self._looked_at, now
        for worker in self._running():
            if late_s > SILENT_S and worker.word_at:  # who stood still here cannot tell who stood still there
                worker.word_at += late_s
            if worker.word_at and not worker.is_silent and now - worker.word_at > self._silence_s:
                worker.is_silent = True
                self._tell_others(worker, SILENT)
            # Before it is ready it reads its folder, and may take its time for that.
            if worker.is_ready and worker.word_at and now - worker.word_at > limit_s:
                log.error("worker %d has said nothing for %g s (worker_timeout): it is killed", worker.number, limit_s)
                worker.word_at = 0.0
                os.kill(worker.process_id, signal.SIGKILL)
            self._flush(worker)
        self._manager.ping_if_due(now)
        self._door.look(now)
        if self._is_stopping:
            self._end_those_who_hang(now)
            return
        if self._config.worker_busy_after_ms and self._is_serving and now >= self._busy_look_at:
            self._busy_look_at = now + _BUSY_LOOK_S
            self._look_who_is_busy(now)
        if now >= self._lend_at:
            self._lend()
        while self._held and self._hand_over(*self._held[0]):
            self._held.popleft()
        if self._rests_until and now >= self._rests_until and self._has_room_to_hold():
            self._rests_until = 0.0
            self._accept_clients()

    def _lend(self) -> None:
        now = time.monotonic()
        self._lend_at = now + _LEND_S
        live = [each.number for each in self._running() if each.word_at and now - each.word_at < SILENT_S]
        self._lender.lend(live, self._tell_loan)

    def _tell_loan(self, number: int, order: int, octets: int) -> bool:
        """Whether it is on its way to that worker; else it is tried again a second later."""
        outbox = self.workers[number].outbox
        said = LEND + order.to_bytes(_NUMBER, "big") + octets.to_bytes(_NUMBER, "big")
        return outbox is not None and outbox.offer(said, ())

    def _look_who_is_busy(self, now: float) -> None:
        used = {each.number: _processor_s(each.process_id) for each in self._running() if each.is_ready}
        found = self._bottleneck.look(used, now)
        if found is not None:
            shares = bytes((min(100, round(100 * found.share)), round(100 * found.others)))
            self._say(self.workers[found.worker], BUSY + shares)

    # -- clients -------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """All are ready."""
        self._is_serving = True
        for listener in (*self._plain, *self._secure):
            listener.setblocking(False)
            listener.listen(self._config.listen_backlog)
        self._accept_clients()
        urls = [f"amqp://{address_of(each)}" for each in self._plain]
        urls += [f"amqps://{address_of(each)}" for each in self._secure]
        log.info("%d workers serve %s", self._count, ", ".join(urls))
        with suppress(OSError):
            os.write(1, f"ready {urls[0]}\n".encode())
        self._manager.tell_ready()
        for worker in self.workers.values():
            self._tell_serving(worker)

    def _tell_serving(self, worker: Worker) -> None:
        if worker.control is not None and not worker.is_told:
            worker.is_told = True
            self._say(worker, SERVING)

    def _accept_clients(self) -> None:
        for listeners, how in ((self._plain, PLAIN), (self._secure, SECURE)):
            for listener in listeners:
                self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, how))
                self._accepting.append(listener)

    def _rest(self) -> None:
        accepting, self._accepting = self._accepting, []
        for listener in accepting:
            self._selector.unregister(listener)

    def _accept(self, listener: socket.socket, how: bytes) -> None:
        for _ in range(0 if self._is_stopping else _ACCEPTED_AT_ONCE):
            if not self._has_room_to_hold():  # the others wait in the listener
                self._rest_for(_LOOK_S)
                return
            try:
                client, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                way_out = ": raise `ulimit -n`" if error.errno in EXHAUSTED else ""
                log.error("cannot accept a client: %s; trying again in %g s%s", error, _REST_S, way_out)
                self._rest_for(_REST_S)
                return
            if self._held or not self._hand_over(client, how):
                self._held.append((client, how))

    def _has_room_to_hold(self) -> bool:
        return len(self._held) < self._config.listen_backlog

    def _rest_for(self, seconds: float) -> None:
        """Nobody is accepted meanwhile."""
        self._rest()
        self._rests_until = time.monotonic() + seconds

    def _hand_over(self, client: socket.socket, how: bytes) -> bool:
        """Give a client to a worker. False: none takes one now."""
        usable = self._usable()
        while usable:
            picked = random.sample(usable, min(2, len(usable)))
            worker = min(picked, key=lambda each: each.load)
            if worker.outbox is None or not worker.outbox.offer(how, [client.fileno()]):
                usable.remove(worker)
                continue
            worker.handed += 1
            client.close()
            return True
        return False

    def _give_link(self, number: int, link: socket.socket, octets: bytes) -> bool:
        """Give the link of another node to a worker. False: that is not there, or does not read."""
        worker = self.workers.get(number)
        if worker is None or worker.outbox is None or not worker.word_at:
            return False
        return worker.outbox.offer(LINK + octets, [link.fileno()])

    def _move(self, worker: Worker, said: bytes, sockets: list[int]) -> None:
        """A worker hands a client to another one, who expects it and no more than it says (connection/expected.py). If
        he cannot be given it, the client is lost: the one before has forgotten it."""
        number = int.from_bytes(said[:NUMBER_BYTES], "big")
        to = self.workers.get(number)
        try:
            if not sockets:
                raise OSError(errno.EMFILE, "the supervisor has no descriptor for it; raise `ulimit -n`")
            if to is None or to.outbox is None:
                os.close(sockets[0])
                raise OSError(errno.ESRCH, "it has ended")
            to.outbox.put(MOVE + said[NUMBER_BYTES:], sockets)
            to.handed += 1
        except OSError as error:
            log.warning("a client of worker %d is lost on its way to worker %d: %s", worker.number, number,
                        error.strerror)  # fmt: skip

    def _usable(self) -> list[Worker]:
        """Who may be given clients: of those that have room the ones whose loop turns, if there are any."""
        now = time.monotonic()
        clients = [self.workers[number] for number in range(self._count)]
        ready = [each for each in clients if each.is_ready and each.control is not None]
        share = -(-self._config.max_connections // self._count)
        for wanted in (
            [each for each in ready if now - each.word_at < SILENT_S and each.load < share],
            [each for each in ready if now - each.word_at < SILENT_S],
        ):
            if wanted:
                return wanted
        return ready

    # -- the end -------------------------------------------------------------------------------------------------------

    def _stop(self, status: int) -> None:
        """Part from the clients; worker 0, which has the metadata, is the last."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._status = status
        self._set_stop_by()
        self._manager.stops()
        self._rest()
        for listener in (*self._plain, *self._secure):
            listener.close()
        for worker in self._running():
            self._say(worker, STOPPING)
        others = [each for each in self._running() if each.number]
        for worker in others or self._running():
            self._stop_worker(worker)

    def _stop_worker(self, worker: Worker) -> None:
        if worker.is_running:
            with suppress(ProcessLookupError):
                os.kill(worker.process_id, signal.SIGTERM)

    def _set_stop_by(self) -> None:
        self._stop_by = time.monotonic() + self._config.shutdown_timeout_ms / 1000 + _STOP_S

    def _end_those_who_hang(self, now: float) -> None:
        if now < self._stop_by:
            return
        self._set_stop_by()
        running = self._running()
        for worker in [each for each in running if each.number] or running:
            log.error("worker %d does not stop: it is killed", worker.number)
            os.kill(worker.process_id, signal.SIGKILL)

    def close(self) -> None:
        """Give back what is here; nothing in a worker, which goes on with its part."""
        self._selector.close()
        self._door.close()
        self._wakes.close()
        self._woken.close()
        for each in (*self._plain, *self._secure):
            each.close()
        for client, _ in self._held:
            client.close()
        for worker in self.workers.values():
            if worker.outbox is not None:
                worker.outbox.clear()
        if not self._is_worker:
            signal.set_wakeup_fd(-1)
            self._management.close_sockets()
            for link in self._links:
                link.close()


def _how(code: int) -> str:
    """A process has ended. code: below 0, the signal."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"


def _processor_s(process_id: int) -> float:
    """What all threads of a process have used since it began, seconds; 0.0 if it is gone."""
    try:
        # As clock_getcpuclockid(3) makes the clock of another process, which Python has for threads only.
        return time.clock_gettime(~process_id << 3 | 2)
    except OSError:
        return 0.0
