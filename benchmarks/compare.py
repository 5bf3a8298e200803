"""`python -m benchmarks.compare`: our broker and RabbitMQ side by side, with the same load generator.

Both brokers run for all rows of one node, then both clusters for those of several; a pair is one run on each, right
after one another, and every other pair begins with the other broker. The median of the pairs is quoted, with the lowest
and the highest. Where bodies are large, the floor (benchmarks/floor.py) runs between the two and has a line of its own.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.bench.load import run_load
from amqp_broker.bench.result import Result
from amqp_broker.testing.embedded import BrokerStartError
from benchmarks.brokers import (
    Broker,
    BrokerError,
    check_rabbitmq,
    floor_broker,
    own_broker,
    rabbitmq_broker,
    temporary_folder,
)
from benchmarks.clusters import own_cluster, rabbitmq_cluster
from benchmarks.machine import header, page_of, table
from benchmarks.scenarios import FLOOR_TARGET, ROWS, Measure, Row

WARM_UP_SECONDS = 2.0  # with many connections, a broker needs some time to find its pace
SETTLE_SECONDS = 1.0  # between two runs, for a broker to throw away what the last one left
COLUMNS = [
    "scenario",
    "unit",
    "ours",
    "lowest - highest",
    "RabbitMQ",
    "lowest - highest",
    "ratio",
    "target",
    "",
]


def run_pairs(row: Row, brokers: Sequence[Broker], pairs: int, seconds: float) -> dict[str, list[Result]]:
    """The results of a row by broker name, in the order of the pairs. Raises BrokerError for a run that
    failed.
    """
    results: dict[str, list[Result]] = {broker.name: [] for broker in brokers}
    for number in range(pairs):
        for broker in brokers if number % 2 == 0 else reversed(brokers):
            scenario = dataclasses.replace(
                row.scenario, targets=(broker.target,), seconds=seconds, warm_up=WARM_UP_SECONDS
            )
            result = run_load(scenario)
            if result.problems:
                raise BrokerError(f"{row.name} on {broker.name}: {'; '.join(result.problems)}")
            results[broker.name].append(result)
            time.sleep(SETTLE_SECONDS)
    return results


@contextmanager
def brokers(nodes: int, plain: bool) -> Iterator[tuple[Broker, Broker]]:
    """Ours and RabbitMQ, each of so many nodes. Raises BrokerError, BrokerStartError."""
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        if nodes == 1:
            yield (
                stack.enter_context(own_broker(folder / "ours", plain=plain)),
                stack.enter_context(rabbitmq_broker(folder / "rabbitmq")),
            )
        else:
            yield (
                stack.enter_context(own_cluster(folder / "ours", nodes, plain)),
                stack.enter_context(rabbitmq_cluster(folder / "rabbitmq", nodes)),
            )


def figures(results: list[Result], measure: Measure) -> list[float]:
    """One figure of every run, sorted."""
    return sorted(measure.read(result) for result in results)


def show(value: float) -> str:
    """A rate without decimals, a latency with three."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def table_rows(row: Row, ours: list[Result], rival: list[Result], plain: bool) -> list[list[str]]:
    """One line of the table for each figure of the row."""
    return [
        table_row(row.title, measure, ours, rival, measure.plain_target() if plain else measure.target)
        for measure in row.measures
    ]


def floor_rows(row: Row, ours: list[Result], floor: list[Result]) -> list[list[str]]:
    """The same against the floor, which stands where RabbitMQ stands else."""
    title = f"{row.title}; the floor instead of RabbitMQ"
    return [table_row(title, measure, ours, floor, FLOOR_TARGET) for measure in row.measures]


def table_row(title: str, measure: Measure, ours: list[Result], rival: list[Result], target: float) -> list[str]:
    """One figure of both, their ratio, and whether it is as good as `target` asks."""
    mine, theirs = figures(ours, measure), figures(rival, measure)
    ratio = statistics.median(mine) / statistics.median(theirs)
    cells = [title, measure.unit]
    for values in (mine, theirs):
        cells += [show(statistics.median(values)), f"{show(values[0])} - {show(values[-1])}"]
    bound = f"{'>=' if measure.is_rate else '<='} {target:.2g}"
    return [*cells, f"{ratio:.2f}", bound, "holds" if measure.holds(ratio, target) else "**misses**"]


def write(lines: list[str], raw: dict[str, dict[str, list[object]]], output: Path) -> None:
    """The page, and beside it every single result as JSON."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--pairs", default=5, type=click.IntRange(1), help="Pairs of runs of each row; quote five or more.")
@click.option("--seconds", default=5.0, help="Measured time of one run, after the warm-up.")
@click.option(
    "--row",
    "names",
    multiple=True,
    type=click.Choice([row.name for row in ROWS]),
    help="Only these rows. [all]",
)
@click.option("--plain", is_flag=True, help="Run our broker without compiled modules: to be better by half.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/compare.md]")
def compare(pairs: int, seconds: float, names: tuple[str, ...], plain: bool, output: Path | None) -> None:
    """Compare our broker with RabbitMQ and write the table."""
    rows = [row for row in ROWS if not names or row.name in names]
    raw: dict[str, dict[str, list[object]]] = {}
    lines: list[list[str]] = []
    facts: dict[str, str] = {}
    try:
        check_rabbitmq()
        for nodes in dict.fromkeys(row.nodes for row in rows):
            with brokers(nodes, plain) as (ours, rival):
                facts["RabbitMQ"] = rival.version
                if plain:
                    facts["amqp-broker"] = f"{ours.version}, without its compiled modules"
                for row in (each for each in rows if each.nodes == nodes):
                    with ExitStack() as stack:
                        between = [stack.enter_context(floor_broker())] if row.has_floor else []
                        results = run_pairs(row, [ours, *between, rival], pairs, seconds)
                    raw[row.name] = {name: [each.as_json() for each in found] for name, found in results.items()}
                    made = table_rows(row, results[ours.name], results[rival.name], plain)
                    for floor in between:
                        made += floor_rows(row, results[ours.name], results[floor.name])
                    for line in made:
                        click.echo(" | ".join(line))
                    lines += made
    except (BrokerError, BrokerStartError, LinkError) as error:
        raise click.ClickException(str(error)) from error
    facts["method"] = f"median of {pairs} interleaved pairs of {seconds:g} s after {WARM_UP_SECONDS:g} s of warm-up"
    facts["load"] = "amqp-broker bench, on the same machine"
    title = "Our broker and RabbitMQ, side by side" + (", without compiled modules" if plain else "")
    page = [*header(title, facts), *table(COLUMNS, lines)]
    path = output or page_of("compare-plain" if plain else "compare", not names)
    write(page, raw, path)
    click.echo("\n".join(page))
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    compare()
