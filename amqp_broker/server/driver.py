"""Driver: runs a Node on an asyncio loop: turns, the clock, the links to other nodes, and the thread that syncs.

A turn ends once per loop iteration: all inputs that the loop has delivered are in, each dirty connection is written
once, and a sync is started unless one is running. Input that comes when nothing has happened for a moment ends its turn
at once: there is hardly more. A small sync is run at once, while the disk is quick: to wake a thread, and to wait for
the interpreter's lock on both sides, takes longer than that (decision 0016).
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import gc
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING

import cython

from amqp_broker.server.descriptors import EXHAUSTED, SPARE, ClientRoom, limit
from amqp_broker.server.readiness import Readiness
from amqp_broker.server.spare_pace import SparePace
from amqp_broker.server.sync_thread import SyncThread
from amqp_broker.server.system_calls import monotonic_time
from amqp_broker.server.verification import VERIFY_PAUSE_S, failures_of, take_few
from amqp_broker.turn.file_work import FileWork
from amqp_broker.turn.timings import Timings
from raft.errors import PeerProtocolError
from storage.errors import SyncFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.auth.hashing import PasswordHash
    from amqp_broker.connection.connection import Connection
    from amqp_broker.connection.logins import PasswordCheck
    from amqp_broker.connection.steering import Leaving
    from amqp_broker.node import Node
    from amqp_broker.resources.page_check import PageCheck
    from amqp_broker.server.peers import PeerLinks
    from amqp_broker.server.tcp import TcpTransport
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.sync_job import SyncJob

log = logging.getLogger("amqp_broker.server")

#: The receive buffer that all connections share: what is in it is handled before the next read.
RECEIVE_BYTES = 1024 * 1024
#: A turn this long ago is of an earlier burst of input, seconds.
_CALM_S = 30e-6
#: A read of so many octets is a burst itself: others are likely to follow (decision 0017).
IMMEDIATE_TURN_BYTES = 4096
_IMMEDIATE_TURN_BYTES = IMMEDIATE_TURN_BYTES
#: A sync in the loop that takes longer than this (as it may where others have the processor) is followed by a rest, in
#: which the thread syncs; seconds. The rest doubles each time, between these two, and a quick sync halves it.
_SLOW_SYNC_S = 0.01
_LEAST_REST_S = 0.1
_MOST_REST_S = 60.0
#: So many syncs may follow upon each other before other input is read, the last of them begun within so many seconds of
#: the turn's first input, background work included: what was committed may be much to do.
_MOST_SYNCS = 4
_SYNCS_S = 0.002
#: Newcomers and those who send much are read for so long in one turn, seconds; who is left is read in the next, in the
#: order in which they came, so that those who say little never wait for a crowd.
_BULK_S = 0.002
#: So many of them are still watched while they wait, which spares two system calls for each; they are told in vain, and
#: others that are ready have to have room in the same round (readiness.py).
_MOST_WATCHED = 512
#: How long to wait before a write that failed for want of room is tried again, seconds.
_FULL_DISK_RETRY_S = 1.0


def started_thread(name: str) -> ThreadPoolExecutor:
    """An executor whose one thread runs already: later the system may have none to give."""
    executor = ThreadPoolExecutor(1, name)
    executor.submit(int).result()
    return executor


class TimedPace:
    """What is done bit by bit goes on until it has taken so long, seconds (queues/background.py, Pace)."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._until = 0.0

    def start(self) -> None:
        """The first bit begins."""
        self._until = monotonic() + self.limit_s

    def goes_on(self) -> bool:
        """Whether there is time left."""
        return monotonic() < self._until


class CommonPace(TimedPace):
    """That of background work in all turns together that follow upon each other before other input is read. is_new:
    none has had any since it was."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s)
        self.is_new = True

    def start(self) -> None:
        """The turn's first slice begins."""
        if self.is_new:
            self.is_new = False
            super().start()


