"""Two attempts at one range, one of them stopped half way (SIGSTOP) and going on when the other is done, or nearly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.pytest_plugin import BrokerForTest
from spark_connector import staged_writes
from spark_connector.service import Service
from tests.spark_connector.straggler import APP, GROUP, QUEUE, options, rows, stage

ROOT = Path(__file__).resolve().parents[2]
COUNT = 300


class Scene:
    """A queue whose messages are claimed as one range."""

    def __init__(self, url: str) -> None:
        self.url = url
        with Connection.open(url) as connection, connection.channel() as channel:
            for queue in (QUEUE, "out"):
                channel.call(QueueDeclare(queue=queue, durable=True))
            channel.confirm_select()
            for number in range(COUNT):
                channel.publish("", QUEUE, b"%d" % number, {"delivery_mode": 2})
            assert channel.wait_for_confirms() == []
        self.service = Service(options(url))
        self.group = {"queue": QUEUE, "group": GROUP, "owner": "driver"}
        self.group["incarnation"] = self.service.ask("lease.open", self.group).fields["incarnation"]
        assert self.service.ask("lease.claim", {**self.group, "after": 0}).fields["end"] == COUNT

    def straggler(self) -> subprocess.Popen[str]:
        """Another process reads the range, and is stopped in the middle of it."""
        command = (sys.executable, "-m", "tests.spark_connector.straggler", self.url, self.group["incarnation"])
        process = subprocess.Popen([*command, "0", str(COUNT)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        return process

    def staged_by_twin(self) -> staged_writes.Staged:
        return stage(self.url, rows(self.url, self.group["incarnation"], 0, COUNT))

    def commit(self, staged: staged_writes.Staged) -> None:
        """The batch is done."""
        staged_writes.commit(options(self.url), [staged])
        self.service.ask("lease.ack", {**self.group, "upto": COUNT})

    def left(self) -> tuple[int, int]:
        """How many messages are staged, and how many leased."""
        (app,) = self.service.ask("txn.stat", {"app": APP}).fields["apps"]
        (group,) = self.service.ask("lease.stat", {"queue": QUEUE}).fields["groups"]
        return app["staged_messages"], group["next"] - group["trimmed"]

    def out(self) -> list[int]:
        with Connection.open(self.url) as connection, connection.channel() as channel:
            return [int(each.body) for each in iter(lambda: channel.get("out", no_ack=True), None)]


@pytest.fixture
def scene(amqp_broker: BrokerForTest) -> Iterator[Scene]:
    scene = Scene(amqp_broker.url)
    yield scene
    scene.service.drop()


def goes_on(process: subprocess.Popen[str]) -> str:
    """How it ends."""
    os.kill(process.pid, signal.SIGCONT)
    return process.communicate(timeout=30)[0].strip()


def test_who_was_stopped_goes_on_where_it_was(scene: Scene) -> None:
    process = scene.straggler()
    assert goes_on(process) == "staged"
    assert scene.left() == (COUNT, COUNT)


def test_a_twin_that_is_chosen_counts_alone(scene: Scene) -> None:
    process = scene.straggler()
    twin = scene.staged_by_twin()
    assert goes_on(process) == "staged"
    assert scene.left() == (2 * COUNT, COUNT)
    scene.commit(twin)
    assert scene.left() == (0, 0)
    assert scene.out() == list(range(COUNT))


def test_who_comes_after_the_batch_is_done_finds_nothing_and_adds_nothing(scene: Scene) -> None:
    process = scene.straggler()
    scene.commit(scene.staged_by_twin())
    assert "start with a new checkpoint" in goes_on(process)
    assert scene.left() == (0, 0)
    assert scene.out() == list(range(COUNT))
