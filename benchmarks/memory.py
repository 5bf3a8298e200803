"""What an empty broker, an idle connection, an empty durable queue and a queued message cost in resident memory, and
what an empty broker takes to be ready."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from amqp_broker.bench.link import Link
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, own_broker, temporary_folder
from benchmarks.findings import Finding
from benchmarks.run import run_checked

CONNECTIONS = 2000
QUEUES = 10_000
MESSAGES = 1_000_000
STARTS = 9
BODY = 128
KIB = 1024
MIB = 1024 * KIB


@contextmanager
def many_links(broker: Broker, count: int) -> Iterator[list[Link]]:
    """Idle connections with one channel each. Raises the limit of open files as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        yield [stack.enter_context(Link(broker.target, f"idle {number}")) for number in range(count)]


def measure(scale: float) -> Iterator[Finding]:
    """Each in a broker of its own, after as many again have warmed it up where that matters."""
    with temporary_folder() as folder:
        yield from measure_empty(folder)
        yield measure_connections(max(50, int(CONNECTIONS * scale)), folder / "connections")
        yield measure_queues(max(100, int(QUEUES * scale)), folder / "queues")
        yield measure_messages(max(200_000, int(MESSAGES * scale)), folder / "messages")


def measure_empty(folder: Path) -> Iterator[Finding]:
    """One broker after the other, each in a new folder: until it is ready, and what it has then. Medians; the limits
    are some way above what a slow machine takes, to notice a start that has grown."""
    waits, processor, memory = [], [], []
    for number in range(STARTS):
        with own_broker(folder / f"empty-{number}") as broker:
            waits.append(broker.start_seconds)
            processor.append(broker.cpu_seconds())
            memory.append(broker.memory_bytes())
    yield Finding("start of an empty broker", "s", statistics.median(waits))
    yield Finding("processor time of that", "s", statistics.median(processor), 0.5)
    yield Finding("memory of an empty broker", "MiB", statistics.median(memory) / MIB, 60)


def measure_connections(count: int, data_dir: Path) -> Finding:
    """Growth by `count` idle connections, counted after the first fifty."""
    with own_broker(data_dir) as broker, many_links(broker, 50):
        before = broker.memory_bytes()
        with many_links(broker, count):
            grown = broker.memory_bytes() - before
    return Finding("memory of an idle connection with a channel", "KiB", grown / count / KIB, 20)


def measure_queues(count: int, data_dir: Path) -> Finding:
    """Growth by `count` empty durable queues, counted after the first fifty."""
    with own_broker(data_dir) as broker, Link(broker.target, "declares") as link:
        declare(link, "first", 50)
        before = broker.memory_bytes()
        declare(link, "more", count)
        grown = broker.memory_bytes() - before
    return Finding("memory of an empty durable queue", "KiB", grown / count / KIB, 4)


def declare(link: Link, prefix: str, count: int) -> None:
    """Durable queues named prefix-0 and so on, a thousand before each wait."""
    for number in range(count):
        link.declare_queue(f"{prefix}-{number}", True, {})
        if number % 1000 == 999:
            link.sync()
    link.sync()


def measure_messages(count: int, data_dir: Path) -> Finding:
    """Growth by `count` transient messages in RAM, without their bodies."""
    fill = Scenario(consumers=0, queue="kept", size=BODY, confirm_window=1000, messages=count)
    with own_broker(data_dir, ["--memory-budget", "4GiB"]) as broker:
        fill = replace(fill, targets=(broker.target,))
        run_checked(replace(fill, queue="first", messages=10_000))
        before = broker.memory_bytes()
        run_checked(fill)
        grown = broker.memory_bytes() - before
    return Finding("memory of a queued message in RAM, without its body", "B", grown / count - BODY, 150)
