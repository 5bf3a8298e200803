"""Contender: a broker as it is run beside another, what it is given to do, and what it promises for it.

Every work is a fixed amount: rates are of whoever publishes or reads, and the broker's processor time for a million
messages does not depend on whose load generator is the lighter. Each run has a broker and a data folder of its own, and
a part of the work warms it up before it is measured, as Java needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import Broker, temporary_folder

#: Carries so many messages into, through or out of a queue, a stream or a log of this name, which it makes if it
#: publishes; returns messages per second. Raises BrokerError.
Work = Callable[[Broker, str, int], float]

WARM_UP = 0.25
LEAST_MESSAGES = 1000
RATE, COST = "messages/s", "processor s per million"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """What is done, as the page calls it, and how. `work` finds what the steps before have left."""

    what: str
    work: Work


@dataclass(frozen=True, slots=True)
class Contender:
    """How a broker is run and what it gets to do: so many messages in each step, on one broker.

    promise: what a message has behind it once it is confirmed, or handed over where nobody confirms.
    """

    name: str
    promise: str
    start: Callable[[Path], AbstractContextManager[Broker]]
    steps: tuple[Step, ...]
    messages: int


@dataclass(frozen=True, slots=True)
class Figure:
    """What was found, in `unit`."""

    what: str
    unit: str
    value: float


def worked(contender: Contender, scale: float) -> Iterator[Figure]:
    """What its steps bring and cost, after all of them have warmed the broker up. Raises BrokerError."""
    messages = scaled(contender.messages, scale)
    with temporary_folder() as folder, contender.start(folder / "data") as broker:
        for step in contender.steps:
            step.work(broker, "warmup", scaled(messages, WARM_UP))
        for step in contender.steps:
            before = broker.cpu_seconds()
            rate = step.work(broker, "measured", messages)
            yield Figure(step.what, RATE, rate)
            yield Figure(step.what, COST, 1e6 * (broker.cpu_seconds() - before) / messages)


def weighed(contender: Contender, scale: float) -> Iterator[Figure]:
    """How long it takes to be ready, and what it has resident before and after its steps. Raises BrokerError."""
    messages = scaled(contender.messages, scale)
    with temporary_folder() as folder, contender.start(folder / "data") as broker:
        yield Figure("start of an empty broker", "s", broker.start_seconds)
        yield Figure("memory of an empty broker", "MiB", broker.memory_bytes() / MIB)
        for step in contender.steps:
            step.work(broker, "measured", messages)
            yield Figure(f"memory with {messages:,} {step.what}", "MiB", broker.memory_bytes() / MIB)


def scaled(amount: int, scale: float) -> int:
    """A part of an amount of messages, or a multiple."""
    return max(LEAST_MESSAGES, int(amount * scale))


@dataclass(frozen=True, slots=True)
class Case:
    """Who is compared, ours first, and what is measured of each."""

    contenders: tuple[Contender, ...]
    measure: Callable[[Contender, float], Iterator[Figure]] = worked


@dataclass(frozen=True, slots=True)
class Other:
    """A broker beside which ours is measured.

    fetch: gets its program, or raises BrokerError with the way out; returns its version. facts: what its page says of
    how it is run and loaded.
    """

    title: str
    fetch: Callable[[], str]
    facts: dict[str, str]
    cases: tuple[Case, ...]
