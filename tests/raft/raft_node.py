"""A node as small as it can be: a host of groups over a real journal on a disk, with list machines."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Any

from amqp_broker.octets.buffer import Buffer
from raft.errors import NotNow
from raft.group import Group
from raft.host import RaftHost
from raft.outbox import Outbox
from raft.settings import RaftSettings
from storage.disk import Disk
from storage.journal import Batch, Journal

Item = tuple[int, int, bytes]  # index, term, data
Members = tuple[str, ...]

_ITEM = struct.Struct(">QQI")


def pack_items(items: list[Item]) -> bytes:
    return b"".join(_ITEM.pack(index, term, len(data)) + data for index, term, data in items)


def unpack_items(octets: bytes) -> list[Item]:
    items = []
    position = 0
    while position < len(octets):
        index, term, length = _ITEM.unpack_from(octets, position)
        position += _ITEM.size
        items.append((index, term, octets[position : position + length]))
        position += length
    return items


class ListMachine:
    """A list that entries are appended to. `on_apply` and `on_replace` are what a test watches it by. not_now: how
    often it does not begin, or end, an install yet."""

    CHUNK_ITEMS = 5

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.roles: list[tuple[bool, str | None, int]] = []
        self.installs = 0
        self.aborted_installs = 0
        self.exports = 0
        self.on_apply: Callable[[Item], None] | None = None
        self.on_replace: Callable[[list[Item]], None] | None = None
        self.concerned: Container[str] | None = None
        self.not_now = Counter[str]()
        self._incoming: list[Item] | None = None

    @property
    def data(self) -> list[bytes]:
        return [data for _, _, data in self.items]

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        assert not self.items or index > self.items[-1][0], "applied twice, or out of order"
        self.items.append((index, term, data))
        if self.on_apply is not None:
            self.on_apply((index, term, data))

    def checkpoint(self) -> list[bytes]:
        return [pack_items(self.items)] if self.items else []

    def prepare_checkpoint(self) -> Iterator[None]:
        return iter([None] * (len(self.items) % 3))

    def checkpoint_in_slices(self) -> Iterator[bytes | None]:
        items = list(self.items)
        return (part for item in items for part in (pack_items([item]), None))

    def restore(self, chunks: list[bytes]) -> None:
        self._replace([item for chunk in chunks for item in unpack_items(chunk)])

    def export(self) -> Iterator[bytes]:
        self.exports += 1
        items = list(self.items)
        return (pack_items(items[at : at + self.CHUNK_ITEMS]) for at in range(0, len(items), self.CHUNK_ITEMS))

    def begin_install(self) -> None:
        assert self._incoming is None
        self._say_not_now("begin")
        self._incoming = []

    def install_chunk(self, chunk: bytes) -> None:
        assert self._incoming is not None
        self._incoming.extend(unpack_items(chunk))

    def end_install(self) -> None:
        assert self._incoming is not None
        self._say_not_now("end")
        self.installs += 1
        items, self._incoming = self._incoming, None
        self._replace(items)

    def _say_not_now(self, what: str) -> None:
        if self.not_now[what]:
            self.not_now[what] -= 1
            raise NotNow("the test says so")

    def abort_install(self) -> None:
        assert self._incoming is not None
        self.aborted_installs += 1
        self._incoming = None

    def take_concerned(self) -> Container[str] | None:
        return self.concerned

    def role_changed(self, is_leader: bool, leader: str | None, term: int, now: int) -> None:
        self.roles.append((is_leader, leader, term))

    def _replace(self, items: list[Item]) -> None:
        self.items = items
        if self.on_replace is not None:
            self.on_replace(items)


class JournalPort:
    """The node's journal with what keeps it short (LogPort)."""

    def __init__(self, journal: Journal, limit_bytes: int) -> None:
        self.journal = journal
        self.retired = 0
        self._limit_bytes = limit_bytes
        self._live_bytes = 0
        self._touched: dict[int, dict[Any, None]] = {}
        self._retiring: tuple[int, int] | None = None  # (segment, position)

    @property
    def position(self) -> int:
        return self.journal.position

    @property
    def current_segment(self) -> int:
        return self.journal.current_segment

    def open_entry(self, kind: int) -> Buffer:
        return self.journal.open_entry(kind)

    def close_entry(self) -> int:
        return self.journal.close_entry()

    def touch(self, segment: int, owner: Any) -> None:
        self._touched.setdefault(segment, {})[owner] = None

    def carry(self, octets: int) -> None:
        """What is live is known here."""

    def shorten(self) -> None:
        """Have the oldest segment left when the journal is too long."""
        journal = self.journal
        if self._retiring is not None or journal.total_bytes <= max(self._limit_bytes, 2 * self._live_bytes):
            return
        segment = journal.oldest_segment
        if segment >= journal.current_segment:
            return
        for owner in self._touched.pop(segment, {}):
            if not owner.is_deleted:
                owner.leave_segment(segment)
        self._retiring = (segment, journal.position)

    def synced(self, position: int) -> None:
        if self._retiring is not None and position >= self._retiring[1]:
            self.journal.retire(self._retiring[0])
            self._retiring = None
            self.retired += 1
            self._live_bytes = self.journal.total_bytes


class RaftNode:
    """A node on a disk. `bootstrap` says who belongs to each group at first."""

    host_type: type[RaftHost] = RaftHost

    def __init__(
        self,
        name: str,
        disk: Disk,
        bootstrap: dict[int, Members],
        settings: RaftSettings | None = None,
        seed: int = 0,
        segment_bytes: int = 1 << 20,
        limit_bytes: int = 1 << 22,
    ) -> None:
        self.name = name
        self.disk = disk
        self.bootstrap = bootstrap
        self.settings = settings or RaftSettings()
        self.chance = random.Random(seed)
        self.segment_bytes = segment_bytes
        self.limit_bytes = limit_bytes
        self.machines: dict[int, ListMachine] = {}
        #: If there is one, what is done in slices is put there.
        self.slices: list[Callable[[int], bool]] | None = None

    def start(self, now: int) -> None:
        """Recover what the disk holds, and open the groups."""
        journal = Journal(self.disk, segment_bytes=self.segment_bytes)
        self.port = JournalPort(journal, self.limit_bytes)
        self.host = self.host_type(self.name, self.port, self.settings, self.chance, Outbox())
        if self.slices is not None:
            self.slices.clear()
            self.host.work_in_slices(self.slices.append)
        for segment, kind, payload in journal.recover():
            self.host.feed_recovered(segment, kind, bytes(payload))
        self.machines = {}
        for group_id, members in self.bootstrap.items():
            machine = self.machines[group_id] = self.new_machine(group_id)
            self.host.open_group(group_id, machine, members, now)
        self.host.end_turn(now)

    def new_machine(self, group_id: int) -> ListMachine:
        return ListMachine()

    def group(self, group_id: int = 1) -> Group:
        return self.host.groups[group_id]

    def take_batch(self) -> Batch | None:
        """What is to be written now."""
        return self.port.journal.take_batch()

    def finish_batch(self, batch: Batch, now: int) -> None:
        """A batch has been written and synced."""
        self.port.journal.batch_done(batch)
        self.port.synced(batch.position)
        self.host.synced(batch.position, now)
        self.host.end_turn(now)

    def sync(self, now: int) -> None:
        """Write and sync everything."""
        while (batch := self.take_batch()) is not None:
            batch.write_and_sync()
            self.finish_batch(batch, now)
