"""Whether a message costs the same with one queue, binding, connection or waiting message as with very many.

Each experiment runs the same load in two brokers of their own, small and large, in turn, and compares what a message
cost round by round: how fast the machine is may change from one second to the next. What it cost is what one more cost:
a tenth of the load is run too, before the whole or after it in turn, and subtracted, so that ten thousand consumers
that come and go are not in it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from amqp_broker.bench.load import declare_topology, run_declared
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, own_broker, temporary_folder
from benchmarks.findings import Finding
from benchmarks.memory import many_links
from benchmarks.run import run_checked

QUEUES = 10_000
BINDINGS = 100_000
CONNECTIONS = 5000
BACKLOG = 10_000_000
MESSAGES = 1_000_000
MOST_GROWTH = 25  # per cent

ROUNDS = 11
ONE_CHANNEL = ["--max-consumers-per-channel", "100000"]  # so that a single consumer may serve all queues

LOAD = Scenario(confirm_window=1000, ack_every=100, messages=MESSAGES, seconds=0, queue="kept", exchange="kept")


class Costs:
    """The cost of a message of one load on one broker, in microseconds of the broker's processor time, by
    rounds.
    """

    def __init__(self, broker: Broker, load: Scenario) -> None:
        self.broker = broker
        self.load = replace(load, targets=(broker.target,))
        self.found: list[float] = []
        declare_topology(self.load)
        run_checked(replace(self.load, messages=max(1, load.messages // 10)), run_declared)

    def measure(self) -> None:
        """One more round."""
        seconds = messages = 0.0
        loads = [(-1, replace(self.load, messages=self.load.messages // 10)), (1, self.load)]
        for sign, load in loads if len(self.found) % 2 else reversed(loads):
            before = self.broker.cpu_seconds()
            result = run_checked(load, run_declared)
            seconds += sign * (self.broker.cpu_seconds() - before)
            messages += sign * result.counts.received
        self.found.append(1e6 * seconds / messages)


def findings(what: str, few: Costs, many: Costs) -> Iterator[Finding]:
    """Measures both in turn: the median costs, and by how much the second is higher in the median round."""
    for _ in range(ROUNDS):
        few.measure()
        many.measure()
    growth = statistics.median(large / small - 1 for small, large in zip(few.found, many.found, strict=True))
    yield Finding(f"cost of a message with 1 {what}", "us", statistics.median(few.found))
    yield Finding(f"cost of a message with the most {what}s", "us", statistics.median(many.found))
    yield Finding(f"growth of the cost with {what}s", "%", 100 * growth, MOST_GROWTH)


def compare_loads(what: str, small: Scenario, large: Scenario) -> Iterator[Finding]:
    """Two scenarios, each in a broker of its own."""
    with (
        temporary_folder() as folder,
        own_broker(folder / "small", ONE_CHANNEL) as first,
        own_broker(folder / "large", ONE_CHANNEL) as second,
    ):
        yield from findings(what, Costs(first, small), Costs(second, large))


def scaled(count: int, scale: float) -> int:
    return max(2, int(count * scale))


def load_of(scale: float) -> Scenario:
    """The load, with fewer messages where a quick look is wanted."""
    return replace(LOAD, messages=max(100_000, int(MESSAGES * scale)))


def measure_queues(scale: float) -> Iterator[Finding]:
    """One producer takes turns among the queues, one consumer takes from all."""
    load = load_of(scale)
    yield from compare_loads("queue", load, replace(load, queues=scaled(QUEUES, scale)))


def measure_bindings(scale: float) -> Iterator[Finding]:
    """A topic exchange whose bindings are used in turn."""
    load = replace(load_of(scale), exchange_type="topic")
    yield from compare_loads("binding", load, replace(load, bindings=scaled(BINDINGS, scale)))


def measure_connections(scale: float) -> Iterator[Finding]:
    """The same load on a broker with idle connections."""
    load = load_of(scale)
    with (
        temporary_folder() as folder,
        own_broker(folder / "small") as first,
        own_broker(folder / "large") as second,
        many_links(second, scaled(CONNECTIONS, scale)),
    ):
        yield from findings("connection", Costs(first, load), Costs(second, load))


def measure_backlog(scale: float) -> Iterator[Finding]:
    """A queue that holds the backlog all the time: as many go out at its head as come in at its tail."""
    load = replace(load_of(scale), durable=True, persistent=True)
    budget = ["--memory-budget", "256MiB"]
    with (
        temporary_folder() as folder,
        own_broker(folder / "small", budget) as first,
        own_broker(folder / "large", budget) as second,
    ):
        few, many = Costs(first, load), Costs(second, load)
        run_checked(replace(many.load, consumers=0, messages=scaled(BACKLOG, scale)), run_declared)
        yield from findings("waiting message", few, many)
