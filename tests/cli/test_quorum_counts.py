"""`amqp-broker inspect` on quorum queues: they are in the logs of groups, and in pages that checkpoints name."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.cli.main import main
from amqp_broker.cluster.journal_port import JournalPort
from amqp_broker.metadata import commands
from amqp_broker.metadata.machine import Batch, MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stored_groups import StoredGroups
from amqp_broker.routing.vhost import VHost
from queues.arguments import QueueArguments
from queues.background import Background
from queues.classic import ClassicQueue
from queues.pager import Pager
from queues.quorum.commands import Attach, Command, Enqueue, How, OpenQueue, Settle, encode_batch
from queues.quorum.commands import Batch as QueueBatch
from queues.quorum.lease_commands import AckLease, Claim, OpenLease
from queues.quorum.machine import QueueGroupMachine
from queues.quorum.settings import QuorumSettings
from queues.store import MessageStore
from queues.timers import Timers
from raft.entry import REGULAR
from raft.host import RaftHost
from raft.journal_records import RAFT_ENTRY, put_entry
from raft.outbox import Outbox
from raft.settings import RaftSettings
from storage.disk import FileDisk
from storage.journal import Journal
from storage.page_store import PageStore
from tests.queues.lease_life import ack, claim, open_lease
from tests.queues.queue_world import message_named
from tests.storage.page_files import sync_pages

SESSION = 7


class Nobody:
    """A listener who does nothing."""

    def applied(self, *what: object) -> None:
        pass

    def replaced(self, index: int) -> None:
        pass

    def leads(self, is_leader: bool, leader: str | None) -> None:
        pass


class Groups:
    """The groups 0 (metadata) and 1 of a node alone, on a real folder."""

    def __init__(self, folder: Path) -> None:
        self.disk = FileDisk(folder)
        self.disk.lock()
        self.journal = Journal(self.disk)
        list(self.journal.recover())
        self.page_store = PageStore(self.disk)
        pager = Pager(self.page_store, 1, 2000, 3, 500)
        store = MessageStore(self.journal, pager, 1 << 30)
        self.host = RaftHost("n1", JournalPort(store), RaftSettings(log_bytes=4096), random.Random(1), Outbox())
        self.machine = QueueGroupMachine("n1", pager)
        self.metadata = self.host.open_group(0, MetadataMachine(Metadata(), Nobody()), ["n1"], 0)
        self.queues = self.host.open_group(1, self.machine, ["n1"], 0)
        self._sequence = 0
        self.sync()

    def sync(self) -> None:
        """Everything that was proposed is committed."""
        for _ in range(5):
            self.host.end_turn(0)
            self.machine.end_turn(self.journal.position)
            sync_pages(self.page_store)
            batch = self.journal.take_batch()
            if batch is not None:
                batch.write_and_sync()
                self.journal.batch_done(batch)
            self.host.synced(self.journal.position, 0)
            self.machine.synced(self.journal.position)

    def do(self, *wanted: Command) -> None:
        """One batch of the node's own stream."""
        first = self._sequence + 1
        self._sequence += len(wanted)
        assert self.queues.propose(encode_batch(QueueBatch(1000, "n1", SESSION, first, 0, list(wanted))))
        self.sync()
        self.machine.page_out(1 << 20)


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    made = Groups(tmp_path)
    batch = [
        commands.put_vhost("/"),
        commands.declare_queue("/", "orders", 1, type_name="quorum"),
        commands.declare_queue("/", "plain", 2),
        commands.declare_queue("/", "unopened", 3, type_name="quorum"),
        commands.declare_queue("/", "brief", 4, durable=False, home="n1"),
    ]
    assert made.metadata.propose(Batch("n1", 1, 1, batch).encode())
    made.do(OpenQueue(1, QuorumSettings()))
    for number in range(200):
        made.do(Enqueue((1,), message_named(number + 1, 90)))
    return made


