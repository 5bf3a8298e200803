"""A broker of one's own in a child process: `with running() as broker:` and `async with running() as
broker:`.

The child is started with an isolated module path, so that the caller's own modules named `queues` or
`storage` are never imported by it, and a caller never imports ours. This module uses the standard library and
the settings only; it speaks no AMQP.

The child goes with its parent, however the parent ends: it watches its standard input, a pipe that only the
parent holds open, and stops at its end. (A death signal set by the child would be simpler, but the kernel
sends it when the *thread* that started the child ends.) A forked copy of the parent closes its copy of the
pipe.

Invariants:
1. `start` returns when the broker accepts clients, or raises BrokerStartError with the child's own words.
2. Whoever forks the caller's process does not become an owner: only the process that started the broker stops
   it.
3. Nothing of the caller's AMQP_BROKER_* environment reaches the child, but AMQP_BROKER_PLAIN.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeAlias
from urllib.parse import quote, urlsplit

from amqp_broker.plain import ROOT
from amqp_broker.settings.config import SETTINGS, TEMPORARY_PREFIX
from amqp_broker.settings.kinds import Address
from amqp_broker.settings.sources import PREFIX, flags_of
from amqp_broker.testing import forked

READY = b"ready "
MANAGEMENT = b"management "
#: Where the HTTP API and the metrics are, if they are wanted: nobody's usual ports.
MANAGEMENT_SETTINGS = ("management_listen", "prometheus_listen")
FREE_PORT = "127.0.0.1:0"
KEPT_VARIABLES = ("AMQP_BROKER_PLAIN",)
READ_BYTES = 65536
STOP_TIMEOUT_S = 15.0
Process: TypeAlias = subprocess.Popen[bytes] | forked.ForkedProcess
SECRETS = {each.key: each for each in SETTINGS if each.is_secret}


class BrokerStartError(RuntimeError):
    """The broker did not become ready.

    `log` is what it wrote; `status` its exit status, None if it was still running.
    """

    def __init__(self, reason: str, status: int | None, log: str) -> None:
        super().__init__(f"the broker did not start: {reason}\n{log.rstrip() or '(its log is empty)'}")
        self.status = status
        self.log = log


class Startable:
    """Something that is started and stopped: a context manager, plain and async."""

    def start(self) -> Self:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio  # here, because the callers that need it have it already

        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)


class RunningBroker(Startable):
    """A broker in a child process; a context manager, plain and async.

    Made by `running`, which documents the arguments.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None,
        start_timeout_s: float,
        settings: Mapping[str, object],
        management: bool = False,
    ) -> None:
        self._wanted_data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._start_timeout_s = start_timeout_s
        self._has_management = management
        self._management_url = ""
        settings = {**dict.fromkeys(MANAGEMENT_SETTINGS, FREE_PORT if management else "off"), **settings}
        self._settings = settings
        self._listen = flags_of({"listen": self._settings.get("listen", FREE_PORT)})[0].partition("=")[2].split(",")
        self._flags = flags_of(
            {key: value for key, value in settings.items() if key != "listen" and key not in SECRETS}
        )
        self._secrets = {SECRETS[key].variable: str(value) for key, value in settings.items() if key in SECRETS}
        self._log: IO[bytes] | None = None
        self._process: Process | None = None
        self._data_dir: Path | None = None
        self._host = ""
        self._port = 0
        self._owner_pid = os.getpid()

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    @property
    def username(self) -> str:
        return str(self._settings.get("default_user", "guest"))

    @property
    def password(self) -> str:
        return str(self._settings.get("default_password", "guest"))

    @property
    def vhost(self) -> str:
        return str(self._settings.get("default_vhost", "/"))

    @property
    def url(self) -> str:
        """amqp://USER:PASSWORD@HOST:PORT/VHOST, percent-encoded as every client understands it."""
        return self.url_of(self.vhost)

    def url_of(self, vhost: str) -> str:
        """The url of another virtual host."""
        user, password = quote(self.username, safe=""), quote(self.password, safe="")
        return f"amqp://{user}:{password}@{Address(self._host, self._port)}/{quote(vhost, safe='')}"

    @property
    def management_url(self) -> str:
        """http://HOST:PORT/ of the HTTP API. Raises RuntimeError where there is none."""
        if not self._management_url:
            raise RuntimeError("this broker has no HTTP API: use running(management=True)")
        return self._management_url

    @property
    def data_dir(self) -> Path:
        if self._data_dir is None:
            raise RuntimeError("the broker has no data folder before it has been started")
        return self._data_dir

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> Process:
        if self._process is None:
            raise RuntimeError("the broker is not running; use it inside `with running() as broker:`")
        return self._process

    @property
    def logs(self) -> str:
        """Everything the broker has logged so far, over restarts too."""
        if self._log is None:
            return ""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode("utf-8", "replace")

    def start(self) -> Self:
        """Starts the broker and waits until it accepts clients. Raises BrokerStartError."""
        self._refuse_twice()
        try:
            self.launch()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def _refuse_twice(self) -> None:
        if self._process is not None:
            raise RuntimeError(f"the broker already runs as process {self._process.pid}")

    def launch(self) -> None:
        """Starts the process, which is not ready yet: `wait_until_ready` has to follow."""
        self._refuse_twice()
        if self._log is None:
            self._log = tempfile.TemporaryFile(prefix="amqp-broker-log-")  # noqa: SIM115 - lives as long as the broker
        if self._data_dir is None:
            self._data_dir = self._wanted_data_dir or Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
        self._launch()

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Waits until the broker accepts clients, for the usual time unless another is given. Raises
        BrokerStartError."""
        timeout_s = self._start_timeout_s if timeout_s is None else timeout_s
        self._host, self._port = self._await_ready(self.process, timeout_s)
        self._listen[0] = str(Address(self._host, self._port))

    def end(self, *, kill: bool = False) -> None:
        """Ends the process as SIGTERM does (kill: as a crash would) and keeps its data: `start` goes on with them."""
        self._end(signal.SIGKILL if kill else signal.SIGTERM)

    def stop(self) -> None:
        """Stops the broker as SIGTERM does (clients see 320) and removes a temporary data folder.

        Harmless when stopped.
        """
        if os.getpid() != self._owner_pid:
            return  # a forked copy of the caller leaves the broker alone
        self._end(signal.SIGTERM)
        if self._wanted_data_dir is None and self._data_dir is not None:
            with suppress(FileNotFoundError):  # a broker whose input has ended has removed it by itself
                shutil.rmtree(self._data_dir)
            self._data_dir = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def restart(self, *, kill: bool = False) -> None:
        """Stops the broker (kill:

        with SIGKILL, as a crash would) and starts it again on the same data and the same port.
        """
        if self._process is None:
            raise RuntimeError("only a running broker can be restarted")
        self.end(kill=kill)
        self._launch()
        self.wait_until_ready()

    def _launch(self) -> None:
        assert self._log is not None
        own = ["--exit-with-parent", f"--data-dir={self.data_dir}", f"--listen={','.join(self._listen)}"]
        if self._wanted_data_dir is None:
            own.append("--data-dir-is-temporary")
        self._process = _started(["serve", *own, *self._flags], self._secrets, self._log, self._start_timeout_s)
        _ALIVE.add(self)

    def _await_ready(self, process: Process, timeout_s: float) -> tuple[str, int]:
        """Host and port from the line that says that the broker accepts clients. With management, a line says where
        that is, and that it answers."""
        lines = self._read_lines(process, 2 if self._has_management else 1, timeout_s)
        line = lines[0]
        words = line.split()
        if self._has_management:
            if not lines[1].startswith(MANAGEMENT):
                raise BrokerStartError(f"it said {lines[1]!r}, not where its HTTP API is", None, self.logs)
            self._management_url = lines[1].removeprefix(MANAGEMENT).decode().strip()
        if not line.startswith(READY) or len(words) < 2:
            raise BrokerStartError(f"it said {line!r}, not that it is ready", None, self.logs)
        address = urlsplit(words[1].decode())
        if address.hostname is None or address.port is None:
            raise BrokerStartError(f"it said {line!r}, without a host and a port", None, self.logs)
        return address.hostname, address.port

    def _read_lines(self, process: Process, count: int, timeout_s: float) -> list[bytes]:
        """The first lines that it says. Raises BrokerStartError."""
        assert process.stdout is not None
        output = bytearray()
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while output.count(b"\n") < count:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise BrokerStartError(f"it was not ready within {timeout_s} s", None, self.logs)
                chunk = os.read(process.stdout.fileno(), READ_BYTES)
                if not chunk:
                    status = process.wait()
                    raise BrokerStartError(f"it ended with status {status}", status, self.logs)
                output += chunk
        return bytes(output).splitlines()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _ALIVE.discard(self)
        process.send_signal(how)  # does nothing if it has ended
        try:
            process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def forget_after_fork(self) -> None:
        """In a forked copy of the caller:

        lets go of the pipe, so that the broker still ends with its real parent.
        """
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()


def running(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    start_timeout_s: float = 30.0,
    management: bool = False,
    **settings: object,
) -> RunningBroker:
    """A broker in a child process, for `with` and `async with`; or call `start` and `stop`.

    `data_dir` is kept; without it the data is temporary. Every setting of Config is a keyword, by its key
    with a text (`memory_budget="64MiB"`, `heartbeat="5s"`) or by its attribute with a number
    (`heartbeat_ms=5000`). It listens on a free port of 127.0.0.1 unless `listen` says otherwise. With `management` it
    has the HTTP API too, whose address is `management_url`. Raises ConfigError for a wrong setting.
    """
    return RunningBroker(data_dir, start_timeout_s, settings, management)


def _started(arguments: list[str], secrets: Mapping[str, str], log: IO[bytes], timeout_s: float) -> Process:
    """The command amqp-broker in a child process. secrets: of its environment, as arguments show in the list of
    processes. timeout_s: of the fork server, which it is started without where that does not answer."""
    if forked.IS_POSSIBLE:
        process = forked.fork(arguments, _environment(), secrets, log, timeout_s)
        if process is not None:
            return process
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "amqp_broker", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_environment() | dict(secrets),
        process_group=0,  # Ctrl-C is for the caller, who then stops the broker
    )


def _environment() -> dict[str, str]:
    """The child's environment:

    the caller's, without its module path and without settings meant for another broker.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and (not name.startswith(PREFIX) or name in KEPT_VARIABLES)
    }
    if ROOT not in [*site.getsitepackages(), site.getusersitepackages()]:
        environment["PYTHONPATH"] = ROOT  # a source tree, or a folder that the caller's own path names
    return environment


_ALIVE: weakref.WeakSet[RunningBroker] = weakref.WeakSet()


def _forget_all_after_fork() -> None:
    forked.forget_after_fork()
    for broker in list(_ALIVE):
        broker.forget_after_fork()


os.register_at_fork(after_in_child=_forget_all_after_fork)
