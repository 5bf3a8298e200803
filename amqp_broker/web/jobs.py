"""Jobs: messages and queues that are moved for users, each job in a thread, on a connection of its own, as the user who
wants it.

They live in this process: when it ends, what was not acknowledged is back in its queue, and the list is forgotten.

Invariants:
1. So many run at most; so many that have ended are remembered.
2. Each job that has ended has one line in the log, with what came of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from amqp_broker.client.connection import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.moving.mover import CannotMove, Move, Mover, Progress, why_not
from amqp_broker.moving.rehomer import Rehome, RehomeProgress, Rehomer
from amqp_broker.moving.replayer import Replay, Replayer, ReplayProgress
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.errors import ApiError
from amqp_broker.web.path import encode
from amqp_broker.web.user_sessions import Key

log = logging.getLogger("amqp_broker.web")

MOST_RUNNING: Final = 4
MOST_REMEMBERED: Final = 100
RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"


@dataclass(slots=True)
class Job:
    """kind: move, replay (of dead letters), stream-replay, rehome or rebalance. key: whose, in which virtual host, and
    from where. began_at, ended_at: seconds since the epoch."""

    kind: str
    key: Key
    move: Move | Replay | Rehome
    began_at: float
    mover: Mover | Replayer | Rehomer | None = None
    state: str = RUNNING
    reason: str = ""
    ended_at: float | None = None
    wants_end: threading.Event = field(default_factory=threading.Event)

    @property
    def user(self) -> str:
        return self.key.user

    @property
    def progress(self) -> Progress:
        return self.mover.progress if self.mover is not None else Progress()

    def cancel(self) -> None:
        self.wants_end.set()
        if self.mover is not None:
            self.mover.cancel()

    def shown(self) -> JsonObject:
        done = self.progress
        return {
            "id": self.move.name, "kind": self.kind, "vhost": self.key.vhost, "queue": self.move.queue,
            "user": self.user,
            "state": self.state, "reason": self.reason, "began_at": int(self.began_at * 1000),
            "ended_at": None if self.ended_at is None else int(self.ended_at * 1000), "messages_ready": done.ready,
            "taken": done.taken, "moved": done.moved, "left_over": done.left_over, "without_place": done.without_place,
            "unroutable": done.unroutable, "refused": done.refused, "own": done.own,
            "places": [{"to": str(place), "messages": count} for place, count in list(done.by_place.items())],
            **_own(done),
        }  # fmt: skip


def _own(done: Progress) -> JsonObject:
    """What only some kinds have."""
    if isinstance(done, ReplayProgress):
        return {"next_offset": done.next_offset}
    if isinstance(done, RehomeProgress):
        stayed = [{"vhost": each.vhost, "name": each.name, "reason": why} for each, why in list(done.stayed)]
        return {"queues": done.queues, "stayed": stayed}
    return {}


class Jobs:
    """connect: opens a connection of a user. forget: something was changed."""

    def __init__(self, connect: Callable[[Key], Connection], forget: Callable[[], None]) -> None:
        self._connect = connect
        self._forget = forget
        self._jobs: dict[str, Job] = {}
        self._guard = threading.Lock()

    def start(
        self, kind: str, key: Key, move: Move | Replay | Rehome, connect: Callable[[], Connection] | None = None
    ) -> Job:
        """connect: opens another connection than one of the user's. Raises ApiError where too many run already."""
        job = Job(kind, key, move, time.time())
        with self._guard:
            if sum(each.state == RUNNING for each in self._jobs.values()) >= MOST_RUNNING:
                text = f"{MOST_RUNNING} jobs run already: wait for one, or cancel it (DELETE /api/v1/jobs/ID)"
                raise ApiError(503, "too_many_jobs", text, {"retry-after": "5"})
            self._jobs[move.name] = job
            ended = [each.move.name for each in self._jobs.values() if each.state != RUNNING]
            for name in ended[:-MOST_REMEMBERED]:
                del self._jobs[name]
        threading.Thread(target=self._run, args=(job, connect), name=f"job {move.name}", daemon=True).start()
        return job

    def all(self) -> list[Job]:
        """In the order in which they began."""
        with self._guard:
            return list(self._jobs.values())

    def find(self, name: str) -> Job | None:
        with self._guard:
            return self._jobs.get(name)

    def remove(self, job: Job) -> None:
        """One that runs is told to end; another one is forgotten."""
        if job.state == RUNNING:
            job.cancel()
            return
        with self._guard:
            self._jobs.pop(job.move.name, None)

    def close(self) -> None:
        for job in self.all():
            job.cancel()

    def _run(self, job: Job, connect: Callable[[], Connection] | None) -> None:
        state, reason = FAILED, "a fault of the server; its log says more"
        try:
            connection = self._connect(job.key) if connect is None else connect()
            try:
                job.mover = job.move.begin(connection, job.user, time.monotonic, job.wants_end.wait)
                if job.wants_end.is_set():
                    job.mover.cancel()
                job.mover.run()
                state, reason = CANCELLED if job.progress.is_cancelled else DONE, ""
            finally:
                with suppress(ClientError, OSError):
                    connection.close()
        except (CannotMove, ClientError, OSError) as error:
            reason = why_not(error)
        except Exception:  # a fault of ours is one job's, and is written down
            log.exception("job %s", job.move.name)
        job.reason, job.ended_at = reason, time.time()
        job.state = state
        self._forget()
        whence = f" from queue '{encode(job.move.queue)}' in vhost '{encode(job.key.vhost)}'" if job.move.queue else ""
        log.info(
            "job %s: %s%s by user '%s' %s: %s", job.move.name, job.kind, whence, encode(job.user), state,
            "; ".join(filter(None, (job.progress.told(), encode(reason).replace("%20", " ")))),
        )  # fmt: skip
