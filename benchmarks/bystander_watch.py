"""A bystander: a connection that has nothing to do with what goes on, in a process of its own, and what it feels.

It asks a hundred times a second, never two things at once, and notes how long each answer took. What it would have
asked while it was still waiting counts as asked then and answered with the other: a stall of half a second is fifty
long waits, not one. But it does not catch up: answers of 20 ms each stay waits of 20 ms.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from amqp_broker.bench.link import CHANNEL, Link
from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import Target
from amqp_broker.protocol import methods
from benchmarks.brokers import BrokerError

INTERVAL_NS = 10_000_000
READY_SECONDS = 30.0
#: A bystander waits so long for one answer before it gives the broker up.
PATIENCE_SECONDS = 120.0

#: When it was asked (monotonic clock, which processes share) and how long the answer took, nanoseconds.
Sample = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of some bystander, milliseconds. count: how many answers they are of."""

    median: float
    p99: float
    longest: float
    count: int


def waits_of(samples: list[Sample], begin: int, end: int) -> Waits:
    """The waits of what was asked from `begin` to `end`. Raises BrokerError when nothing was."""
    found = sorted(wait / 1e6 for asked, wait in samples if begin <= asked <= end)
    if not found:
        raise BrokerError("a bystander has asked nothing while the case ran: it was over too soon")
    return Waits(found[len(found) // 2], found[min(len(found) - 1, len(found) * 99 // 100)], found[-1], len(found))


def asks_for_nothing(link: Link) -> Callable[[], None]:
    """basic.get on an empty queue of its own."""
    link.call(methods.QueueDeclare(queue="bystander-get", exclusive=True), methods.QueueDeclareOk)
    get = methods.BasicGet(queue="bystander-get", no_ack=True)
    return lambda: void(link.call(get, methods.BasicGetEmpty))


def publishes(link: Link) -> Callable[[], None]:
    """A publish to a queue of its own, and its confirm."""
    link.call(methods.QueueDeclare(queue="bystander-confirm", exclusive=True), methods.QueueDeclareOk)
    link.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
    scenario = Scenario(queue="bystander-confirm", size=64)
    octets = build_publish(scenario, scenario.routes()[0], link.frame_max, CHANNEL)

    def ask() -> None:
        link.send_octets(octets)
        link.expect(methods.BasicAck)

    return ask


def void(_: object) -> None:
    """Nothing is made of an answer."""


KINDS = {"get": asks_for_nothing, "confirm": publishes}


def observe(target: Target, kind: str, pipe: Connection) -> None:
    """What the bystander's process does: ask until it is told to stop, then send its samples."""
    samples: list[Sample] = []
    with Link(target, f"bystander {kind}", PATIENCE_SECONDS) as link:
        ask = KINDS[kind](link)
        pipe.send("ready")
        due = time.monotonic_ns()
        while not pipe.poll():
            left = due - time.monotonic_ns()
            if left > 0:
                time.sleep(left / 1e9)
            asked = time.monotonic_ns()  # its own late waking is nobody's fault
            ask()
            took = time.monotonic_ns() - asked
            samples.extend((asked + late, took - late) for late in range(0, took, INTERVAL_NS))
            due = max(due + INTERVAL_NS, asked + took)
        pipe.send(samples)


class Bystander:
    """The other end: a bystander's process, as it is seen from here."""

    def __init__(self, target: Target, kind: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=observe, args=(target, kind, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.kind = kind
        self._receive()

    def stop(self) -> list[Sample]:
        """Its samples. Raises BrokerError."""
        self._pipe.send("stop")
        samples: list[Sample] = self._receive()
        self._process.join(READY_SECONDS)
        return samples

    def _receive(self) -> list[Sample]:
        try:
            if self._pipe.poll(READY_SECONDS + PATIENCE_SECONDS):
                found: list[Sample] = self._pipe.recv()
                return found
        except EOFError:
            pass
        raise BrokerError(f"the bystander '{self.kind}' gave up: the broker refused it or did not answer")

    def end(self) -> None:
        """Its process is gone, whatever it was doing."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


@contextmanager
def bystanders(target: Target) -> Iterator[list[Bystander]]:
    """One of each kind, asking already."""
    there: list[Bystander] = []
    try:
        there.extend(Bystander(target, kind) for kind in KINDS)
        yield there
    finally:
        for each in there:
            each.end()
