"""`python -m benchmarks.hop`: what a message costs each of two nodes where its queue is on one of them, its home, and
clients are on both.

Two real nodes on loopback, in lock step: N producer connections send k messages each, with one `send` a connection, and
all wait until the consumer (one connection) has everything. So k is what one read brings, however busy the machine is.
What is counted is processor time of the nodes' threads (/proc/PID/task/*/schedstat), a message, of the home and of the
other node; the median of some runs. The load generator's own time is in neither. Both nodes are the members of a
cluster, whose own work goes on meanwhile: lock steps that take long have more of it.

    make bench-hop                                         1,000 connections with k = 1, 100 with k = 64
    make bench-hop ARGS="--kind confirmed --case both"     persistent, with confirms and acknowledgements
"""

from __future__ import annotations

import resource
import socket
import statistics
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from amqp_broker.bench.link import Link
from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import parse_target
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.testing.embedded_cluster import ClusterNode, RunningCluster, running_cluster
from benchmarks.brokers import temporary_folder
from benchmarks.machine import describe_machine

QUEUE = "hop"
CHANNEL = 1
#: A basic.ack: frame header, class and method, tag, multiple, end.
ACK_BYTES = 21
ACK_EVERY = 100
#: Where producers and the consumer are: at the home, or at the other node.
CASES = {"home": (0, 0), "producers": (1, 0), "consumer": (0, 1), "both": (1, 1)}
TITLES = {
    "home": "everything at the queue's home",
    "producers": "producers at the other node",
    "consumer": "consumer at the other node",
    "both": "both at the other node",
}
KINDS = ("transient", "confirmed")


