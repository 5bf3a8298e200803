"""Which broker the tests talk to: a real RabbitMQ, a running broker of ours, or one that is started here as a
child process.

`RABBITMQ_URL` names a RabbitMQ (so that the tests themselves are known to be right), `AMQP_BROKER_URL` a
running broker of ours; with neither, `python -P -m amqp_broker serve` is started on a free port with a
temporary data folder. `RABBITMQ_CTL` is the rabbitmqctl command that belongs to `RABBITMQ_URL`; tests that
set up users or restart the broker need it.

It must not import the broker: what is tested is the program, as a user runs it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROJECT_ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
READY = "ready amqp://"


class BrokerFailed(AssertionError):
    """The broker's process did not start, or did not stop, as it promises."""


class Unavailable(Exception):
    """What a test needs cannot be done with the broker under test; the text is the reason to skip."""


@dataclass(frozen=True)
class BrokerUnderTest:
    """A reachable broker: its URL, whether it is RabbitMQ, and the rabbitmqctl command (empty for ours)."""

    url: str
    is_rabbitmq: bool
    ctl: str = ""


class Restartable(Protocol):
    """A broker that a test may stop and start again on the same address and data."""

    url: str

    def stop(self) -> None: ...
    def start(self) -> None: ...


class BrokerProcess:
    """Our broker as a child process; `stop` and `start` keep its port and its data folder."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        self.url = ""
        self.folder = folder
        self._flags = flags
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait for its `ready` line; raises BrokerFailed with what it wrote to stderr."""
        log = self.folder / "broker.log"
        command = [
            sys.executable, "-P", "-m", "amqp_broker", "serve",
            "--management-listen=off", "--prometheus-listen=off", "--listen", self._listen,
        ]
        command += ["--data-dir", str(self.folder / "data"), *self._flags]
        path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as stderr:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": path},
            )
        address = _await_ready(process)
        if address is None:
            process.kill()
            process.wait()
            tail = log.read_text(errors="replace")[-4000:]
            raise BrokerFailed(f"no line beginning with {READY!r} came from {' '.join(command)}; stderr was:\n{tail}")
        self._process = process
        self._listen = address
        self.url = f"amqp://guest:guest@{address}/"

    def stop(self) -> None:
        """SIGTERM; raises BrokerFailed unless it ends with status 0."""
        status = self._end(signal.SIGTERM)
        if status != 0:
            tail = (self.folder / "broker.log").read_text(errors="replace")[-4000:]
            raise BrokerFailed(
                f"SIGTERM ended the broker with status {status} where 0 is promised; stderr was:\n{tail}"
            )

    def kill(self) -> None:
        """SIGKILL: what was not synced is lost."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(f"the broker did not end within {STOP_TIMEOUT_S} s of {number.name}") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()


def _await_ready(process: subprocess.Popen[bytes]) -> str | None:
    """HOST:PORT from the ready line, or None when the process ends or the time is over."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_TIMEOUT_S
    received = b""
    while (remaining := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], remaining)[0]:
            return None
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            return None
        received += piece
        for line in received.decode(errors="replace").splitlines(keepends=True):
            if line.startswith(READY) and line.endswith("\n"):
                return line[len(READY) :].split()[0].rstrip("/")
    return None


class RabbitMQApplication:
    """A RabbitMQ whose application is stopped and started with rabbitmqctl: all its connections end, durable
    data stays.
    """

    def __init__(self, url: str, ctl: str) -> None:
        self.url = url
        self._ctl = ctl

    def stop(self) -> None:
        run_ctl(self._ctl, "stop_app")

    def start(self) -> None:
        run_ctl(self._ctl, "start_app")


def run_ctl(ctl: str, *arguments: str) -> str:
    """One rabbitmqctl command; raises BrokerFailed with its output when it fails."""
    done = subprocess.run([*ctl.split(), *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise BrokerFailed(f"{ctl} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def broker_under_test() -> Iterator[BrokerUnderTest]:
    """The broker that the environment names, or one of our own that lives as long as the context."""
    if url := os.environ.get("RABBITMQ_URL"):
        yield BrokerUnderTest(url, is_rabbitmq=True, ctl=os.environ.get("RABBITMQ_CTL", ""))
        return
    if url := os.environ.get("AMQP_BROKER_URL"):
        yield BrokerUnderTest(url, is_rabbitmq=False)
        return
    # Whoever has broken the order of frames cannot be heard any more: its end is waited for, each time.
    with own_process("--closing-timeout=2s") as process:
        yield BrokerUnderTest(process.url, is_rabbitmq=False)


@contextmanager
def own_process(*flags: str) -> Iterator[BrokerProcess]:
    """A broker of ours with a temporary data folder and these flags; it must end with status 0."""
    with tempfile.TemporaryDirectory(prefix="broker-under-test-") as folder:
        process = BrokerProcess(Path(folder), flags)
        process.start()
        try:
            yield process
        finally:
            process.stop()


@contextmanager
def restartable_broker() -> Iterator[Restartable]:
    """A broker that may be stopped and started: a child process of its own, or the RabbitMQ under test.

    Stopping RabbitMQ ends every connection to it, so against RabbitMQ such tests must not run in parallel
    with others. Raises Unavailable when RabbitMQ cannot be controlled from here.
    """
    url = os.environ.get("RABBITMQ_URL")
    if not url:
        with own_process() as process:
            yield process
        return
    ctl = os.environ.get("RABBITMQ_CTL")
    if not ctl:
        raise Unavailable("set RABBITMQ_CTL to the rabbitmqctl command of this RabbitMQ: the test restarts it")
    application = RabbitMQApplication(url, ctl)
    try:
        yield application
    finally:
        application.start()
