"""`python -m benchmarks.management_cost`: what the management costs the node, and what it needs itself.

How much a request lengthens a turn of the node; the first page of 100,000 queues; what is remembered of these; the
start of a broker with and without a management process; and whether the node feels that one is killed, stands still,
has 10,000 idle connections, or is asked without a rest. Everything is processor time or memory, which do not depend on
who else uses the machine; `--scale 0.1` makes every amount a tenth, for a quick look.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click

import amqp_broker
from amqp_broker.bench.link import LinkError
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import parse_target
from amqp_broker.client import Connection
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.testing.embedded import RunningBroker
from benchmarks import management_turns
from benchmarks.brokers import end, own_command, own_environment, read_ready_line, temporary_folder
from benchmarks.findings import Finding, run_experiments
from benchmarks.machine import header, page_of, table
from benchmarks.run import run_checked

COLUMNS = ["what", "unit", "found", "limit", ""]
QUEUES, SHOWN, IDLE = 100_000, 10_000, 10_000
#: The bars: of the first page and of the start, of processor time; of what goes on meanwhile, a share.
FIRST_PAGE_MS, START_MS, MOST_SHARE = 50.0, 50.0, 1.0
_ROUNDS = 9
_BATCH = 500
#: So many pairs of runs, at rest and in trouble.
PAIRS, FEW_PAIRS = 7, 5
_LOAD = Scenario(queue="carried", confirm_window=1000, ack_every=100, messages=1_500_000, seconds=0)


def processor_ms(pid: int) -> float:
    """What all threads of a process have used so far, to the nanosecond."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            used += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return used / 1_000_000


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def child_of(pid: int) -> int:
    """The management process. Raises LinkError."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text(encoding="ascii").split():
            return int(child)
    raise LinkError(f"process {pid} has no management process")


def get(broker: RunningBroker, path: str) -> bytes:
    """What the API answers to the administrator."""
    request = urllib.request.Request(broker.management_url.rstrip("/") + path)
    request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=120) as answer:
        said: bytes = answer.read()
    return said


def declare(broker: RunningBroker, count: int) -> None:
    """So many queues, without waiting for each."""
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        for number in range(count):
            waits = number == count - 1 or number % _BATCH == 0
            method = methods.QueueDeclare(0, f"q{number:06}", False, False, False, False, not waits, Table())
            (channel.call if waits else channel.send)(method)


def spent(pid: int, step: Callable[[], object]) -> float:
    """Processor time of a process while something is done, milliseconds."""
    before = processor_ms(pid)
    step()
    return processor_ms(pid) - before


@contextmanager
def broker_with(queues: int) -> Iterator[RunningBroker]:
    """With management and so many queues."""
    with amqp_broker.running(management=True, log_level="error", start_timeout_s=120.0) as broker:
        declare(broker, queues)
        yield broker


def measure_pages(scale: float) -> Iterator[Finding]:
    """The first page of very many queues, and what the process has then remembered."""
    count = int(QUEUES * scale)
    with broker_with(count) as broker:
        child = child_of(broker.process.pid)
        path = "/api/queues?page=1&page_size=100"
        get(broker, path)
        asleep_ms = statistics.median(spent(child, lambda: time.sleep(0.2)) for _ in range(_ROUNDS))
        took = statistics.median(spent(child, lambda: get(broker, path)) for _ in range(_ROUNDS))
        yield Finding(f"first page of {count:,} queues: the management process", "ms", took - asleep_ms, FIRST_PAGE_MS)
        node = statistics.median(spent(broker.process.pid, lambda: get(broker, path)) for _ in range(_ROUNDS))
        yield Finding(f"first page of {count:,} queues: the node", "ms", node)
        before = resident_bytes(child)
        for _ in range(3):
            get(broker, "/api/queues?page=2&page_size=500&sort=messages")
            time.sleep(1.1)
        first = resident_bytes(child)
        for _ in range(3):
            get(broker, "/api/queues?page=3&page_size=500&sort=messages")
            time.sleep(1.1)
        yield Finding("memory of the management process before", "MiB", before / 2**20)
        yield Finding(f"more, when all {count:,} queues were sorted", "MiB", (first - before) / 2**20)
        yield Finding("more, when that was done again", "MiB", (resident_bytes(child) - first) / 2**20, 8)


def started(flags: list[str]) -> tuple[float, float]:
    """Processor time of a broker's process when it says that it is ready, and what the clock says, milliseconds: what
    the management process, which is started then, takes from its caches is another matter."""
    with temporary_folder() as folder:
        log = folder / "log"
        began = time.monotonic()
        with log.open("ab") as errors:
            process = subprocess.Popen(
                own_command(folder / "data", flags),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=own_environment(plain=False),
            )
        try:
            read_ready_line(process, log)
            return processor_ms(process.pid), 1000 * (time.monotonic() - began)
        finally:
            end(process)


def measure_start(scale: float) -> Iterator[Finding]:
    """From the process's begin until clients are let in: processor time of the node, with management and without, in
    turns. Of each the least counts: what others do on the machine can only add to it."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    flags = ["--management-listen=127.0.0.1:0", "--prometheus-listen=127.0.0.1:0"]
    for _ in range(max(3, int(_ROUNDS * scale))):
        for with_management in (False, True):
            found[with_management].append(started(flags if with_management else []))
    (alone, alone_clock), (both, both_clock) = (map(min, zip(*found[each], strict=True)) for each in (False, True))
    yield Finding("start without management", "ms", alone)
    yield Finding("start with management, later by", "ms", both - alone, START_MS)
    yield Finding("the same by the clock", "ms", both_clock - alone_clock)


