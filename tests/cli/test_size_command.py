"""`amqp-broker size`: its model finds the costs that were measured, also those that it was not fitted to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from amqp_broker.cli.size import size
from amqp_broker.cli.sizing import Cost, Load, Measured, Written, cost_us, measured, size_of

#: How far a point may be from the model, as a share of it: what such machines differ by from one run to the next.
SPREAD = 0.4


def call(*arguments: str) -> Result:
    done = CliRunner().invoke(size, [*arguments])
    assert done.exit_code == 0, done.output
    return done


def points() -> list[dict[str, object]]:
    return [dict(point) for point in measured().points]


def name_of(point: dict[str, object]) -> str:
    return "-".join(str(point[key]) for key in ("kind", "place", "size", "batch"))


@pytest.mark.parametrize("point", points(), ids=name_of)
def test_the_model_finds_what_was_measured(point: dict[str, object]) -> None:
    cost = measured().costs[str(point["kind"])][str(point["place"])]
    found = cost.of(int(str(point["size"])), int(str(point["batch"])))
    assert found == pytest.approx(float(str(point["cost_us"])), rel=SPREAD)


def test_most_points_are_not_fitted() -> None:
    """A model of three numbers could have any three points."""
    for kind, places in measured().costs.items():
        for place in places:
            assert len([each for each in points() if (each["kind"], each["place"]) == (kind, place)]) == 9


def a_load(**changed: float | bool) -> Load:
    plain = Load(
        producers=1000,
        rate=100.0,
        size=100,
        is_durable=False,
        replicas=1,
        batch=1.0,
        hops=0.0,
        busy=0.5,
        consumers=10,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


SOURCE = Measured(
    machine="an abacus",
    costs={
        "transient": {
            "home": Cost(1.0, 0.01, 3.0),
            "producers": Cost(3.0, 0.01, 3.0),
            "consumer": Cost(2.0, 0.01, 3.0),
        },
        "durable": {"home": Cost(4.0, 0.02, 6.0)},
        "quorum": {"home": Cost(10.0, 0.05, 20.0)},
    },
    written={"durable": Written(50.0, 1.1), "quorum": Written(150.0, 3.3)},
    points=(),
    replicas=3,
)


def test_a_message_alone_pays_its_read() -> None:
    assert cost_us(a_load(), SOURCE) == pytest.approx(1.0 + 1.0 + 3.0)
    assert cost_us(a_load(batch=10.0), SOURCE) == pytest.approx(1.0 + 1.0 + 0.3)


def test_hops_are_paid_by_the_share_that_makes_them() -> None:
    assert cost_us(a_load(hops=0.5), SOURCE) == pytest.approx(5.0 + 0.5 * (2.0 + 1.0))


def test_processes_are_counted_by_what_they_may_work() -> None:
    assert size_of(a_load(), SOURCE).processes == 1  # 100,000/s of 5 us are one half of a second
    assert size_of(a_load(producers=1001), SOURCE).processes == 2
    assert size_of(a_load(busy=0.25), SOURCE).processes == 2


def test_a_replica_more_costs_a_third_more_and_there_are_as_many_nodes_at_least() -> None:
    three = size_of(a_load(replicas=3, producers=1), SOURCE)
    five = size_of(a_load(replicas=5, producers=1), SOURCE)
    assert (three.nodes, five.nodes) == (3, 5)
    assert five.cost_us == pytest.approx(three.cost_us * 5 / 3)
    assert three.disk_octets == pytest.approx(100 * (150 + 330))
    assert three.between_bits == pytest.approx(2 * 100 * 100 * 8)


def test_what_is_durable_takes_a_disk_and_what_is_not_none() -> None:
    assert size_of(a_load(), SOURCE).disk_octets == 0
    assert size_of(a_load(is_durable=True), SOURCE).disk_octets == pytest.approx(100_000 * 160)


def test_more_costs_more() -> None:
    def processes(*arguments: str) -> int:
        return int(json.loads(call("--json", *arguments).output)["size"]["processes"])

    large = ("--producers", "10000", "--rate", "1000", "--bytes", "128")
    assert processes(*large, "--wait", "64") < processes(*large) < processes(*large, "--durable")
    assert processes(*large) < processes(*large, "--wait", "0")
    assert processes(*large, "--hops", "0") < processes(*large)
    assert processes("--producers", "1", "--rate", "1") == 1


def test_it_says_what_it_stands_on() -> None:
    said = call("--producers", "10000", "--rate", "1000", "--bytes", "128", "--durable", "--replicas", "3").output
    assert said.startswith("10,000,000 messages/s of 128 octets, quorum queues with 3 replicas")
    assert measured().machine in said
    assert "this load was not run" in said


@pytest.mark.parametrize("wrong", [("--rate", "0"), ("--producers", "0"), ("--busy", "1.5"), ("--wait", "-1")])
def test_what_cannot_be_is_refused(wrong: tuple[str, str]) -> None:
    done = CliRunner().invoke(size, [*wrong])
    assert done.exit_code == 2
    assert wrong[0] in done.output
