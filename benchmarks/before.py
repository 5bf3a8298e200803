"""`python -m benchmarks.before PATH`: this checkout beside another one of the project, such as an earlier commit's.

Each is started as its users start it, by the command line of its own environment: `make setup` in both first. A pair is
one run on each, right after one another, and every other pair begins with the other one. Beside the rate stands what a
message costs: the processor time of all nodes, which does not depend on who else uses the machine.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.bench.target import parse_target
from benchmarks.brokers import (
    ROOT,
    Broker,
    BrokerError,
    end,
    free_port,
    read_ready_line,
    temporary_folder,
    version_of,
)
from benchmarks.machine import commit, header, page_of, table
from benchmarks.run import LEAST_SECONDS, WARM_UP_SECONDS, Run, run_pairs
from benchmarks.scenarios import COST, ROWS, Row
from benchmarks.spread import spread

COLUMNS = ["scenario", "unit", "now", "lowest - highest", "before", "lowest - highest", "now / before"]
#: Of a checkout that can be watched over HTTP: it is not, here.
UNWATCHED = ("--management-listen", "--prometheus-listen")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the project and its environment."""

    root: Path

    def serve(self, *arguments: str) -> list[str]:
        """The command that runs a node of it."""
        return [str(self.root / ".venv" / "bin" / "python"), "-P", "-m", "amqp_broker", "serve", *arguments]

    def environment(self) -> dict[str, str]:
        """Of its nodes: its own sources."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_")}
        return {**inherited, "PYTHONPATH": str(self.root)}

    def unwatched(self) -> list[str]:
        """What switches its HTTP off, where it has any."""
        said = subprocess.run(
            self.serve("--help"), env=self.environment(), capture_output=True, text=True, check=True
        ).stdout
        return [f"{name}=off" for name in UNWATCHED if name in said]


@contextmanager
def running(checkout: Checkout, name: str, folder: Path, count: int) -> Iterator[Broker]:
    """So many nodes. Clients go to the first. Raises BrokerError."""
    flags = checkout.unwatched()
    folder.mkdir(parents=True)
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text("benchmark " * 8, encoding="ascii")
    links = [f"127.0.0.1:{free_port()}" for _ in range(count)]
    members = ",".join(f"n{number}={link}" for number, link in enumerate(links, 1))
    processes = []
    with ExitStack() as stack:
        for number, link in enumerate(links, 1):
            shared = ["--node-name", f"n{number}", "--cluster-listen", link, "--cluster", members,
                      "--cluster-secret-file", str(secret)] if count > 1 else []  # fmt: skip
            log = stack.enter_context((folder / f"n{number}.log").open("ab"))
            process = subprocess.Popen(
                checkout.serve("--listen", "127.0.0.1:0", "--data-dir", str(folder / f"n{number}"), *shared, *flags),
                stdout=subprocess.PIPE, stderr=log, text=True, env=checkout.environment(), cwd=folder,
            )  # fmt: skip
            stack.callback(end, process, signal.SIGTERM)
            processes.append(process)
        urls = [read_ready_line(process, folder / f"n{number}.log") for number, process in enumerate(processes, 1)]
        first, *others = (process.pid for process in processes)
        target = parse_target(urls[0])
        yield Broker(name, version_of(target), target, first, 0.0, tuple(others))


def lines_of(row: Row, now: Sequence[Run], before: Sequence[Run]) -> list[list[str]]:
    """Of the page: each figure of the row, and what a message cost. The ratio is the median of the pairs' own."""
    found = []
    for measure in (*row.measures, COST):
        mine, theirs = ([measure.read(run) for run in runs] for runs in (now, before))
        ratio = statistics.median(each / other for each, other in zip(mine, theirs, strict=True))
        found.append([row.title, measure.unit, *spread(mine), *spread(theirs), f"{ratio:.2f}"])
    return found


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", default=5, type=click.IntRange(1), help="Pairs of runs of each row; quote five or more.")
@click.option(
    "--seconds",
    default=5.0,
    type=click.FloatRange(LEAST_SECONDS),
    help="Measured time of one run, after the warm-up.",
)
@click.option("--row", "names", multiple=True, type=click.Choice([row.name for row in ROWS]), help="Only these. [all]")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/before.md]")
def compare(other: Path, pairs: int, seconds: float, names: tuple[str, ...], output: Path | None) -> None:
    """Compare this checkout with the one in OTHER and write the table."""
    rows = [row for row in ROWS if not names or row.name in names]
    lines: list[list[str]] = []
    checkouts = {"now": Checkout(ROOT), "before": Checkout(other.resolve())}
    try:
        for row in rows:  # nodes of its own for each: what one has left does not touch the next
            with temporary_folder() as folder, ExitStack() as stack:
                sides = [
                    stack.enter_context(running(checkout, name, folder / name, row.nodes))
                    for name, checkout in checkouts.items()
                ]
                runs = run_pairs(row.title, row.scenario, sides, pairs, seconds)
            made = lines_of(row, runs["now"], runs["before"])
            for line in made:
                click.echo(" | ".join(line))
            lines += made
    except (BrokerError, LinkError) as error:
        raise click.ClickException(str(error)) from error
    facts = {
        "before": f"commit {commit(checkouts['before'].root)}",
        "method": f"median of {pairs} interleaved pairs of {seconds:g} s after {WARM_UP_SECONDS:g} s of warm-up",
        "load": "amqp-broker bench of this checkout, on the same machine",
    }
    page = [*header("This checkout and an earlier one, side by side", facts), *table(COLUMNS, lines)]
    path = output or page_of("before", not names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    click.echo(f"written to {path}", err=True)


if __name__ == "__main__":
    compare()