def measure_requests(scale: float) -> Iterator[Finding]:
    """What the node spends on a scrape a second and a browser on the page of queues."""
    with broker_with(int(SHOWN * scale)) as broker:
        pid, seconds = broker.process.pid, 10
        url = metrics_url(broker)
        alone = spent(pid, lambda: time.sleep(seconds)) / seconds

        def ask() -> None:
            for number in range(seconds):
                until = time.monotonic() + 1
                scrape(url)
                if number % 5 == 0:
                    get(broker, "/api/queues?page=1&page_size=50")
                time.sleep(max(0.0, until - time.monotonic()))

        ask()
        asked = spent(pid, ask) / seconds
        yield Finding("a node at rest", "ms/s", alone)
        share = (asked - alone) / 10
        yield Finding("a scrape a second and a page of queues, of the node's time", "%", share, MOST_SHARE)


def metrics_url(broker: RunningBroker) -> str:
    """Where Prometheus asks."""
    listeners = json.loads(get(broker, "/api/overview?columns=listeners"))["listeners"]
    (port,) = [each["port"] for each in listeners if each["protocol"] == "http/prometheus"]
    return f"http://127.0.0.1:{port}/metrics"


def scrape(url: str) -> bytes:
    """What it is told."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        said: bytes = answer.read()
    return said


def measure_troubles(scale: float) -> Iterator[Finding]:
    """The same load while the management process is in trouble: the node's processor time for a message. Of runs at
    rest and in trouble, in turn, the median of each counts."""
    with amqp_broker.running(management=True, log_level="error", start_timeout_s=120.0) as broker:
        pid = broker.process.pid
        load = replace(_LOAD, messages=int(_LOAD.messages * scale), targets=(parse_target(broker.url),))

        def carried_us() -> float:
            return 1000 * spent(pid, lambda: run_checked(load)) / load.messages

        carried_us()
        idle = int(IDLE * scale)
        troubles: dict[str, tuple[int, Callable[[], AbstractContextManager[None]]]] = {
            "management stopped (SIGSTOP)": (PAIRS, lambda: stopped(child_of(pid))),
            f"{idle:,} idle connections": (PAIRS, lambda: idle_connections(broker, idle)),
            # Each start is waited for longer than the one before.
            "management killed and started again": (FEW_PAIRS, lambda: killed(pid)),
        }
        for name, (pairs, trouble) in troubles.items():
            alone, beside = [], []
            for _ in range(pairs):
                alone.append(carried_us())
                with trouble():
                    beside.append(carried_us())
            most = round(1.1 * statistics.median(alone), 3)
            yield Finding(f"a message, beside: {name}", "us", statistics.median(beside), most)


@contextmanager
def killed(node: int) -> Iterator[None]:
    """The management process of a node has just been killed. Behind it there is another one."""
    before = child_of(node)
    os.kill(before, signal.SIGKILL)
    yield
    for _ in range(600):
        with suppress(LinkError):
            if child_of(node) != before:
                return
        time.sleep(0.1)
    raise LinkError(f"process {node} has not started another management process for a minute")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def idle_connections(broker: RunningBroker, count: int) -> Iterator[None]:
    """So many that say nothing to the API."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    parts = urlsplit(broker.management_url)
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60))
        yield


EXPERIMENTS: dict[str, Callable[[float], Iterator[Finding]]] = {
    "turns": management_turns.measure,
    "pages": measure_pages,
    "start": measure_start,
    "requests": measure_requests,
    "troubles": measure_troubles,
}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(EXPERIMENTS)), help="Only these. [all]")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/management-cost.md]")
def management_cost(names: tuple[str, ...], scale: float, output: Path | None) -> None:
    """Measure what the management costs and write the table."""
    rows = run_experiments(EXPERIMENTS, names, scale)
    page = [*header("What the management costs", {"scale": f"{scale:g}"}), *table(COLUMNS, rows)]
    path = output or page_of("management-cost", not names and scale == 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    management_cost()
