"""What a message costs a broker is of the measured seconds, and of all its nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amqp_broker.bench.result import Counts, Progress, Result
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import Target
from benchmarks import brokers, run
from benchmarks.brokers import Broker, BrokerError
from benchmarks.clusters import own_cluster
from benchmarks.run import WARM_UP_SECONDS, Run, cost_of, rate_of, run_checked, run_once, run_pairs

#: What the nodes of a broker have used after so many seconds: the second node twice as much as the first.
USED = {1: 0.25, 2: 1.0, 3: 1.5, 4: 2.5}
RECEIVED = {1: 1000, 2: 2000, 3: 400_000, 4: 600_000}


def result(*problems: str, received: int = 0, confirmed: int = 0, is_complete: bool = True) -> Result:
    counts = Counts(received=received, confirmed=confirmed)
    return Result(2.0, counts, None, None, 0.0, is_complete, problems)


def broker(name: str = "ours") -> Broker:
    return Broker(name, "1", Target(port=1), 11, 0.0, (12,))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a load that tells of itself after so many seconds in the place of the real one, and a clock of the
    processes beside it."""

    def put(*seconds: int, problems: tuple[str, ...] = ()) -> None:
        now = 0

        def run_load(scenario: Scenario, tell: Callable[[Progress], None]) -> Result:
            nonlocal now
            assert scenario.warm_up == WARM_UP_SECONDS
            for now in seconds:
                is_warm_up = now <= WARM_UP_SECONDS
                tell(Progress(now, 1.0, is_warm_up, Counts(received=RECEIVED[now]), None, 0))
            return result(*problems)

        monkeypatch.setattr(run, "run_load", run_load)
        monkeypatch.setattr(brokers, "cpu_seconds_of", lambda pid: USED[now] * (pid - 10))
        monkeypatch.setattr(run, "SETTLE_SECONDS", 0)

    return put


def test_the_cost_is_of_the_measured_seconds_and_of_all_nodes(load: Callable[..., None]) -> None:
    """From the end of the warm-up, after 2 s, on: 3 * 1.5 s for a million messages."""
    load(1, 2, 3, 4)
    found = run_once("a row", Scenario(), broker(), 2)
    assert found.cost == pytest.approx(4.5)
    assert found.as_json()["broker_cpu_us_per_message"] == 4.5


def test_what_was_received_before_the_first_mark_does_not_count() -> None:
    assert cost_of([(1.0, 10_000), (2.0, 500_000), (4.0, 500_000)]) == pytest.approx(3.0)


def test_a_run_in_which_nothing_arrived_has_a_cost() -> None:
    assert cost_of([(1.0, 0), (2.0, 0)]) == pytest.approx(1e6)


def test_a_run_that_is_too_short_says_so(load: Callable[..., None]) -> None:
    load(1, 2)
    with pytest.raises(BrokerError, match=r"a row on ours: 0\.5 s are too short"):
        run_once("a row", Scenario(), broker(), 0.5)


def test_a_run_that_failed_says_where(load: Callable[..., None]) -> None:
    load(1, 2, 3, problems=("the connection was lost",))
    with pytest.raises(BrokerError, match="a row on ours: the connection was lost"):
        run_once("a row", Scenario(), broker(), 2)


def test_every_other_pair_begins_with_the_other_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def once(what: str, scenario: Scenario, broker: Broker, seconds: float) -> Run:
        order.append(broker.name)
        return Run(result(), len(order))

    monkeypatch.setattr(run, "run_once", once)
    monkeypatch.setattr(run, "SETTLE_SECONDS", 0)
    found = run_pairs("a row", Scenario(), [broker("ours"), broker("theirs")], 3, 2)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert {name: [each.cost for each in runs] for name, runs in found.items()} == {
        "ours": [1, 4, 5],
        "theirs": [2, 3, 6],
    }


def test_a_rate_is_of_what_arrived_or_was_confirmed_where_nobody_consumes() -> None:
    done = result(received=2000, confirmed=4000)
    assert rate_of(Scenario(), broker(), lambda _: done) == 1000
    assert rate_of(Scenario(consumers=0), broker(), lambda _: done) == 2000


def test_a_run_that_is_not_complete_is_none() -> None:
    with pytest.raises(BrokerError, match="not all messages arrived"):
        run_checked(Scenario(), lambda _: result(is_complete=False))
    with pytest.raises(BrokerError, match="the connection was lost"):
        run_checked(Scenario(), lambda _: result("the connection was lost"))


def test_a_cluster_of_ours_has_the_processes_of_all_its_nodes(tmp_path: Path) -> None:
    with own_cluster(tmp_path / "cluster", 3) as cluster:
        assert len({cluster.pid, *cluster.others}) == 3
        alone = brokers.cpu_seconds_of(cluster.pid)
        assert cluster.cpu_seconds() > alone > 0
