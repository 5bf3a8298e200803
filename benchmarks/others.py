"""`python -m benchmarks.others`: our broker beside others than RabbitMQ, a page for each, a fixed amount of work.

Compared is what differs least, and a page says what each promises when it confirms. Rates are of whoever publishes or
reads; the broker's processor time for a million messages does not depend on whose load generator is the lighter.
`--scale 0.01` makes every amount a hundredth, to see whether all is there. Another broker is a file like
benchmarks/redis.py and a line of OTHERS.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.testing.embedded import BrokerStartError
from benchmarks import kafka, nats, redis
from benchmarks.brokers import BrokerError
from benchmarks.contender import COST, WARM_UP, Case, Figure, Other
from benchmarks.machine import RESULTS, header, page_of, table, write_page
from benchmarks.spread import show, spread

OTHERS: dict[str, Other] = {
    "kafka": kafka.OTHER,
    "nats": nats.OTHER,
    "redis": redis.OTHER,
}
WHOLE_ROUNDS = 3
COLUMNS = ["what", "unit", "who", "median", "lowest - highest", "times ours"]


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of a case: by what and unit, then by who; ours first in each."""

    case: Case
    values: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, figure: Figure, who: str) -> None:
        """A figure of one round."""
        of_all = self.values.setdefault(
            (figure.what, figure.unit), {contender.name: [] for contender in self.case.contenders}
        )
        of_all[who].append(figure.value)

    def rows(self) -> list[list[str]]:
        """Of the page. The last cell is how many times the figure of ours it is."""
        return [
            [what, unit, who, *spread(values), show(statistics.median(values) / statistics.median(first))]
            for (what, unit), of_all in self.values.items()
            for first in [next(iter(of_all.values()))]
            for who, values in of_all.items()
        ]

    def as_json(self) -> list[dict[str, object]]:
        """Every single figure."""
        return [
            {"what": what, "unit": unit, "who": who, "values": values}
            for (what, unit), of_all in self.values.items()
            for who, values in of_all.items()
        ]


def measured(other: Other, rounds: int, scale: float) -> list[Found]:
    """The figures of each case, told as they come; in every other round the order is turned. Raises BrokerError."""
    found = [Found(case) for case in other.cases]
    for number in range(rounds):
        for each in found:
            for contender in each.case.contenders[:: -1 if number % 2 else 1]:
                for figure in each.case.measure(contender, scale):
                    click.echo(f"{figure.what} | {figure.unit} | {contender.name} | {show(figure.value)}", err=True)
                    each.add(figure, contender.name)
    return found


def promises(other: Other) -> Iterator[str]:
    """What each contender promises, once."""
    said = {contender.name: contender.promise for case in other.cases for contender in case.contenders}
    yield from (f"- {name}: {promise}" for name, promise in said.items())


def page(other: Other, version: str, found: list[Found], rounds: int) -> list[str]:
    """The page of one of the others."""
    facts = {
        "version": f"{other.title.rpartition(' ')[2]} {version}",
        **other.facts,
        "method": f"median of {rounds} rounds in turn, {WARM_UP:.0%} of the work as a warm-up",
        COST: "the broker's processor time, user and system, for a million messages",
    }
    rows = [row for each in found for row in each.rows()]
    return [
        *header(other.title, facts),
        "What a message has behind it:",
        "",
        *promises(other),
        "",
        *table(COLUMNS, rows),
    ]


@click.command(help=__doc__, context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(OTHERS)), help="Only these. [all]")
@click.option("--rounds", default=WHOLE_ROUNDS, type=click.IntRange(1), help="How often each is measured.")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--into", type=click.Path(path_type=Path), help="The folder of the pages. [results]")
def main(names: tuple[str, ...], rounds: int, scale: float, into: Path | None) -> None:
    try:
        for name in names or OTHERS:
            other = OTHERS[name]
            version = other.fetch()
            found = measured(other, rounds, scale)
            path = (into or RESULTS) / page_of(f"others-{name}", rounds >= WHOLE_ROUNDS and scale == 1).name
            raw = [row for each in found for row in each.as_json()]
            write_page(path, page(other, version, found, rounds), raw)
            click.echo(f"written to {path}", err=True)
    except (BrokerError, BrokerStartError, LinkError, OSError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
