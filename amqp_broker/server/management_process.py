"""The management process: started beside a node that is ready, watched, and started again when it has ended.

It is a client of the node like any other, so that its end, or its standing still, is no concern of the node's. The
sockets are bound here: a port that is taken is one line of the log, and who connects while the process is started anew
waits, and is not refused.

Invariants:
1. Nothing of it holds the node up: it is started when clients are let in, and a thread of its own waits for its end.
2. The token by which it logs in is in its environment, never among its arguments.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote

from amqp_broker.auth.session import SERVICE_USER
from amqp_broker.server.sockets import address_of, bind_all

if TYPE_CHECKING:
    import socket

    from amqp_broker.settings.config import Config
    from amqp_broker.settings.kinds import Address

log = logging.getLogger("amqp_broker.server")

_NEEDS = ("msgspec", "starlette", "uvicorn")
_READY = b"ready\n"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0
#: Who lived so long is not failing all the time.
_STEADY_S = 60.0
_END_S = 3.0


class ManagementProcess:
    """Made, its sockets are bound, as far as they are free. say: what is told when the API answers."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._token = ""
        missing = [name for name in _NEEDS if find_spec(name) is None]
        if missing and (config.management_listen or config.prometheus_listen):
            log.warning("no management: %s missing; pip install 'warrenmq[management]'", ", ".join(missing))
        self._api = [] if missing else _bind(config.management_listen, "--management-listen")
        self._prometheus = [] if missing else _bind(config.prometheus_listen, "--prometheus-listen")
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to serve."""
        return bool(self._api or self._prometheus)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and `stop` has not seen its end."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, node: Address, token: str, say: Callable[[str], None]) -> None:
        """The node is at this address of this machine, and lets in who has this token."""
        if self.is_wanted:
            self._token = token
            thread = threading.Thread(target=self._watch, args=(node, say), name="management", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # there is no thread to be had
                log.warning("no management: %s", error)
            else:
                self._thread = thread

    def tell_to_stop(self) -> None:
        """It ends soon, and is not started again."""
        self._stopping.set()
        with self._guard:
            if self._process is not None:
                self._process.terminate()

    def stop(self) -> None:
        """Wait for its end, but not for long."""
        self.tell_to_stop()
        process = self._process
        if process is not None:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:  # it may stand still
                process.kill()
        if self._thread is not None:
            self._thread.join(_END_S)
        self.close_sockets()

    def close_sockets(self) -> None:
        for each in (*self._api, *self._prometheus):
            each.close()

    def _watch(self, node: Address, say: Callable[[str], None]) -> None:
        is_told, pause_s = False, _FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                status, is_told = self._run(node, say, is_told)
            except OSError as error:
                status = error.strerror or str(error)
            if self._stopping.is_set():
                return
            if time.monotonic() - began > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("the management process has ended (%s); it is started again in %.1f s", status, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _run(self, node: Address, say: Callable[[str], None], is_told: bool) -> tuple[str, bool]:
        """One life of it. Raises OSError."""
        with self._guard:
            if self._stopping.is_set():
                return "stopped", is_told
            self._process = process = self._started(node)
        assert process.stdout is not None
        assert process.stdin is not None
        for line in process.stdout:
            if line == _READY and not is_told and self._api:
                say(f"management http://{address_of(self._api[0])}/")
                is_told = True
        status = process.wait()
        process.stdout.close()
        process.stdin.close()
        return f"status {status}", is_told

    def _started(self, node: Address) -> subprocess.Popen[bytes]:
        vhost = quote(self._config.default_vhost, safe="", errors="surrogateescape")
        url = f"amqp://{SERVICE_USER}:{self._token}@{node}/{vhost}"
        command = [sys.executable, "-P", "-m", "amqp_broker", "management", "--exit-with-parent"]
        command.append(f"--statistics-objects={self._config.statistics_objects}")
        command.append(f"--list-rows={self._config.management_list_rows}")
        command.append(f"--allowed-hosts={','.join(_own_names(self._config))}")
        command += [f"--sockets={_numbers(self._api)}", f"--prometheus-sockets={_numbers(self._prometheus)}"]
        return subprocess.Popen(
            [*command, f"--log-level={self._config.log_level}", f"--log-format={self._config.log_format}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"AMQP_BROKER_MANAGEMENT_URL": url},
            pass_fds=[each.fileno() for each in (*self._api, *self._prometheus)],
            process_group=0,  # Ctrl-C is for the broker, which then ends it
        )


def _own_names(config: Config) -> tuple[str, ...]:
    """By which it may be asked: those that are allowed, and those that it was told to listen on."""
    return (*config.management_allowed_hosts, *(each.host for each in config.management_listen))


def _numbers(sockets: list[socket.socket]) -> str:
    return ",".join(str(each.fileno()) for each in sockets)


def _bind(addresses: tuple[Address, ...], flag: str) -> list[socket.socket]:
    """Those that are free; the others are said, and done without."""
    found: list[socket.socket] = []
    for address in addresses:
        try:
            found += bind_all((address,), flag)
        except OSError as error:
            log.warning("%s: %s; the broker goes on without it", error.filename, error.strerror)
    return found
