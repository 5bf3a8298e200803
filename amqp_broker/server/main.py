"""serve: a node on real sockets, a real disk and a real clock, until SIGTERM.

    sockets bound -> folder locked -> recovered -> links to other members -> ready: what the cluster knows is known
    -> clients let in, `ready` printed -> the management process is started -> SIGTERM -> leaderships handed over
    -> clients closed -> everything on the disk
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from amqp_broker.connection.connection import connections_of
from amqp_broker.management.node_facts import AMQPS, CLUSTERING, ListenerFacts
from amqp_broker.node import Node
from amqp_broker.server.certificates import shown_at
from amqp_broker.server.cluster_side import ClusterSide
from amqp_broker.server.collector import start_collector
from amqp_broker.server.descriptors import raise_limit
from amqp_broker.server.driver import Driver, started_thread
from amqp_broker.server.heap import keep_room
from amqp_broker.server.listener import Listener, TlsListener
from amqp_broker.server.management_process import ManagementProcess
from amqp_broker.server.reloading import Reloading, use_log
from amqp_broker.server.repeated_lines import PERIOD_S, RepeatedLines
from amqp_broker.server.service_manager import ServiceManager
from amqp_broker.server.sockets import OWN_HOSTS, address_of, bind_all, facts_of
from amqp_broker.server.supervisor import is_supervised, supervise
from amqp_broker.server.tls import tls_context
from amqp_broker.server.verification import verify_at_start
from amqp_broker.server.worker import WorkerListeners, WorkerSide, of_worker
from amqp_broker.settings.config import is_loopback
from amqp_broker.settings.kinds import Address, show_size
from amqp_broker.settings.log_format import formatter
from amqp_broker.settings.setting import ConfigError
from amqp_broker.version import __version__
from raft.errors import FolderGivenUp
from storage.disk import FileDisk
from storage.errors import StorageError

if TYPE_CHECKING:
    import socket
    import ssl
    from collections import deque
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from amqp_broker.resources.page_check import PageCheck
    from amqp_broker.server.worker import Seat
    from amqp_broker.settings.config import Config

log = logging.getLogger("amqp_broker.server")

#: Python's own default of 5 ms would make the sync thread wait that long for a busy loop.
_SWITCH_INTERVAL_S = 0.0001
#: How often it is looked whether the node is ready, seconds; and the first and the longest time between two lines that
#: say what it waits for.
_LOOK_S = 0.02
#: What to do about a file of load_definitions that cannot be taken over.
_WAY_OUT = "correct the file or leave load_definitions out"
#: Hosts that stand for all of the machine's, and where this machine reaches them.
_LOOPBACK_FREE_PORT = Address("127.0.0.1", 0)
#: What the node's own user logs in with.
_TOKEN_OCTETS = 32
_FIRST_WORD_S = 1.0
_LONGEST_SILENCE_S = 10.0


def serve(config: Config, read_again: Callable[[], Config]) -> int:
    """Run until SIGTERM or SIGINT; where there are to be several workers, each of them returns from here too.
    read_again: the settings as they are when SIGHUP comes; raises ConfigError. Returns the exit status. Raises
    StorageError, ConfigError, OSError before a client is let in; FolderGivenUp at any time."""
    handler, lines = start_logging(config)
    try:
        if is_supervised(config):
            outcome = supervise(config, partial(_reload_log, read_again, handler))
            if isinstance(outcome, int):
                return outcome
            return _serve(outcome.config, read_again, handler, lines, outcome)
        return _serve(config, read_again, handler, lines)
    finally:
        lines.say_all(time.time())


def _reload_log(read_again: Callable[[], Config], handler: logging.Handler) -> None:
    """SIGHUP, for a process that serves no clients: its log is as the settings say now."""
    try:
        wanted = read_again()
    except (ConfigError, OSError) as error:
        log.error("SIGHUP: the log of the supervisor stays as it is: %s", error)
        return
    use_log(wanted, handler)
    log.info("SIGHUP: the log of the supervisor has log_level %s, log_format %s", wanted.log_level, wanted.log_format)


def start_logging(config: Config) -> tuple[logging.Handler, RepeatedLines]:
    """What all loggers of the program say goes to standard error, and no line of it too often."""
    # No line says where in the code it comes from, or out of which thread. To find that out for the two lines of a
    # connection takes a fifth of all that it costs to open and to close one.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(config.log_format))
    lines = RepeatedLines(handler.emit)
    handler.addFilter(lines)
    logging.basicConfig(level=config.log_level.upper(), handlers=[handler])
    return handler, lines


def _serve(
    config: Config,
    read_again: Callable[[], Config],
    handler: logging.Handler,
    lines: RepeatedLines,
    seat: Seat | None = None,
) -> int:
    raise_limit()
    use_log(config, handler)
    manager = ServiceManager(os.environ)
    token = secrets.token_hex(_TOKEN_OCTETS)
    management = ManagementProcess(config) if seat is None else seat.management
    listeners: Listeners | WorkerListeners
    if seat is None:
        listeners = Listeners(config, has_own=management.is_wanted)
        cluster = ClusterSide(config)
    else:
        cluster = side = WorkerSide(seat)
        listeners = WorkerListeners(seat, side)
    reader, rewriter = started_thread("read"), started_thread("rewrite")
    disk = FileDisk(config.data_dir, background=reader.submit, rewriting=rewriter.submit)
    disk.lock()
    try:
        config = cluster.settle(disk)
        _log_start(config, listeners)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        keep_room()
        now = int(time.time() * 1000)
        node = Node(config, disk, now, secrets.token_bytes, token)
        facts = node.facts
        facts.runs_as(os.getpid(), str(config.data_dir.absolute()))
        facts.shows(AMQPS, shown_at(listeners.facts(), config.tls_certificate, config.tls_client_ca))
        links = [ListenerFacts(CLUSTERING, *each, tls=True) for each in config.cluster_listen if config.cluster_cert]
        facts.shows(CLUSTERING, shown_at(links, config.cluster_cert, config.cluster_ca))
        cluster.prepare(node.acquaintances)
        # A million recovered objects hold no cycles: looking for some would take most of the start.
        gc.disable()
        node.recover(now)
        unverified = verify_at_start(node.take_page_checks(), config.verify_at_start_bytes)
        start_collector()
        again = read_again if seat is None else lambda: of_worker(read_again(), config)
        reloading = Reloading(config, again, handler, listeners.use, node.audit, facts)
        run = Run(config, node, disk, listeners, cluster, lines, management, token, reloading, manager)
        return _in_loop(run.until_stopped(unverified))
    finally:
        management.close_sockets()
        cluster.close_sockets()
        listeners.close_sockets()
        reader.shutdown(cancel_futures=True)
        rewriter.shutdown(cancel_futures=True)
        disk.close()


def _in_loop(main: Coroutine[object, object, int]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class Listeners:
    """Where clients come in. Made, the sockets are bound, and nobody else listens there; nobody is let in before
    `open`. has_own: there is one of this machine among them, for who belongs to the node."""

    def __init__(self, config: Config, has_own: bool = False) -> None:
        self._config = config
        self._context = tls_context(config) if config.tls_listen else None
        self._own: list[socket.socket] = []
        self._plain = bind_all(config.listen, "--listen")
        self._secure = bind_all(config.tls_listen, "--tls-listen")
        if has_own and self.own_address() is None:
            self._own = bind_all((_LOOPBACK_FREE_PORT,), "--management-listen")
        self._listeners: list[Listener] = []
        self._tls: list[TlsListener] = []
        self._has_opened = False

    def open(self, driver: Driver) -> str:
        """Let clients in. Returns the URL of the first address."""
        self._has_opened = True
        loop, config = asyncio.get_running_loop(), self._config
        for listener in (*self._plain, *self._own):
            self._listeners.append(Listener(driver, loop, listener, config.listen_backlog))
        for listener in self._secure:
            self._tls.append(TlsListener(driver, loop, listener, config.listen_backlog, self._context))
        self._listeners += self._tls
        return self.urls()[0]

    def when_serving(self, then: Callable[[], None]) -> None:
        """Call `then` once the whole node is ready."""
        then()

    def use(self, context: ssl.SSLContext) -> None:
        """Handshakes of TLS that begin from now on are made with this one."""
        self._context = context
        for listener in self._tls:
            listener.use(context)

    def urls(self) -> list[str]:
        """Where clients come in, once it is opened."""
        plain = [f"amqp://{address_of(each)}" for each in self._plain]
        return plain + [f"amqps://{address_of(each)}" for each in self._secure]

    def own_address(self) -> Address | None:
        """Where this machine reaches the node without leaving it."""
        for each in (*self._plain, *self._own):
            address = address_of(each)
            if is_loopback(address.host) or address.host in OWN_HOSTS:
                return Address(OWN_HOSTS.get(address.host, address.host), address.port)
        return None

    def facts(self) -> tuple[ListenerFacts, ...]:
        """Where it listens."""
        return facts_of(self._plain, self._secure)

    def close(self) -> None:
        """Let nobody in any more."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()

    def close_sockets(self) -> None:
        """The end of doors that were never opened. The sockets of others are their listeners' to close."""
        if not self._has_opened:
            for listener in (*self._plain, *self._secure, *self._own):
                listener.close()


