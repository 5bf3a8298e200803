"""`python -m benchmarks.bystander`: what an unrelated connection feels while something large happens.

Two bystanders (bystander_watch.py) ask a hundred times a second, one with basic.get, one with a publish that is
confirmed, while a case (bystander_cases.py) is played; quoted are the median wait, the 99th percentile and the longest,
and the processor time that the broker took for the case. Our broker and RabbitMQ have their turns one after the other,
every other round in the other order; every figure is the median of the rounds.

RabbitMQ's policies, definitions and lists go through rabbitmqctl, which starts a machine of its own; that takes its
part of the cores, and is not in the processor time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any  # what json gives

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.system_client import SystemClient, SystemRequestError
from amqp_broker.testing.embedded import BrokerStartError
from benchmarks.brokers import (
    Broker,
    BrokerError,
    check_rabbitmq,
    own_broker,
    rabbitmq_broker,
    rabbitmq_environment,
    temporary_folder,
)
from benchmarks.bystander_cases import CASES, Administration, Case, Stage
from benchmarks.bystander_cluster import Cohesion, watched_cluster
from benchmarks.bystander_watch import Waits, bystanders, waits_of
from benchmarks.clusters import control
from benchmarks.machine import header, page_of, table

#: Bystanders go on for so long when a case is over: what it has left to be done is felt, too.
AFTER_SECONDS = 0.3
#: What some cases need more of than we allow by default.
FLAGS = ["--max-consumers-per-channel", "100000", "--max-message-size", "128MiB"]
COLUMNS = ["while", "broker", "get p50", "p99", "longest", "confirm p50", "p99", "longest", "CPU", "bar"]
#: What a bystander of ours may wait, milliseconds, or as long as RabbitMQ's if that is more.
MOST_P99_MS, MOST_LONGEST_MS = 10.0, 25.0
KINDS = ("get", "confirm")


class OwnAdministration:
    """Ours, over amq.system."""

    def __init__(self, broker: Broker) -> None:
        self._url = f"{broker.target.location}/%2F"

    def put_policy(self, name: str, pattern: str, definition: Mapping[str, object]) -> None:
        self._ask("policy.put", name=name, pattern=pattern, definition=definition, apply_to="queues", vhost="/")

    def delete_policy(self, name: str) -> None:
        self._ask("policy.delete", name=name, vhost="/")

    def import_definitions(self, path: Path) -> None:
        self._ask("definitions.import", definitions=json.loads(path.read_text(encoding="utf-8")))

    def delete_users(self, users: Sequence[str]) -> None:
        for name in users:
            self._ask("user.delete", name=name)

    def list_queues(self) -> None:
        self._ask("queue.list", vhost="/")

    def _ask(self, verb: str, **fields: object) -> None:
        with SystemClient(self._url) as client:
            client.request(verb, **fields)


class RabbitAdministration:
    """RabbitMQ's, with rabbitmqctl. Raises BrokerError."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def put_policy(self, name: str, pattern: str, definition: Mapping[str, object]) -> None:
        control(self._environment, ["set_policy", "--apply-to", "queues", name, pattern, json.dumps(definition)])

    def delete_policy(self, name: str) -> None:
        control(self._environment, ["clear_policy", name])

    def import_definitions(self, path: Path) -> None:
        control(self._environment, ["import_definitions", str(path)])

    def delete_users(self, users: Sequence[str]) -> None:
        for name in users:
            control(self._environment, ["delete_user", name])

    def list_queues(self) -> None:
        control(self._environment, ["list_queues", "--silent", "name", "messages", "consumers"])


@dataclass(frozen=True, slots=True)
class Felt:
    """One round of a case: both bystanders' waits in milliseconds, the case's length and the broker's processor time
    in seconds."""

    get: Waits
    confirm: Waits
    seconds: float
    cpu_seconds: float


def play(case: Case, count: int, broker: Broker, administration: Administration, folder: Path) -> Felt:
    """One round. Raises BrokerError, LinkError, OSError."""
    steps = case.run(Stage(broker.target, administration, folder), count)
    next(steps)
    with bystanders(broker.target) as watchers:
        used, begin = broker.cpu_seconds(), time.monotonic_ns()
        next(steps)
        seconds = (time.monotonic_ns() - begin) / 1e9
        time.sleep(AFTER_SECONDS)
        used, end = broker.cpu_seconds() - used, time.monotonic_ns()
        waits = {each.kind: waits_of(each.stop(), begin, end) for each in watchers}
    for _ in steps:
        raise BrokerError(f"{case.title}: a case has two stops, this one has more")
    return Felt(waits["get"], waits["confirm"], seconds, used)


