"""How many messages each queue of a data folder holds, found as the broker would at its start, but changing
nothing.

The broker's own recovery runs on a disk that reads and drops every write, so that what is counted here is
what the broker would serve. Where the folder is damaged the counts cover what can be read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_broker.leases.app_note import decode_note
from amqp_broker.metadata.entities import QueueRecord
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.queue_ids import delay_id
from amqp_broker.metadata.stored_groups import METADATA_GROUP, StoredGroup, StoredGroups
from amqp_broker.queue_types.register import QUEUE_TYPES, lives_in_groups
from amqp_broker.settings.workers import node_of_worker, worker_name
from exchanges.delayed import DelayedExchange
from queues.lease import OPEN
from queues.page import Page
from queues.pager import Pager
from queues.recovery import RecoveredQueue, Recovery
from raft.errors import CorruptLog
from raft.journal_records import FIRST_RAFT_KIND
from raft.memory import Memory
from storage.disk import FileDisk, Octets
from storage.errors import CorruptRecord
from storage.page_store import PageStore, page_path

if TYPE_CHECKING:
    from queues.quorum.leases import QuorumLease
    from queues.recovered_lease import RecoveredLease
    from queues.stream.stream import Stream
    from storage.inspect import BadRecord


class UnchangedDisk(FileDisk):
    """A folder that can be read, and where every write is silently nothing:

    for code that tidies while it reads.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root, is_read_only=True)

    def append(self, path: str, buffers: Sequence[Octets]) -> None:
        pass

    def write(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        pass

    def sync(self, path: str) -> None:
        pass

    def write_and_sync(self, path: str, offset: int, buffers: Sequence[Octets]) -> None:
        pass

    def sync_folder(self, folder: str) -> None:
        pass

    def truncate(self, path: str, size: int) -> None:
        pass

    def remove(self, path: str) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        pass

    def make_folder(self, path: str) -> None:
        pass

    def remove_folder(self, path: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class QueueCount:
    """A durable queue (kind: QueueType.inspected_as), or a delayed-message exchange (kind "delayed"): its messages and
    their octets; of a quorum queue those of bodies, of a stream those of what it keeps. home: the node where a queue
    lives that is in no group, which need not be this one."""

    vhost: str
    name: str
    kind: str
    queue_id: int
    home: str
    messages: int
    message_bytes: int


@dataclass(frozen=True, slots=True)
class LeaseCount:
    """A lease group of a queue: it holds the offsets [trimmed, next). is_parting: they are going back to the queue."""

    vhost: str
    queue: str
    group: str
    incarnation: str
    owner: str
    trimmed: int
    next: int
    is_parting: bool

    @property
    def messages(self) -> int:
        return self.next - self.trimmed


@dataclass(frozen=True, slots=True)
class AppCount:
    """An app of txn.*: what it has staged, committed or not, that is not published. last_epoch: -1 for none."""

    vhost: str
    app: str
    last_epoch: int
    parts: int
    blobs: int
    blob_bytes: int


class Counting:
    """Fed with every entry of the journal by `take`, as `storage.inspect.inspect_folder` gives them.

    worker, metadata: of a worker's folder its number, and what worker 0's folder says of queues; other folders have
    that themselves.
    """

    def __init__(self, disk: UnchangedDisk, worker: int = 0, metadata: Metadata | None = None) -> None:
        self.metadata = metadata
        self._worker = worker
        self.problems: list[str] = []
        self.leases: list[LeaseCount] = []
        self.apps: list[AppCount] = []
        self._found: dict[int, list[tuple[RecoveredLease | QuorumLease, bool]]] = {}
        self._streams: dict[int, None] = {}
        self._page_ends: dict[str, int] = {}  # of streams: where the last page ends that is named, by file
        self._disk = disk
        self._groups = StoredGroups()
        self._recovery = Recovery(self._pager())

    def _pager(self) -> Pager:
        return Pager(PageStore(self._disk), 1 << 62, 1 << 18, 1, 1 << 12)

    def take(self, segment: int, kind: int, payload: memoryview) -> None:
        """An entry of the journal."""
        try:
            if kind >= FIRST_RAFT_KIND:
                self._groups.take(segment, kind, bytes(payload))
            else:
                self._recovery.take(segment, kind, bytes(payload))
        except (CorruptLog, ValueError) as error:
            self.problems.append(f"journal segment {segment}: {error}")

    def groups(self) -> list[StoredGroup]:
        """The groups in figures."""
        return self._groups.describe()

    def memory(self) -> Memory:
        """What the node remembers of itself and of others."""
        return self._groups.memory

    def finish(self) -> list[QueueCount]:
        """The queues in order of virtual host and name, their lease groups in `leases`, and `apps`. What cannot be
        named or counted is missing, and noted as a problem."""
        try:
            metadata = self.metadata or self._groups.metadata()
        except (CorruptLog, ValueError) as error:
            self.problems.append(f"queues cannot be named or counted: {error}")
            return []
        self.metadata = metadata
        places = _places(metadata)
        counts, recovery = self._count_groups(), self._recovery
        if self._worker:  # what lives there, and what is in the groups that it has
            places = [
                place for place in places
                if place[4] == worker_name(node_of_worker(place[4]), self._worker) or place[3] in counts
            ]  # fmt: skip
        try:
            notes = [decode_note(octets) for _, octets in recovery.notes.values()]
            staged = [note.queue_id(part) for note in notes for part in note.parts]
            recovery.finish([*_ids_in_journal(metadata), *staged])
        except (CorruptRecord, ValueError, OSError) as error:
            self.problems.append(f"messages cannot be counted: {error}")
            return []
        for lease in recovery.leases.values():
            self._found.setdefault(lease.queue_id, []).append((lease, lease.state != OPEN))
        self.leases = [
            LeaseCount(
                vhost, name, lease.name, lease.incarnation, lease.owner, lease.trimmed, lease.next, is_parting
            )
            for vhost, name, kind, queue_id, _ in places
            for lease, is_parting in self._found.get(queue_id, ())
        ]  # fmt: skip
        for note in sorted(notes, key=lambda note: (note.vhost, note.name)):
            found = [_count(recovery.queues.pop(note.queue_id(part))) for part in note.parts]
            blobs, octets = sum(count for count, _ in found), sum(size for _, size in found)
            self.apps.append(AppCount(note.vhost, note.name, note.last_epoch, len(found), blobs, octets))
        for queue_id, queue in recovery.queues.items():
            # What an exchange holds back may be in a group, and as an older version left it too.
            messages, message_bytes = counts.get(queue_id, (0, 0))
            more, more_bytes = _count(queue)
            counts[queue_id] = (messages + more, message_bytes + more_bytes)
        return [QueueCount(*place, *counts[place[3]]) for place in places if place[3] in counts]

    def is_left_over(self, queue_id: int, bad: BadRecord) -> bool:
        """Whether octets of a page file are behind all pages of a stream that somebody names: what a crash has left of
        a chunk that was on its way (docs/placement.md). `finish` comes first."""
        return queue_id in self._streams and bad.offset >= self._page_ends.get(bad.file, 0)

    def _look_at_pages(self, stream: Stream) -> None:
        self._streams[stream.queue_id] = None
        for location in [part.page.location for part in stream.log.parts()]:
            path = page_path(stream.queue_id, location.segment)
            end = location.offset + location.disk_bytes
            self._page_ends[path] = max(end, self._page_ends.get(path, 0))

    def _count_groups(self) -> dict[int, tuple[int, int]]:
        """Messages and octets of the queues in groups, by id. One that was declared and not opened is not there yet."""
        counts: dict[int, tuple[int, int]] = {}
        for group_id in self._groups.group_ids():
            if group_id == METADATA_GROUP:
                continue
            try:
                machine = self._groups.queue_group(group_id, self._pager())
            except (CorruptLog, CorruptRecord, ValueError, OSError) as error:
                self.problems.append(f"the quorum queues and streams of group {group_id} cannot be counted: {error}")
                continue
            for queue_id in machine.queue_ids():
                figures, stream = machine.statistics(queue_id), machine.stream(queue_id)
                if stream is not None:
                    counts[queue_id] = (stream.next - stream.first, stream.log.octets)
                    self._look_at_pages(stream)
                if figures is not None:
                    counts[queue_id] = (figures.ready + figures.unacked + figures.delayed, figures.ready_bytes)
                    groups = machine.lease_groups(queue_id).values()
                    parting = machine.parting_groups(queue_id)
                    self._found[queue_id] = [*((each, False) for each in groups), *((each, True) for each in parting)]
        return counts


def _places(metadata: Metadata) -> list[tuple[str, str, str, int, str]]:
    """Virtual host, name, kind, id and home of everything that stores messages."""
    places = []
    for vhost in metadata.vhosts():
        places += [
            (vhost.name, queue.name, _kind_of(queue), queue.queue_id, queue.home)
            for queue in metadata.queues(vhost.name)
            if queue.durable
        ]
        places += [
            (vhost.name, exchange.name, "delayed", delay_id(vhost.name, exchange.name, exchange.number), "")
            for exchange in metadata.exchanges(vhost.name)
            if exchange.type == DelayedExchange.type_name
        ]
    return sorted(places)


def _kind_of(queue: QueueRecord) -> str:
    """What a queue is called here; one whose type is not known, of a newer version, by that."""
    return QUEUE_TYPES[queue.type].inspected_as if queue.type in QUEUE_TYPES else queue.type


def _ids_in_journal(metadata: Metadata) -> list[int]:
    """What stores messages under its id in the journal, and not in the log of a group alone."""
    found = []
    for vhost in metadata.vhosts():
        queues, exchanges = metadata.queues(vhost.name), metadata.exchanges(vhost.name)
        found += [each.queue_id for each in queues if each.durable and not lives_in_groups(each.type)]
        delayed = [each for each in exchanges if each.type == DelayedExchange.type_name]
        found += [delay_id(vhost.name, each.name, each.number) for each in delayed]
    return found


def _count(queue: RecoveredQueue) -> tuple[int, int]:
    messages = message_bytes = 0
    for item in queue.items:
        if isinstance(item, Page):
            messages += item.count
            message_bytes += item.message_bytes
        else:
            messages += 1
            message_bytes += item.message.size
    return messages, message_bytes