class Run:
    """A recovered node on a loop, from its first turn to its last."""

    def __init__(
        self,
        config: Config,
        node: Node,
        disk: FileDisk,
        listeners: Listeners | WorkerListeners,
        cluster: ClusterSide,
        lines: RepeatedLines,
        management: ManagementProcess,
        token: str,
        reloading: Reloading,
        manager: ServiceManager,
    ) -> None:
        self._reloading = reloading
        self._manager = manager
        self._lines = lines
        self._management = management
        self._token = token
        self._config = config
        self._node = node
        self._facts = node.facts
        self._audit = node.audit
        self._system = node.system
        self._disk = disk
        self._listeners = listeners
        self._cluster = cluster
        self._stop = asyncio.Event()

    async def until_stopped(self, unverified: deque[PageCheck]) -> int:
        """Returns the exit status. Raises FolderGivenUp; StorageError, OSError before a client is let in."""
        loop, config = asyncio.get_running_loop(), self._config
        driver = self._driver = Driver(self._node, config, loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reloading.begin)
        if config.exit_with_parent:
            loop.add_reader(0, _watch_parent, self._stop)
        self._say_repeated(loop)
        try:
            await self._cluster.start(self._node, driver, self._disk)
            driver.wants_turn()
            is_ready = await self._get_ready(unverified)
            if is_ready:
                self._facts.listens(self._listeners.facts())
                self._audit.record_own("node.start", details={"version": __version__})
                url = self._listeners.open(driver)
                if url:
                    _say(f"ready {url}")
                self._manager.ready(loop)
                self._listeners.when_serving(self._start_management)
                await self._end()
            await self._leave()
            if self._management.is_running:
                await asyncio.to_thread(self._management.stop)
        finally:
            await self._cluster.close()
            driver.stop_threads()
            self._audit.close()
        failure = driver.failed.exception() if driver.has_failed else None
        if failure is None and self._cluster.is_over and not self._cluster.is_released:
            raise FolderGivenUp(self._cluster.why_over)
        if failure is None:
            if is_ready:
                try:
                    self._system.close()
                except Exception:  # a defect there is no reason to call a clean stop a failure
                    log.exception("counters were not written at the end: they go on from the last file")
            return 0
        if not is_ready and isinstance(failure, StorageError):
            raise failure
        log.critical("stopped: %s", failure)
        return 1

    def _say_repeated(self, loop: asyncio.AbstractEventLoop) -> None:
        """What was counted of a line is said also when nothing else is."""
        self._lines.say(time.time())
        loop.call_later(PERIOD_S, self._say_repeated, loop)

    async def _get_ready(self, unverified: deque[PageCheck]) -> bool:
        """Wait until the node may serve clients. False: it is to stop before that."""
        node, driver = self._node, self._driver
        is_late = not node.is_ready
        if is_late and not await self._wait(self._cluster.describe_wait, lambda: node.is_ready):
            return False
        if is_late:
            # Others rely on this node already, so the loop goes on meanwhile.
            checks, limit = node.take_page_checks(), self._config.verify_at_start_bytes
            try:
                unverified = await asyncio.to_thread(verify_at_start, checks, limit)
            except RuntimeError:  # there is no thread to be had
                unverified = verify_at_start(checks, limit)
            gc.freeze()
        driver.verify(unverified)
        return self._config.load_definitions is None or await self._load(self._config.load_definitions)

    async def _load(self, path: Path) -> bool:
        """Setting load_definitions: what the file has and the node has not. False: the node is to stop before that is
        done. Raises OSError, StorageError."""
        task = self._system.take_over(_read_definitions(path))
        self._driver.wants_turn()
        if not await self._wait(lambda: "waiting for load_definitions", lambda: task.is_done):
            return False
        if task.error is not None:
            raise StorageError(f"{path}: {task.error}; {_WAY_OUT}")
        for note in task.result["notes"]:
            log.warning("definitions of %s: %s", path, note)
        if task.result["commands"]:
            self._audit.record_own("definitions.import", str(path), {"commands": task.result["commands"]})
        return True

    async def _end(self) -> None:
        """Wait until the node is to stop."""
        with self._ends() as ends:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def _ends(self) -> Iterator[list[asyncio.Task[Literal[True]] | asyncio.Future[None]]]:
        """Done when somebody stops the node, when its cluster has no use for it any more, or when it has failed."""
        asked = [asyncio.ensure_future(each.wait()) for each in (self._stop, self._cluster.over)]
        try:
            yield [*asked, self._driver.failed]
        finally:
            for each in asked:
                each.cancel()

    async def _wait(self, describe: Callable[[], str], condition: Callable[[], bool]) -> bool:
        """Wait for something that comes soon; say now and then what it is. False: the node is to stop before."""
        told_at, pause_s = time.monotonic() + _FIRST_WORD_S, _FIRST_WORD_S
        with self._ends() as ends:
            while not condition():
                done, _ = await asyncio.wait(ends, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    return False
                if time.monotonic() >= told_at:
                    log.info("%s", describe())
                    self._manager.waits(describe())
                    pause_s = min(2 * pause_s, _LONGEST_SILENCE_S)
                    told_at = time.monotonic() + pause_s
        return True

    def _start_management(self) -> None:
        address = self._listeners.own_address()
        if address is not None:
            self._management.start(address, self._token, _say)

    async def _leave(self) -> None:
        """Part from clients and members, in peace if the node has not failed."""
        self._facts.ends()
        self._audit.record_own("node.stop")
        self._manager.stops()
        self._management.tell_to_stop()
        self._listeners.close()
        if self._driver.has_failed:
            return
        await self._cluster.hand_over()
        await self._close_connections()
        await self._cluster.say_the_rest()
        await self._driver.flush()

    async def _close_connections(self) -> None:
        """Close all clients with 320 and give them a moment to answer."""
        config, node, driver = self._config, self._node, self._driver
        closing = node.shut_down(driver.now())
        driver.wants_turn()
        deadline = time.monotonic() + config.shutdown_timeout_ms / 1000
        # Clients leave one by one, and nothing goes on but the end: not worth an event of the node's.
        clients = node.clients
        while clients.connections and time.monotonic() < deadline and not driver.has_failed:
            if not closing.is_done:  # the moment begins when the last has been told
                deadline = time.monotonic() + config.shutdown_timeout_ms / 1000
            await asyncio.sleep(0.01)
        for connection in connections_of(clients.all()):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)