@contextmanager
def own_stage(folder: Path, plain: bool) -> Iterator[tuple[Broker, Administration]]:
    """Ours, running in `folder`."""
    with own_broker(folder, FLAGS, plain) as broker:
        yield broker, OwnAdministration(broker)


@contextmanager
def cluster_stage(folder: Path, plain: bool) -> Iterator[tuple[Broker, Administration, Cohesion]]:
    """A cluster of ours, whose nodes run in `folder`: its first node."""
    with watched_cluster(folder, plain) as (broker, cohesion):
        yield broker, OwnAdministration(broker), cohesion


@contextmanager
def rabbitmq_stage(folder: Path) -> Iterator[tuple[Broker, Administration]]:
    """RabbitMQ, running in `folder`."""
    environment = rabbitmq_environment(folder)
    with rabbitmq_broker(folder, environment) as broker:
        yield broker, RabbitAdministration(environment)


@contextmanager
def stages(
    with_rival: bool, is_cluster: bool, plain: bool
) -> Iterator[tuple[list[tuple[Broker, Administration, Path]], Cohesion | None]]:
    """Ours, and RabbitMQ if it is wanted, each with its folder; or a cluster of ours, and the look at it."""
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        if is_cluster:
            broker, administration, cohesion = stack.enter_context(cluster_stage(folder / "cluster", plain))
            yield [(broker, administration, folder)], cohesion
            return
        ours, ours_of = stack.enter_context(own_stage(folder / "ours", plain))
        found = [(ours, ours_of, folder)]
        if with_rival:
            rival, rivals = stack.enter_context(rabbitmq_stage(folder / "rabbitmq"))
            found.append((rival, rivals, folder))
        yield found, None


def rounds_of(
    case: Case, count: int, brokers: list[tuple[Broker, Administration, Path]], rounds: int
) -> dict[str, list[Felt]]:
    """What was felt, by broker, in the order of the rounds."""
    playing = [each for each in brokers if case.has_rival or each is brokers[0]]
    felt: dict[str, list[Felt]] = {each[0].name: [] for each in playing}
    for number in range(rounds):
        for broker, administration, folder in playing if number % 2 == 0 else reversed(playing):
            felt[broker.name].append(play(case, count, broker, administration, folder))
    return felt


@dataclass(frozen=True, slots=True)
class Played:
    """A case with its rounds, by broker, in the order of the rounds; ours comes first."""

    name: str
    count: int
    felt: dict[str, list[Felt]]

    @classmethod
    def from_json(cls, name: str, found: dict[str, Any]) -> Played:
        """What `json` has made. Raises KeyError, TypeError."""
        felt = {
            broker: [
                Felt(Waits(**each["get"]), Waits(**each["confirm"]), each["seconds"], each["cpu_seconds"])
                for each in rounds
            ]
            for broker, rounds in found["felt"].items()
        }
        return cls(name, found["count"], felt)

    def json(self) -> dict[str, Any]:
        """For the page's JSON."""
        felt = {broker: [asdict(each) for each in rounds] for broker, rounds in self.felt.items()}
        return {"count": self.count, "felt": felt}

    def median(self, broker: str, kind: str, part: str) -> float:
        """Of all its rounds, milliseconds."""
        waits: list[Waits] = [getattr(each, kind) for each in self.felt[broker]]
        return float(statistics.median(getattr(each, part) for each in waits))

    def holds(self) -> bool:
        """Whether a bystander of ours waits no longer than it may, whatever it asks."""
        ours, *rivals = self.felt
        for kind in KINDS:
            for part, most in (("p99", MOST_P99_MS), ("longest", MOST_LONGEST_MS)):
                bars = [most, *(self.median(rival, kind, part) for rival in rivals)]
                if self.median(ours, kind, part) > max(bars):
                    return False
        return True

    def lines(self) -> list[list[str]]:
        """One line of the table for each broker."""
        lines = []
        for number, (name, rounds) in enumerate(self.felt.items()):
            cells = [CASES[self.name].title.format(count=f"{self.count:,}"), name]
            cells += [f"{self.median(name, kind, part):.1f}" for kind in KINDS for part in ("median", "p99", "longest")]
            cells.append(f"{statistics.median(each.cpu_seconds for each in rounds):.2f}")
            lines.append([*cells, "" if number else "holds" if self.holds() else "**misses**"])
        return lines