def inspected(groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    groups.disk.close()
    assert main(["inspect", "--json", str(tmp_path)]) == 0
    return json.loads(capsys.readouterr().out)


def test_quorum_queues_are_counted(groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was handed out and not settled counts: a start gives it back."""
    groups.do(Attach(1, 1, 5, False, 0, False, "tag"))
    groups.do(Settle(1, How.ACK, ((1, 2),)))
    report = inspected(groups, tmp_path, capsys)
    found = {queue["name"]: (queue["kind"], queue["messages"]) for queue in report["queues"]}
    assert found == {"orders": ("quorum", 198), "plain": ("queue", 0)}
    (size,) = {queue["message_bytes"] for queue in report["queues"] if queue["name"] == "orders"}
    assert size == 198 * 90
    described = {group["group"]: group for group in report["groups"]}
    assert sorted(described) == [0, 1]
    assert described[1]["checkpoint_index"] > 0, "the log was long enough for checkpoints"
    assert described[1]["last_index"] == described[1]["checkpoint_index"] + described[1]["entries"]
    assert described[1]["last_index"] == groups.queues.last_index
    assert described[1]["voters"] == ["n1"]


def test_lease_groups_are_shown(groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of quorum and of classic queues; what they hold is no more in the queue."""
    job = (1, "job", "i" * 32, "driver")
    groups.do(OpenLease(*job), Claim(*job, 0, 150, 1 << 40, False), AckLease(*job, 30))
    store = MessageStore(groups.journal, Pager(groups.page_store, 1 << 20, 2000, 3, 500), 1 << 30)
    plain = ClassicQueue("plain", 2, True, QueueArguments(), store, Timers(), Background(), None)
    for number in range(10):
        VHost("/", store, 10).publish(message_named(number + 1, 90), [plain], 1)
    group = open_lease(plain, "other", "somebody", "j" * 32, 1)
    claim(group, 4, 1 << 40, 1)
    ack(group, 1, 1)
    groups.sync()
    report = inspected(groups, tmp_path, capsys)
    assert {queue["name"]: queue["messages"] for queue in report["queues"]} == {"orders": 50, "plain": 6}
    fields = ("queue", "group", "owner", "trimmed", "next")
    assert [tuple(each[field] for field in fields) for each in report["leases"]] == [
        ("orders", "job", "driver", 30, 150),
        ("plain", "other", "somebody", 1, 4),
    ]
    assert main(["inspect", str(tmp_path)]) == 0
    words = capsys.readouterr().out
    assert "leases    2 groups, 123 messages besides" in words
    assert "  /  orders  group 'job': 120 messages from offset 30 (owner 'driver')" in words
    for kind in ("moves", "states of lease groups"):
        assert f" {kind}" in words


def test_it_says_so_in_words(groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups.disk.close()
    assert main(["inspect", str(tmp_path)]) == 0
    report = capsys.readouterr().out
    assert "orders  200 messages, 17.6 KiB (quorum)" in report
    assert "  0  metadata of n1: checkpoint at 0" in report
    assert "  1  quorum queues of n1: checkpoint at " in report
    for kind in ("log entries", "terms and votes", "checkpoint parts"):
        assert f" {kind}" in report


def test_a_log_that_cannot_be_read_leaves_the_others_counted(
    groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_entry(groups.journal.open_entry(RAFT_ENTRY), 9, (b"", 7, 1, REGULAR))
    groups.journal.close_entry()
    groups.sync()
    groups.disk.close()
    assert main(["inspect", "--json", str(tmp_path)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {queue["name"]: queue["messages"] for queue in report["queues"]} == {"orders": 200, "plain": 0}
    (problem,) = report["problems"]
    assert "group 9 cannot be counted" in problem
    assert "no checkpoint" in problem


def test_groups_are_read_from_entries_alone(groups: Groups) -> None:
    stored = StoredGroups()
    for segment, kind, payload in Journal(groups.disk).recover():
        stored.take(segment, kind, bytes(payload))
    assert stored.group_ids() == [0, 1]
    assert [queue.name for queue in stored.metadata().queues("/")] == ["orders", "plain", "unopened", "brief"]
    machine = stored.queue_group(1, Pager(PageStore(groups.disk), 1 << 30, 2000, 3, 500))
    figures = machine.statistics(1)
    assert figures is not None
    assert figures.ready == 200
    groups.disk.close()
