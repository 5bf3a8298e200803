"""kill -9 while a stream is read, and what becomes of it is published to another: each message once.

The program keeps to docs/leases.md; it knows nothing but what the broker tells it, and begins anew when that does.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from random import Random
from threading import Condition, Thread

from amqp_broker.client.errors import ClientError
from tests.kill.broker_process import BrokerProcess
from tests.leases.lease_service import LeaseService, blob_of, rows

MESSAGES = 6_000
AT_ONCE = 50
KILLS = 6
TIMEOUT_S = 60.0
SETTINGS = {"journal-segment-size": "256KiB", "journal-limit": "1MiB"}


class Copying(Thread):
    """One life of the program that copies `in` to `out`, until it has all or the broker is gone. copied: so many."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.copied = 0
        self.is_done = self.is_over = False
        self.moved = Condition()

    def run(self) -> None:
        try:
            with LeaseService(self.url) as service:
                self._copy(service)
        except (ClientError, OSError):
            return
        finally:
            self.is_over = True
            with self.moved:
                self.moved.notify()

    def _copy(self, service: LeaseService) -> None:
        apps = service.ask("txn.stat", app="copy").fields["apps"]
        last = apps[0]["last_epoch"] if apps else None
        epoch = 0 if last is None else last + 1
        if epoch:
            self._commit(service, epoch - 1)
        start = service.ask("stream.offsets", stream="in", group="g").fields["position"] or 0
        while start < MESSAGES:
            answer = service.ask("stream.fetch", stream="in", from_=start, to=start + AT_ONCE, columns=["body"])
            said = {"app": "copy", "epoch": epoch, "partition": 0, "attempt": time.monotonic_ns(), "sequence": 0}
            blob = blob_of([row.body for row in rows(answer.blob)], routing_key="out")
            while service.stage(blob, **said).code == "busy":
                continue
            end = answer.headers["x-end"]
            self._commit(service, epoch, {"0": said["attempt"]}, {"in": {"g": {"0": end}}})
            with self.moved:
                self.copied += end - start
                self.moved.notify()
            start, epoch = end, epoch + 1
        self.is_done = True

    def _commit(self, service: LeaseService, epoch: int, attempts: object = None, offsets: object = None) -> None:
        while True:
            answer = service.ask("txn.commit", app="copy", epoch=epoch, attempts=attempts or {}, offsets=offsets or {})
            if answer.code != "busy":
                break
        assert answer.code == "ok", answer


def _has(program: Copying, most: int) -> bool:
    return program.is_over or program.copied >= most


def start(folder: Path) -> tuple[BrokerProcess, str]:
    broker = BrokerProcess(folder, SETTINGS)
    assert broker.wait_ready(), broker.log_tail()
    return broker, f"amqp://guest:guest@{broker.host}:{broker.port}/%2F"


def test_each_message_is_copied_once(tmp_path: Path) -> None:
    chance = Random(4)
    broker, url = start(tmp_path)
    with LeaseService(url) as service:
        for stream in ("in", "out"):
            service.declare(stream, x_queue_type="stream")
        service.fill("in", MESSAGES)
    kills = copied = 0
    while True:
        program = Copying(url)
        program.start()
        if kills == KILLS:
            program.join()
            break
        most = copied + chance.randint(1, MESSAGES // KILLS - AT_ONCE)
        with program.moved:
            enough = partial(_has, program, most - copied)
            assert program.moved.wait_for(enough, TIMEOUT_S)
        broker.kill()
        program.join()
        copied += program.copied
        kills += 1
        broker, url = start(tmp_path)
    assert program.is_done
    with LeaseService(url) as service:
        found: list[bytes] = []
        while taken := rows(service.ask("stream.fetch", stream="out", from_=len(found), columns=["body"]).blob):
            found += [row.body for row in taken]
        position = service.ask("stream.offsets", stream="in", group="g").fields["position"]
    broker.stop()
    assert (len(found), position) == (MESSAGES, MESSAGES)
    assert found == [b"m%d" % number for number in range(MESSAGES)]
