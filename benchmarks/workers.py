"""`python -m benchmarks.workers`: what a message costs on a node of one, two and four workers, once its clients are at
the workers of their queues; and how many messages still hop then.

The lock step of benchmarks/hop.py (its head says what is counted), with several queues, each with a consumer and
producers of its own, on one node. Counted is the processor time of all processes of the node, the supervisor included,
so more workers than processors make no difference but by what they cost. Before that, steps are taken until less than
MOST_HOPS of the messages hop, or for STEER_S: connections move by themselves (docs/scale.md), at first 64 at a time.

    make bench-workers                         all rows, minutes; writes benchmarks/results/workers.md
    make bench-workers ARGS="--messages 5000 --workers 1 --workers 2 --row batches"
"""

from __future__ import annotations

import resource
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click

from amqp_broker.bench.link import Link
from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import Target, parse_target
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import RunningBroker
from benchmarks.brokers import temporary_folder
from benchmarks.hop import CHANNEL, Producer, Taker, processor_time_us
from benchmarks.machine import header, page_of, table

QUEUES = 16
WORKERS = (1, 2, 4)
#: The cost with the most workers may be so much above that with one, per cent.
MOST_GROWTH = 10.0
#: Of the messages, when clients are where their queues are.
MOST_HOPS = 0.05
#: Connections have so long to move, seconds: one that finds no room at a worker tries again after 10.
STEER_S = 30.0
#: What a node counts is at most so old, seconds.
_FRESH_S = 1.1
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """producers: connections; count: messages that each sends at once; is_confirmed: persistent, with confirms and
    acknowledgements."""

    title: str
    producers: int
    count: int
    is_confirmed: bool = False


ROWS = {
    "batches": Row("128 producers, 64 messages a read", 128, 64),
    "confirmed": Row("128 producers, 64 messages a read, persistent, confirms and acks", 128, 64, is_confirmed=True),
    "eight": Row("1,000 producers, 8 messages a read", 1000, 8),
    "one": Row("1,000 producers, 1 message a read", 1000, 1),
}


