"""The brokers under test, each started on loopback with a data folder of its own and stopped afterwards.

Ours is started as a user starts it; RabbitMQ is Debian's package, run from its own files under a node name,
ports and a port mapper of its own, so that a RabbitMQ that is already running is neither used nor disturbed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from amqp_broker.bench.link import Link, LinkError
from amqp_broker.bench.target import Target, parse_target

ROOT = Path(__file__).resolve().parent.parent
READY = "ready amqp://"
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.002
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PROCESSOR_CLOCK = 2  # of a process: Linux makes its clock's number from this and the process's


class BrokerError(Exception):
    """A broker that is missing or does not start: one line with the way out."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker: its name and version, where it listens, its process, how long it took to be ready; and the
    processes of the other nodes, where it is the first of a cluster."""

    name: str
    version: str
    target: Target
    pid: int
    start_seconds: float
    others: tuple[int, ...] = ()

    def memory_bytes(self) -> int:
        """Resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BrokerError(f"{self.name} (process {self.pid}) is gone")

    def cpu_seconds(self) -> float:
        """Processor time that all its nodes have used so far."""
        return sum(cpu_seconds_of(pid) for pid in (self.pid, *self.others))


def cpu_seconds_of(pid: int) -> float:
    """Processor time that a process has used so far, user and system, all threads, those that have ended too. It is the
    scheduler's own clock: what runs for less than a tick at a time is billed by ticks as chance has it."""
    return time.clock_gettime(~pid << 3 | PROCESSOR_CLOCK)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="broker-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_command(data_dir: Path, flags: Sequence[str] = ()) -> list[str]:
    """The command that serves our broker from `data_dir` on a free port; its management is off unless flags have it."""
    serve = [sys.executable, "-P", "-m", "amqp_broker", "serve"]
    if not any(flag.startswith("--management-listen") for flag in flags):
        serve += ["--management-listen=off", "--prometheus-listen=off"]
    return [*serve, "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), *flags]


def own_environment(plain: bool = False) -> dict[str, str]:
    """The environment of our broker: the sources beside this folder, compiled or plain."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_")}
    chosen = {"AMQP_BROKER_PLAIN": "1"} if plain else {}
    return {**inherited, "PYTHONPATH": str(ROOT), **chosen}


@contextmanager
def own_broker(
    data_dir: Path,
    flags: Sequence[str] = (),
    plain: bool = False,
    wrapper: Sequence[str] = (),
    ending: signal.Signals = signal.SIGTERM,
) -> Iterator[Broker]:
    """Our broker on `data_dir`, ended with a signal; after SIGTERM its status must be 0.

    `wrapper` is put before its command.
    """
    log = data_dir.with_name(data_dir.name + ".log")
    begin = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*wrapper, *own_command(data_dir, flags)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=own_environment(plain),
        )
    try:
        url = read_ready_line(process, log)
        seconds = time.monotonic() - begin
        name = "amqp-broker (plain)" if plain else "amqp-broker"
        target = parse_target(url)
        yield Broker(name, version_of(target), target, process.pid, seconds)
    finally:
        end(process, ending)
    if ending == signal.SIGTERM and process.returncode != 0:
        raise BrokerError(f"our broker ended with status {process.returncode}: {last_lines(log)}")


@contextmanager
def floor_broker() -> Iterator[Broker]:
    """The floor of benchmarks/floor.py in a process of its own."""
    begin = time.monotonic()
    command = [sys.executable, "-P", "-m", "benchmarks.floor"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_environment())
    try:
        target = parse_target(read_ready_line(process))
        yield Broker("floor", version_of(target), target, process.pid, time.monotonic() - begin)
    finally:
        end(process, signal.SIGKILL)


@contextmanager
def foreign_broker(name: str, version: str, command: Sequence[str], port: int, log: Path) -> Iterator[Broker]:
    """Another project's program, which is ready when it takes connections on this port of loopback; what it says goes
    to `log`. Raises BrokerError."""
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True)
    try:
        while not listens(port):
            if process.poll() is not None or time.monotonic() > begin + READY_SECONDS:
                raise BrokerError(f"{name} did not become ready: {last_lines(log)}")
            time.sleep(POLL_SECONDS)
        yield Broker(name, version, Target(port=port), process.pid, time.monotonic() - begin)
    finally:
        end(process, signal.SIGTERM)


def listens(port: int) -> bool:
    """Whether somebody takes connections on this port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def read_ready_line(process: subprocess.Popen[str], log: Path | None = None) -> str:
    """The URL that a process prints once it accepts clients."""
    if process.stdout is None:
        raise ValueError("the broker's standard output is not a pipe")
    for line in process.stdout:
        if line.startswith(READY):
            return line.split()[1]
    raise BrokerError(f"{process.args!r} did not become ready: {last_lines(log) if log else 'it keeps no log'}")


def last_lines(log: Path) -> str:
    """The end of a log, as one line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return " | ".join(lines[-3:]) or "its log is empty"


def end(process: subprocess.Popen[str], ending: signal.Signals = signal.SIGTERM) -> None:
    """Ask it to end, and kill one that does not in time."""
    process.send_signal(ending)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def version_of(target: Target) -> str:
    """What the broker says of itself in connection.start."""
    with Link(target, "benchmark") as link:
        return str(link.server_properties.get("version", "unknown"))


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_rabbitmq() -> None:
    """Raises BrokerError, with the way out, where RabbitMQ is not installed."""
    if not RABBITMQ_SCRIPT.exists():
        raise BrokerError(
            "RabbitMQ is not installed, so there is nothing to compare with: apt-get install rabbitmq-server"
        )


@contextmanager
def rabbitmq_broker(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Debian's RabbitMQ with its data in `folder`, without plugins, as it is configured by default; or with the
    environment that `rabbitmq_environment` has made."""
    check_rabbitmq()
    environment = environment or rabbitmq_environment(folder)
    begin = time.monotonic()
    log = folder / "start.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(RABBITMQ_SCRIPT)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
            env=environment,
            start_new_session=True,
        )
    try:
        target = Target(port=int(environment["RABBITMQ_NODE_PORT"]))
        version = wait_for(process, target, log)
        pid = int(Path(environment["RABBITMQ_PID_FILE"]).read_text(encoding="ascii"))
        yield Broker("RabbitMQ", version, target, pid, time.monotonic() - begin)
    finally:
        # The script waits for the node that it has started: the whole session is told to go.
        os.killpg(process.pid, signal.SIGTERM)
        end(process)
        subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)


