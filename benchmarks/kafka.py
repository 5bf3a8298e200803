"""`python -m benchmarks.kafka`: our streams beside Apache Kafka, one node each, a fixed amount of work.

Kafka's jars come from Maven Central (`mvn` and Java are needed); it is one broker and controller, and its own
performance tools are its load: their producer with acks=all, and their consumer. Ours is loaded by `amqp-broker bench`.
Compared is what differs least, and the page says what each has promised when it confirms:

    ours            the message is on the disk (fdatasync), several in one sync
    Kafka, flushed  log.flush.interval.messages=1: the batch is on the disk (fsync), a sync for each
    Kafka           as it comes: the message is in the page cache, and a power failure loses it

Rates are of whoever publishes or reads; the broker's processor time for a million messages does not depend on whose
load generator is the lighter. Each broker is warmed up with a part of the work before it is measured, as Java needs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import click

from amqp_broker.bench.load import run_declared
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import Target
from benchmarks.brokers import ROOT, Broker, BrokerError, end, free_port, last_lines, own_broker, temporary_folder
from benchmarks.machine import header, page_of, table
from benchmarks.run import run_checked

VERSION = "4.1.0"
JARS = ROOT / ".venv" / f"kafka-{VERSION}"
#: So many publishes of ours may be unconfirmed; Kafka's producer is as it comes: five batches of 16 KiB, and 32 MiB
#: that wait for them.
WINDOW = 10_000
#: What is published and read, and what part of it is the warm-up.
AMOUNTS = {128: 4_000_000, 1024: 1_000_000}
FLUSHED = {128: 1_000_000, 1024: 300_000}
WARM_UP = 0.25
READY_SECONDS = 60.0
COLUMNS = ["what", "who", "messages/s", "lowest - highest", "broker's processor s per million", "lowest - highest"]

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>benchmarks</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{0}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{0}</version></dependency>
</dependencies></project>
"""
_SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def fetch_jars() -> None:
    """Puts Kafka's jars into .venv, once. Raises BrokerError, with the way out, where that cannot be."""
    if JARS.exists():
        return
    for needed in ("mvn", "java"):
        if shutil.which(needed) is None:
            raise BrokerError(f"{needed} is not installed, so Kafka's jars cannot be had: apt-get install maven")
    with temporary_folder() as folder:
        (folder / "pom.xml").write_text(_POM.format(VERSION), encoding="ascii")
        got = folder / "jars"
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={got}"]
        done = subprocess.run(copy, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"mvn could not fetch Kafka {VERSION}: {done.stdout.strip()[-300:]}")
        shutil.copytree(got, JARS)


def java(main: str, *arguments: str) -> list[str]:
    """The command of one of Kafka's programs."""
    return ["java", "-Xmx1g", "-Xms1g", "-cp", f"{JARS}/*", main, *arguments]


