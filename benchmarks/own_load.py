"""Ours beside other brokers: `amqp-broker bench` as their work, and what our broker promises for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amqp_broker.bench.load import run_declared, run_load
from amqp_broker.bench.result import Result
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, own_broker
from benchmarks.contender import Contender, Step, Work
from benchmarks.run import rate_of

KEPT = Scenario(durable=True, persistent=True, prefetch=10_000, ack_every=1000)
TRANSIENT = "handed over at most once: neither confirmed nor acknowledged, in memory; what is not read yet waits there"
SYNCED = "confirmed when it is on the disk (fdatasync), several in one sync"
TAKEN = f"{SYNCED}; who reads takes it away, with acknowledgements of {KEPT.ack_every:,}"
READ = f"{SYNCED}; who reads leaves it there for others, with acknowledgements of {KEPT.ack_every:,}"


def through(size: int) -> Work:
    """From a publisher to a consumer at once, without confirms and acknowledgements."""
    return _work(Scenario(auto_ack=True, size=size))


def publish(size: int, outstanding: int, producers: int = 1, queue_type: str = "classic") -> Work:
    """Into a durable queue that nobody reads, with so many unconfirmed for each producer."""
    kept = replace(KEPT, size=size, queue_type=queue_type, producers=producers, consumers=0)
    return _work(replace(kept, confirm_window=outstanding))


def read(size: int, queue_type: str) -> Work:
    """Out of a durable queue that is there; of a stream from its beginning."""
    return _work(replace(KEPT, size=size, queue_type=queue_type, producers=0), run_declared)


def ours(name: str, promise: str, messages: int, *steps: Step) -> Contender:
    """Our broker as its users start it."""
    return Contender(f"ours, {name}", promise, own_broker, steps, messages)


def _work(scenario: Scenario, run: Callable[[Scenario], Result] = run_load) -> Work:
    def work(broker: Broker, name: str, messages: int) -> float:
        return rate_of(replace(scenario, queue=name, messages=messages, seconds=0), broker, run)

    return work
