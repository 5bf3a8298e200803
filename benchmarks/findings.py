"""Finding: one figure of an experiment, with the limit it must keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import click

from amqp_broker.bench.link import LinkError
from benchmarks.brokers import BrokerError


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in `unit`. `limit` is None for a figure that is only told; `is_most`: a limit not to
    exceed.
    """

    what: str
    unit: str
    value: float
    limit: float | None = None
    is_most: bool = True

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; true where there is none."""
        if self.limit is None:
            return True
        return self.value <= self.limit if self.is_most else self.value >= self.limit

    def cells(self) -> list[str]:
        """The finding as a line of a Markdown table."""
        if self.limit is None:
            return [self.what, self.unit, f"{self.value:,.2f}", "", ""]
        bound = f"{'<=' if self.is_most else '>='} {self.limit:,g}"
        verdict = "holds" if self.holds else "**misses**"
        return [self.what, self.unit, f"{self.value:,.2f}", bound, verdict]


def run_experiments(
    experiments: Mapping[str, Callable[[float], Iterable[Finding]]], names: Collection[str], scale: float
) -> list[list[str]]:
    """The lines of a table: what each experiment finds (of those in `names`, if there are any), told as it comes.
    Raises click.ClickException."""
    rows: list[list[str]] = []
    for name, experiment in experiments.items():
        if names and name not in names:
            continue
        try:
            for finding in experiment(scale):
                click.echo(" | ".join(finding.cells()))
                rows.append(finding.cells())
        except (BrokerError, LinkError) as error:
            raise click.ClickException(f"{name}: {error}") from error
    return rows
