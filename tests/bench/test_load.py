"""Whole runs of the load generator: against our own broker, or against the one that RABBITMQ_URL names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import amqp_broker
from amqp_broker.bench.link import Link, LinkError
from amqp_broker.bench.load import run_load
from amqp_broker.bench.result import Progress
from amqp_broker.bench.scenario import EXCHANGE_TYPES, Scenario
from amqp_broker.bench.target import Target, parse_target
from amqp_broker.cli.bench import bench
from amqp_broker.cli.main import main
from amqp_broker.protocol import methods

SMALL = {"messages": 500, "seconds": 30.0, "size": 64}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    named = os.environ.get("RABBITMQ_URL")
    if named:
        yield named
    else:
        with amqp_broker.running() as broker:
            yield broker.url


@pytest.fixture
def target(url: str) -> Target:
    return parse_target(url)


def run(target: Target, **values: Any) -> Any:
    return run_load(Scenario(targets=(target,), **{**SMALL, **values}))


@pytest.mark.parametrize("exchange_type", EXCHANGE_TYPES)
def test_every_exchange_type_delivers_everything(target: Target, exchange_type: str) -> None:
    values = {
        "queues": 3,
        "bindings": 7,
        "producers": 2,
        "consumers": 2,
        "confirm_window": 50,
        "ack_every": 10,
    }
    result = run(target, exchange_type=exchange_type, **values)
    assert result.problems == ()
    assert result.is_complete
    assert result.counts.published == result.counts.confirmed == 500
    assert result.counts.received == 500 * (3 if exchange_type == "fanout" else 1)
    assert result.counts.redelivered == 0
    assert result.latency.count == result.counts.received
    assert 0 < result.latency.p50 <= result.latency.p99 <= result.latency.max
    assert result.confirm_latency.count == 500


@pytest.mark.parametrize("size", [0, 5, 20_000, 300_000])
def test_bodies_of_any_size_arrive_whole(target: Target, size: int) -> None:
    result = run(target, size=size, messages=40, auto_ack=True, persistent=True, durable=True)
    assert (result.counts.received, result.problems) == (40, ())
    assert (result.latency is None) == (size < 8)


def test_a_backlog_is_published_and_then_drained(target: Target) -> None:
    queue = "load-test-backlog"
    kept = {"queue": queue, "messages": 300}
    published = run(target, consumers=0, confirm_window=100, **kept)
    assert published.counts.confirmed == 300
    with Link(target, "counts") as link:
        assert link.count_messages(queue) == 300
    drained = run(target, producers=0, **kept)
    assert drained.counts.received == 300
    with Link(target, "deletes") as link:
        link.delete_queue(queue)
        link.sync()


def test_what_is_its_own_is_gone_afterwards(target: Target) -> None:
    run(target, exchange_type="direct")
    with pytest.raises(LinkError, match="404"), Link(target, "looks") as link:
        link.call(methods.ExchangeDeclare(exchange="bench-exchange", passive=True), methods.ExchangeDeclareOk)
    with pytest.raises(LinkError, match="404"), Link(target, "looks") as link:
        link.count_messages("bench")


def test_the_time_decides_where_no_amount_is_given(target: Target) -> None:
    progress: list[Progress] = []
    scenario = Scenario(targets=(target,), seconds=1.2, warm_up=0.2, auto_ack=True, rate=500)
    result = run_load(scenario, progress.append)
    assert result.seconds >= 1.1  # from the first report after the warm-up, which may be late
    assert 0 < result.rate(result.counts.published) <= 600
    assert progress[0].is_warm_up
    assert progress[0].counts.published > 0


def test_a_queue_that_goes_away_ends_the_run(target: Target) -> None:
    class Deletes:
        """Deletes the queue under the consumer at the first report."""

        def __call__(self, progress: Progress) -> None:
            with Link(target, "deletes") as link:
                link.delete_queue("bench")
                link.sync()

    result = run_load(Scenario(targets=(target,), seconds=120, rate=100), Deletes())
    assert any("cancelled the consumer" in problem for problem in result.problems)
    assert result.seconds < 100


def test_arguments_that_the_broker_refuses_are_told(target: Target) -> None:
    with pytest.raises(LinkError, match="406"):
        run(target, queue_arguments={"x-message-ttl": -1})


def test_a_wrong_password_is_told(target: Target) -> None:
    wrong = Target(target.host, target.port, target.user, "wrong")
    with pytest.raises(LinkError, match="ACCESS_REFUSED"):
        run(wrong)


def test_the_command_prints_one_json_object(url: str) -> None:
    done = CliRunner().invoke(bench, ["--url", url, "-C", "200", "-c", "20", "-A", "5", "--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (report["received"], report["complete"], report["problems"]) == (200, True, [])
    assert report["received_per_s"] > 0


def test_the_command_prints_a_summary(url: str) -> None:
    done = CliRunner().invoke(bench, ["--url", url, "-z", "1.2", "-w", "0", "-r", "200"])
    assert done.exit_code == 0
    for words in ("1 producer -> default exchange", "published", "latency", "1.2", "us of CPU per message"):
        assert words in done.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--url", "amqp://127.0.0.1:1"], "cannot reach amqp://127.0.0.1:1"),
        (["--url", "http://example"], "not an AMQP URL"),
        (["--size", "-5"], "size -5; allowed: 0 or more"),
        (["--queue-argument", "x-max-length"], "allowed: name=value"),
        (["--exchange-type", "x-random"], "x-random"),
    ],
)
def test_what_cannot_begin_is_one_line_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert text in lines[-1]
