"""The rows of the comparison, as data: what is run on both brokers, what is read from it, what the ratio must
be.

A row's target is a ratio of ours to RabbitMQ's: at least (rates) or at most (latencies). Where the load is
not paced, `received` is what counts. Bodies of 64 KiB and more are published without confirms, as the
broker's back-pressure is part of what they measure. What a message costs is told beside every rate, without a target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from amqp_broker.bench.result import Latency
from amqp_broker.bench.scenario import Scenario
from benchmarks.run import Run

PLAIN_TARGET = 1.5  # so much better everything must be without the compiled modules
FLOOR_TARGET = 0.9  # of what benchmarks/floor.py carries, compiled or not


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure read from a run: its unit, how to read it, and the ratio to reach (see `is_rate`), if there is one."""

    unit: str
    read: Callable[[Run], float]
    target: float | None
    is_rate: bool = True

    def plain_target(self) -> float | None:
        """The ratio to reach without the compiled modules."""
        if self.target is None:
            return None
        return min(self.target, PLAIN_TARGET) if self.is_rate else max(self.target, 1 / PLAIN_TARGET)

    def holds(self, ratio: float, target: float) -> bool:
        """Whether the ratio is as good as `target` asks."""
        return ratio >= target if self.is_rate else ratio <= target


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario of the comparison and what is read from it. `name` is how it is picked on the command
    line. `has_floor`: whether benchmarks/floor.py can carry it, and is a floor for it. `counted`: the path of
    benchmarks/node_load.py that is the same for a node, so that its instructions are those of this row.
    """

    name: str
    title: str
    scenario: Scenario
    measures: tuple[Measure, ...]
    nodes: int = 1
    has_floor: bool = False
    counted: str = ""

    @property
    def is_throughput(self) -> bool:
        """Whether it is about as many messages as go through."""
        return all(measure.is_rate for measure in self.measures)


ACKNOWLEDGED = Scenario(confirm_window=1000, ack_every=100)


def received(target: float) -> tuple[Measure, ...]:
    """Messages received per second, to be `target` times RabbitMQ's."""
    return (Measure("msg/s", lambda run: run.result.rate(run.result.counts.received), target),)


#: What a message that is received costs the broker.
COST = Measure("processor us/msg", lambda run: run.cost, None, is_rate=False)


def _latency(run: Run) -> Latency:
    if run.result.latency is None:
        raise ValueError("no message arrived in the measured time, so there is no latency")
    return run.result.latency


LATENCY = (
    Measure("ms p50", lambda run: _latency(run).p50, 0.5, is_rate=False),
    Measure("ms p99", lambda run: _latency(run).p99, 0.5, is_rate=False),
)

QUORUM = replace(ACKNOWLEDGED, queue_type="quorum", durable=True, persistent=True)
STREAM = replace(ACKNOWLEDGED, queue_type="stream", durable=True, persistent=True)

ROWS = (
    Row("transient-16", "transient, auto-ack, 16 B", Scenario(auto_ack=True, size=16), received(8)),
    Row("transient-128", "transient, auto-ack, 128 B", Scenario(auto_ack=True, size=128), received(8)),
    Row("transient-1k", "transient, auto-ack, 1 KiB", Scenario(auto_ack=True, size=1024), received(8)),
    Row(
        "confirms",
        "confirms (window 1000) and acks of 100, 128 B",
        ACKNOWLEDGED,
        received(8),
        counted="transient",
    ),
    Row(
        "persistent",
        "persistent 1 KiB, confirms and acks of 100",
        replace(ACKNOWLEDGED, size=1024, durable=True, persistent=True),
        received(8),
        counted="persistent",
    ),
    Row(
        "topic",
        "topic exchange, 1,000 bindings, confirms and acks of 100",
        replace(ACKNOWLEDGED, exchange_type="topic", bindings=1000),
        received(8),
    ),
    Row(
        "headers",
        "headers exchange, 100 bindings, confirms and acks of 100",
        replace(ACKNOWLEDGED, exchange_type="headers", bindings=100),
        received(8),
    ),
    Row(
        "fanout-5",
        "fan-out to 5 queues, delivered",
        replace(ACKNOWLEDGED, exchange_type="fanout", queues=5, consumers=5),
        received(8),
    ),
    Row(
        "fanout-100",
        "fan-out to 100 queues, delivered",
        replace(ACKNOWLEDGED, exchange_type="fanout", queues=100, consumers=100),
        received(8),
    ),
    Row("64k", "64 KiB, auto-ack", Scenario(auto_ack=True, size=64 << 10), received(1.3), has_floor=True),
    Row("1m", "1 MiB, auto-ack", Scenario(auto_ack=True, size=1 << 20), received(1.3), has_floor=True),
    Row(
        "many",
        "8 producers, 8 consumers, 4 queues, confirms and acks of 100",
        replace(ACKNOWLEDGED, producers=8, consumers=8, queues=4),
        received(8),
    ),
    Row("latency-2000", "end to end at 2,000/s, auto-ack", Scenario(auto_ack=True, rate=2000), LATENCY),
    Row("latency-10000", "end to end at 10,000/s, auto-ack", Scenario(auto_ack=True, rate=10_000), LATENCY),
    Row("quorum-one", "quorum queue of one node, 1 KiB", replace(QUORUM, size=1024), received(4)),
    Row("quorum-128", "quorum queue of three nodes, 128 B", QUORUM, received(4), nodes=3),
    Row("quorum", "quorum queue of three nodes, 1 KiB", replace(QUORUM, size=1024), received(4), nodes=3),
    Row(
        "quorum-many",
        "quorum queues of three nodes, 4 of them, 4 producers, 4 consumers, 1 KiB",
        replace(QUORUM, size=1024, producers=4, consumers=4, queues=4),
        received(4),
        nodes=3,
    ),
    Row(
        "stream",
        "stream of one node, 128 B, confirms and acks of 100",
        STREAM,
        received(8),
        counted="stream",
    ),
    Row(
        "stream-5",
        "stream of one node, 128 B, 5 consumers that get everything",
        replace(STREAM, consumers=5),
        received(8),
    ),
    Row("stream-three", "stream of three nodes, 128 B", STREAM, received(4), nodes=3),
    Row(
        "quorum-latency",
        "quorum queue of three nodes, end to end at 1,000/s, 1 KiB",
        replace(QUORUM, size=1024, rate=1000, ack_every=1),
        LATENCY,
        nodes=3,
    ),
    Row(
        "quorum-latency-5000",
        "quorum queue of three nodes, end to end at 5,000/s, 1 KiB",
        replace(QUORUM, size=1024, rate=5000, ack_every=1),
        LATENCY,
        nodes=3,
    ),
)
