"""A node of the simulation: one life after another on one disk, each watched by the checks."""

from __future__ import annotations

import random

from amqp_broker.octets.buffer import Buffer
from raft.group import Group
from raft.journal_records import RAFT_ENTRY, group_of
from raft.outbox import Outbox
from raft.settings import RaftSettings
from storage.journal import Batch, Journal
from tests.raft.raft_node import Item, JournalPort, ListMachine, Members, RaftNode
from tests.raft.simulation_checks import Checks
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk


class WatchedPort(JournalPort):
    """Shows every entry that is written."""

    def __init__(self, journal: Journal, limit_bytes: int, checks: Checks) -> None:
        super().__init__(journal, limit_bytes)
        self._checks = checks
        self._open: tuple[int, Buffer, int] | None = None

    def open_entry(self, kind: int) -> Buffer:
        buffer = super().open_entry(kind)
        self._open = (kind, buffer, buffer.length)
        return buffer

    def close_entry(self) -> int:
        assert self._open is not None
        kind, buffer, start = self._open
        if kind == RAFT_ENTRY:
            payload = buffer.get_bytes(start, buffer.length)
            self._checks.written(payload, group_of(payload))
        return super().close_entry()


class SimulatedNode(RaftNode):
    """`offset` is how far its clock is off, `frozen_until` when a pause ends (microseconds of the world)."""

    disk: SimulatedDisk

    def __init__(
        self, name: str, bootstrap: dict[int, Members], settings: RaftSettings, chance: random.Random, checks: Checks
    ) -> None:
        disk = SimulatedDisk(random.Random(chance.random()))
        super().__init__(name, disk, bootstrap, settings, chance.randrange(1 << 30), 6_000, 20_000)
        self.checks = checks
        self.is_up = False
        self.lives = 0
        self.offset = chance.randint(-1_000_000, 1_000_000)
        self.frozen_until = 0
        self.stalls_until = 0
        self.batch: Batch | None = None
        self.tick_at: int | None = None
        self.links: dict[str, None] = {}

    @property
    def life(self) -> str:
        """A name for what ends with the next crash."""
        return f"{self.name}#{self.lives}"

    def start(self, now: int) -> None:
        """A new life."""
        self.lives += 1
        self.is_up = True
        self.batch = None
        self.tick_at = None
        journal = Journal(self.disk, segment_bytes=self.segment_bytes)
        self.port = WatchedPort(journal, self.limit_bytes, self.checks)
        self.host = self.host_type(self.name, self.port, self.settings, self.chance, Outbox())
        for segment, kind, payload in journal.recover():
            self.host.feed_recovered(segment, kind, bytes(payload))
        self.machines = {}
        for group_id, members in self.bootstrap.items():
            machine = self.machines[group_id] = self.new_machine(group_id)
            self.host.open_group(group_id, machine, members, now)

    def new_machine(self, group_id: int) -> ListMachine:
        machine = ListMachine()

        def on_apply(item: Item) -> None:
            self.checks.on_apply(self, group_id, item)

        def on_replace(items: list[Item]) -> None:
            self.checks.on_replace(self, group_id, items)

        machine.on_apply, machine.on_replace = on_apply, on_replace
        return machine

    def group(self, group_id: int = 1) -> Group:
        return self.host.groups[group_id]

    def crash(self, chance: random.Random, is_power: bool) -> None:
        """The life ends; a batch on its way to the disk may be there, in part, or not. With `is_power`, what was not
        synced is lost, torn or garbled."""
        self.checks.forgotten(self)
        self.is_up = False
        self.disk.fail_sync_at = None
        self.links.clear()
        if self.batch is not None and self.batch.size() and chance.random() < 0.7:
            self.disk.crash_at = chance.randint(1, 3)
            try:
                self.batch.write_and_sync()
            except SimulatedCrash:
                self.checks.counts["crashes in a write"] += 1
        self.batch = None
        if is_power:
            self.disk.crash()
        else:
            self.disk.come_back()

    def write_batch(self) -> bool:
        """Bring the batch to the disk; False if the disk fails: the node has to stop."""
        assert self.batch is not None
        try:
            self.batch.write_and_sync()
        except OSError:
            self.batch = None
            return False
        return True
