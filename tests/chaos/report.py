"""The page on a campaign, as Markdown."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from statistics import median

import aio_pika

from amqp_broker import __version__
from tests.chaos.checker import Counts
from tests.chaos.faults import FaultKind
from tests.chaos.history import QueueKind
from tests.chaos.nodes import PROJECT_ROOT
from tests.chaos.rounds import Limits, Round

ABOUT = """\
Three nodes as processes of their own; the links between them go through proxies that cut, delay and reset them, each
way apart. Clients of aio-pika on every node, robust and plain, publish with confirms, again until confirmed, and
consume with acks and a prefetch; others use queues as locks. Each round makes one fault, undoes it, waits until every
node confirms for every queue again and knows who holds the locks, drains the queues and checks: every confirmed message
was delivered, nothing came that was not published, nothing was copied without a reason, nothing acknowledged on the
healthy cluster came back, and no two holders of a lock had their acks accepted. Numbered producers publish to a stream
and to one with partitions, which groups of readers and a queue over the stream read on every node: each confirmed
message is at one offset, no offset changes, and all of them come to each group. A third stream is compacted before and
after each fault: on every node it has the newest message of each key; where that is a tombstone it may be gone, and all
of its key with it. The code is in `tests/chaos/`; `make chaos` runs it.

*Duplicated* counts deliveries beyond a message's first: those with the redelivered flag, and publishes that were
repeated because their confirm was lost. A *write outage* is the longest time in which the clients of a node that was
owed service (one of the majority's side; any, where a fault spares none) got no confirm for some quorum queue, though
they kept trying; after a kill -9 of one node, or while one can write nothing, it has to be below {limit:.0f} s. It is
counted up to the recovery, so for faults that spare nobody it includes the time that the fault was on. A classic queue
is not available while its home is not, and what it had delivered when its home was killed comes again without the flag.
"""


ABOUT_WORKERS = """\
The same clients and checks on three hosts of {workers} workers each. Whatever is done to a node is done to all of its
processes, unless it says otherwise. There is a classic queue for each worker, whose publishers' connections move to it
(`steering`), and queues move between all workers of all hosts. After each fault all groups have leaders, all hosts are
linked, and every worker answers. A worker whose files cannot grow, or that hangs for longer than four seconds, is
started again by its supervisor. After a kill -9 of one process or one host a write outage has to be below
{limit:.0f} s.
"""


def page(
    rounds: Sequence[Round], violations: Sequence[str], flags: str, took_s: float, limits: Limits, level: int = 1
) -> str:
    """The report, as Markdown. level: of its headings."""
    faults, workers = sum(len(one.faults) for one in rounds), limits.workers
    mark = "#" * level
    hosts = "nodes" if workers == 1 else f"hosts of {workers} workers"
    if limits.has_spread_groups:
        hosts += ", groups at all of them"
    about = ABOUT.format(limit=limits.outage_s)
    if workers > 1:
        of_workers = ABOUT_WORKERS.format(workers=workers, limit=limits.outage_s)
        about = of_workers if level > 1 else f"{about}\n{of_workers}"
    lines = [
        f"{mark} Faults under load, three {hosts}",
        "",
        f"`python -m tests.chaos {flags}` on {time.strftime('%Y-%m-%d')}: {machine()}.",
        "",
        about,
        f"{mark}# Quorum queues{'' if level == 1 else f' of three {hosts}'}",
        "",
        table(rounds, QueueKind.QUORUM),
        "",
        f"{mark}# Classic queues{'' if level == 1 else f' of three {hosts}'}, used from all nodes",
        "",
        table(rounds, QueueKind.CLASSIC),
        "",
        f"{len(rounds)} rounds with {faults} faults in {took_s:.0f} s. Locks were held "
        f"{sum(one.holds for one in rounds):,} times. Violations: {len(violations)}.",
    ]
    return "\n".join([*lines, *(f"\nVIOLATION {text}" for text in violations)]) + "\n"


def table(rounds: Sequence[Round], queues: QueueKind) -> str:
    """A row for each kind of fault, and one for all. A round of several faults counts for its first."""
    header = ["fault", "runs", "operations", "confirmed", "lost", "duplicated"]
    if queues is QueueKind.QUORUM:
        header += ["write outage, median", "longest"]
    rows = [_line(header), "|---" * len(header) + "|"]
    for kind in FaultKind:
        mine = [one for one in rounds if one.faults and one.faults[0].kind is kind]
        if mine:
            rows.append(_row(kind.value, mine, queues))
    rows.append(_row("all", rounds, queues))
    return "\n".join(rows)


def _row(name: str, rounds: Sequence[Round], queues: QueueKind) -> str:
    found = Counts()
    for one in rounds:
        found.add(one.findings.counts[queues])
    numbers = (len(rounds), found.operations, found.confirmed, found.lost, found.duplicated)
    cells = [name, *(f"{number:,}" for number in numbers)]
    if queues is QueueKind.QUORUM:
        outages = [fault.outage_s for one in rounds for fault in one.faults] or [0.0]
        cells += [f"{median(outages):.2f} s", f"{max(outages):.2f} s"]
    return _line(cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def machine() -> str:
    """Where this runs and what, in a sentence."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT_ROOT, capture_output=True, text=True
    ).stdout.strip()
    is_compiled = any(PROJECT_ROOT.glob("queues/*.so")) and not os.environ.get("AMQP_BROKER_PLAIN")
    modules = "compiled" if is_compiled else "plain"
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, {modules} modules, amqp-broker {__version__} at commit {commit or 'unknown'}, "
        f"aio-pika {aio_pika.__version__}"
    )