class Driver:
    """The bridge between a loop and a node. `failed` is set to an exception when the node must stop. `links`: to the
    other nodes, if there can be any. `hand_over`: gives a connection's socket to another worker, if there can be any;
    False: it cannot. `after_turn`: called at the end of each turn, as long as it is there."""

    def __init__(self, node: Node, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.config = config
        self.failed: asyncio.Future[None] = loop.create_future()
        self.receive_buffer = bytearray(RECEIVE_BYTES)
        self.receive_view = memoryview(self.receive_buffer)
        self.received = b""
        self.links: PeerLinks | None = None
        self.hand_over: Callable[[Leaving], bool] | None = None
        self.after_turn: Callable[[], None] | None = None
        self._loop = loop
        # Bound once: they are called in every turn. In a context of their own, which need not be copied each time.
        self._call_soon = loop.call_soon
        self._end = self._end_due_turn
        self._context = contextvars.copy_context()
        self._clock_offset = time() - monotonic()
        self._turn_is_due = False
        self._is_queued = False  # `_end` is among what the loop calls next
        self._is_over = False
        self._turn_began_at = 0.0
        self._turn_ended_at = 0.0
        self._late: deque[TcpTransport] = deque()
        self.readiness = Readiness(loop)
        self._job: SyncJob | None = None
        self._syncs_until = 0.0  # in the loop, of this turn
        self._inline_bytes = config.inline_sync_bytes
        self._inline_again_at = 0.0
        self._rest_s = _LEAST_REST_S
        self.room = ClientRoom(limit(), config.max_connections, self._room_changed)
        self._alarms, self._membership, self._acquaintances = node.alarms, node.membership, node.acquaintances
        self._loop_delays, self._turn_times = node.loop_delays, node.turn_times
        clients = node.clients
        clients.allow(self.room.connections, self.room.most - SPARE)
        self._syncer = SyncThread()
        self._checker = started_thread("login")
        self._filer = started_thread("files")  # who checks passwords takes his time
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._due = 0
        self._idle: asyncio.Future[None] | None = None
        background, turn_share = node.background, node.turn_share
        self._background, self._jobs = background, background.jobs
        self._timings = Timings(monotonic) if config.timings else None
        self._collection_began = 0.0
        if self._timings is not None:
            node.measure(self._timings)
            gc.callbacks.append(self._collected)
        self._pace = CommonPace(config.background_time_ms / 1000.0)
        background.set_pace(self._pace)
        self.others_spoke = False  # in this turn: somebody else than readers who are far behind
        self._spare = SparePace(config.stream_far_percent / 100.0, config.background_time_ms / 1000.0, monotonic)
        self._behind = background.behind
        background.set_spare_pace(self._spare)
        background.set_patience(TimedPace(config.management_turn_time_us / 1_000_000.0))
        turn_share.set_pace(TimedPace(_BULK_S))

    @property
    def has_failed(self) -> bool:
        """Whether the node must stop: see `failed`."""
        return self.failed.done()

    def now(self) -> int:
        """Milliseconds since the epoch; a step of the wall clock does not reach a running node."""
        milliseconds = (monotonic_time() + self._clock_offset) * 1000
        return cython.cast(cython.longlong, milliseconds) if cython.compiled else int(milliseconds)

    def grow_receive_buffer(self, pending: int) -> None:
        """A connection has nearly a whole buffer of unfinished frame: make room for its end."""
        self.receive_buffer = bytearray(2 * max(pending, len(self.receive_buffer)))
        self.receive_view = memoryview(self.receive_buffer)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _room_changed(self, is_full: bool) -> None:
        self._alarms.set_full(is_full)

    def wants_turn(self) -> None:
        """Something has happened: end the turn when the loop has delivered everything that is there."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._turn_began_at = monotonic_time()
            if not self._is_queued:
                self._is_queued = True
                self._call_soon(self._end, context=self._context)

    def is_late(self) -> bool:
        """Whether this turn has had its time for those who send much."""
        if self._late:
            return True
        return self._turn_is_due and monotonic_time() - self._turn_began_at > _BULK_S

    def read_later(self, transport: TcpTransport) -> bool:
        """It has something to be read, and this turn has no time for it: it is its turn when those before it were.
        Returns whether the loop may watch it all the same: not very many."""
        late = self._late
        if not late:
            self._call_soon(self._read_late)
        late.append(transport)
        return len(late) <= _MOST_WATCHED

    def _read_late(self) -> None:
        late, until = self._late, monotonic() + _BULK_S
        while late:
            late.popleft().read_now()
            if monotonic() > until:
                break
        if late:
            self._call_soon(self._read_late)

    def is_calm(self) -> bool:
        """Whether nothing has happened for a moment, and nobody else is ready: hardly more comes with what is here
        now."""
        if self._turn_is_due or self.readiness.has_more:
            return False
        return monotonic_time() - self._turn_ended_at > _CALM_S

    def lone_input_is_over(self) -> None:
        """All that came is handled: what there is to say leaves at once, and then the turn ends."""
        try:
            self._write(self.node.take_dirty())
        except Exception as error:
            log.critical("defect in an output: the node stops", exc_info=error)
            self.fail(error)
        self._end_turn()

    def input_is_over(self, octets: int) -> None:
        """What one read has brought is handled."""
        if octets < _IMMEDIATE_TURN_BYTES and self.is_calm():
            self.lone_input_is_over()
        else:
            self.wants_turn()

    def _write(self, dirty: list[Connection]) -> None:
        """Hand over what these have to say."""
        for connection in dirty:
            transport = connection.transport
            chunks = connection.take_output()
            if transport is None or not chunks:
                continue
            transport.write(chunks)
            if connection.is_starved and connection.is_writable:
                self._loop.call_soon(self._revive, connection)

    def _end_due_turn(self) -> None:
        """What the loop calls: the turn may have ended since, with a lone input or a sync."""
        self._is_queued = False
        if self._turn_is_due:
            self._end_turn(monotonic_time() - self._turn_began_at)

    def _end_turn(self, spent_s: float = 0.0) -> None:
        """spent_s: what its inputs have taken; that of a lone one does not count. What is synced in it does."""
        self._turn_is_due = False
        if self._is_over:
            return
        self._pace.is_new = True
        self._background.chain(False)
        began = monotonic_time() - spent_s
        self._syncs_until = monotonic() + _SYNCS_S - spent_s
        syncs = 0
        try:
            if self._jobs:
                self._write(self.node.take_dirty())  # what is answered does not wait for slices of other work
            # What was synced at once is confirmed by a turn of its own.
            while self._run_turn(syncs < _MOST_SYNCS):
                self._background.chain(True)
                syncs += 1
        except Exception as error:
            log.critical("defect in the node: it stops", exc_info=error)
            self.fail(error)
        self._turn_ended_at = monotonic_time()
        if self.others_spoke:
            self.others_spoke = False
            self._spare.others_took(self._turn_ended_at - began)
        self._turn_times.add(self._turn_ended_at - began)

    def _run_turn(self, may_sync: bool) -> bool:
        """Returns whether something was synced, so that there is more to say. `may_sync`: it may be done here."""
        timings = self._timings
        began = 0.0 if timings is None else monotonic()
        now = self.now()
        turn = self.node.end_turn(now)
        self._write(turn.dirty)
        for connection in turn.reading:
            if connection.transport is not None:
                connection.transport.set_paused(connection.is_paused)
        for connection in turn.dropped:
            if connection.transport is None:
                continue
            if connection.is_abandoned:
                connection.transport.abort()
            else:
                connection.transport.close()
        for leaving in turn.leaving:
            self._hand_over(leaving, now)
        links = self.links
        if links is not None:
            for name, frames in turn.peers:
                links.send(name, frames)  # what a link that is lost does not take is said again
        for check in turn.checks:
            thread = self._filer if isinstance(check, FileWork) else self._checker
            thread.submit(self._run_check, check)
        if timings is not None:
            timings.since("turn", began)
        is_synced = turn.wants_sync and self._sync(may_sync)
        deadline = turn.next_deadline
        if deadline is not None:
            self._due = deadline
            self._wake_at(self._due, now)
        if self.after_turn is not None:
            self.after_turn()
        goes_on = bool(self._behind) and not is_synced and self._serve_behind(now)
        if self._jobs or goes_on:
            self.wants_turn()  # after whatever else the loop has to deliver
        return is_synced

    def _serve_behind(self, now: int) -> bool:
        """Readers who are far behind have what they may have of this turn, when all others have what it brings, and
        the disk is at work for them. Returns whether there may be more in the next."""
        pace = self._spare
        pace.start()
        self._write(self.node.serve_behind(now))
        pace.end()
        return not pace.is_over

    def link_with(self, links: PeerLinks) -> None:
        """There can be other nodes, or workers: these are the links to them."""
        self.links = links

    def end_turns_with(self, after_turn: Callable[[], None] | None) -> None:
        """It is called at the end of each turn; None: nothing is."""
        self.after_turn = after_turn

    def hand_over_with(self, hand_over: Callable[[Leaving], bool] | None) -> None:
        """How a connection's socket gets to another worker; None: no more."""
        self.hand_over = hand_over

    def _hand_over(self, leaving: Leaving, now: int) -> None:
        """Its socket goes to another worker, or it goes on here."""
        if self.hand_over is not None and self.hand_over(leaving):
            self.room.give()
            self.node.moved(leaving.connection, now)
        else:
            self.node.kept(leaving.connection, now)
        self.wants_turn()

    def _revive(self, connection: Connection) -> None:
        """The transport took everything at once, unless it has complained since."""
        if connection.is_writable:
            self.writable(connection)

    def writable(self, connection: Connection) -> None:
        """A transport has room again."""
        try:
            self.node.writable(connection, self.now())
        except Exception as error:
            log.critical("a connection that goes on could not be served: the node stops", exc_info=error)
            self.fail(error)
        self.wants_turn()

    def lost(self, connection: Connection) -> None:
        """A transport is gone."""
        try:
            self.room.give()
            self.node.connection_lost(connection, self.now())
        except Exception as error:
            log.critical("what a lost connection held could not be given back: the node stops", exc_info=error)
            self.fail(error)
        self.wants_turn()

    def _wake_at(self, deadline: int, now: int) -> None:
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        # Compiled, a quotient of integers is one too, and every time below a second would be none.
        self._timer = self._loop.call_later(max(0, deadline - now) / 1000.0, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_over:
            return
        now = self.now()
        if now < self._due:  # what it was set for has been put off since
            self._wake_at(self._due, now)
            return
        self._loop_delays.add(now - self._due)
        if self._timings is not None:
            self._timings.record("timer", (now - self._due) / 1000.0)
        try:
            self.node.tick(now)
        except Exception as error:
            log.critical("defect in a timer: the node stops", exc_info=error)
            self.fail(error)
            return
        self.wants_turn()

    # -- other nodes ---------------------------------------------------------------------------------------------------

    def on_connected(self, node_id: str) -> None:
        """There is a link to another node."""
        if self.failed.done():
            return
        try:
            self.node.peer_connected(node_id, self.now())
        except Exception as error:  # noqa: BLE001  # whatever it is, the node stops
            self._peer_defect(node_id, error)
        self.wants_turn()

    def on_disconnected(self, node_id: str) -> None:
        """The link to another node is gone."""
        if self.failed.done():
            return
        try:
            self.node.peer_disconnected(node_id, self.now())
        except Exception as error:  # noqa: BLE001  # whatever it is, the node stops
            self._peer_defect(node_id, error)
        self.wants_turn()

    def on_frame(self, node_id: str, payload: bytes) -> None:
        """A frame of another node. `input_is_over` follows."""
        if self.failed.done():
            return
        self.others_spoke = True
        try:
            self.node.receive_peer(node_id, payload, self.now())
        except PeerProtocolError as error:
            assert self.links is not None
            self.links.drop(node_id, str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the node stops
            self._peer_defect(node_id, error)

    def farewell(self, node_id: str) -> list[bytes]:
        """See PeerCallbacks."""
        frames: list[bytes] = self._membership.farewell(node_id)
        return frames

    def counts(self, node_id: str) -> bool:
        """See PeerCallbacks."""
        return bool(self._acquaintances.is_admitted(node_id))

    def refusal(self, node_id: str, payload: bytes) -> list[bytes]:
        """See PeerCallbacks."""
        frames: list[bytes] = self._acquaintances.refusal(node_id, payload)
        return frames

    def _peer_defect(self, node_id: str, error: Exception) -> None:
        log.critical("defect in what came from node %s: this node stops", node_id, exc_info=error)
        self.fail(error)

    # -- passwords -----------------------------------------------------------------------------------------------------

    def _run_check(self, check: PasswordCheck | PasswordHash | FileWork) -> None:
        """In the thread for it."""
        try:
            check.run()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the node hears of it and stops
            self._loop.call_soon_threadsafe(self._thread_failed, "a login or work on a file", error)
        else:
            self._loop.call_soon_threadsafe(self._checked, check)

    def _checked(self, check: PasswordCheck | PasswordHash | FileWork) -> None:
        try:
            self.node.checked(check, self.now())
        except Exception as error:
            log.critical("defect after a login: the node stops", exc_info=error)
            self.fail(error)
            return
        self.wants_turn()

    # -- the disk ------------------------------------------------------------------------------------------------------

    def _sync(self, may_block: bool) -> bool:
        """Have what was written synced, unless a sync is running. Returns whether it is done already."""
        if self._job is not None or self.failed.done():
            return False
        job = self._job = self.node.take_sync()
        if job is None:
            return False
        if not may_block or not job.is_within(self._inline_bytes):
            self._syncer.submit(partial(self._run_job, job))
            return False
        began = monotonic()
        if began < self._inline_again_at or began > self._syncs_until:
            self._syncer.submit(partial(self._run_job, job))
            return False
        try:
            job.run()
        except OSError as error:
            self._sync_failed(job, error)
            return False
        ended = monotonic()
        job.took(ended - began)
        if self._timings is not None:
            self._timings.record("sync", ended - began)
        if ended - began > _SLOW_SYNC_S:
            self._inline_again_at = ended + self._rest_s
            self._rest_s = min(2 * self._rest_s, _MOST_REST_S)
        elif self._rest_s > _LEAST_REST_S:
            self._rest_s = max(_LEAST_REST_S, self._rest_s * 0.5)
        self._take_synced(job)
        # What waited for the disk leaves before the turn that follows does its work: other nodes' rounds wait for it.
        for name, frames in self.node.take_peers():
            if self.links is not None:
                self.links.send(name, frames)
        self._write(self.node.take_dirty())
        return True

    def _run_job(self, job: SyncJob) -> None:
        """In the sync thread."""
        began = monotonic()
        try:
            job.run()
        except OSError as error:
            self._loop.call_soon_threadsafe(self._sync_failed, job, error)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the node hears of it and stops
            self._loop.call_soon_threadsafe(self._thread_failed, "a sync", error)
        else:
            job.took(monotonic() - began)
            self._loop.call_soon_threadsafe(self._synced, job)

    def _take_synced(self, job: SyncJob) -> None:
        """What waited for a job goes on."""
        self._job = None
        if self._alarms.is_disk_full:
            self._alarms.disk_full(False)
        self.node.synced(job, self.now())

    def _synced(self, job: SyncJob) -> None:
        began = monotonic()
        self.others_spoke = True
        if self._timings is not None:
            self._timings.record("sync", job.seconds)
        try:
            self._take_synced(job)
        except Exception as error:
            log.critical("defect after a sync: the node stops", exc_info=error)
            self.fail(error)
            return
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        # The turn ends at once: confirms leave, and the next sync starts, before other input is read.
        self._end_turn(monotonic() - began)

    def _sync_failed(self, job: SyncJob, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._alarms.disk_full(True)
            self._loop.call_later(_FULL_DISK_RETRY_S, self._syncer.submit, partial(self._run_job, job))
            self.wants_turn()
            return
        if error.errno in EXHAUSTED and not isinstance(error, SyncFailed):
            log.error("what was written cannot be synced yet: %s; trying again in %g s", error, _FULL_DISK_RETRY_S)
            self._loop.call_later(_FULL_DISK_RETRY_S, self._syncer.submit, partial(self._run_job, job))
            return
        log.critical("the disk has failed: %s. The node stops; nothing unsynced was confirmed", error)
        self.fail(error)

    def _thread_failed(self, work: str, error: BaseException) -> None:
        """A thread has raised what nobody expects of its work."""
        log.critical("defect in %s, in its thread: the node stops", work, exc_info=error)
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The node must stop: the disk has failed, or what it holds is not what was written."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # -- stored pages --------------------------------------------------------------------------------------------------

    def verify(self, checks: deque[PageCheck]) -> None:
        """Run what is left of the checks, a little at a time between syncs. Damage stops the node."""
        if not self.failed.done() and (few := take_few(checks)):
            self._syncer.submit(partial(self._run_checks, few, checks))

    def _run_checks(self, few: list[PageCheck], left: deque[PageCheck]) -> None:
        """In the sync thread."""
        try:
            failures = failures_of(few)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the node hears of it and stops
            self._loop.call_soon_threadsafe(self._thread_failed, "the check of stored pages", error)
        else:
            self._loop.call_soon_threadsafe(self._verified, failures, left)

    def _verified(self, failures: list[tuple[PageCheck, Exception]], left: deque[PageCheck]) -> None:
        for check, error in failures:
            if check.is_needed:
                log.critical("a queue's page cannot be read: %s. The node stops", error)
                self.fail(error)
                return
        self._loop.call_later(VERIFY_PAUSE_S, self.verify, left)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Bring everything to the disk."""
        while not self.failed.done():
            if self._job is None:
                self._sync(may_block=False)
            if self._job is None:
                return
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle, self.failed], return_when=asyncio.FIRST_COMPLETED)
            self._idle = None

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """The collector of cycles begins a run, or has ended it."""
        if phase == "start":
            self._collection_began = monotonic()
        elif self._timings is not None:
            self._timings.since("collector", self._collection_began)

    def stop_threads(self) -> None:
        """End the threads, and the turns with them: what the loop still calls finds that all is over."""
        self._is_over = True
        self.readiness.close()
        if self._timings is not None:
            gc.callbacks.remove(self._collected)
        self._checker.shutdown(wait=True, cancel_futures=True)
        self._filer.shutdown(wait=True, cancel_futures=True)
        self._syncer.stop()