def write(played: list[Played], facts: dict[str, str], path: Path) -> None:
    """The page, and beside it every round as JSON, under the same facts."""
    head = header("What a bystander feels", facts)
    told = [
        "Waits of a connection that has nothing to do with it, in milliseconds; the processor time of the broker in",
        f"seconds. The bar: p99 at most {MOST_P99_MS:.0f} ms and the longest at most {MOST_LONGEST_MS:.0f}, or "
        "RabbitMQ's where that is more.",
        "",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line for each in played for line in each.lines()]
    path.write_text("\n".join([*head, *told, *table(COLUMNS, lines)]) + "\n", encoding="utf-8")
    raw = {each.name: each.json() for each in played}
    found = {"facts": facts_of(head), "cases": raw}
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def facts_of(head: list[str]) -> dict[str, str]:
    """What the beginning of a page says."""
    return dict(line[2:].split(": ", 1) for line in head if line.startswith("- "))


def kept(path: Path) -> dict[str, Played]:
    """The cases of the page at `path`, by name. Raises click.ClickException: what it has was measured with something
    else."""
    source = path.with_suffix(".json")
    if not source.exists():
        return {}
    found = json.loads(source.read_text(encoding="utf-8"))
    here = facts_of(header("", {}))
    for fact in ("commit", "machine", "amqp-broker", "Python"):
        if found["facts"][fact] != here[fact]:
            raise click.ClickException(
                f"{source} was measured with {fact} {found['facts'][fact]!r}, and this is {here[fact]!r}: "
                "leave --keep out, or name another page with --output"
            )
    return {name: Played.from_json(name, each) for name, each in found["cases"].items()}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), help="Only these. [all]")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each case on each broker.")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--ours", is_flag=True, help="Our broker alone, without RabbitMQ.")
@click.option("--cluster", "is_cluster", is_flag=True, help="The first of three of our nodes, without RabbitMQ.")
@click.option("--plain", is_flag=True, help="Run our broker without compiled modules.")
@click.option("--keep", is_flag=True, help="Keep the other cases that the page has, of the same commit and machine.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/bystander.md]")
def bystander(
    names: tuple[str, ...],
    rounds: int,
    scale: float,
    ours: bool,
    is_cluster: bool,
    plain: bool,
    keep: bool,
    output: Path | None,
) -> None:
    """Measure what a bystander feels and write the table, after each case anew. Of a cluster, also see that it stays as
    it is: no group gets another leader, no link is lost."""
    ours = ours or is_cluster
    is_whole = not (names or ours) and scale == 1
    path = output or page_of("bystander-plain" if plain else "bystander", is_whole)
    found = kept(path) if keep else {}
    method = f"median of {rounds} rounds, the brokers in turn; each bystander asks 100 times a second"
    facts: dict[str, str] = {}
    failed: list[str] = []
    try:
        if not ours:
            check_rabbitmq()
        with stages(not ours, is_cluster, plain) as (brokers, cohesion):
            facts |= {broker.name: broker.version for broker, _, _ in brokers[1:]}
            facts["method"] = method
            for name in names or CASES:
                case = CASES[name]
                count = max(1, int(case.count * scale))
                try:
                    felt = rounds_of(case, count, brokers, rounds)
                    if cohesion is not None:
                        cohesion.check()
                except (BrokerError, LinkError, OSError, subprocess.SubprocessError, SystemRequestError) as error:
                    failed.append(f"{name}: {error}")
                    click.echo(failed[-1], err=True)
                    continue
                found[name] = Played(name, count, felt)
                for line in found[name].lines():
                    click.echo(" | ".join(line))
                write([found[each] for each in CASES if each in found], facts, path)
    except (BrokerError, BrokerStartError) as error:
        raise click.ClickException(str(error)) from error
    if found:
        click.echo(f"written to {path}", err=True)
    if failed:
        raise click.ClickException(f"{len(failed)} cases failed and are not in the table: {'; '.join(failed)}")


if __name__ == "__main__":
    bystander()
