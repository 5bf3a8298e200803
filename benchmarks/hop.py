"""`python -m benchmarks.hop`: what a message costs each of two nodes, or workers, where its queue is on one of them,
its home, and clients are on both.

Two real nodes on loopback, or one of two workers (--workers), in lock step: N producer connections send k messages
each, with one `send` a connection, and all wait until the consumer (one connection) has everything. So k is what one
read brings, however busy the machine is. What is counted is processor time of their threads
(/proc/PID/task/*/schedstat), a message, of the home and of the other one; the median of some runs. The load generator's
own time is in neither. Two nodes are the members of a cluster, whose own work goes on meanwhile: lock steps that take
long have more of it. Beside them stands what the hop costs each side: what both have used more than with everything at
the home, divided by the sides of a hop, of which a message that is published and delivered elsewhere makes four.

    make bench-hop                                         1,000 connections with k = 1, 100 with k = 64
    make bench-hop ARGS="--workers --count 64"             between workers of a node
    make bench-hop ARGS="--kind confirmed --case both"     persistent, with confirms and acknowledgements
"""

from __future__ import annotations

import resource
import socket
import statistics
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import click

from amqp_broker.bench.link import Link
from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import parse_target
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.settings.workers import worker_number
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import RunningBroker
from amqp_broker.testing.embedded_cluster import ClusterNode, running_cluster
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
#: Two nodes, or workers, are up after this, seconds.
START_S = 60.0


def processor_time_us(pid: int) -> float:
    """What the threads of a process have used so far, microseconds; none of a node's ends while it runs."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(path.read_text(encoding="ascii").split()[0])
    return total / 1000


class Side(Protocol):
    """One of two processes, with clients of its own."""

    @property
    def pid(self) -> int:
        """The process."""

    def open(self, count: int = 1) -> list[Link]:
        """So many connections to it."""


class NodeSide:
    """A node of a cluster."""

    def __init__(self, node: ClusterNode) -> None:
        self.pid = node.broker.process.pid
        self._target = parse_target(node.url)

    def open(self, count: int = 1) -> list[Link]:
        """See Side."""
        return [Link(self._target, "hop") for _ in range(count)]


class WorkerSide:
    """A worker of a node, to which the supervisor brings some of those who connect; the others leave when there are
    enough, as the next ones come to the worker with fewer."""

    def __init__(self, broker: RunningBroker, worker: int) -> None:
        folder = broker.data_dir / "workers" / str(worker) if worker else broker.data_dir
        self.pid = int((folder / "LOCK").read_text(encoding="ascii"))
        self._url = broker.url
        self._worker = worker

    def open(self, count: int = 1) -> list[Link]:
        """See Side."""
        found: list[Link] = []
        others: list[Link] = []
        while len(found) < count:
            links = [Link(parse_target(self._url), "hop") for _ in range(max(count - len(found), len(others)))]
            here = self._ports()
            for link in links:
                (found if link.sock.getsockname()[1] in here else others).append(link)
        for link in others + found[count:]:
            link.close()
        return found[:count]

    def _ports(self) -> set[int]:
        """Of the clients that are here."""
        ports: set[int] = set()
        position: dict[str, object] = {}
        with SystemClient(self._url) as client:
            while True:
                columns = ["node", "peer_port"]
                page = client.request("objects.page", kind="connections", limit=500, columns=columns, **position)
                ports |= {port for node, port in page["rows"] if worker_number(node) == self._worker}
                position = {"after": page["next"]}
                if page["next"] is None:
                    return ports


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
    """A connection that consumes. Every delivery has as many octets as the first."""

    def __init__(self, link: Link, acks: bool, queue: str = QUEUE) -> None:
        link.call(methods.BasicConsume(queue=queue, no_ack=not acks), methods.BasicConsumeOk)
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
        sides: Sequence[Side],
        stack: ExitStack,
        case: str,
        kind: str,
        connections: int,
        count: int,
        size: int,
        queue_type: str = "classic",
    ) -> None:
        self._pids = [side.pid for side in sides]
        self._step = connections * count
        is_confirmed = kind == "confirmed"
        scenario = Scenario(queue=QUEUE, durable=True, persistent=is_confirmed, size=size)
        place = {"x-queue-master-locator": "client-local"} if queue_type == "classic" else {}
        with sides[0].open()[0] as link:
            link.delete_queue(QUEUE)
            link.declare_queue(QUEUE, True, {"x-queue-type": queue_type, **place})
            link.sync()
        publishing, consuming = CASES[case]
        [taker] = sides[consuming].open()
        publish = build_publish(scenario, scenario.routes_of(0)[0], taker.frame_max, CHANNEL)
        self._taker = Taker(taker, is_confirmed)
        stack.callback(self._taker.sock.close)
        self._producers = []
        for link in sides[publishing].open(connections):
            producer = Producer(link, publish * count, count, is_confirmed)
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
def two_nodes() -> Iterator[list[Side]]:
    """A cluster of two, without management."""
    with temporary_folder() as folder, running_cluster(2, folder) as cluster:
        yield [NodeSide(node) for node in cluster.nodes]


@contextmanager
def two_workers() -> Iterator[list[Side]]:
    """A node of two, whose clients stay where they are."""
    settings = {"workers": 2, "steering": "off"}
    with temporary_folder() as folder, RunningBroker(folder / "data", START_S, settings) as broker:
        yield [WorkerSide(broker, worker) for worker in range(2)]


def measure(
    sides: Sequence[Side],
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
        load = Load(sides, stack, case, kind, connections, count, size, queue_type)
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
@click.option("--workers", "is_inside", is_flag=True, help="Between two workers of a node, not two nodes.")
def hop(
    cases: tuple[str, ...],
    kind: str,
    connections: int | None,
    counts: tuple[int, ...],
    size: int,
    messages: int,
    runs: int,
    is_inside: bool,
) -> None:
    """Measure what a hop between two nodes, or workers, costs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    chosen = [connections or (1000 if count == 1 else 100) for count in counts]
    titles = [f"{each:,} connections, k = {count}" for each, count in zip(chosen, counts, strict=True)]
    click.echo(f"us of processor time a message ({kind}, {size} octets), home + other node; {describe_machine()}\n")
    click.echo(f"| | {' | '.join(titles)} |")
    click.echo(f"|---|{'---|' * len(counts)}")
    alone: dict[int, float] = {}  # what a message costs without a hop, by k
    with two_workers() if is_inside else two_nodes() as sides:
        for case in cases or CASES:
            cells = []
            for count, each in zip(counts, chosen, strict=True):
                steps = max(3, -(-messages // (each * count)))
                home, other = measure(sides, case, kind, each, count, size, steps, runs)
                cells.append(f"{home:.2f} + {other:.2f}")
                if case == "home":
                    alone[count] = home
                elif count in alone:
                    cells[-1] += f" ({(home + other - alone[count]) / (2 * sum(CASES[case])):.2f} a side)"
            click.echo(f"| {TITLES[case]} | {' | '.join(cells)} |")


if __name__ == "__main__":
    hop()