def run_java(main: str, *arguments: str) -> str:
    """What a program of Kafka's prints. Raises BrokerError."""
    done = subprocess.run(java(main, *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerError(f"{main} ended with status {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


@contextmanager
def kafka_broker(folder: Path, flushes: bool) -> Iterator[Broker]:
    """One Kafka, broker and controller in one, with its log in `folder`."""
    port, control = free_port(), free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{control}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "log",
        "num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        **({"log.flush.interval.messages": 1} if flushes else {}),
    }
    folder.mkdir(parents=True)
    settings, output = folder / "kafka.properties", folder / "kafka.out"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="ascii")
    identity = urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=")
    run_java("kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "-c", str(settings))
    begin = time.monotonic()
    with output.open("wb") as log:
        process = subprocess.Popen(java("kafka.Kafka", str(settings)), stdout=log, stderr=log, text=True)
    try:
        while not listens(port):
            if process.poll() is not None or time.monotonic() > begin + READY_SECONDS:
                raise BrokerError(f"Kafka did not become ready: {last_lines(output)}")
            time.sleep(0.2)
        yield Broker("Kafka", VERSION, Target(port=port), process.pid, time.monotonic() - begin)
    finally:
        end(process, signal.SIGTERM)


def listens(port: int) -> bool:
    """Whether somebody takes connections there. Without a binding of its logger Kafka says nothing."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Load(Protocol):
    """What works a broker: both return messages per second."""

    def publish(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """So many messages of so many octets into a log of this name, which it makes."""

    def replay(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """So many messages from the beginning of the log."""


class KafkaLoad:
    """Kafka's own performance tools."""

    def publish(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """See Load."""
        amount = ["--num-records", str(messages), "--record-size", str(size), "--throughput", "-1"]
        how = ["--producer-props", f"bootstrap.servers=127.0.0.1:{broker.target.port}", "acks=all"]
        said = run_java("org.apache.kafka.tools.ProducerPerformance", "--topic", name, *amount, *how)
        found = _SENT.findall(said)
        if not found or int(found[-1][0]) != messages:
            raise BrokerError(f"Kafka's producer does not say that it sent {messages} messages: {said[-300:]}")
        return float(found[-1][1])

    def replay(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """See Load. What it takes to join its group is not counted."""
        where = ["--bootstrap-server", f"127.0.0.1:{broker.target.port}", "--topic", name]
        said = run_java(
            "org.apache.kafka.tools.ConsumerPerformance", *where, "--messages", str(messages), "--timeout", "60000"
        )
        names, values = ([cell.strip() for cell in line.split(",")] for line in said.strip().splitlines()[-2:])
        found = dict(zip(names, values, strict=True))
        if int(found["data.consumed.in.nMsg"]) < messages:
            raise BrokerError(f"Kafka's consumer does not say that it read {messages} messages: {said[-300:]}")
        return float(found["fetch.nMsg.sec"])


class OwnLoad:
    """`amqp-broker bench`, with a stream."""

    _SCENARIO = Scenario(queue_type="stream", durable=True, persistent=True, seconds=0, prefetch=10_000, ack_every=1000)

    def publish(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """See Load."""
        scenario = replace(self._SCENARIO, targets=(broker.target,), queue=name, size=size, messages=messages)
        result = run_checked(replace(scenario, consumers=0, confirm_window=WINDOW))
        return result.rate(result.counts.confirmed)

    def replay(self, broker: Broker, name: str, size: int, messages: int) -> float:
        """See Load."""
        scenario = replace(self._SCENARIO, targets=(broker.target,), queue=name, size=size, messages=messages)
        result = run_checked(replace(scenario, producers=0), run_declared)
        return result.rate(result.counts.received)


@dataclass(frozen=True, slots=True)
class Contender:
    """A broker as it is run, what works it, and how much it gets to do, by the size of a message."""

    name: str
    start: Callable[[Path], AbstractContextManager[Broker]]
    load: Load
    amounts: dict[int, int]


CONTENDERS = (
    Contender("ours, synced", own_broker, OwnLoad(), AMOUNTS),
    Contender("Kafka, flushed", lambda folder: kafka_broker(folder, flushes=True), KafkaLoad(), FLUSHED),
    Contender("Kafka, not synced", lambda folder: kafka_broker(folder, flushes=False), KafkaLoad(), AMOUNTS),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """Messages a second, and the broker's processor seconds for a million."""

    rate: float
    cost: float


def measured(broker: Broker, messages: int, work: Callable[[], float]) -> Figure:
    """The figures of one piece of work."""
    before = broker.cpu_seconds()
    rate = work()
    return Figure(rate, 1e6 * (broker.cpu_seconds() - before) / messages)


def figures_of(contender: Contender, size: int, scale: float) -> Iterator[tuple[str, Figure]]:
    """What is done, and its figures: a broker of its own publishes and reads."""
    messages = max(10_000, int(contender.amounts[size] * scale))
    few = max(1000, int(messages * WARM_UP))
    load = contender.load
    with temporary_folder() as folder, contender.start(folder / "data") as broker:
        load.publish(broker, "warmup", size, few)
        load.replay(broker, "warmup", size, few)
        yield "publish", measured(broker, messages, lambda: load.publish(broker, "measured", size, messages))
        yield "replay", measured(broker, messages, lambda: load.replay(broker, "measured", size, messages))


def cells(found: Sequence[float], digits: int) -> list[str]:
    """The median, and between what it lies."""
    return [f"{statistics.median(found):,.{digits}f}", f"{min(found):,.{digits}f} - {max(found):,.{digits}f}"]


@click.command(help=__doc__)
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds; in every other one the order is turned.")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/kafka.md]")
def main(rounds: int, scale: float, output: Path | None) -> None:
    try:
        fetch_jars()
        found: dict[tuple[str, str], list[Figure]] = {}
        for number in range(rounds):
            for size in AMOUNTS:
                for contender in CONTENDERS[:: -1 if number % 2 else 1]:
                    for what, figure in figures_of(contender, size, scale):
                        found.setdefault((f"{what}, {size:,} B", contender.name), []).append(figure)
                        click.echo(f"{what} {size} {contender.name}: {figure.rate:,.0f}/s, {figure.cost:.2f}", err=True)
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    order = sorted(found, key=lambda key: ([*AMOUNTS].index(128 if "128" in key[0] else 1024), key[0].split(",")[0]))
    rows = [
        [*key, *cells([each.rate for each in found[key]], 0), *cells([each.cost for each in found[key]], 2)]
        for key in order
    ]
    facts = {
        "Kafka": f"{VERSION}, one broker and controller, acks=all, one partition",
        "outstanding": f"ours {WINDOW:,} publishes; Kafka's producer five batches of 16 KiB, and 32 MiB that wait",
        "method": f"median of {rounds} rounds in turn, {WARM_UP:.0%} of the work as a warm-up",
        "confirmed means": "ours and Kafka, flushed: on the disk; Kafka, not synced: in the page cache",
    }
    page = output or page_of("kafka", is_whole=rounds >= 3 and scale >= 1)
    page.write_text("\n".join([*header("Our streams and Apache Kafka", facts), *table(COLUMNS, rows), ""]), "utf-8")
    click.echo(f"written: {page}")


if __name__ == "__main__":
    main()
