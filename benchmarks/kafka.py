"""Apache Kafka, one broker and controller, beside our streams.

Its jars come from Maven Central (`mvn` and Java are needed), and its own performance tools are its load: their producer
with acks=all, and their consumer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from benchmarks import own_load
from benchmarks.brokers import ROOT, Broker, BrokerError, foreign_broker, free_port, temporary_folder
from benchmarks.contender import Case, Contender, Other, Step, Work

VERSION = "4.1.0"
JARS = ROOT / ".venv" / f"kafka-{VERSION}"
#: So many publishes of ours may be unconfirmed; Kafka's producer is as it comes: five batches of 16 KiB, and 32 MiB
#: that wait for them.
WINDOW = 10_000
#: What is published and read, by the octets of a message.
AMOUNTS = {128: 2_000_000, 1024: 500_000}
FLUSHED_PROMISE = (
    "log.flush.interval.messages=1: confirmed when its batch is on the disk (fsync), a sync for each batch"
)
UNSYNCED_PROMISE = "as it comes: confirmed when it is in the page cache, and a power failure loses it"
FLUSHED = {128: 500_000, 1024: 150_000}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>benchmarks</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{0}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{0}</version></dependency>
</dependencies></project>
"""
_SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def fetch() -> str:
    """Puts Kafka's jars into .venv, once; their version. Raises BrokerError, with the way out, where that cannot be."""
    if JARS.exists():
        return VERSION
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
    return VERSION


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
    with foreign_broker("Kafka", VERSION, java("kafka.Kafka", str(settings)), port, output) as broker:
        yield broker


def publish(size: int) -> Work:
    """Their producer, with acks=all."""

    def work(broker: Broker, name: str, messages: int) -> float:
        amount = ["--num-records", str(messages), "--record-size", str(size), "--throughput", "-1"]
        how = ["--producer-props", f"bootstrap.servers=127.0.0.1:{broker.target.port}", "acks=all"]
        said = run_java("org.apache.kafka.tools.ProducerPerformance", "--topic", name, *amount, *how)
        return sent_rate(said, messages)

    return work


def sent_rate(said: str, messages: int) -> float:
    """Messages per second, as the producer says at its end. Raises BrokerError unless it has sent them all."""
    found = _SENT.findall(said)
    if not found or int(found[-1][0]) != messages:
        raise BrokerError(f"Kafka's producer does not say that it sent {messages} messages: {said[-300:]}")
    return float(found[-1][1])


def replay(broker: Broker, name: str, messages: int) -> float:
    """Their consumer, from the beginning. What it takes to join its group is not counted."""
    where = ["--bootstrap-server", f"127.0.0.1:{broker.target.port}", "--topic", name]
    amount = ["--messages", str(messages), "--timeout", "60000"]
    return read_rate(run_java("org.apache.kafka.tools.ConsumerPerformance", *where, *amount), messages)


def read_rate(said: str, messages: int) -> float:
    """Messages per second, as the consumer says at its end. Raises BrokerError unless it has read them all."""
    names, values = ([cell.strip() for cell in line.split(",")] for line in said.strip().splitlines()[-2:])
    found = dict(zip(names, values, strict=True))
    if int(found["data.consumed.in.nMsg"]) < messages:
        raise BrokerError(f"Kafka's consumer does not say that it read {messages} messages: {said[-300:]}")
    return float(found["fetch.nMsg.sec"])


def case(size: int) -> Case:
    """A log that is written, and then read."""
    what = f"publish, {size:,} B", f"replay, {size:,} B"

    def kafka(name: str, promise: str, flushes: bool, messages: int) -> Contender:
        start: Callable[[Path], AbstractContextManager[Broker]] = partial(kafka_broker, flushes=flushes)
        return Contender(name, promise, start, (Step(what[0], publish(size)), Step(what[1], replay)), messages)

    return Case(
        (
            own_load.ours(
                "stream",
                own_load.READ,
                AMOUNTS[size],
                Step(what[0], own_load.publish(size, WINDOW, queue_type="stream")),
                Step(what[1], own_load.read(size, "stream")),
            ),
            kafka("Kafka, flushed", FLUSHED_PROMISE, True, FLUSHED[size]),
            kafka("Kafka, not synced", UNSYNCED_PROMISE, False, AMOUNTS[size]),
        )
    )


OTHER = Other(
    "Our streams and Apache Kafka",
    fetch,
    {
        "Kafka": "one broker and controller, acks=all, one partition; its own performance tools",
        "outstanding": f"ours {WINDOW:,} publishes; Kafka's producer five batches of 16 KiB, and 32 MiB that wait",
    },
    tuple(case(size) for size in AMOUNTS),
)
