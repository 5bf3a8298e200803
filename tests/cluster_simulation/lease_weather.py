"""LeaseWeather: a run in which streaming jobs take messages on lease and publish in transactions, in any weather.

Jobs have troubles of their own: drivers that die, or are taken for dead, and tasks that die. When it is calm they
process what is left, give their groups back, and everything has to be accounted for: each message that was confirmed is
in exactly one committed epoch, or a consumer has settled it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from amqp_broker.management.verbs import cluster as cluster_verbs
from tests.cluster_simulation.client_model import Sent
from tests.cluster_simulation.cluster_node import MS, ClusterNode
from tests.cluster_simulation.lease_model import LeaseModel
from tests.cluster_simulation.leased_queues import (
    HOME_BOOKED,
    HOME_ORDERS,
    ORDERS,
    SINKS,
    SOURCES,
    LeasedRoutine,
    leased_kinds,
)
from tests.cluster_simulation.queue_kinds import QueueKind
from tests.cluster_simulation.request_client import RequestClient
from tests.cluster_simulation.streaming_job import StreamingJob
from tests.cluster_simulation.transaction_model import TransactionModel
from tests.cluster_simulation.transmission import Answer, Transmission
from tests.cluster_simulation.weather import Weather
from tests.simulation.state import Violation

#: The names of jobs, and what they read: two of them compete.
_JOBS = (("etl", (ORDERS,)), ("copy", (HOME_ORDERS,)), ("both", SOURCES))


class Judge(Protocol):
    """A model of what is asked."""

    def sent(self, transmission: Transmission) -> None: ...

    def answered(self, transmission: Transmission) -> None: ...


class LeaseWeather(Weather):
    """A mixture: another Weather says what goes wrong."""

    applications_per_node = 1

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.routine = LeasedRoutine(self)
        self.leases = LeaseModel(self.clients.messages, [name for name, kind in self.kinds.items() if kind.is_quorum])
        self.transactions = TransactionModel()
        self.jobs: list[StreamingJob] = []
        self._crashes_of: Counter[str] = Counter()
        self._lost_links: Counter[tuple[str, str]] = Counter()

    def draw_kinds(self) -> dict[str, QueueKind]:
        """See ClusterWorld."""
        return {**super().draw_kinds(), **leased_kinds()}

    def judge(self, verb: str) -> Judge:
        """Who judges what is answered to such a request."""
        return self.transactions if verb.startswith("txn.") else self.leases

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self.jobs = [StreamingJob(name, queues, self) for name, queues in _JOBS]
        for job in self.jobs:
            self._settle_home(job)

    def _settle_home(self, job: StreamingJob) -> None:
        """An app lives where it is asked for first: on a member from the beginning."""
        said = {"app": job.name, "epoch": 0, "partition": 0, "attempt": 1, "sequence": 0}
        self.transactions.staging(job.name, (0, 0, 1), 0, [])
        self._ask_and_wait("txn.stage", said, b"\x01\x00\x00\x00\x00")

    def _ask_and_wait(self, verb: str, fields: dict[str, Any], blob: bytes = b"") -> Answer:
        answers: list[Answer] = []
        client = RequestClient(f"operator{self.next_number()}", self, 12_000)
        client.ask(verb, fields, answers.append, blob)
        self.wait_for(lambda: bool(answers), f"{verb} {fields} is answered")
        client.die(is_heard=True)
        return answers[0]

    # -- troubles ------------------------------------------------------------------------------------------------------

    def _act_later(self) -> None:
        super()._act_later()
        for job in self.jobs:
            job.start_driver()
        self._trouble_later()

    def _trouble_later(self) -> None:
        def strike() -> None:
            if not self.is_calm:
                self._trouble(self.chance.choice(self.jobs))
                self._trouble_later()

        self.after(self.chance.randint(10, 100) * MS, strike)

    def _trouble(self, job: StreamingJob) -> None:
        """Something happens to a job."""
        if not job.drivers:
            return
        driver = self.chance.choice(job.drivers)
        draw = self.chance.random()
        if draw < 0.4:
            self.counts["drivers that died"] += 1
            job.crash(driver, is_heard=self.chance.random() < 0.5)
        elif draw < 0.65:
            self.counts["zombies"] += 1
            job.start_driver()
        elif driver.tasks is not None and driver.tasks.tasks:
            driver.tasks.kill(self.chance.choice(driver.tasks.tasks))

    def crash(self, node: ClusterNode, *, is_power: bool | None = None) -> None:
        """See ClusterWorld."""
        self._crashes_of[node.name] += 1
        super().crash(node, is_power=is_power)

    def disconnected(self, name: str, peer: str) -> None:
        """See Inputs."""
        self._lost_links[name, peer] += 1
        super().disconnected(name, peer)

    def _ask(self, asked: ClusterNode, verb: str, request: dict[str, object]) -> cluster_verbs.Answer | None:
        """See Weather. docs/leases.md: "A node that is removed from the cluster takes the apps along whose home it is":
        an operator who knows that does not remove it."""
        homes = [record.home for record in asked.node.broker.metadata.apps("/")]
        if verb == "cluster.remove" and request["node"] in homes:
            return None
        return super()._ask(asked, verb, request)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _dismiss(self) -> None:
        """Old clients go; jobs process what they have left, and give their groups back."""
        super()._dismiss()
        self.wait_for(self._are_sources_empty, "the jobs process everything")
        for job in self.jobs:
            job.is_closing = True
        self.wait_for(lambda: all(job.is_done for job in self.jobs), "the jobs end")
        for job in self.jobs:
            for driver in list(job.drivers):
                job.crash(driver, is_heard=True)
        self.wait_for(self._is_at_rest, "all nodes have applied everything")  # of a quorum queue any node tells its own
        for queue in SOURCES:
            answer = self._ask_and_wait("lease.stat", {"queue": queue})
            if answer.fields["ready"] or answer.fields["groups"]:
                raise Violation(f"'{queue}' is not empty: {answer.fields}")

    def _are_sources_empty(self) -> bool:
        """Nothing is ready, held or leased."""
        for node in self.serving():
            for name in SOURCES:
                queue = node.node.broker.vhosts["/"].queues[name]
                if queue.writes.is_local and (queue.ready.count or queue.unacked or queue.leased_count()):
                    return False
            for group in node.node.groups.all.values():
                for queue_id in group.machine.queue_ids():
                    if self.log.name_of.get(queue_id) in SOURCES:
                        figures = group.machine.statistics(queue_id)
                        if figures is not None and (figures.ready or figures.unacked or figures.leased):
                            return False
        return True

    def _check_rest(self) -> None:
        super()._check_rest()
        arrivals: dict[str, list[tuple[int, int]]] = {sink: [] for sink in SINKS}
        for message in self.clients.messages.values():
            for arrival in message.arrivals:
                if arrival.queue in arrivals:
                    arrivals[arrival.queue].append((arrival.delivery_tag, message.number))
        # Each sink was drained by one consumer, so that its delivery tags rise in the order of the queue.
        numbers = {sink: [number for _, number in sorted(found)] for sink, found in arrivals.items()}
        committed = self.transactions.at_the_end(numbers, self._repeats())
        self.leases.at_the_end(committed, self._is_taken, set(SOURCES))
        answer = self._ask_and_wait("txn.stat", {})
        for each in answer.fields["apps"]:
            if each["staged_messages"]:
                raise Violation(f"something is still staged: {each}")
        self.counts.update(self.leases.counts + self.transactions.counts)

    def _repeats(self) -> dict[tuple[str, str], int]:
        """How many blobs may have come twice to a classic queue whose home is not the app's (T5)."""
        metadata = self.serving()[0].node.broker.metadata
        record = metadata.queue("/", HOME_BOOKED)
        assert record is not None
        return {
            (app.name, HOME_BOOKED): self._crashes_of[app.home] + self._lost_links[app.home, record.home]
            for app in metadata.apps("/")
            if app.home != record.home
        }

    def _is_taken(self, message: Sent, queue: str) -> bool | None:
        """Whether a consumer has settled it; of a classic queue, where it has tried to, nobody knows."""
        if self.kinds[queue].is_quorum:
            copies = [each for each in self.log.by_number.get(message.number, ()) if each.queue.kind.name == queue]
            return any(each.end in ("acknowledged", "rejected") for each in copies)
        tried = any(each.queue == queue and each.settled not in ("", "requeue") for each in message.arrivals)
        return None if tried else False
