"""`amqp-broker inspect DIR`: what a data folder holds, read without a running broker and without changing
anything. The folders of a node's workers are in that of the node, and are looked at with it.

Exit status: 0 if the broker would start on it, 1 if it is damaged, 2 if it is no data folder of this version's.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
from pathlib import Path

import click

from amqp_broker.cli.queue_counts import AppCount, Counting, LeaseCount, QueueCount, UnchangedDisk
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stored_groups import METADATA_GROUP, StoredGroup
from amqp_broker.server.workers_file import folder_of, node_of_folder, read_workers
from amqp_broker.settings.kinds import WORKER_MARK
from queues.store import ENQUEUE, LEASE, LETTERS, MOVED, MOVED_PAGE, NOTE, PAGES, RELEASED, RETURNED, SETTLE
from raft.journal_records import (
    RAFT_CHECKPOINT,
    RAFT_ENTRY,
    RAFT_GIVEN_UP,
    RAFT_LIVES,
    RAFT_STATE,
    RAFT_WITNESS,
)
from raft.memory import Memory
from storage.disk import LOCK_FILE
from storage.errors import StorageError
from storage.folder_format import check_format
from storage.inspect import BadRecord, FolderReport, LogReport, inspect_folder
from storage.page_store import PAGES_FOLDER

STATUS_DAMAGED = 1
JOURNAL_ENTRIES = {
    ENQUEUE: "enqueues",
    SETTLE: "settlements",
    PAGES: "page lists",
    RETURNED: "returns",
    RELEASED: "page releases",
    MOVED: "moves",
    MOVED_PAGE: "moves of pages",
    LETTERS: "lists of dead letters",
    LEASE: "states of lease groups",
    NOTE: "notes of apps",
    RAFT_ENTRY: "log entries",
    RAFT_STATE: "terms and votes",
    RAFT_CHECKPOINT: "checkpoint parts",
    RAFT_LIVES: "lists of starts",
    RAFT_WITNESS: "notes of other members",
    RAFT_GIVEN_UP: "reasons not to use the folder",
}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(folder: Path, as_json: bool) -> int:
    """Report on the data folder DIR: segments, queues, counts, bad records; and on those of its workers."""
    node = node_of_folder(folder)
    try:
        looks = [_look(node)]
        metadata = looks[0].counting.metadata
        looks += [_look(folder_of(node, number), number, metadata) for number in read_workers(node)]
    except StorageError as error:
        raise click.ClickException(str(error)) from error
    if node != folder:
        looks = [look for look in looks if look.folder == folder.absolute()]
    damaged = any(_is_damaged(look.report, look.counting) or look.counting.problems for look in looks)
    if as_json:
        first, *others = [_as_json(look) for look in looks]
        click.echo(json.dumps({**first, "workers": others} if others else first, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_as_lines(look)) for look in looks))
    return STATUS_DAMAGED if damaged else 0


@dataclasses.dataclass(frozen=True)
class Look:
    """What one folder has."""

    folder: Path
    report: FolderReport
    counting: Counting
    queues: list[QueueCount]
    is_in_use: bool


def _look(folder: Path, worker: int = 0, metadata: Metadata | None = None) -> Look:
    """worker, metadata: as of Counting. Raises ForeignFolder, ClickException."""
    disk = UnchangedDisk(folder)
    try:
        if not check_format(disk, str(folder)):
            raise click.ClickException(f"{folder}: empty, no broker has written to it; name a broker's data folder")
        counting = Counting(disk, worker, metadata)
        report = inspect_folder(disk, counting.take)
        return Look(folder, report, counting, counting.finish(), _is_in_use(folder))
    finally:
        disk.close()


def _is_in_use(folder: Path) -> bool:
    """True if a broker holds the folder's lock, so that what was read may have been half written."""
    try:
        with open(folder / LOCK_FILE, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_damaged(report: FolderReport, counting: Counting) -> bool:
    return any(not bad.is_torn_tail for bad in _bad_records(report, counting))


def _bad_records(report: FolderReport, counting: Counting) -> list[BadRecord]:
    """The first one of the journal, and all of the pages; what is nobody's page is a torn tail."""
    journal = [report.journal.first_bad] if report.journal.first_bad is not None else []
    return journal + [
        dataclasses.replace(bad, is_torn_tail=counting.is_left_over(queue.queue_id, bad))
        for queue in report.queues
        for bad in queue.bad
    ]


def _as_json(look: Look) -> dict[str, object]:
    report, counting, queues = look.report, look.counting, look.queues
    return {
        "is_in_use": look.is_in_use,
        "is_damaged": _is_damaged(report, counting),
        "problems": counting.problems,
        "groups": [group._asdict() for group in counting.groups()],
        "queues": [dataclasses.asdict(queue) for queue in queues],
        "leases": [{**dataclasses.asdict(lease), "messages": lease.messages} for lease in counting.leases],
        "apps": [dataclasses.asdict(app) for app in counting.apps],
        "folder": dataclasses.asdict(report),
    }


def _as_lines(look: Look) -> list[str]:
    report, counting, queues = look.report, look.counting, look.queues
    lines = [f"{look.folder}: {json.dumps(report.format)}"]
    if look.is_in_use:
        lines.append("in use by a running broker: its newest records may look torn")
    lines += _journal_lines(report.journal)
    lines += _group_lines([group for group in counting.groups() if group.voters or group.entries])
    lines += _memory_lines(counting.memory())
    pages = sum(queue.pages for queue in report.queues)
    octets = sum(queue.bytes for queue in report.queues)
    lines.append(f"pages     {pages} of {len(report.queues)} queues, {_octets(octets)}")
    messages = sum(queue.messages for queue in queues)
    lines += ["", f"queues    {len(queues)} durable, {messages} messages"]
    is_clustered = any(len(group.voters) > 1 for group in counting.groups())
    lines += [_queue_line(queue, is_clustered) for queue in queues]
    if counting.leases:
        leased = sum(lease.messages for lease in counting.leases)
        lines += ["", f"leases    {len(counting.leases)} groups, {leased} messages besides"]
        lines += [_lease_line(lease) for lease in counting.leases]
    if counting.apps:
        lines += ["", f"apps      {len(counting.apps)} of transactions"]
        lines += [_app_line(app) for app in counting.apps]
    lines += ["", *_verdict(report, counting)]
    return lines


def _app_line(app: AppCount) -> str:
    last = "nothing committed" if app.last_epoch < 0 else f"epoch {app.last_epoch} committed"
    staged = f"{app.parts} parts staged, {app.blobs} blobs, {_octets(app.blob_bytes)}"
    return f"  {app.vhost}  {app.app}  {last}; {staged}"


def _queue_line(queue: QueueCount, is_clustered: bool) -> str:
    line = f"  {queue.vhost}  {queue.name}  {queue.messages} messages, {_octets(queue.message_bytes)}"
    if queue.kind != "queue":
        line += f" ({queue.kind})"
    elif queue.home and (is_clustered or WORKER_MARK in queue.home):
        line += f" (lives on {queue.home})"
    return line


def _lease_line(lease: LeaseCount) -> str:
    whose = "going back to the queue" if lease.is_parting else f"owner {lease.owner!r}"
    what = f"{lease.messages} messages from offset {lease.trimmed} ({whose})"
    return f"  {lease.vhost}  {lease.queue}  group {lease.group!r}: {what}"


def _journal_lines(journal: LogReport) -> list[str]:
    lines = [f"journal   {len(journal.segments)} segments, {journal.records} records, {_octets(journal.bytes)}"]
    for segment in journal.segments:
        counts = [f"{count} {JOURNAL_ENTRIES.get(kind, f'of kind {kind}')}" for kind, count in segment.entries.items()]
        entries = ", ".join(counts) or "no entries"
        lines.append(f"  {segment.file}  {_octets(segment.bytes)}, {segment.records} records: {entries}")
    return lines


def _memory_lines(memory: Memory) -> list[str]:
    """What a member of a cluster can be held to, and what it holds the others to."""
    if not memory.identity:
        return []
    lines = [f"memory    folder {memory.identity.hex()[:8]}, started {memory.life} times"]
    for name, (point, _) in sorted(memory.witnesses.items()):
        seen = f"folder {point.identity.hex()[:8]} at its start number {point.number}, position {point.position}"
        lines.append(f"  has seen {name}: {seen}")
    return [*lines, f"  GIVEN UP: {memory.reason}"] if memory.reason else lines


def _group_lines(groups: list[StoredGroup]) -> list[str]:
    lines = [f"groups    {len(groups)} in the journal"]
    for group in groups:
        holds = "metadata" if group.group == METADATA_GROUP else "quorum queues"
        members = ", ".join((*group.voters, *(f"{name} (learner)" for name in group.learners))) or "nobody"
        lines.append(
            f"  {group.group}  {holds} of {members}: checkpoint at {group.checkpoint_index}, {group.entries} entries "
            f"up to {group.last_index}, term {group.term}"
        )
    return lines


def _octets(count: int) -> str:
    """Three digits are enough for a person; --json has them all."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"


def _verdict(report: FolderReport, counting: Counting) -> list[str]:
    lines, problems = [], counting.problems
    for bad in _bad_records(report, counting):
        meaning = "bad record"
        if bad.is_torn_tail:
            is_page = bad.file.startswith(PAGES_FOLDER)
            meaning = "left of a crash, nobody's page" if is_page else "torn tail, cut off at the next start"
        lines.append(f"{meaning}: {bad.file} at offset {bad.offset}: {bad.reason}")
    lines += [f"problem: {problem}" for problem in problems]
    lines += [f"set aside earlier: damaged/{part}" for part in report.damaged_parts]
    if _is_damaged(report, counting) or problems:
        lines.append("damaged: restore a copy, or `amqp-broker serve --recover` sets the bad parts aside and starts")
    else:
        lines.append("whole: the broker can start on it")
    return lines
