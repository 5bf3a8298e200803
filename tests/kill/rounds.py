"""Rounds of kill -9: start the broker, look at what it has, put load on it, kill it, and start it again.

What this can prove, and what not: SIGKILL takes the process at any instruction, but the page cache of the kernel
survives, so every write that was made is still there. Lost writes, torn sectors and reordered ones (a power cut) cannot
be made here; that is the business of the simulated disk (tests/simulation). What is proved here is the whole program on
a real file system: what it had not yet written when it confirmed, what a recovery makes of a half-written journal, of
half-retired segments and of half-stored pages, and a recovery that is killed itself.

All rounds of a chapter work on one data folder, so that a fault which only the second or third restart shows is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from amqp_broker.client.messages import Delivery
from amqp_broker.protocol import methods as m
from amqp_broker.server.workers_file import folder_of
from amqp_broker.system_client import SystemClient
from tests.kill.broker_process import BrokerProcess
from tests.kill.ledger import Copy, Ledger
from tests.kill.load import QUEUES, RECEIPTS, Load, Receipts, declare
from tests.kill.streams import StreamLedger, look_at_streams, read_to_the_end
from tests.kill.wire_client import TIMEOUT_S, LoadConnection

#: An aimed kill that never finds its moment falls after this time.
AIM_LIMIT_S = 2.0
AIM_STEP_S = 0.001


class Kill(Enum):
    """When the broker is killed."""

    LOAD = "at a random moment under load"
    RETIREMENT = "as a journal segment is deleted"
    PAGE_OUT = "as a page file appears or disappears"
    RECOVERY = "during recovery, once to three times, then under load"
    SUPERVISOR = "its supervisor alone, under load"


def kills(workers: int) -> list[Kill]:
    """Those that a node of so many workers can die of."""
    return [kill for kill in Kill if workers > 1 or kill is not Kill.SUPERVISOR]


class Look(Enum):
    """What is done between two kills, in a short life of its own, before the load."""

    NOTHING = "nothing"
    BROWSE = "browse"
    DRAIN = "drain"


#: Settings of a life; sizes are small so that a second of load pages, rotates and retires all the time.
TINY = {
    "memory-budget": "1MiB",
    "journal-segment-size": "64KiB",
    "journal-limit": "128KiB",
    "page-size": "4KiB",
    "page-segment-size": "64KiB",
    "queue-head-messages": "8",
    "queue-head-size": "4KiB",
}
SMALL = {
    "memory-budget": "4MiB",
    "journal-segment-size": "256KiB",
    "journal-limit": "1MiB",
    "page-size": "32KiB",
    "page-segment-size": "256KiB",
    "queue-head-messages": "64",
}
LARGE = {"memory-budget": "64MiB"}
#: For looks: whoever holds everything unacknowledged gets nothing more while memory is short.
ROOM = {"memory-budget": "1GiB"}
SETTINGS = (TINY, TINY, SMALL, SMALL, LARGE)
#: Those with which a moment to aim at comes soon.
BUSY_SETTINGS = (TINY, SMALL)


@dataclass(slots=True)
class Round:
    """What one round was and found."""

    number: int
    kill: Kill
    look: Look
    load_s: float
    recovery_kills: int = 0
    violations: list[str] = field(default_factory=list)


class Chapter:
    """Some rounds on one data folder. `chance` decides everything that the machine's timing does not."""

    def __init__(self, folder: Path, chance: Random, publishers: int = 3, workers: int = 1) -> None:
        self._folder = folder
        self._chance = chance
        self._publishers = publishers
        self._workers = workers
        self.ledger = Ledger()
        for queue in QUEUES:
            self.ledger.add_queue(queue)
        self.streams = StreamLedger(self.ledger.violated)

    def run_round(self, number: int, kill: Kill, look: Look, load_s: float) -> Round:
        """A life to look at everything, if that is wanted, and a life under load; both end with a kill."""
        done = Round(number, kill, look, load_s)
        known = len(self.ledger.violations)
        settings = self._chance.choice(BUSY_SETTINGS if kill in (Kill.RETIREMENT, Kill.PAGE_OUT) else SETTINGS)
        if kill is Kill.RECOVERY:
            done.recovery_kills = self._chance.randint(1, 3)
            for _ in range(done.recovery_kills):
                self._kill_in_recovery(settings)
        if look is not Look.NOTHING and (process := self._start(settings | ROOM)) is not None:
            try:
                self._look(process, look)
            finally:
                process.kill()
        process = self._start(settings)
        if process is not None:
            try:
                load = Load(process, self.ledger, self._publishers, self._chance, self.streams)
                self._wait_for_the_moment(process, kill, load_s)
                if kill is Kill.SUPERVISOR:
                    self.ledger.is_ending = True
                    if not process.kill_supervisor():
                        self.ledger.violated(f"a worker outlives its supervisor:\n{process.log_tail()}")
            finally:
                process.kill()
            load.join()
        done.violations = self.ledger.violations[known:]
        return done

    def finish(self) -> list[str]:
        """Start once more, drain everything, and stop in good order. Returns what was violated."""
        known = len(self.ledger.violations)
        process = self._start(TINY | ROOM)
        if process is not None:
            self._look(process, Look.DRAIN)
            read_to_the_end(process.host, process.port, self.streams)
            status = process.stop()
            if status:
                self.ledger.violated(f"SIGTERM ended the broker with status {status}:\n{process.log_tail()}")
        return self.ledger.violations[known:]

    def _process(self, settings: dict[str, str]) -> BrokerProcess:
        return BrokerProcess(self._folder, settings | {"workers": str(self._workers)})

    def _start(self, settings: dict[str, str]) -> BrokerProcess | None:
        """A new life. None: it did not start, which is a violation."""
        self.ledger.begin_life()
        self.streams.begin_life()
        process = self._process(settings)
        if process.wait_ready():
            connection = LoadConnection(process.host, process.port)
            declare(connection)
            connection.drop()
            self.ledger.apart = self._apart(process)
            return process
        process.kill()
        self.ledger.violated(f"the broker did not start:\n{process.log_tail()}")
        return None

    def _apart(self, process: BrokerProcess) -> frozenset[str]:
        """The queues that are not where receipts go."""
        if self._workers == 1:
            return frozenset()
        with SystemClient(f"amqp://guest:guest@{process.host}:{process.port}/") as client:
            rows = client.request("objects.page", kind="queues", vhost="/", columns=["name", "node"])["rows"]
        homes = dict(rows)
        return frozenset(queue for queue in QUEUES if homes[queue] != homes[RECEIPTS])

    def _kill_in_recovery(self, settings: dict[str, str]) -> None:
        """Start it and kill it after a time in which it may or may not have become ready. It sees no client."""
        process = self._process(settings)
        status = process.ends_within(self._chance.uniform(0.1, 0.8))
        if status is not None:
            self.ledger.violated(f"a start ended with status {status}:\n{process.log_tail()}")
        process.kill()

    # -- when to kill ------------------------------------------------------------------------------------------------

    def _wait_for_the_moment(self, process: BrokerProcess, kill: Kill, load_s: float) -> None:
        status = process.ends_within(load_s)
        folder = folder_of(process.data, self._chance.randrange(self._workers))
        if status is None and kill is Kill.RETIREMENT:
            status = self._await_change(process, lambda: _names(folder / "journal")[:1])
        elif status is None and kill is Kill.PAGE_OUT:
            status = self._await_change(process, lambda: _names(folder / "queues"))
        if status is not None:
            self.ledger.violated(f"the broker ended by itself with status {status}:\n{process.log_tail()}")

    @staticmethod
    def _await_change(process: BrokerProcess, look: Callable[[], list[str]]) -> int | None:
        """Return as soon as `look` sees something else, or after AIM_LIMIT_S; or the status of a broker that ended."""
        before = look()
        for _ in range(int(AIM_LIMIT_S / AIM_STEP_S)):
            if look() != before:
                return None
            status = process.ends_within(AIM_STEP_S)
            if status is not None:
                return status
        return None

    # -- what is there -----------------------------------------------------------------------------------------------

    def _look(self, process: BrokerProcess, look: Look) -> None:
        """Take everything that the queues hold and check it; settle it, or leave it to the kill to give it back."""
        connection = LoadConnection(process.host, process.port)
        present: list[Copy] = []
        for queue in QUEUES:
            found = self._take_all(connection, queue)
            self.ledger.check_present(queue, found)
            present += found
        look_at_streams(process.host, process.port, self.streams)
        if look is Look.DRAIN:
            self.ledger.settling(present)
            if present:
                connection.send(m.BasicAck(0, True))
            receipts = Receipts(connection, self.ledger, 99 + 100 * self.ledger.life)
            receipts.publish(("", RECEIPTS), settled=present)
            while len(receipts):
                events = [event for event in connection.poll(TIMEOUT_S) if isinstance(event, m.BasicAck)]
                if not events:
                    self.ledger.violated(f"a receipt was not confirmed within {TIMEOUT_S} s")
                    break
                for event in events:
                    receipts.on_confirm(event)
        connection.drop()

    def _take_all(self, connection: LoadConnection, queue: str) -> list[Copy]:
        """Every message of the queue, in order."""
        count = connection.call(m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk).message_count
        tag = f"look at {queue}"
        connection.call(m.BasicConsume(queue=queue, consumer_tag=tag), m.BasicConsumeOk)
        found: list[Copy] = []
        seen = 0
        while seen < count:
            deliveries = [event for event in connection.poll(TIMEOUT_S) if isinstance(event, Delivery)]
            if not deliveries:
                self.ledger.violated(f"{queue} says that it holds {count} messages and delivers {seen}")
                break
            seen += len(deliveries)
            copies = (self.ledger.delivered(queue, each.body, 0, False) for each in deliveries)
            found += [copy for copy in copies if copy is not None]
        connection.call(m.BasicCancel(tag), m.BasicCancelOk)
        return found


def _names(folder: Path) -> list[str]:
    """All files below a folder, sorted; one that vanishes meanwhile does not matter."""
    return sorted(str(path) for path in folder.rglob("*"))