def _say(line: str) -> None:
    """On standard output, where who started the broker reads it. Clients do not depend on that, so it goes on where
    nobody can."""
    try:
        os.write(1, f"{line}\n".encode())
    except OSError as error:
        log.warning("standard output cannot be written (%s), so it is said here: %s", error.strerror, line)


def _log_start(config: Config, listeners: Listeners | WorkerListeners) -> None:
    """What somebody who reads the log of a stranger's broker asks first."""
    is_plain = (sys.modules[Node.__module__].__file__ or "").endswith(".py")
    modules = "plain modules (without a C compiler: slower)" if is_plain else "compiled modules"
    log.info("amqp-broker %s, %s, Python %s, process %d", __version__, modules, sys.version.split()[0], os.getpid())
    log.info("data folder %s", config.data_dir.absolute())
    log.info("listening on %s", ", ".join(listeners.urls()))
    log.info(
        "limits: %d file descriptors, memory_budget %s, disk_free_limit %s, max_connections %d",
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        show_size(config.memory_budget_bytes),
        show_size(config.disk_free_limit_bytes),
        config.max_connections,
    )


def _read_definitions(path: Path) -> object:
    """What the file of load_definitions says. Raises OSError, StorageError."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise StorageError(f"{path}: {error}; {_WAY_OUT}") from None


def _watch_parent(stop: asyncio.Event) -> None:
    """Standard input is at its end: the parent that started this broker is gone."""
    if not os.read(0, 4096):
        asyncio.get_running_loop().remove_reader(0)
        stop.set()
