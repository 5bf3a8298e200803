"""`python -m benchmarks.compare`: our broker and RabbitMQ side by side, with the same load generator.

Both brokers run for all rows of one node, then both clusters for those of several; a pair is one run on each, right
after one another, and every other pair begins with the other broker. The median of the pairs is quoted, with the lowest
and the highest. Where bodies are large, the floor (benchmarks/floor.py) runs between the two and has a line of its own.
Beside each rate stands what a message costs each broker, in processor time of all its nodes, and what a node of ours
takes for it in instructions, where benchmarks/instructions.json has that path.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from amqp_broker.bench.link import LinkError
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
from benchmarks.instructions import recorded
from benchmarks.machine import header, is_compiled, page_of, table, write_page
from benchmarks.run import LEAST_SECONDS, WARM_UP_SECONDS, Run, run_pairs
from benchmarks.scenarios import COST, FLOOR_TARGET, ROWS, Measure, Row
from benchmarks.spread import spread

INSTRUCTIONS = "instructions/msg, without sockets"
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


def table_rows(row: Row, ours: list[Run], rival: list[Run], plain: bool) -> list[list[str]]:
    """One line of the table for each figure of the row, and for what a message costs where it is about throughput."""
    lines = [
        table_row(row.title, measure, ours, rival, measure.plain_target() if plain else measure.target)
        for measure in row.measures
    ]
    return [*lines, *cost_rows(row, row.title, ours, rival)]


def floor_rows(row: Row, ours: list[Run], floor: list[Run]) -> list[list[str]]:
    """The same against the floor, which stands where RabbitMQ stands else."""
    title = f"{row.title}; the floor instead of RabbitMQ"
    lines = [table_row(title, measure, ours, floor, FLOOR_TARGET) for measure in row.measures]
    return [*lines, *cost_rows(row, title, ours, floor)]


def cost_rows(row: Row, title: str, ours: list[Run], rival: list[Run]) -> list[list[str]]:
    """What a message costs each; nothing where the row is not about throughput."""
    return [table_row(title, COST, ours, rival, None)] if row.is_throughput else []


def table_row(title: str, measure: Measure, ours: list[Run], rival: list[Run], target: float | None) -> list[str]:
    """One figure of both, their ratio, and whether it is as good as `target` asks, if it asks."""
    mine, theirs = ([measure.read(run) for run in runs] for runs in (ours, rival))
    ratio = statistics.median(mine) / statistics.median(theirs)
    cells = [title, measure.unit, *spread(mine), *spread(theirs), f"{ratio:.2f}"]
    if target is None:
        return [*cells, "", ""]
    bound = f"{'>=' if measure.is_rate else '<='} {target:.2g}"
    return [*cells, bound, "holds" if measure.holds(ratio, target) else "**misses**"]


def instruction_rows(row: Row, counts: Mapping[str, int]) -> list[list[str]]:
    """What a message takes of ours, where its path was counted."""
    if row.counted not in counts:
        return []
    return [[row.title, INSTRUCTIONS, f"{counts[row.counted]:,}", *[""] * (len(COLUMNS) - 3)]]


def as_json(row: Row, runs: Mapping[str, list[Run]], counts: Mapping[str, int]) -> dict[str, object]:
    """Every single run of a row by broker, and what a message takes of ours where that was counted."""
    counted = {"instructions_per_message": counts[row.counted]} if row.counted in counts else {}
    return {**{name: [run.as_json() for run in found] for name, found in runs.items()}, **counted}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--pairs", default=5, type=click.IntRange(1), help="Pairs of runs of each row; quote five or more.")
@click.option(
    "--seconds",
    default=5.0,
    type=click.FloatRange(LEAST_SECONDS),
    help="Measured time of one run, after the warm-up.",
)
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
    raw: dict[str, dict[str, object]] = {}
    lines: list[list[str]] = []
    counts, counted_as = recorded()
    if plain or not is_compiled():
        counts = {}  # they are of the compiled modules
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
                        runs = run_pairs(row.title, row.scenario, [ours, *between, rival], pairs, seconds)
                    raw[row.name] = as_json(row, runs, counts)
                    made = table_rows(row, runs[ours.name], runs[rival.name], plain)
                    made += instruction_rows(row, counts)
                    for floor in between:
                        made += floor_rows(row, runs[ours.name], runs[floor.name])
                    for line in made:
                        click.echo(" | ".join(line))
                    lines += made
    except (BrokerError, BrokerStartError, LinkError) as error:
        raise click.ClickException(str(error)) from error
    facts["method"] = f"median of {pairs} interleaved pairs of {seconds:g} s after {WARM_UP_SECONDS:g} s of warm-up"
    facts["load"] = "amqp-broker bench, on the same machine"
    facts[COST.unit] = "of all nodes of a broker together, for a message that was received, in the measured time"
    if any(row.counted in counts for row in rows):
        facts[INSTRUCTIONS] = f"as benchmarks/instructions.json has them ({counted_as})"
    title = "Our broker and RabbitMQ, side by side" + (", without compiled modules" if plain else "")
    page = [*header(title, facts), *table(COLUMNS, lines)]
    path = output or page_of("compare-plain" if plain else "compare", not names)
    write_page(path, page, raw)
    click.echo("\n".join(page))
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    compare()
