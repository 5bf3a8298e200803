"""StreamingJob: a query that moves messages from queues to queues, exactly once, as the Spark connector does.

    Driver: open -> [ack what is done -> claim -> log] -> tasks -> commit -> done -> the next batch
    Task:   fetch a slice of a range -> stage what becomes of it -> tell the driver

Drivers die at any time and forget everything but the checkpoint; the next one takes over under the same names. One that
is taken for dead may go on besides. Tasks die and are run again, and some have a twin. What all of them ask is in the
models; here is only what a reader does who keeps to docs/leases.md.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from tests.cluster_simulation.checkpoint import Batch, Checkpoint, Range
from tests.cluster_simulation.cluster_node import MS
from tests.cluster_simulation.job_task import Slice, Staged, TaskSet
from tests.cluster_simulation.process import Process, Program, Resume, Wait
from tests.cluster_simulation.request_client import RequestClient
from tests.cluster_simulation.transmission import Answer

if TYPE_CHECKING:
    from tests.cluster_simulation.lease_weather import LeaseWeather

_NO_LIMIT = 1 << 40
#: What a driver waits at most for something to claim, ms.
_WAITS = (0, 0, 50, 300)


class StreamingJob:
    """name: of the group at each of the queues, and of the app."""

    def __init__(self, name: str, queues: tuple[str, ...], world: LeaseWeather) -> None:
        self.name = name
        self.queues = queues
        self.world = world
        self.checkpoint = Checkpoint()
        self.drivers: list[Driver] = []
        self.is_closing = False
        self.is_done = False

    def start_driver(self) -> None:
        """One more: if there is one already, that is a zombie from now on."""
        driver = Driver(self)
        self.drivers.append(driver)
        self.world.counts["drivers"] += 1
        self.world.note(f"{driver.name} starts")
        driver.process.start()

    def crash(self, driver: Driver, *, is_heard: bool) -> None:
        """A driver dies, and forgets everything."""
        self.world.note(f"{driver.name} dies")
        driver.die(is_heard=is_heard)
        self._ended(driver)

    def ended(self, driver: Driver, is_done: bool) -> None:
        """A driver has stopped by itself."""
        self.world.note(f"{driver.name} ends{', all is done' if is_done else ''}")
        driver.die(is_heard=True)
        self.is_done = self.is_done or is_done
        self._ended(driver)

    def _ended(self, driver: Driver) -> None:
        self.drivers.remove(driver)
        self.world.after(self.world.chance.choice([1, 20, 200]) * MS, self._start_again)

    def _start_again(self) -> None:
        if not self.drivers and not self.is_done:
            self.start_driver()


class Driver:
    """One life of the program that leads a job. owner: as which it opens the groups."""

    def __init__(self, job: StreamingJob) -> None:
        self.job = job
        self.world = job.world
        self.owner = f"owner{job.world.next_number()}"
        self.name = f"{job.name}.{self.owner}"
        self.tasks: TaskSet | None = None
        self.process = Process(self._lead(), lambda is_done: job.ended(self, bool(is_done)))
        self._client = RequestClient(self.name, job.world, job.world.chance.choice([150, 600, 2500]))
        self._groups: dict[str, Range] = {}  # what each group held when it was opened

    def die(self, *, is_heard: bool) -> None:
        """Everything is forgotten. Its tasks may live a little longer."""
        self.process.kill()
        self._client.die(is_heard=is_heard)
        if self.tasks is not None:
            self.tasks.die()

    # -- what it waits for ---------------------------------------------------------------------------------------------

    def _ask(self, verb: str, blob: bytes = b"", **fields: Any) -> Wait:
        return lambda resume: self._client.ask(verb, fields, resume, blob)

    def _ask_of_group(self, verb: str, queue: str, **fields: Any) -> Wait:
        mine = {"queue": queue, "group": self.job.name, "owner": self.owner}
        return self._ask(verb, **mine, incarnation=self._groups[queue].incarnation, **fields)

    def _sleep(self, milliseconds: int) -> Wait:
        return lambda resume: self.world.after(milliseconds * MS, lambda: resume(None))

    # -- the program ---------------------------------------------------------------------------------------------------

    def _lead(self) -> Program:
        """Returns whether the job is done; if not, another driver is needed."""
        chance, checkpoint = self.world.chance, self.job.checkpoint
        if not (yield from self._open()):
            return False
        number = checkpoint.done
        while True:
            batch = checkpoint.batch(number)
            if batch is None:
                starts = self._starts(number)
                if not (yield from self._settle(starts)):
                    return False
                if self.job.is_closing:
                    return (yield from self._release())
                before = checkpoint.batch(number - 1)
                if before is not None and before.logger == self.owner and chance.random() < 0.04:
                    # Only who has logged the last batch: an older driver could not log what it had claimed before.
                    if not (yield from self._release()) or not (yield from self._open()):
                        return False
                    continue
                batch = yield from self._claim(number, starts)
                if batch is None:
                    return False
                if all(each.start == each.end for each in batch.ranges):
                    yield self._sleep(chance.choice((100, 300) if self.world.is_calm else (1, 20, 100)))
                    continue
                if not checkpoint.log(batch):
                    return False
            outcome = yield from self._run(batch)
            if outcome == "stopped":
                return False
            if outcome == "done":
                number += 1

    def _open(self) -> Generator[Wait, Any, bool]:
        for queue in self.job.queues:
            answer: Answer = yield self._ask("lease.open", queue=queue, group=self.job.name, owner=self.owner)
            if not answer.is_ok:
                return False
            said = answer.fields
            self._groups[queue] = Range(queue, said["incarnation"], said["trimmed"], said["next"])
        return True

    def _starts(self, number: int) -> dict[str, int]:
        """Where a batch that is not logged yet begins: behind the one before."""
        before = self.job.checkpoint.batch(number - 1)
        starts = {queue: group.start for queue, group in self._groups.items()}
        for each in before.ranges if before is not None else ():
            if each.incarnation == self._groups[each.queue].incarnation:
                starts[each.queue] = each.end
        return starts

    def _settle(self, starts: dict[str, int]) -> Generator[Wait, Any, bool]:
        """All before this batch is done."""
        for queue, start in starts.items():
            if start > self._groups[queue].start or self.world.chance.random() < 0.1:
                answer: Answer = yield self._ask_of_group("lease.ack", queue, upto=start)
                if not answer.is_ok:
                    return False
        return True

    def _claim(self, number: int, starts: dict[str, int]) -> Generator[Wait, Any, Batch | None]:
        chance = self.world.chance
        ranges = []
        for queue, start in starts.items():
            limits = {
                "max_messages": chance.choice((50,) if self.world.is_calm else (1, 3, 10, 50)),
                "max_bytes": chance.choice([200, 2000, _NO_LIMIT, _NO_LIMIT]),
            }
            wait_ms = chance.choice(_WAITS)
            answer: Answer = yield self._ask_of_group("lease.claim", queue, after=start, wait_ms=wait_ms, **limits)
            if not answer.is_ok:
                return None
            end = answer.fields["end"]
            if end > start and chance.random() < 0.1:
                # As somebody who has not heard of the answer does.
                answer = yield self._ask_of_group("lease.claim", queue, after=start, wait_ms=wait_ms, **limits)
                if not answer.is_ok:
                    return None
                end = answer.fields["end"]
            ranges.append(Range(queue, self._groups[queue].incarnation, start, end))
        return Batch(number, tuple(ranges), self.owner)

    def _claim_ahead(self, batch: Batch) -> None:
        """Take the next batch while this one is read. Nobody waits for the answer."""
        for each in batch.ranges:
            if each.incarnation == self._groups[each.queue].incarnation:
                fields = {
                    "queue": each.queue, "group": self.job.name, "owner": self.owner, "incarnation": each.incarnation,
                    "after": each.end, "max_messages": 10, "max_bytes": _NO_LIMIT, "wait_ms": 0,
                }  # fmt: skip
                self._client.ask("lease.claim", fields, lambda answer: None)

    def _release(self) -> Generator[Wait, Any, bool]:
        for queue in self.job.queues:
            answer: Answer = yield self._ask_of_group("lease.release", queue)
            if not answer.is_ok:
                return False
        self.world.counts["groups released"] += 1
        return True

    def _run(self, batch: Batch) -> Generator[Wait, Any, str]:
        """Returns "done", "again", or "stopped": somebody else goes on with it."""
        chance, app = self.world.chance, self.job.name
        if chance.random() < 0.3:
            self._claim_ahead(batch)
        staged: list[Staged] | None = yield lambda resume: self._start_tasks(batch, resume)
        self.tasks = None
        if staged is None:
            return "stopped"
        if chance.random() < 0.06:
            yield self._ask("txn.abort", app=app, epoch=batch.number)
            if chance.random() < 0.5:
                return "again"  # if not, it goes on as somebody who has not heard of that
        attempts = {str(each.partition): each.attempt for each in staged}
        blobs = {str(each.partition): each.blobs for each in staged}
        answer: Answer = yield self._ask("txn.commit", app=app, epoch=batch.number, attempts=attempts, blobs=blobs)
        if not answer.is_ok:
            return "again"
        return "done" if self.job.checkpoint.finish(batch.number) else "stopped"

    def _start_tasks(self, batch: Batch, resume: Resume) -> None:
        slices = []
        for each in batch.ranges:
            middle = self.world.chance.randint(each.start, each.end)
            for start, end in ((each.start, middle), (middle, each.end)):
                if end > start or self.world.chance.random() < 0.2:
                    slices.append(Slice(each.queue, each.incarnation, start, end))
        self.tasks = TaskSet(self.job, batch.number, slices, resume)
        self.tasks.start()
