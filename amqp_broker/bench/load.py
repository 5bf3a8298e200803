"""Load: carries out a scenario: sets up the topology, runs one thread per connection, measures, and cleans
up.

Nothing is created, deleted or emptied whose name does not begin with `bench`: other queues are used as they
are.

Life of a run: declare -> connect all -> start consumers, then producers -> (warm-up) -> measure -> stop ->
close -> delete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from amqp_broker.bench.histogram import Histogram
from amqp_broker.bench.link import CHANNEL, Link, LinkError, close_reason, good_bye
from amqp_broker.bench.loops import Consumer, Control, Producer, State, Wire, clock
from amqp_broker.bench.result import Counts, Progress, Result, latency_of
from amqp_broker.bench.ring import build_ring
from amqp_broker.bench.scenario import Scenario
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame

OWN_PREFIX = "bench"
NS = 1_000_000_000
POLL_SECONDS = 0.02
CLOSE_SECONDS = 5

ENDINGS = {
    State.LOST: "the connection was lost",
    State.CONFUSED: "what the broker sent is not AMQP 0-9-1, or confirms what was never published",
    State.CANCELLED: "the broker cancelled the consumer: was its queue deleted?",
}


def run_load(scenario: Scenario, on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Carry out `scenario`; `on_progress` is called once a second. Raises LinkError when it cannot begin.

    KeyboardInterrupt ends the run early: what was measured until then is returned.
    """
    declare_topology(scenario)
    try:
        result = run_declared(scenario, on_progress)
    finally:
        left_over = clean_up(scenario)
    return replace(result, problems=(*result.problems, *left_over))


def run_declared(scenario: Scenario, on_progress: Callable[[Progress], None] | None = None) -> Result:
    """The run alone, on queues and an exchange that are there already; see run_load."""
    run = Run(scenario)
    try:
        run.connect()
        return run.measure(on_progress)
    finally:
        run.close()


def clean_up(scenario: Scenario) -> list[str]:
    """Delete what is our own; what kept it from being deleted, if anything did."""
    try:
        delete_topology(scenario)
    except LinkError as error:
        return [f"queues are left behind: {error}"]
    return []


def is_own(name: str, scenario: Scenario) -> bool:
    """Whether the load generator may delete what has this name."""
    return name.startswith(OWN_PREFIX) and not scenario.keep


def declare_topology(scenario: Scenario) -> None:
    """Queues, exchange and bindings, anew where they are our own."""
    delete_topology(scenario)
    with Link(scenario.targets[0], "bench set-up") as link:
        for name in scenario.queue_names:
            link.declare_queue(name, scenario.is_durable, scenario.declare_arguments)
        if scenario.exchange_type != "default":
            link.declare_exchange(scenario.exchange, scenario.exchange_type, scenario.durable)
            for route in scenario.routes():
                arguments = {"x-match": "all", **route.headers} if route.headers else {}
                link.bind_queue(route.queue, scenario.exchange, route.binding_key, arguments)
        link.sync()


def delete_topology(scenario: Scenario) -> None:
    """Delete the queues and the exchange, where they are our own."""
    names = [name for name in scenario.queue_names if is_own(name, scenario)]
    is_exchange_own = scenario.exchange_type != "default" and is_own(scenario.exchange, scenario)
    if not names and not is_exchange_own:
        return
    with Link(scenario.targets[0], "bench clean-up") as link:
        for name in names:
            link.delete_queue(name)
        if is_exchange_own:
            link.delete_exchange(scenario.exchange)
        link.sync()


