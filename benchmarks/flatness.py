"""Whether a message costs the same with one queue, binding, connection or waiting message as with very many.

Each experiment runs the same load twice in brokers of their own, small and large, and compares what a message
cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, own_broker, temporary_folder
from benchmarks.findings import Finding, run_checked
from benchmarks.memory import many_links

QUEUES = 10_000
BINDINGS = 100_000
CONNECTIONS = 5000
BACKLOG = 10_000_000
MESSAGES = 1_000_000
MOST_GROWTH = 25  # per cent

LOAD = Scenario(confirm_window=1000, ack_every=100, messages=MESSAGES, seconds=0)


def cost_of(broker: Broker, load: Scenario) -> float:
    """Microseconds of the broker's processor time for each message of a load, after a short one of the
    same kind.
    """
    load = replace(load, targets=(broker.target,))
    run_checked(replace(load, messages=max(1, load.messages // 10)))
    before = broker.cpu_seconds()
    result = run_checked(load)
    return 1e6 * (broker.cpu_seconds() - before) / result.counts.received


def findings(what: str, small: float, large: float) -> Iterator[Finding]:
    """Both costs, and by how much the second is higher."""
    yield Finding(f"cost of a message with 1 {what}", "us", small)
    yield Finding(f"cost of a message with the most {what}s", "us", large)
    yield Finding(f"growth of the cost with {what}s", "%", 100 * (large / small - 1), MOST_GROWTH)


def compare_loads(what: str, small: Scenario, large: Scenario) -> Iterator[Finding]:
    """Two scenarios, each in a fresh broker."""
    with temporary_folder() as folder:
        with own_broker(folder / "small") as broker:
            first = cost_of(broker, small)
        with own_broker(folder / "large") as broker:
            second = cost_of(broker, large)
    yield from findings(what, first, second)


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
    """The same load beside idle connections."""
    load = load_of(scale)
    with temporary_folder() as folder, own_broker(folder / "data") as broker:
        alone = cost_of(broker, load)
        with many_links(broker, scaled(CONNECTIONS, scale)):
            beside = cost_of(broker, load)
    yield from findings("connection", alone, beside)


def measure_backlog(scale: float) -> Iterator[Finding]:
    """A queue that holds the backlog all the time: as many go out at its head as come in at its tail."""
    load = replace(load_of(scale), queue="deep", durable=True, persistent=True)
    with temporary_folder() as folder, own_broker(folder / "data", ["--memory-budget", "256MiB"]) as broker:
        shallow = cost_of(broker, load)
        fill = replace(load, targets=(broker.target,), consumers=0, messages=scaled(BACKLOG, scale))
        run_checked(fill)
        deep = cost_of(broker, load)
    yield from findings("waiting message", shallow, deep)
