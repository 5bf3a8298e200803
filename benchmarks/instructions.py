"""`python -m benchmarks.instructions`: machine instructions that a node spends on a message, counted by
callgrind.

benchmarks.node_load runs under valgrind twice for each path, with two amounts of messages; the difference of
the totals, divided by the difference of the amounts, is the cost of one message: parsing, routing, queueing,
delivery, confirm, acknowledgement and, where it is persistent, the journal; without start, set-up and
sockets. The count is the same to a tenth of a per cent however busy the machine is, so a growth is a growth:
a test holds it within ten per cent of benchmarks/instructions.json.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.brokers import BrokerError, own_environment, temporary_folder
from benchmarks.machine import commit, is_compiled
from benchmarks.node_load import COUNTED

RECORD = Path(__file__).parent / "instructions.json"
FEW, MANY = 20_000, 60_000
TOLERANCE = 0.10


def check_valgrind() -> None:
    """Raises BrokerError, with the way out, where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        way_out = "apt-get install valgrind"
        raise BrokerError(f"valgrind is not installed, so no instruction can be counted: {way_out}")


def total_instructions(path: str, messages: int) -> int:
    """Instructions of the whole life of a node that carries so many messages."""
    with temporary_folder() as folder:
        counts = folder / "callgrind.out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--log-file=/dev/null"]
        load = [sys.executable, "-P", "-m", "benchmarks.node_load", path, str(messages), str(folder / "data")]
        environment = {**own_environment(), "PYTHONHASHSEED": "0"}
        done = subprocess.run([*valgrind, *load], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.splitlines() or ["it said nothing"])[-1]
            raise BrokerError(f"{path}: the node ended with status {done.returncode}: {last}")
        return read_total(counts.read_text(encoding="utf-8", errors="replace"))


def read_total(report: str) -> int:
    """The total of a callgrind report."""
    for line in report.splitlines():
        name, _, value = line.partition(":")
        if name == "totals":
            return int(value)
    raise BrokerError("the callgrind report has no total: valgrind was ended before it could write it")


def instructions_per_message(path: str) -> int:
    """Instructions that one more message costs."""
    few, many = total_instructions(path, FEW), total_instructions(path, MANY)
    return round((many - few) / (MANY - FEW))


def environment() -> dict[str, object]:
    """What a count depends on besides our own code."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "compiled": is_compiled(),
    }


def measure() -> dict[str, int]:
    """Instructions per message by path."""
    check_valgrind()
    return {path: instructions_per_message(path) for path in COUNTED}


def recorded() -> tuple[dict[str, int], str]:
    """The instructions a message by path, and what they hold for, as they were recorded."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    kind = "compiled" if record["compiled"] else "plain"
    return counts_of(record), f"{kind}, Python {record['python']}, commit {record['commit']}"


def counts_of(record: Mapping[str, object]) -> dict[str, int]:
    """Instructions a message by path. Raises ValueError where a record has none."""
    counts = record["instructions_per_message"]
    if not isinstance(counts, dict):
        raise ValueError(f"{RECORD.name}: instructions_per_message is {counts!r}, not a table by path")
    return counts


def compare(record: Mapping[str, object], found: Mapping[str, int]) -> list[str]:
    """One line for every path that costs over a tenth more than was recorded; empty if none does."""
    grown = []
    before = counts_of(record)
    for name, count in found.items():
        if count > before[name] * (1 + TOLERANCE):
            share = 100 * (count / before[name] - 1)
            grown.append(f"{name}: {count:,} instructions, {share:.0f} % over the recorded {before[name]:,}")
    return grown


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--check", is_flag=True, help="Compare with the record instead of writing it; status 1 when it has grown."
)
def instructions(check: bool) -> None:
    """Count the instructions of a message and record them."""
    try:
        found = measure()
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    for name, count in found.items():
        click.echo(f"{name}: {count:,} instructions a message")
    if not check:
        record = {"instructions_per_message": found, **environment(), "commit": commit()}
        RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        click.echo(f"written to {RECORD}", err=True)
        return
    grown = compare(json.loads(RECORD.read_text(encoding="utf-8")), found)
    for line in grown:
        click.echo(line, err=True)
    if grown:
        raise SystemExit(1)


if __name__ == "__main__":
    instructions()