def rabbitmq_environment(folder: Path) -> dict[str, str]:
    """Writes the configuration of a node of its own into `folder`; the environment that makes RabbitMQ use
    it.
    """
    port, distribution, mapper = free_port(), free_port(), free_port()
    for name in ("home", "mnesia", "log"):
        (folder / name).mkdir(parents=True)
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n", encoding="ascii")
    (folder / "plugins").write_text("[].\n", encoding="ascii")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")}
    own: Mapping[str, object] = {
        "HOME": folder / "home",  # the Erlang cookie is made there
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": mapper,
        "RABBITMQ_NODENAME": f"benchmark-{os.getpid()}-{port}@localhost",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": distribution,
        "RABBITMQ_MNESIA_BASE": folder / "mnesia",
        "RABBITMQ_LOG_BASE": folder / "log",
        "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
        "RABBITMQ_CONF_ENV_FILE": folder / "none",
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
        "RABBITMQ_PID_FILE": folder / "pid",
    }
    return {**inherited, **{name: str(value) for name, value in own.items()}}


def wait_for(process: subprocess.Popen[str], target: Target, log: Path) -> str:
    """The broker's version, as soon as it answers."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return version_of(target)
        except LinkError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokerError(f"RabbitMQ did not become ready ({error}): {last_lines(log)}") from error
            time.sleep(0.2)