class Run:
    """The connections and threads of one run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.control = Control()
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.threads: list[threading.Thread] = []

    @property
    def wires(self) -> Sequence[Wire]:
        return [*self.consumers, *self.producers]

    def connect(self) -> None:
        """Open all connections; what consumers are sent from then on waits in their sockets."""
        for number in range(self.scenario.consumers):
            self.consumers.append(self._connect_consumer(number))
        for number in range(self.scenario.producers):
            self.producers.append(self._connect_producer(number))

    def _connect_consumer(self, number: int) -> Consumer:
        scenario = self.scenario
        link = Link(scenario.target_of(number), f"bench consumer {number}")
        if not scenario.auto_ack:
            link.call(methods.BasicQos(prefetch_count=scenario.prefetch), methods.BasicQosOk)
        for name in scenario.queues_of(number, scenario.consumers):
            consume = methods.BasicConsume(
                queue=name, consumer_tag=name, no_ack=scenario.auto_ack, nowait=True,
                arguments=Table(scenario.consume_arguments),
            )  # fmt: skip
            link.send(consume)
        sock, initial = link.hand_over()
        return Consumer(sock, initial, self.control, CHANNEL, 0 if scenario.auto_ack else scenario.ack_every)

    def _connect_producer(self, number: int) -> Producer:
        scenario = self.scenario
        link = Link(scenario.target_of(number), f"bench producer {number}")
        if scenario.confirm_window:
            link.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
        ring = build_ring(scenario, number, link.frame_max, CHANNEL)
        sock, initial = link.hand_over()
        interval_ns = round(NS * scenario.producers / scenario.rate) if scenario.rate else 0
        return Producer(
            sock,
            initial,
            self.control,
            CHANNEL,
            ring.octets,
            ring.pitch,
            ring.stamp_at,
            scenario.publish_batch,
            scenario.confirm_window,
            scenario.quota_of(number),
            interval_ns,
            interval_ns * number // scenario.producers,
        )

    def start(self) -> None:
        """One thread per connection, consumers first."""
        self.threads = [threading.Thread(target=wire.run, daemon=True) for wire in self.wires]
        for thread in self.threads:
            thread.start()

    def counts(self) -> Counts:
        """What all loops have counted by now."""
        return Counts(
            published=sum(producer.published for producer in self.producers),
            confirmed=sum(producer.confirmed for producer in self.producers),
            nacked=sum(producer.nacked for producer in self.producers),
            returned=sum(producer.returned for producer in self.producers),
            received=sum(consumer.received for consumer in self.consumers),
            redelivered=sum(consumer.redelivered for consumer in self.consumers),
        )

    def measure(self, on_progress: Callable[[Progress], None] | None) -> Result:
        """Run the loops for the scenario's time or amount of work."""
        scenario = self.scenario
        warm_up = 0.0 if scenario.messages else scenario.warm_up
        self.control.is_measuring = not warm_up
        begin = clock()
        measured_from = begin + int(warm_up * NS)
        ends_at = measured_from + int(scenario.seconds * NS) if scenario.seconds else None
        reporter = Reporter(self, measured_from, on_progress)
        cpu, before = time.process_time(), self.counts()
        self.start()
        try:
            while not self.is_over(ends_at):
                time.sleep(POLL_SECONDS)
                now = clock()
                if not self.control.is_measuring and now >= measured_from:
                    self.control.is_measuring = True
                    cpu, before, measured_from = time.process_time(), self.counts(), now
                reporter.tick(now)
        except KeyboardInterrupt:
            pass  # the summary below covers what was measured until here
        self.control.is_measuring = False
        end, cpu, counts = clock(), time.process_time() - cpu, self.counts() - before
        is_complete = not scenario.messages or self.is_work_done()
        if scenario.messages and is_complete:
            end = self.last_event()
        return Result(
            seconds=max(0, end - measured_from) / NS,
            counts=counts,
            latency=latency_of(self.merged(self.consumers)),
            confirm_latency=latency_of(self.merged(self.producers)),
            cpu_seconds=cpu,
            is_complete=is_complete,
            problems=tuple(self.problems()),
        )

    def is_over(self, ends_at: int | None) -> bool:
        """Time is up, the work is done, or a connection has ended."""
        if ends_at is not None and clock() >= ends_at:
            return True
        if self.scenario.messages and self.is_work_done():
            return True
        return any(wire.state not in (State.RUNNING, State.FINISHED) for wire in self.wires)

    def is_work_done(self) -> bool:
        """Whether the fixed amount of messages has been confirmed (or sent) and, where taken, has arrived."""
        if not all(producer.is_finished for producer in self.producers):
            return False
        counts = self.counts()
        refused = (counts.nacked + counts.returned) * self.scenario.copies
        return not self.consumers or counts.received >= self.scenario.deliveries - refused

    def last_event(self) -> int:
        """When the last message arrived, or was confirmed or sent where nobody consumes."""
        if self.consumers:
            return max(consumer.last_arrival for consumer in self.consumers)
        return max(producer.finished_at for producer in self.producers)

    def merged(self, wires: Sequence[Wire]) -> Histogram:
        """All their latencies in one histogram."""
        total = Histogram()
        for wire in wires:
            total.add(wire.latency)
        return total

    def problems(self) -> list[str]:
        """Why connections ended that nobody had told to."""
        found = []
        for wire in self.wires:
            if wire.state == State.CLOSED:
                found.append(close_reason(methods.decode_method(wire.closing)))
            elif wire.state in ENDINGS:
                reason = f" (errno {wire.error})" if wire.error else ""
                found.append(ENDINGS[State(wire.state)] + reason)
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """Stop the loops and close every connection."""
        self.control.stop_publishing = True
        self.control.stop_all = True
        for thread in self.threads:
            thread.join()
        frame = encode_method_frame(0, good_bye())
        deadline = clock() + CLOSE_SECONDS * NS
        for wire in self.wires:
            wire.close(frame, deadline)


class Reporter:
    """Calls `on_progress` once a second with what happened since the last call."""

    def __init__(self, run: Run, measured_from: int, on_progress: Callable[[Progress], None] | None) -> None:
        self.run = run
        self.measured_from = measured_from
        self.on_progress = on_progress
        self.begin = self.last = clock()
        self.counts = run.counts()
        self.latency = Histogram()

    def tick(self, now: int) -> None:
        """To be called often."""
        if self.on_progress is None or now - self.last < NS:
            return
        counts, latency = self.run.counts(), self.run.merged(self.run.consumers)
        since = Histogram()
        since.add(latency)
        since.subtract(self.latency)
        self.on_progress(
            Progress(
                seconds=(now - self.begin) / NS,
                interval=(now - self.last) / NS,
                is_warm_up=self.last < self.measured_from,
                counts=counts - self.counts,
                latency=latency_of(since),
                blocked=sum(wire.is_blocked for wire in self.run.wires),
            )
        )
        self.last, self.counts, self.latency = now, counts, latency
