"""`amqp-broker inspect DIR`: what a data folder holds, read without a running broker and without changing
anything.

Exit status: 0 if the broker would start on it, 1 if it is damaged, 2 if it is no data folder.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
from collections.abc import Mapping
from pathlib import Path

import click

from amqp_broker.cli.queue_counts import Counting, QueueCount, UnchangedDisk
from amqp_broker.cli.stored_groups import GroupReport
from queues.store import ENQUEUE, PAGES, RELEASED, RETURNED, SETTLE
from raft.journal_records import RAFT_CHECKPOINT, RAFT_ENTRY, RAFT_STATE
from storage.disk import LOCK_FILE
from storage.inspect import BadRecord, FolderReport, LogReport, inspect_folder

STATUS_DAMAGED = 1
JOURNAL_ENTRIES = {
    ENQUEUE: "enqueues",
    SETTLE: "settlements",
    PAGES: "page lists",
    RETURNED: "returns",
    RELEASED: "page releases",
    RAFT_ENTRY: "entries of groups",
    RAFT_STATE: "states of groups",
    RAFT_CHECKPOINT: "parts of checkpoints of groups",
}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(folder: Path, as_json: bool) -> int:
    """Report on the data folder DIR: segments, queues, counts, bad records."""
    disk = UnchangedDisk(folder)
    counting = Counting(disk)
    try:
        report = inspect_folder(disk, counting.take)
        if report.format is None:
            raise click.ClickException(
                f"{folder}: {report.format_error or 'no FORMAT file'}; name a broker's data folder"
            )
        found = Found(report, counting.finish(), counting.groups.reports(), counting.problems, _is_in_use(folder))
    finally:
        disk.close()
    click.echo(json.dumps(_as_json(found), indent=2) if as_json else "\n".join(_as_lines(folder, found)))
    return STATUS_DAMAGED if _is_damaged(report) or counting.problems else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a folder holds. problems: what is wrong beside bad records."""

    report: FolderReport
    queues: list[QueueCount]
    groups: list[GroupReport]
    problems: list[str]
    is_in_use: bool


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


def _is_damaged(report: FolderReport) -> bool:
    return any(not bad.is_torn_tail for bad in _bad_records(report))


def _bad_records(report: FolderReport) -> list[BadRecord]:
    """One of the journal, and all of the pages."""
    journal = [report.journal.first_bad] if report.journal.first_bad is not None else []
    return journal + [bad for queue in report.queues for bad in queue.bad]


def _as_json(found: Found) -> dict[str, object]:
    return {
        "is_in_use": found.is_in_use,
        "is_damaged": _is_damaged(found.report),
        "problems": found.problems,
        "queues": [dataclasses.asdict(queue) for queue in found.queues],
        "groups": [dataclasses.asdict(group) for group in found.groups],
        "folder": dataclasses.asdict(found.report),
    }


def _as_lines(folder: Path, found: Found) -> list[str]:
    report, queues = found.report, found.queues
    lines = [f"{folder}: {json.dumps(report.format)}"]
    if found.is_in_use:
        lines.append("in use by a running broker: its newest records may look torn")
    lines += _log_lines("journal", report.journal, JOURNAL_ENTRIES)
    pages = sum(queue.pages for queue in report.queues)
    octets = sum(queue.bytes for queue in report.queues)
    lines.append(f"pages     {pages} of {len(report.queues)} queues, {_octets(octets)}")
    lines += [f"groups    {len(found.groups)}", *map(_group_line, found.groups)]
    messages = sum(queue.messages for queue in queues)
    lines += ["", f"queues    {len(queues)} durable, {messages} messages"]
    is_clustered = any(len(group.voters) > 1 for group in found.groups)
    lines += [_queue_line(queue, is_clustered) for queue in queues]
    lines += ["", *_verdict(report, found.problems)]
    return lines


def _group_line(group: GroupReport) -> str:
    line = (
        f"  {group.group}  term {group.term}, {group.entries} entries from {group.checkpoint_index + 1} to "
        f"{group.last_index}, voters {', '.join(group.voters) or 'none'}"
    )
    return line + (f", learners {', '.join(group.learners)}" if group.learners else "")


def _queue_line(queue: QueueCount, is_clustered: bool) -> str:
    line = f"  {queue.vhost}  {queue.name}  {queue.messages} messages, {_octets(queue.message_bytes)}"
    if queue.kind != "classic":
        line += f" ({queue.kind})"
    elif is_clustered and queue.home:
        line += f" (lives on {queue.home})"
    return line


def _log_lines(name: str, log: LogReport, names: Mapping[int, str]) -> list[str]:
    lines = [f"{name:<9} {len(log.segments)} segments, {log.records} records, {_octets(log.bytes)}"]
    for segment in log.segments:
        counts = [f"{count} {names.get(kind, f'of kind {kind}')}" for kind, count in segment.entries.items()]
        entries = ", ".join(counts) or "no entries"
        lines.append(f"  {segment.file}  {_octets(segment.bytes)}, {segment.records} records: {entries}")
    return lines


def _octets(count: int) -> str:
    """Three digits are enough for a person; --json has them all."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"


def _verdict(report: FolderReport, problems: list[str]) -> list[str]:
    lines = []
    for bad in _bad_records(report):
        meaning = "torn tail, cut off at the next start" if bad.is_torn_tail else "bad record"
        lines.append(f"{meaning}: {bad.file} at offset {bad.offset}: {bad.reason}")
    lines += [f"problem: {problem}" for problem in problems]
    lines += [f"set aside earlier: damaged/{part}" for part in report.damaged_parts]
    if _is_damaged(report) or problems:
        lines.append("damaged: restore a copy, or `amqp-broker serve --recover` sets the bad parts aside and starts")
    else:
        lines.append("whole: the broker can start on it")
    return lines
