"""What a backlog costs: the start with it, draining it beyond the memory budget, and the queue next to it."""

from __future__ import annotations

import signal
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

from amqp_broker.bench.link import Link
from amqp_broker.bench.result import Result
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, BrokerError, own_broker, temporary_folder
from benchmarks.findings import Finding
from benchmarks.run import run_checked
from benchmarks.watch import MemoryWatch

START_MESSAGES = 1_000_000
DRAIN_MESSAGES = 2_000_000
RAM_MESSAGES = 2_000_000
NEIGHBOUR_MESSAGES = 400_000
NEIGHBOUR_ROUNDS = 3
KIB, MIB = 1 << 10, 1 << 20
SMALL_BUDGET = ["--memory-budget", "256MiB"]
LARGE_BUDGET = ["--memory-budget", "8GiB"]

DURABLE = Scenario(consumers=0, queue="kept", size=KIB, durable=True, persistent=True, confirm_window=1000, seconds=0)
DRAIN = replace(DURABLE, producers=0, consumers=1, persistent=False, confirm_window=0, ack_every=100)


def fill(broker: Broker, messages: int, queue: str = "kept") -> Result:
    """Put persistent messages of 1 KiB into a durable queue that stays."""
    return run_checked(replace(DURABLE, targets=(broker.target,), messages=messages, queue=queue))


def drain(broker: Broker, messages: int) -> Result:
    """Take them all out again, acknowledged."""
    return run_checked(replace(DRAIN, targets=(broker.target,), messages=messages))


def measure_start(scale: float) -> Iterator[Finding]:
    """Seconds from the command to `ready`, after SIGTERM and after SIGKILL."""
    messages = max(1000, int(START_MESSAGES * scale))
    with temporary_folder() as folder:
        data_dir = folder / "data"
        with own_broker(data_dir) as broker:
            fill(broker, messages)
        what = f"start with {messages:,} durable messages of 1 KiB"
        with own_broker(data_dir, ending=signal.SIGKILL) as broker:
            yield Finding(what, "s", started_with(broker, messages), 2)
        with own_broker(data_dir) as broker:
            yield Finding(f"{what}, after kill -9", "s", started_with(broker, messages), 2)
        yield Finding("disk for each of them", "B", folder_bytes(data_dir) / messages)


def started_with(broker: Broker, messages: int) -> float:
    """How long the broker took to be ready; BrokerError unless all messages are there."""
    with Link(broker.target, "counts") as link:
        found = link.count_messages(DURABLE.queue)
    if found != messages:
        raise BrokerError(f"{found} of {messages} confirmed messages are there after the start")
    return broker.start_seconds


def folder_bytes(folder: Path) -> int:
    """Disk that the files of a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def measure_drain(scale: float) -> Iterator[Finding]:
    """A backlog of eight times the budget, drained; against one that fits into RAM."""
    messages = max(10_000, int(DRAIN_MESSAGES * scale))
    in_ram = max(10_000, int(RAM_MESSAGES * scale))
    with temporary_folder() as folder:
        with own_broker(folder / "ram", LARGE_BUDGET) as broker:
            fill(broker, in_ram)
            from_ram = received_rate(drain(broker, in_ram))
        yield Finding(f"drain of {in_ram:,} messages of 1 KiB from RAM", "msg/s", from_ram)
        with own_broker(folder / "paged", SMALL_BUDGET) as broker:
            with MemoryWatch(broker) as filling:
                published = fill(broker, messages)
            with MemoryWatch(broker) as draining:
                from_disk = received_rate(drain(broker, messages))
    yield Finding(f"publish of {messages:,}, 256 MiB budget", "msg/s", published.rate(published.counts.published))
    yield Finding(f"drain of {messages:,} messages of 1 KiB, 256 MiB budget", "msg/s", from_disk)
    yield Finding("the same, as a share of the rate from RAM", "%", 100 * from_disk / from_ram, 80, is_most=False)
    yield Finding("most memory while it is filled", "MiB", filling.highest / MIB, 400)
    yield Finding("most memory while it is drained", "MiB", draining.highest / MIB, 400)


def received_rate(result: Result) -> float:
    """Messages received per second."""
    return result.rate(result.counts.received)


def measure_neighbour(scale: float) -> Iterator[Finding]:
    """The publish rate to queue B while queue A is filled further: A within its budget, and A paging."""
    filled = max(10_000, int(NEIGHBOUR_MESSAGES * scale))
    rates: dict[str, list[float]] = {"in RAM": [], "paging": []}
    with temporary_folder() as folder:
        for number in range(NEIGHBOUR_ROUNDS):
            for name, budget in (("in RAM", LARGE_BUDGET), ("paging", SMALL_BUDGET)):
                with own_broker(folder / f"{name}-{number}", budget) as broker:
                    rates[name].append(rate_beside(broker, filled))
    calm, paging = (statistics.median(found) for found in rates.values())
    yield Finding("publish rate to B while A grows in RAM", "msg/s", calm)
    yield Finding("publish rate to B while A pages", "msg/s", paging)
    yield Finding("the second as a share of the first", "%", 100 * paging / calm, 80, is_most=False)


def rate_beside(broker: Broker, filled: int) -> float:
    """Messages published per second to B, while A holds `filled` messages and gets 5,000 more each second."""
    a = Scenario(targets=(broker.target,), consumers=0, queue="a", size=KIB, confirm_window=1000)
    b = Scenario(targets=(broker.target,), queue="b", confirm_window=1000, ack_every=100, seconds=5)
    run_checked(replace(a, messages=filled))
    grows = Thread(target=run_checked, args=[replace(a, rate=5000, seconds=7, warm_up=0)])
    grows.start()
    result = run_checked(b)
    grows.join()
    return result.rate(result.counts.published)
