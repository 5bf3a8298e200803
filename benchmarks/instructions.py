"""`python -m benchmarks.instructions`: machine instructions that the broker spends on a message, by
callgrind.

The broker runs under valgrind twice for each path, with two amounts of messages; the difference of the
totals, divided by the difference of the amounts, is the cost of one message without start, set-up and stop.
Unlike a time, it is the same on a busy machine, so a growth is a growth: a test holds it within ten per cent
of benchmarks/instructions.json.

How many messages share a turn of the broker depends on how fast they come; a paced load, slow enough for the
broker under valgrind to keep up, would measure the turns instead. So the load is as fast as the window
allows.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.bench.scenario import Scenario
from benchmarks.brokers import BrokerError, own_broker, temporary_folder
from benchmarks.findings import run_checked
from benchmarks.machine import commit, is_compiled

RECORD = Path(__file__).parent / "instructions.json"
FEW, MANY = 20_000, 60_000
TOLERANCE = 0.10

LOAD = Scenario(confirm_window=1000, ack_every=100, seconds=0)
PATHS: Mapping[str, Scenario] = {
    "transient": LOAD,
    "persistent": replace(LOAD, durable=True, persistent=True, size=1024),
}


def check_valgrind() -> None:
    """Raises BrokerError, with the way out, where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        raise BrokerError(
            "valgrind is not installed, so no instruction can be counted: apt-get install valgrind"
        )


def total_instructions(scenario: Scenario, messages: int) -> int:
    """Instructions of the whole life of a broker that carries so many messages."""
    with temporary_folder() as folder:
        counts = folder / "callgrind.out"
        wrapper = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--log-file=/dev/null"]
        with own_broker(folder / "data", wrapper=wrapper) as broker:
            run_checked(replace(scenario, targets=(broker.target,), messages=messages))
        return read_total(counts.read_text(encoding="utf-8", errors="replace"))


def read_total(report: str) -> int:
    """The total of a callgrind report; BrokerError when it has none (the broker was killed)."""
    for line in report.splitlines():
        name, _, value = line.partition(":")
        if name in ("totals", "summary"):
            return int(value)
    raise BrokerError("the callgrind report has no total: the broker did not end by itself")


def instructions_per_message(scenario: Scenario) -> int:
    """Instructions that one more message costs."""
    few, many = total_instructions(scenario, FEW), total_instructions(scenario, MANY)
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
    return {name: instructions_per_message(scenario) for name, scenario in PATHS.items()}


def compare(record: Mapping[str, object], found: Mapping[str, int]) -> list[str]:
    """One line for every path that costs over a tenth more than was recorded; empty if none does."""
    grown = []
    recorded = record["instructions_per_message"]
    if not isinstance(recorded, dict):
        raise ValueError(f"{RECORD.name}: instructions_per_message is {recorded!r}, not a table by path")
    for name, count in found.items():
        if count > recorded[name] * (1 + TOLERANCE):
            share = 100 * (count / recorded[name] - 1)
            grown.append(
                f"{name}: {count:,} instructions, {share:.0f} % over the recorded {recorded[name]:,}"
            )
    return grown


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--check", is_flag=True, help="Compare with the record instead of writing it; status 1 when it has grown."
)
def instructions(check: bool) -> None:
    """Count the instructions of a message and record them."""
    try:
        found = measure()
    except (BrokerError, LinkError) as error:
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
