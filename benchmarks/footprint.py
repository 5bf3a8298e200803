"""`python -m benchmarks.footprint`: what the broker needs, rather than how fast it is.

The start of an empty broker, and its memory; memory per idle connection, empty durable queue and queued
message; the start with many durable messages; a backlog beyond the memory budget, drained; one queue paging
while another is used; and whether the cost of a message stays flat as queues, bindings, connections and
backlog grow. `--scale 0.1` makes every amount a tenth, for a quick look.

Memory is what the broker's process has resident. The cost of a message is processor time of the broker's
process, which, unlike a rate, does not depend on who else uses the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from benchmarks import backlog, flatness, memory
from benchmarks.findings import Finding, run_experiments
from benchmarks.machine import header, page_of, table

COLUMNS = ["what", "unit", "found", "limit", ""]

EXPERIMENTS: dict[str, Callable[[float], Iterator[Finding]]] = {
    "memory": memory.measure,
    "start": backlog.measure_start,
    "drain": backlog.measure_drain,
    "neighbour": backlog.measure_neighbour,
    "flat-queues": flatness.measure_queues,
    "flat-bindings": flatness.measure_bindings,
    "flat-connections": flatness.measure_connections,
    "flat-backlog": flatness.measure_backlog,
}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(EXPERIMENTS)), help="Only these. [all]")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/footprint.md]")
def footprint(names: tuple[str, ...], scale: float, output: Path | None) -> None:
    """Measure what our broker needs and write the table."""
    rows = run_experiments(EXPERIMENTS, names, scale)
    page = [*header("What our broker needs", {"scale": f"{scale:g}"}), *table(COLUMNS, rows)]
    path = output or page_of("footprint", not names and scale == 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    footprint()
