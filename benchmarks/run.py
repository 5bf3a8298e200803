"""Run: a load on a broker, carried out once or in pairs; what it brought, and what a message cost the broker.

The rate depends on who else uses the machine, and on how much the load generator takes; the broker's processor time for
a message hardly does. It is of all nodes of a cluster together, and of the measured seconds alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amqp_broker.bench.load import run_load
from amqp_broker.bench.result import Progress, Result
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import Broker, BrokerError

WARM_UP_SECONDS = 2.0  # with many connections, a broker needs some time to find its pace
SETTLE_SECONDS = 1.0  # between two runs, for a broker to throw away what the last one left
LEAST_SECONDS = 2.0  # what is told once a second has to be told twice


@dataclass(frozen=True, slots=True)
class Run:
    """A run on one broker. cost: processor microseconds of all its nodes for a message that was received."""

    result: Result
    cost: float

    def as_json(self) -> dict[str, object]:
        """The run for machines."""
        return {**self.result.as_json(), "broker_cpu_us_per_message": round(self.cost, 3)}


def run_once(what: str, scenario: Scenario, broker: Broker, seconds: float) -> Run:
    """So many seconds of a load, after its warm-up. Raises BrokerError, which says `what`, for a run that failed."""
    marks: list[tuple[float, int]] = []

    def mark(progress: Progress) -> None:
        if progress.seconds >= WARM_UP_SECONDS:
            marks.append((broker.cpu_seconds(), progress.counts.received))

    timed = dataclasses.replace(scenario, targets=(broker.target,), seconds=seconds, warm_up=WARM_UP_SECONDS)
    result = run_load(timed, mark)
    if result.problems:
        raise BrokerError(f"{what} on {broker.name}: {'; '.join(result.problems)}")
    if len(marks) < 2:
        raise BrokerError(f"{what} on {broker.name}: {seconds:g} s are too short to be measured, give more")
    return Run(result, cost_of(marks))


def cost_of(marks: Sequence[tuple[float, int]]) -> float:
    """Processor microseconds of a message. A mark has what the broker had used until then, in seconds, and what has
    been received since the mark before."""
    received = sum(count for _, count in marks[1:])
    return 1e6 * (marks[-1][0] - marks[0][0]) / max(1, received)


def run_pairs(
    what: str, scenario: Scenario, brokers: Sequence[Broker], pairs: int, seconds: float
) -> dict[str, list[Run]]:
    """The runs by broker name, in the order of the pairs: one on each, right after one another, and in every other pair
    from the last to the first. Raises BrokerError."""
    runs: dict[str, list[Run]] = {broker.name: [] for broker in brokers}
    for number in range(pairs):
        for broker in brokers if number % 2 == 0 else reversed(brokers):
            runs[broker.name].append(run_once(what, scenario, broker, seconds))
            time.sleep(SETTLE_SECONDS)
    return runs


def run_checked(scenario: Scenario, run: Callable[[Scenario], Result] = run_load) -> Result:
    """The result of a run in which nothing went wrong; BrokerError otherwise."""
    result = run(scenario)
    if result.problems or not result.is_complete:
        raise BrokerError("; ".join(result.problems) or "not all messages arrived")
    return result


def rate_of(scenario: Scenario, broker: Broker, run: Callable[[Scenario], Result] = run_load) -> float:
    """Messages a second: those that arrived, or were confirmed where nobody consumes. Raises BrokerError."""
    result = run_checked(dataclasses.replace(scenario, targets=(broker.target,)), run)
    counts = result.counts
    return result.rate(counts.received if scenario.consumers else counts.confirmed)
