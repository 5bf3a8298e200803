"""The campaign: rounds of publishing, killing, waiting; and what has come out.

Every round publishes ROUND_MESSAGES ids to both queues, lets somebody die, and waits until all of them have come out of
the transactional sink. Identifiers that the broker has not confirmed to the publisher may or may not come out; all
others must, once.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
from pyspark.sql.types import StructField, StructType

from amqp_broker.client import ClientError, Connection
from spark_connector.columns import Columns
from spark_connector.decode import Decoder
from spark_connector.errors import ConnectorError
from spark_connector.options import Options
from spark_connector.schema import TYPES
from spark_connector.service import Service
from tests.spark_connector.chaos.attempts import HALF, STAGED, Seen, seen, told
from tests.spark_connector.chaos.brokers import Brokers
from tests.spark_connector.chaos.moments import (
    BROKER,
    DRIVER,
    EXECUTOR,
    STOPPED_EXECUTOR,
    STOPPED_WORKER,
    WORKER,
    kill_all,
    let_go_on,
    living,
    stopped,
)
from tests.spark_connector.chaos.spark_cluster import SparkCluster

ROUND_MESSAGES = 400
#: Patience, not speed: the machine may be busy with other things. What is missing never comes.
ROUND_S, CALM_S = 1200.0, 300.0
POLL_S = 0.25
BODIES = StructType([StructField("body", TYPES["binary"])])

#: Each moment, what it means, and who dies there.
MOMENTS = {
    "claimed": ("claimed, not in the offset log", (DRIVER, BROKER)),
    "planned": ("in the offset log, no task begun", (DRIVER, BROKER)),
    "reading": ("tasks are reading", (WORKER, EXECUTOR, DRIVER, BROKER)),
    "staged": ("a task has staged, nothing is committed", (WORKER, EXECUTOR, DRIVER, BROKER)),
    "committing": ("all staged, the sink not committed", (DRIVER, BROKER)),
    "committed": ("the sink committed, not in the commit log", (DRIVER, BROKER)),
    "logged": ("in the commit log, not settled", (DRIVER, BROKER)),
    "half": ("half a range is read; it goes on after 2 s", (STOPPED_WORKER, STOPPED_EXECUTOR)),
    "twin": ("half a range is read; it goes on while its twin reads", (STOPPED_WORKER, STOPPED_EXECUTOR)),
    "twin-staged": ("half a range is read; it goes on when its twin has staged", (STOPPED_WORKER, STOPPED_EXECUTOR)),
    "late": ("half a range is read; it goes on when all is committed", (STOPPED_EXECUTOR,)),
}
NAMED = [(moment, victim) for moment, (_, victims) in MOMENTS.items() for victim in victims]
#: In one process there is no executor, and Spark never gives a task a twin on the same host.
LOCAL = [
    (moment, victim) for moment, victim in NAMED
    if victim not in (EXECUTOR, STOPPED_EXECUTOR) and moment not in ("twin", "twin-staged")
]  # fmt: skip
STOP_S = 2.0


@dataclass
class Round:
    """One round and how it went."""

    what: str
    victim: str
    seconds: float
    missing: int
    twice: int
    attempts: str = ""


class Campaign:
    """Runs rounds. say: told each one as it ends."""

    def __init__(self, brokers: Brokers, spark: SparkCluster, work: Path, moments: Path, seed: int) -> None:
        self.rounds: list[Round] = []
        self.published: set[bytes] = set()
        self.uncertain: set[bytes] = set()
        self._brokers = brokers
        self._spark = spark
        self._work = work
        self._moments = moments
        self._chance = random.Random(seed)
        self._numbers = 0
        self._seen_before = 0
        self._pause = Event()  # nobody sets it

    def run_named(self, moment: str, victim: str) -> Round:
        """Somebody dies at a moment."""
        for old in self._moments.glob("*.fired"):
            old.unlink()
        self._seen_before = len(seen())
        (self._moments / f"{moment}.armed").write_text(victim)
        begin = time.monotonic()
        self._publish()
        fired = self._moments / f"{moment}.fired"
        who = self._stop(moment, victim) if victim in (STOPPED_WORKER, STOPPED_EXECUTOR) else None
        self._wait(lambda: fired.exists() and self._is_out(), f"{moment}: {victim}")
        (self._moments / f"{moment}.armed").unlink(missing_ok=True)
        return self._judge(MOMENTS[moment][0], victim, begin, who)

    def _stop(self, moment: str, victim: str) -> Seen:
        """Somebody is stopped, and goes on when it is time; who it was."""
        self._wait(lambda: bool(stopped()[0]), f"{moment}: {victim} stopped")
        processes = stopped()[0]
        who = next(each for each in reversed(self._seen()) if each.what == HALF and each.process in processes)

        def twin_has(what: str) -> bool:
            return any(each.what == what and each.is_twin_of(who) for each in self._seen())

        is_time: dict[str, Callable[[], bool]] = {
            "half": lambda: stopped()[1] >= STOP_S,
            "twin": lambda: twin_has(HALF),
            "twin-staged": lambda: twin_has(STAGED),
            "late": self._is_out,
        }
        self._wait(is_time[moment], f"{moment}: {victim} goes on")
        let_go_on()
        return who

    def run_random(self, victims: tuple[str, ...]) -> Round:
        """Somebody dies at any time; who is not there at that time dies when he has come."""
        victim = self._chance.choice(victims)
        begin = time.monotonic()
        at = begin + self._chance.uniform(0.1, 5.0)
        self._publish()
        self._wait(lambda: time.monotonic() >= at, "its time")
        if victim == EXECUTOR and self._spark.executors():
            kill_all([self._chance.choice(self._spark.executors())])
        elif victim == WORKER and self._spark.python_workers():
            kill_all([self._chance.choice(self._spark.python_workers())])
        else:
            victim = victim if victim == BROKER else DRIVER
            self._wait(lambda: bool(living(victim)), f"a {victim}")
            kill_all(living(victim))
        self._wait(self._is_out, f"after a {victim}")
        return self._judge("at a random time", victim, begin)

    def finish(self) -> dict[str, int]:
        """Waits until all is calm; what is left, and what came out of both sinks."""
        self._wait(lambda: not any(self.left().values()), "nothing being left", CALM_S)
        self._wait(lambda: set(self.files()) >= self.published, "the files")
        out, files = Counter(self.out()), Counter(self.files())
        return {
            "published": len(self.published), "unconfirmed": len(self.uncertain),
            "out: messages": out.total(), "out: distinct": len(out),
            "out: missing": len(self.published - set(out)), "out: twice": out.total() - len(out),
            "files: rows": files.total(), "files: distinct": len(files),
            "files: missing": len(self.published - set(files)), "files: twice": files.total() - len(files),
            **self.left(), "broker restarts": self._brokers.restarts, "driver starts": self._spark.starts,
        }  # fmt: skip

    def _seen(self) -> list[Seen]:
        """What tasks of this round saw of themselves."""
        return seen()[self._seen_before :]

    # -- what is where -------------------------------------------------------------------------------------------------

    def out(self) -> list[bytes]:
        """All that the transactional sink has published, as a snapshot of `out`."""
        return [each for blob in self._ask_blobs("out") for each in blob]

    def _ask_blobs(self, queue: str) -> list[list[bytes]]:
        service = self._service()
        decoder = Decoder(BODIES, "map")
        found, at, is_more = [], 0, True
        while is_more:
            answer = service.ask("lease.browse", {"queue": queue, "from_sequence": at, "columns": ["body"]})
            at, is_more = int(answer.headers["x-end"]), bool(answer.headers["x-more"])
            if Columns(answer.body, frozenset()).rows:
                found.append(decoder.batch(answer.body, queue, None).column("body").to_pylist())
        service.close()
        return found

    def _service(self) -> Service:
        # Not patient: while it waits, nobody starts the broker again.
        return Service(Options.parse({"uri": self._brokers.url, "brokerRetryTimeout": "1s", "connectTimeout": "1s"}))

    def left(self) -> dict[str, int]:
        """What is ready or leased in the sources, or staged."""
        service = self._service()
        ready = leased = 0
        for queue in ("in", "in2"):
            found = service.ask("lease.stat", {"queue": queue}).fields
            ready += found["ready"]
            leased += sum(each["next"] - each["trimmed"] for each in found["groups"])
        staged = sum(each["staged_messages"] for each in service.ask("txn.stat", {}).fields["apps"])
        service.close()
        return {"ready": ready, "leased": leased, "staged": staged}

    def files(self) -> list[bytes]:
        """The ids in the Parquet files that Spark counts as written."""
        names = set()
        for path in (self._work / "files" / "_spark_metadata").glob("[0-9]*"):
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                if entry["action"] == "add":
                    names.add(entry["path"].removeprefix("file://"))
        return [each.encode() for name in sorted(names) for each in pq.read_table(name).column("id").to_pylist()]

    # ------------------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        ids = [b"%d" % (self._numbers + number) for number in range(ROUND_MESSAGES)]
        self._numbers += ROUND_MESSAGES
        for url in self._brokers.url.split(","):
            try:
                with Connection.open(url) as connection, connection.channel() as channel:
                    channel.confirm_select()
                    self.uncertain |= set(ids)
                    for each in ids:
                        channel.publish("feed", "", each, {"delivery_mode": 2})
                    refused = set(channel.wait_for_confirms(30))
                good = {each for number, each in enumerate(ids, 1) if number not in refused}
                self.uncertain -= good
                self.published |= good
                return
            except ClientError:
                self._brokers.tend()

    def _is_out(self) -> bool:
        try:
            return set(self.out()) >= self.published
        except (ConnectorError, ClientError):
            return False

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float = ROUND_S) -> None:
        """Until it holds, or the time is over: what is missing then shows in the counts."""
        deadline = time.monotonic() + seconds
        while True:
            self._brokers.tend()
            self._spark.tend()
            try:
                if condition():
                    return
            except (ConnectorError, ClientError):
                pass  # nobody to ask just now
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {what}")
            self._pause.wait(POLL_S)

    def _judge(self, what: str, victim: str, begin: float, who: Seen | None = None) -> Round:
        out = Counter(self.out())
        found = Round(
            what, victim, time.monotonic() - begin, len(self.published - set(out)), out.total() - len(out),
            "" if who is None else told(who.task, self._seen()),
        )  # fmt: skip
        self.rounds.append(found)
        return found


VICTIMS = (DRIVER, EXECUTOR, WORKER, BROKER)