def processes_of(pid: int) -> list[int]:
    """A process and all that come from it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


class Load:
    """The clients of one row, on one node."""

    def __init__(self, broker: RunningBroker, stack: ExitStack, row: Row, size: int) -> None:
        self._broker = broker
        self._step = row.producers * row.count
        target = parse_target(broker.url)
        self._takers: list[tuple[Taker, int]] = []
        self._producers: list[Producer] = []
        for number in range(QUEUES):
            self._add_queue(target, stack, row, size, number)

    def _add_queue(self, target: Target, stack: ExitStack, row: Row, size: int, number: int) -> None:
        scenario = Scenario(queue=f"workers-{number}", durable=True, persistent=row.is_confirmed, size=size)
        with Link(target, "workers") as link:
            link.delete_queue(scenario.queue)
            link.declare_queue(scenario.queue, True, {})
            link.sync()
        producers = len(range(number, row.producers, QUEUES))
        taker = Link(target, "workers")
        publish = build_publish(scenario, scenario.routes_of(0)[0], taker.frame_max, CHANNEL)
        self._takers.append((Taker(taker, row.is_confirmed, scenario.queue), producers * row.count))
        stack.callback(self._takers[-1][0].sock.close)
        for _ in range(producers):
            producer = Producer(Link(target, "workers"), publish * row.count, row.count, row.is_confirmed)
            stack.callback(producer.sock.close)
            self._producers.append(producer)

    def step(self) -> None:
        """All messages of a step, until everybody has theirs."""
        for producer in self._producers:
            producer.send()
        for taker, count in self._takers:
            taker.wait(count)
        for producer in self._producers:
            producer.wait()

    def hops(self) -> tuple[int, int]:
        """So many commands have gone from worker to worker, and so many messages were published, since the start."""
        time.sleep(_FRESH_S)
        with SystemClient(self._broker.url) as client:
            nodes = client.request("totals")["nodes"].values()
        return sum(node["hops_out"] for node in nodes), sum(node["publish"] for node in nodes)

    def share_of_hops(self, steps: int) -> float:
        """Commands to other workers for each message of some steps."""
        before = self.hops()
        for _ in range(steps):
            self.step()
        after = self.hops()
        return (after[0] - before[0]) / (after[1] - before[1])

    def steer(self) -> None:
        """Until nearly all clients are where their queues are, or for STEER_S."""
        until = time.monotonic() + STEER_S
        while self.share_of_hops(-(-33 // (self._step // len(self._producers)))) > MOST_HOPS:
            if time.monotonic() > until:
                return

    def cost_us(self, steps: int) -> float:
        """Processor time of a message, of the whole node."""
        processes = processes_of(self._broker.process.pid)
        before = sum(map(processor_time_us, processes))
        for _ in range(steps):
            self.step()
        return (sum(map(processor_time_us, processes)) - before) / (steps * self._step)


def measure(row: Row, workers: int, size: int, messages: int, runs: int) -> tuple[float, float]:
    """Cost of a message, microseconds, and how many hops it makes. messages: of a run, at least."""
    settings: dict[str, object] = {"workers": workers} if workers > 1 else {}
    steps = max(3, -(-messages // (row.producers * row.count)))
    with temporary_folder() as folder, ExitStack() as stack:
        broker = stack.enter_context(RunningBroker(folder / "data", _START_S, settings))
        load = Load(broker, stack, row, size)
        load.step()
        if workers > 1:
            load.steer()
        cost = statistics.median(load.cost_us(steps) for _ in range(runs))
        return cost, load.share_of_hops(steps) if workers > 1 else 0.0


def cells_of(row: Row, found: dict[int, tuple[float, float]]) -> list[list[str]]:
    """The two lines of a row: costs, and hops."""
    costs = [cost for cost, _ in found.values()]
    growth = 100 * (costs[-1] / costs[0] - 1)
    verdict = "holds" if growth <= MOST_GROWTH else "**misses**"
    hops = [share for _, share in found.values()]
    is_steered = "holds" if hops[-1] <= MOST_HOPS else "**misses**"
    return [
        [row.title, "us", *(f"{cost:.2f}" for cost in costs), f"{growth:+.0f} %, <= {MOST_GROWTH:g} %", verdict],
        ["hops a message", "%", *(f"{100 * share:.1f}" for share in hops), f"<= {100 * MOST_HOPS:g} %", is_steered],
    ]


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--row", "names", type=click.Choice([*ROWS]), multiple=True, help="Of these only. [all]")
@click.option("--workers", "counts", type=click.IntRange(1, 16), multiple=True, default=WORKERS)
@click.option("--producers", type=click.IntRange(QUEUES), help="Connections that publish, instead of those of the row.")
@click.option("--size", type=click.IntRange(0), default=128, help="Octets of a body.")
@click.option("--messages", type=click.IntRange(1), default=100_000, help="Of a run, at least.")
@click.option("--runs", type=click.IntRange(1), default=3)
def workers(
    names: tuple[str, ...], counts: tuple[int, ...], producers: int | None, size: int, messages: int, runs: int
) -> None:
    """Measure what a message costs with one and more workers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    rows: list[list[str]] = []
    for name in names or ROWS:
        row = ROWS[name] if producers is None else replace(ROWS[name], producers=producers)
        found: dict[int, tuple[float, float]] = {}
        for count in counts:
            try:
                found[count] = measure(row, count, size, messages, runs)
            except TimeoutError as error:
                raise click.ClickException(f"{row.title}, {count} workers: nothing came for a minute") from error
            click.echo(f"{row.title}, W = {count}: {found[count][0]:.2f} us, {found[count][1]:.3f} hops", err=True)
        rows += cells_of(row, found)
    columns = ["a message", "unit", *(f"W = {count}" for count in counts), "limit", ""]
    facts = {"bodies": f"{size} octets", "queues": str(QUEUES), "what": "processor time of all processes of the node"}
    is_whole = not names and counts == WORKERS and producers is None and messages >= 100_000
    path = page_of("workers", is_whole)
    path.write_text("\n".join([*header("A node of several workers", facts), *table(columns, rows)]) + "\n", "utf-8")
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    workers()
