"""The table of a campaign, as Markdown."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from statistics import median

import aio_pika

from amqp_broker import __version__
from tests.chaos.faults import FaultKind
from tests.chaos.nodes import PROJECT_ROOT
from tests.chaos.rounds import Round

HEADER = (
    "| fault | runs | operations | confirmed | lost | duplicated | violations | write outage, median | longest |",
    "|---|---|---|---|---|---|---|---|---|",
)


def table(rounds: Sequence[Round]) -> str:
    """A row for each kind of fault, and one for all. A round of several faults counts for its first."""
    rows = [*HEADER]
    for kind in FaultKind:
        mine = [one for one in rounds if one.faults and one.faults[0].kind is kind]
        if mine:
            rows.append(_row(kind.value, mine))
    rows.append(_row("**all**", list(rounds)))
    return "\n".join(rows)


def _row(name: str, rounds: Sequence[Round]) -> str:
    found = [one.findings for one in rounds]
    outages = [fault.outage_s for one in rounds for fault in one.faults] or [0.0]
    cells = [
        name,
        f"{len(rounds)}",
        f"{sum(each.operations for each in found):,}",
        f"{sum(each.confirmed for each in found):,}",
        f"{sum(each.lost for each in found):,}",
        f"{sum(each.duplicated for each in found):,}",
        f"{sum(len(each.violations) for each in found):,}",
        f"{median(outages):.2f} s",
        f"{max(outages):.2f} s",
    ]
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