def processor_time_us(pid: int) -> float:
    """What the threads of a process have used so far, microseconds; none of a node's ends while it runs."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(path.read_text(encoding="ascii").split()[0])
    return total / 1000


class Producer:
    """One connection that publishes. published: how many messages so far."""

    def __init__(self, link: Link, octets: bytes, count: int, is_confirmed: bool) -> None:
        if is_confirmed:
            link.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
        self.sock, _ = link.hand_over()
        self.sock.settimeout(60)
        self._octets = octets
        self._count = count
        self._is_confirmed = is_confirmed
        self._published = 0
        self._read = b""

    def send(self) -> None:
        """All messages of a step."""
        self.sock.sendall(self._octets)
        self._published += self._count

    def wait(self) -> None:
        """Until everything is confirmed."""
        confirmed = 0
        while self._is_confirmed and confirmed < self._published:
            self._read += receive(self.sock)
            whole = len(self._read) // ACK_BYTES * ACK_BYTES
            if whole:
                _, _, _, method, confirmed = struct.unpack_from(">BHLLQ", self._read, whole - ACK_BYTES)
                if method != 60 << 16 | 80:
                    raise click.ClickException(f"a producer got method {method:#x} where a basic.ack was due")
                self._read = self._read[whole:]


class Taker:
    """The connection that consumes. Every delivery has as many octets as the first."""

    def __init__(self, link: Link, acks: bool) -> None:
        link.call(methods.BasicConsume(queue=QUEUE, no_ack=not acks), methods.BasicConsumeOk)
        self.sock, _ = link.hand_over()
        self.sock.settimeout(60)
        self._acks = acks
        self._each = 0
        self._octets = 0
        self._taken = self._acked = 0

    def wait(self, count: int) -> None:
        """Until so many more messages have come."""
        until = self._taken + count
        while self._taken < until:
            data = receive(self.sock)
            if not self._each:
                self._each = size_of_delivery(data)
            self._octets += len(data)
            self._taken = self._octets // self._each
            if self._acks and self._taken - self._acked >= ACK_EVERY:
                self._acked = self._taken
                self.sock.sendall(encode_method_frame(CHANNEL, methods.BasicAck(self._acked, True)))


def receive(sock: socket.socket) -> bytes:
    """What there is. Raises ClickException where nothing more comes."""
    data = sock.recv(1 << 18)
    if not data:
        raise click.ClickException("a node has closed a connection")
    return data


def size_of_delivery(data: bytes) -> int:
    """Octets of the delivery with which these begin: a method, a header and a body."""
    position = 0
    for _ in range(3):
        position += 8 + int.from_bytes(data[position + 3 : position + 7], "big")
    return position


class Load:
    """The clients of one case, and what their messages cost."""

    def __init__(
        self,
        nodes: list[ClusterNode],
        stack: ExitStack,
        case: str,
        kind: str,
        connections: int,
        count: int,
        size: int,
        queue_type: str = "classic",
    ) -> None:
        self._pids = [node.broker.process.pid for node in nodes]
        self._step = connections * count
        links = [parse_target(node.url) for node in nodes]
        is_confirmed = kind == "confirmed"
        scenario = Scenario(queue=QUEUE, durable=True, persistent=is_confirmed, size=size)
        with Link(links[0], "hop") as link:
            link.delete_queue(QUEUE)
            link.declare_queue(QUEUE, True, {"x-queue-type": queue_type})
            link.sync()
        publishing, consuming = CASES[case]
        taker = Link(links[consuming], "hop")
        publish = build_publish(scenario, scenario.routes_of(0)[0], taker.frame_max, CHANNEL)
        self._taker = Taker(taker, is_confirmed)
        stack.callback(self._taker.sock.close)
        self._producers = []
        for _ in range(connections):
            producer = Producer(Link(links[publishing], "hop"), publish * count, count, is_confirmed)
            stack.callback(producer.sock.close)
            self._producers.append(producer)

    def run(self, steps: int) -> list[float]:
        """Some steps. Returns the costs of a message, microseconds, by node."""
        before = [processor_time_us(pid) for pid in self._pids]
        for _ in range(steps):
            for producer in self._producers:
                producer.send()
            self._taker.wait(self._step)
            for producer in self._producers:
                producer.wait()
        after = [processor_time_us(pid) for pid in self._pids]
        return [(late - early) / (steps * self._step) for early, late in zip(before, after, strict=True)]


@contextmanager
def two_nodes() -> Iterator[RunningCluster]:
    """A cluster of two, without management."""
    with temporary_folder() as folder, running_cluster(2, folder) as cluster:
        yield cluster


def measure(
    cluster: RunningCluster,
    case: str,
    kind: str,
    connections: int,
    count: int,
    size: int,
    steps: int,
    runs: int,
    queue_type: str = "classic",
) -> list[float]:
    """The median costs of a message by node: the home first. steps: of a run, of `count` messages a producer each."""
    with ExitStack() as stack:
        load = Load(cluster.nodes, stack, case, kind, connections, count, size, queue_type)
        load.run(2)
        found = [load.run(steps) for _ in range(runs)]
    return [statistics.median(costs) for costs in zip(*found, strict=True)]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--case", "cases", type=click.Choice([*CASES]), multiple=True, help="Of these only; all by default.")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True)
@click.option("--connections", type=click.IntRange(1), help="Producers; by default 100, and 1,000 with k = 1.")
@click.option("--count", "counts", type=click.IntRange(1), multiple=True, default=(64, 1), help="k: messages a send.")
@click.option("--size", type=click.IntRange(0), default=128, show_default=True, help="Octets of a body.")
@click.option("--messages", type=click.IntRange(1), default=60_000, show_default=True, help="Of a run, at least.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
def hop(
    cases: tuple[str, ...],
    kind: str,
    connections: int | None,
    counts: tuple[int, ...],
    size: int,
    messages: int,
    runs: int,
) -> None:
    """Measure what a hop between two nodes costs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    chosen = [connections or (1000 if count == 1 else 100) for count in counts]
    titles = [f"{each:,} connections, k = {count}" for each, count in zip(chosen, counts, strict=True)]
    click.echo(f"us of processor time a message ({kind}, {size} octets), home + other node; {describe_machine()}\n")
    click.echo(f"| | {' | '.join(titles)} |")
    click.echo(f"|---|{'---|' * len(counts)}")
    with two_nodes() as cluster:
        for case in cases or CASES:
            cells = []
            for count, each in zip(counts, chosen, strict=True):
                steps = max(3, -(-messages // (each * count)))
                home, other = measure(cluster, case, kind, each, count, size, steps, runs)
                cells.append(f"{home:.2f} + {other:.2f}")
            click.echo(f"| {TITLES[case]} | {' | '.join(cells)} |")


if __name__ == "__main__":
    hop()
