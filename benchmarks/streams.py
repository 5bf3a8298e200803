"""`python -m benchmarks.streams`: what streams do that queues do not, beside RabbitMQ's where it has the same.

    publish    a publisher alone, with confirms: on the disk before that with us, never synced in RabbitMQ
    replay     a consumer alone, from the first message on
    octets     what the disk is given for each octet that publishers sent; nobody else may write to it meanwhile
    disk       what a publisher of 1 KiB brings to the disk, and what the disk takes in pieces of 1 MiB, each synced
    far        a publisher and a consumer at the end of a stream, while another consumer reads from 10 GB back; and the
               start with such a stream
    many       a thousand streams at once, beside one
    idle       ten thousand streams that nobody uses

`--scale 0.1` makes every amount a tenth, for a quick look. Pairs are one run on each broker, right after one another,
and every other pair begins with the other one.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread

import click

from amqp_broker.bench.load import declare_topology, run_declared
from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.protocol.constants import DEFAULT_FRAME_MAX
from benchmarks.brokers import Broker, BrokerError, check_rabbitmq, own_broker, rabbitmq_broker, temporary_folder
from benchmarks.findings import Finding, run_experiments
from benchmarks.machine import header, page_of, table
from benchmarks.run import rate_of

COLUMNS = ["what", "unit", "found", "limit", ""]
PAIRS = 3
PUBLISH_SECONDS = 4.0
PUBLISHED = 3_000_000
REPLAYED = 2_000_000
#: Octets of a body, messages outstanding, messages.
WRITTEN = ((128, 1000, 3_000_000), (128, 10_000, 6_000_000), (1024, 1000, 1_000_000))
#: What the kernel counts by, whatever the disk's own sectors are.
_SECTOR_BYTES = 512
FAR_BYTES = 10 * 10**9
FAR_SIZE = 1024
FAR_ROUNDS = 3
STREAMS = 1000
IDLE_STREAMS = 10_000
IDLE_SECONDS = 20.0
SETTLE_SECONDS = 2.0  # for a broker to end what ten thousand declarations have begun

STREAM = Scenario(queue_type="stream", durable=True, persistent=True, seconds=0, ack_every=100)


def pairs_of(measure: Callable[[Broker], float]) -> tuple[float, float]:
    """The medians of ours and of RabbitMQ's."""
    check_rabbitmq()
    found: dict[str, list[float]] = {}
    with temporary_folder() as folder, ExitStack() as stack:
        own = stack.enter_context(own_broker(folder / "own"))
        (folder / "rabbitmq").mkdir()
        peer = stack.enter_context(rabbitmq_broker(folder / "rabbitmq"))
        for number in range(PAIRS):
            for broker in (own, peer) if number % 2 == 0 else (peer, own):
                found.setdefault(broker.name, []).append(measure(broker))
    ours, theirs = (statistics.median(found[broker.name]) for broker in (own, peer))
    return ours, theirs


def measure_publish(scale: float) -> Iterator[Finding]:
    """A publisher with confirms."""
    for window, least in ((1000, None), (10_000, 700_000)):
        scenario = replace(STREAM, consumers=0, confirm_window=window, seconds=max(0.2, PUBLISH_SECONDS * scale))
        ours, theirs = pairs_of(lambda broker, load=scenario: rate_of(load, broker))  # type: ignore[misc]
        what = f"publish 128 B, {window:,} outstanding"
        yield Finding(what, "msg/s", ours, least, is_most=False)
        yield Finding(f"{what}, RabbitMQ (not synced)", "msg/s", theirs)
        yield Finding(f"{what}, ratio", "", ours / theirs, 8, is_most=False)


def measure_replay(scale: float) -> Iterator[Finding]:
    """A consumer that reads what there is."""
    amount = max(10_000, int(REPLAYED * scale))
    scenario = replace(STREAM, queue="replayed", messages=amount)
    filled: set[str] = set()

    def replay(broker: Broker) -> float:
        if broker.name not in filled:
            filled.add(broker.name)
            rate_of(replace(scenario, consumers=0, confirm_window=1000), broker)
        return rate_of(replace(scenario, producers=0), broker, run_declared)

    ours, theirs = pairs_of(replay)
    what = f"replay of {amount:,} x 128 B, prefetch 1,000, acks of 100"
    yield Finding(what, "msg/s", ours, 1_500_000, is_most=False)
    yield Finding(f"{what}, RabbitMQ", "msg/s", theirs)
    yield Finding(f"{what}, ratio", "", ours / theirs, 8, is_most=False)


def written_bytes(folder: Path) -> int:
    """Octets that the disk under a folder has been given so far, by whomever. What /proc says of a process counts a
    large folio of the page cache whole for each page that is changed in it."""
    number = folder.stat().st_dev
    counts = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    try:
        return int(counts.read_text(encoding="ascii").split()[6]) * _SECTOR_BYTES
    except FileNotFoundError:
        raise BrokerError(f"{counts} does not count what {folder} is given: set TMPDIR to a folder on a disk") from None


def measure_octets(scale: float) -> Iterator[Finding]:
    """What the disk is given, for what has come over the wire."""
    for size, window, amount in WRITTEN:
        messages = max(10_000, int(amount * scale))
        scenario = replace(STREAM, consumers=0, confirm_window=window, messages=messages, size=size, queue="written")
        one = build_publish(scenario, scenario.routes()[0], DEFAULT_FRAME_MAX, 1)
        with temporary_folder() as folder, own_broker(folder / "own") as broker:
            os.sync()
            before = written_bytes(folder)
            rate_of(scenario, broker)
            os.sync()
            written = written_bytes(folder) - before
        what = f"octets written for each that was sent, {size:,} B, {window:,} outstanding"
        yield Finding(what, "", written / (messages * len(one)), 1.15)


