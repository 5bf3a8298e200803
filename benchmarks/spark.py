"""Messages a second from a broker into Spark: `make bench-spark`.

A durable queue is filled with persistent messages of 200 octets; then a streaming query reads what is there
(Trigger.AvailableNow) into Spark's `noop` sink, in this process (`local[2]`). The rate is that of the batches from the
planning of the first to the commit of the last, without Spark's start. Broker, Spark and its Python workers share the
machine.

    lease, 3 columns    body, routing_key, offset
    lease, all columns  the whole row
    default options     the same with maxMessagesPerBatch, numPartitions and maxMessagesPerPartition as they are
    staged              the same from Debian's RabbitMQ, and from this broker, with mode=staged
    backlog             --backlog messages in a broker with a budget of 512 MiB, and the most memory that it, Java and
                        the Python workers had while it was filled and drained
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, own_broker, rabbitmq_broker
from benchmarks.machine import header, page_of, table
from benchmarks.run import run_checked
from spark_connector.local_session import local_session

SIZE = 200
COLUMNS = {"3 columns": "body binary, routing_key string, offset bigint", "all columns": None}
FILL = Scenario(
    consumers=0, queue="kept", size=SIZE, durable=True, persistent=True, confirm_window=1000, seconds=0, warm_up=0,
)  # fmt: skip
MIB = 1 << 20
BACKLOG_BUDGET = ["--memory-budget", "512MiB"]


@dataclass(frozen=True)
class Read:
    """One drain of a queue."""

    messages: int
    seconds: float
    batches: int

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


def fill(broker: Broker, messages: int, queue: str) -> None:
    run_checked(replace(FILL, targets=(broker.target,), messages=messages, queue=queue))


def read(
    spark: SparkSession, broker: Broker, queue: str, columns: str | None, folder: Path, **options: object
) -> Read:
    """Drains a queue into nothing."""
    target = broker.target
    reader = spark.readStream.format("amqp").option("uri", f"amqp://guest:guest@{target.host}:{target.port}/%2F")
    if columns is not None:
        reader = reader.schema(columns)
    for name, value in {"queue": queue, "group": "bench", **options}.items():
        reader = reader.option(name, str(value))
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        reports: dict[int, Any] = {}
        while not query.awaitTermination(1):
            reports.update({each.batchId: each for each in query.recentProgress})
        reports.update({each.batchId: each for each in query.recentProgress})
    full = [each for each in reports.values() if each.numInputRows]
    seconds = sum(each.durationMs["triggerExecution"] for each in full) / 1000
    return Read(sum(each.numInputRows for each in full), seconds, len(full))


class Memory:
    """The most resident memory of a process and its descendants, by what they run, while a block runs."""

    def __init__(self, broker: Broker) -> None:
        self.highest: dict[str, int] = {}
        self._broker = broker
        self._stop = Event()
        self._thread = Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            found = {"broker": self._broker.memory_bytes(), "Java": 0, "Python workers": 0}
            for pid in descendants(os.getpid()):
                if pid != self._broker.pid:
                    kind = "Java" if name_of(pid) == "java" else "Python workers"
                    found[kind] += resident(pid)
            for kind, octets in found.items():
                self.highest[kind] = max(self.highest.get(kind, 0), octets)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stop.set()
        self._thread.join()


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from descendants(child)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def resident(pid: int) -> int:
    """The memory of a process that it shares with nobody, as far as the kernel tells; 0 if it has gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def measure(
    spark: SparkSession, broker: Broker, folder: Path, messages: int, rounds: int, say: Callable[[str], None],
    **options: object,
) -> dict[str, float]:  # fmt: skip
    """The median rate for each choice of columns."""
    rates: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for number in range(rounds):
        for name, columns in COLUMNS.items():
            fill(broker, messages, "kept")
            done = read(spark, broker, "kept", columns, folder, **options)
            say(f"{broker.name}, {options.get('mode', 'lease')}, {name}, round {number + 1}: {done.rate:,.0f} msg/s "
                f"({done.messages:,} in {done.batches} batches)")  # fmt: skip
            assert done.messages == messages
            rates[name].append(done.rate)
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--staged", type=int, default=200_000, help="messages for mode=staged; 0 leaves it out")
    parser.add_argument("--backlog", type=int, default=10_000_000, help="0 leaves it out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=250_000, help="maxMessagesPerBatch")
    parser.add_argument("--tasks", type=int, default=2, help="numPartitions")
    parser.add_argument("--no-result", action="store_true", help="print only")
    asked = parser.parse_args()
    rows: list[list[str]] = []
    load = os.getloadavg()[0]
    own = {"maxMessagesPerBatch": asked.batch, "numPartitions": asked.tasks, "maxMessagesPerPartition": asked.batch}
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        folder = Path(name)
        spark = local_session(folder, cores=2, memory="2g")
        with own_broker(folder / "own") as broker:
            fill(broker, 100_000, "kept")
            for ddl in COLUMNS.values():
                read(spark, broker, "kept", ddl, folder, **own)  # warms Java up
            found = measure(spark, broker, folder, asked.messages, asked.rounds, print, **own)
            rows += [[f"amqp-broker, lease, {columns}", f"{rate:,.0f}"] for columns, rate in found.items()]
            found = measure(spark, broker, folder, asked.messages, asked.rounds, print)
            rows += [[f"amqp-broker, default options, {columns}", f"{rate:,.0f}"] for columns, rate in found.items()]
            if asked.staged:
                staged = {"mode": "staged", "stagingDir": folder / "s1", **own}
                found = measure(spark, broker, folder, asked.staged, 1, print, **staged)
                rows += [[f"amqp-broker, staged, {columns}", f"{rate:,.0f}"] for columns, rate in found.items()]
        if asked.staged:
            (folder / "rabbit").mkdir()
            with rabbitmq_broker(folder / "rabbit") as broker:
                staged = {"mode": "staged", "stagingDir": folder / "s2", **own}
                found = measure(spark, broker, folder, asked.staged, asked.rounds, print, **staged)
                rows += [[f"RabbitMQ, staged, {columns}", f"{rate:,.0f}"] for columns, rate in found.items()]
        if asked.backlog:
            with own_broker(folder / "backlog", BACKLOG_BUDGET) as broker:
                with Memory(broker) as memory:
                    fill(broker, asked.backlog, "kept")
                    done = read(spark, broker, "kept", COLUMNS["3 columns"], folder, **own)
                assert done.messages == asked.backlog
                what = f"amqp-broker with 512 MiB, lease, 3 columns, {asked.backlog:,} messages"
                rows.append([what, f"{done.rate:,.0f}"])
                rows += [[f"most memory of {kind} meanwhile, MiB", f"{octets / MIB:,.0f}"]
                         for kind, octets in memory.highest.items()]  # fmt: skip
        spark.stop()
    facts = {"Spark": pyspark.__version__, "messages": f"{SIZE} octets, persistent; batches of {asked.batch:,}, "
             f"{asked.tasks} tasks; rates are messages a second, medians of {asked.rounds}",
             "load of the machine": f"{load:.1f} before, {os.getloadavg()[0]:.1f} at the end"}  # fmt: skip
    page = "\n".join([*header("From a broker into Spark", facts), *table(["what", "value"], rows)]) + "\n"
    print(page)
    if not asked.no_result:
        page_of("spark", bool(asked.staged and asked.backlog)).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
