"""The cases of the bystander benchmark do what they say, and nobody stands still meanwhile. The bound is a stall that
no machine's slowness explains for so few: a client would take it for a broken connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from benchmarks.brokers import Broker, BrokerError
from benchmarks.bystander import Felt, OwnAdministration, Played, kept, own_stage, play, write
from benchmarks.bystander_cases import CASES
from benchmarks.bystander_cluster import watched_cluster
from benchmarks.bystander_watch import Waits, waits_of

MOST_MS = 5000

pytestmark = pytest.mark.xdist_group("bystander")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, OwnAdministration, Path]]:
    folder = tmp_path_factory.mktemp("bystander")
    with own_stage(folder / "ours", plain=False) as (broker, administration):
        assert isinstance(administration, OwnAdministration)
        yield broker, administration, folder


@pytest.mark.parametrize("name", list(CASES))
def test_a_case_ends_and_the_bystanders_are_answered(
    name: str, stage: tuple[Broker, OwnAdministration, Path]
) -> None:
    """Each case waits until the broker has done it all, or fails."""
    case = CASES[name]
    felt = play(case, case.few, *stage)
    for waits in (felt.get, felt.confirm):
        assert 0 < waits.median <= waits.p99 <= waits.longest < MOST_MS


def test_a_cluster_stays_as_it_is(tmp_path: Path) -> None:
    """Whatever one of its nodes has to do; and where it does not, that is seen."""
    with watched_cluster(tmp_path / "cluster", plain=False) as (broker, cohesion):
        for name in ("ttl", "reject-all"):
            play(CASES[name], 20_000, broker, OwnAdministration(broker), tmp_path)
            cohesion.check()
        cohesion.cluster.nodes[1].restart(kill=True)
        with pytest.raises(BrokerError, match=r"was led by|links between the nodes were lost"):
            cohesion.check()


def test_waits_are_those_of_the_case_alone() -> None:
    samples = [(10, 90_000_000), (20, 1_000_000), (30, 3_000_000), (40, 2_000_000), (50, 80_000_000)]
    assert waits_of(samples, 20, 40) == Waits(2.0, 3.0, 3.0, 3)
    with pytest.raises(BrokerError, match="too soon"):
        waits_of(samples, 41, 49)


def felt(longest: float, cpu_seconds: float = 0.1) -> Felt:
    return Felt(Waits(1.0, 2.0, longest, 100), Waits(1.0, 2.0, 3.0, 100), 1.0, cpu_seconds)


def test_a_line_has_the_medians_of_its_rounds() -> None:
    played = Played("nothing", 2000, {"amqp-broker": [felt(9, 0.3), felt(5, 0.1), felt(7, 0.2)]})
    assert played.lines() == [
        ["nothing, 2,000 ms long", "amqp-broker", "1.0", "2.0", "7.0", "1.0", "2.0", "3.0", "0.20", "holds"]
    ]


@pytest.mark.parametrize(
    ("ours", "rival", "holds"), [(25, 1, True), (26, 25, False), (26, 27, True), (90, None, False)]
)
def test_the_bar_is_a_figure_or_what_the_rival_takes(ours: float, rival: float | None, holds: bool) -> None:
    rivals = {} if rival is None else {"RabbitMQ": [felt(rival)]}
    played = Played("nothing", 2000, {"amqp-broker": [felt(ours)], **rivals})
    assert played.holds() is holds
    assert [line[-1] for line in played.lines()] == ["holds" if holds else "**misses**", *([""] * len(rivals))]


def test_a_page_is_kept_and_nothing_of_another_machine(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert kept(page) == {}
    played = Played("nothing", 2000, {"amqp-broker": [felt(9)], "RabbitMQ": [felt(8)]})
    write([played], {"method": "by hand"}, page)
    assert kept(page) == {"nothing": played}
    assert "| nothing, 2,000 ms long | RabbitMQ | 1.0 |" in page.read_text(encoding="utf-8")
    found = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    found["facts"]["machine"] = "an abacus"
    page.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(click.ClickException, match=r"machine 'an abacus'.*leave --keep out"):
        kept(page)