def synced_bytes_a_second(folder: Path, seconds: float) -> float:
    """What the disk under a folder takes in pieces of 1 MiB, each synced before the next."""
    path, piece = folder / "synced", os.urandom(1 << 20)
    number = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    begin, written = time.monotonic(), 0
    try:
        while (taken := time.monotonic() - begin) < seconds:
            written += os.write(number, piece)
            os.fdatasync(number)
    finally:
        os.close(number)
        path.unlink()
    return written / taken


def measure_disk(scale: float) -> Iterator[Finding]:
    """What bounds a publisher of messages that are not small."""
    size, seconds = 1024, max(0.2, PUBLISH_SECONDS * scale)
    scenario = replace(STREAM, consumers=0, confirm_window=10_000, size=size, seconds=seconds, queue="disk")
    published, synced = [], []
    with temporary_folder() as folder, own_broker(folder / "own") as broker:
        for _ in range(PAIRS):
            published.append(size * rate_of(scenario, broker) / 2**20)
            synced.append(synced_bytes_a_second(folder, seconds) / 2**20)
    ours, disk = statistics.median(published), statistics.median(synced)
    yield Finding("bodies of 1 KiB, 10,000 outstanding", "MiB/s", ours)
    yield Finding("pieces of 1 MiB that the disk syncs", "MiB/s", disk)
    yield Finding("the first as a share of the second", "%", 100 * ours / disk, 80, is_most=False)


def measure_far(scale: float) -> Iterator[Finding]:
    """Who reads far behind, and who does not."""
    messages = max(20_000, int(FAR_BYTES * scale / FAR_SIZE))
    filling = replace(STREAM, consumers=0, confirm_window=10_000, messages=messages, size=FAR_SIZE, queue="far")
    near = replace(STREAM, confirm_window=1000, seconds=5, messages=0, queue="near")
    behind = replace(STREAM, producers=0, queue="far", size=FAR_SIZE, messages=messages)
    gigabytes = messages * FAR_SIZE / 10**9
    with temporary_folder() as folder:
        with own_broker(folder / "empty") as broker:
            small = broker.start_seconds
        with own_broker(folder / "own") as broker:
            declare_topology(replace(filling, targets=(broker.target,)))
            rate_of(filling, broker, run_declared)
            alone, beside = [], []
            for _ in range(FAR_ROUNDS):
                alone.append(rate_of(near, broker))
                reader = Thread(target=rate_of, args=[behind, broker, run_declared], daemon=True)
                reader.start()
                beside.append(rate_of(near, broker))
                reader.join()
            resident = broker.memory_bytes()
        with own_broker(folder / "own") as broker:
            large = broker.start_seconds
    what = "a publisher and a consumer at the end of a stream, 128 B"
    yield Finding(what, "msg/s", statistics.median(alone))
    yield Finding(f"{what}, beside one who reads from {gigabytes:.1f} GB back", "msg/s", statistics.median(beside))
    share = 100 * statistics.median(beside) / statistics.median(alone)
    yield Finding("the second as a share of the first", "%", share, 80, is_most=False)
    yield Finding("memory of the broker afterwards", "MiB", resident / 2**20)
    yield Finding("start without messages", "s", small)
    yield Finding(f"start with {gigabytes:.1f} GB in streams", "s", large, 2 * small)


def measure_many(scale: float) -> Iterator[Finding]:
    """One publisher that takes turns among streams."""
    streams, messages = max(10, int(STREAMS * scale)), max(20_000, int(PUBLISHED * scale))
    scenario = replace(STREAM, consumers=0, confirm_window=10_000, messages=messages, queue="bench")
    with temporary_folder() as folder, own_broker(folder / "own") as broker:
        one = rate_of(scenario, broker)
        many = rate_of(replace(scenario, queues=streams), broker)
    yield Finding("publish 128 B to one stream, 10,000 outstanding", "msg/s", one)
    yield Finding(f"publish to {streams:,} streams in turn", "msg/s", many)
    yield Finding("the second as a share of the first", "%", 100 * many / one, 60, is_most=False)


def measure_idle(scale: float) -> Iterator[Finding]:
    """Streams that nobody uses."""
    streams = max(10, int(IDLE_STREAMS * scale))
    with temporary_folder() as folder, own_broker(folder / "own") as broker:
        rate_of(replace(STREAM, consumers=0, confirm_window=1000, messages=1000), broker)
        declare_topology(replace(STREAM, targets=(broker.target,), queues=streams, queue="idle"))
        time.sleep(SETTLE_SECONDS)
        before = broker.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        share = 100 * (broker.cpu_seconds() - before) / IDLE_SECONDS
    yield Finding(f"{streams:,} idle streams, of a core", "%", share, 1)


EXPERIMENTS: dict[str, Callable[[float], Iterator[Finding]]] = {
    "publish": measure_publish,
    "replay": measure_replay,
    "octets": measure_octets,
    "disk": measure_disk,
    "far": measure_far,
    "many": measure_many,
    "idle": measure_idle,
}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(EXPERIMENTS)), help="Only these. [all]")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/streams.md]")
def streams(names: tuple[str, ...], scale: float, output: Path | None) -> None:
    """Measure streams and write the table."""
    rows = run_experiments(EXPERIMENTS, names, scale)
    page = [*header("Streams", {"scale": f"{scale:g}", "pairs": str(PAIRS)}), *table(COLUMNS, rows)]
    path = output or page_of("streams", not names and scale == 1)
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    streams()
