"""TaskSet and Task: the tasks of one batch of a StreamingJob: each reads a slice and stages what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amqp_broker.protocol.properties import encode_properties
from tests.cluster_simulation.client_model import Sent
from tests.cluster_simulation.cluster_node import MS
from tests.cluster_simulation.lease_blob import Row, read_blob, write_blob
from tests.cluster_simulation.leased_queues import BOOK, BOOKED, HOME_BOOKED, SINKS
from tests.cluster_simulation.process import Process, Program, Resume, Wait
from tests.cluster_simulation.request_client import RequestClient
from tests.cluster_simulation.transaction_model import Output
from tests.cluster_simulation.transmission import Answer
from tests.simulation.observer import message_number

if TYPE_CHECKING:
    from tests.cluster_simulation.streaming_job import StreamingJob

#: A batch is given up when so many of its tasks have failed.
_MOST_FAILURES = 3
_PROPERTIES = encode_properties({"delivery_mode": 2})


@dataclass(frozen=True, slots=True)
class Slice:
    """[start, end) of the group of a queue, for one task."""

    queue: str
    incarnation: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task tells the driver: where its messages are."""

    partition: int
    attempt: int
    blobs: int


class TaskSet:
    """The tasks of a batch. resume: is called with what the first of each partition has staged, or None if too many
    have failed."""

    def __init__(self, job: StreamingJob, epoch: int, slices: list[Slice], resume: Resume) -> None:
        self.job = job
        self.epoch = epoch
        self.slices = slices
        self.tasks: list[Task] = []
        self._resume = resume
        self._staged: dict[int, Staged] = {}
        self._failures = 0
        self._is_over = False

    def start(self) -> None:
        """Run them all, some twice at the same time."""
        chance = self.job.world.chance
        for partition in range(len(self.slices)):
            for _ in range(2 if chance.random() < 0.1 else 1):
                self._start_task(partition)
        if not self.slices:
            self._end([])

    def _start_task(self, partition: int) -> None:
        if self._is_over or partition in self._staged:
            return
        task = Task(self, partition)
        self.tasks.append(task)
        self.job.world.counts["tasks"] += 1
        task.process.start()

    def kill(self, task: Task) -> None:
        """A task dies, and is run again."""
        task.die()
        self.tasks.remove(task)
        self.job.world.counts["tasks that died"] += 1
        world = self.job.world
        world.after(world.chance.choice([1, 50]) * MS, lambda: self._start_task(task.partition))

    def ended(self, task: Task, staged: Staged | None) -> None:
        """A task has staged everything, or has found that it cannot."""
        task.die()
        self.tasks.remove(task)
        if self._is_over:
            return
        if staged is None:
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                self._end(None)
            elif all(each.partition != task.partition for each in self.tasks):
                self._start_task(task.partition)
            return
        self._staged.setdefault(task.partition, staged)
        if len(self._staged) == len(self.slices):
            self._end(list(self._staged.values()))

    def _end(self, outcome: list[Staged] | None) -> None:
        self._is_over = True
        self.die()
        self._resume(outcome)

    def die(self) -> None:
        """Nobody wants them any more: some hear of it later."""
        self._is_over = True
        world = self.job.world
        for task in list(self.tasks):
            if world.chance.random() < 0.5:
                task.die()
                self.tasks.remove(task)
            else:
                world.after(world.chance.choice([20, 200, 1000]) * MS, task.die)


class Task:
    """One attempt at one partition; `attempt` is drawn by lot."""

    def __init__(self, tasks: TaskSet, partition: int) -> None:
        self.tasks = tasks
        self.partition = partition
        self.world = tasks.job.world
        self.attempt = self.world.chance.getrandbits(62)
        self.process = Process(self._work(), lambda staged: tasks.ended(self, staged))
        name = f"{tasks.job.name}.{tasks.epoch}.{partition}.task{self.world.next_number()}"
        self._client = RequestClient(name, self.world, self.world.chance.choice([150, 600, 2500]))

    def die(self) -> None:
        """It stops where it is. What it has sent may still arrive."""
        self.process.kill()
        self._client.die(is_heard=self.world.chance.random() < 0.5)

    def _ask(self, verb: str, fields: dict[str, Any], blob: bytes = b"") -> Wait:
        return lambda resume: self._client.ask(verb, fields, resume, blob)

    def _work(self) -> Program:
        """Returns Staged, or None."""
        part, job = self.tasks.slices[self.partition], self.tasks.job
        chance = self.world.chance
        rows: list[Row] = []
        at = part.start
        while at < part.end:
            fields = {
                "queue": part.queue, "group": job.name, "incarnation": part.incarnation, "from": at, "to": part.end,
                "max_bytes": chance.choice([1, 300, 100_000]),
            }  # fmt: skip
            answer: Answer = yield self._ask("lease.fetch", fields)
            if not answer.is_ok:
                return None
            rows += read_blob(answer.blob)
            at = answer.headers["x-end"]
            if chance.random() < 0.05:
                at, rows = part.start, []
        blobs = self._outputs(rows)
        for sequence, blob in enumerate(blobs):
            key = (self.tasks.epoch, self.partition, self.attempt)
            self.world.transactions.staging(job.name, key, sequence, [output for output, _ in blob])
            fields = {
                "app": job.name, "epoch": key[0], "partition": key[1], "attempt": key[2], "sequence": sequence,
            }  # fmt: skip
            answer = yield self._ask("txn.stage", fields, write_blob(message for _, message in blob))
            if not answer.is_ok:
                return None
        return Staged(self.partition, self.attempt, len(blobs))

    def _outputs(self, rows: list[Row]) -> list[list[tuple[Output, tuple[str, str, bytes, bytes]]]]:
        """Blobs of what becomes of some messages: one of each."""
        chance = self.world.chance
        blobs: list[list[tuple[Output, tuple[str, str, bytes, bytes]]]] = [[]]
        for row in rows:
            if blobs[-1] and chance.random() < 0.2:
                blobs.append([])
            number = self.world.next_message()
            body = b"%d:" % number + bytes([number % 251]) * chance.choice([0, 20, 300])
            exchange, key, sinks = chance.choice(
                [("", BOOKED, (BOOKED,)), ("", HOME_BOOKED, (HOME_BOOKED,)), (BOOK, "", SINKS)]
            )
            self.world.clients.messages[number] = Sent(number, body, True, (), sinks)
            output = Output(number, message_number(row.body), sinks)
            blobs[-1].append((output, (exchange, key, _PROPERTIES, body)))
        return blobs
