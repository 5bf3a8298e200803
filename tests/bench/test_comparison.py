"""The arithmetic of the comparison, of the footprint and of the instruction count."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from amqp_broker.bench.load import run_load
from amqp_broker.bench.result import Counts, Latency, Result
from benchmarks import brokers
from benchmarks.brokers import BrokerError, floor_broker
from benchmarks.compare import COLUMNS, as_json, floor_rows, instruction_rows, table_rows
from benchmarks.compare import compare as compare_command
from benchmarks.findings import Finding
from benchmarks.instructions import RECORD, compare, environment, measure, read_total, recorded
from benchmarks.node_load import ACK_EVERY, COUNTED, PATHS, PREFETCH, carry
from benchmarks.run import Run
from benchmarks.scenarios import COST, ROWS, Row

RATE = next(row for row in ROWS if row.name == "confirms")
LATENCY = next(row for row in ROWS if row.name == "latency-2000")


def runs(*values: float) -> list[Run]:
    """Runs of one second with so many messages per second, or so many milliseconds; a thousandth is what each cost."""
    return [Run(result(value), value / 1000) for value in values]


def result(value: float, *problems: str) -> Result:
    return Result(
        seconds=1.0,
        counts=Counts(received=int(value)),
        latency=Latency(1, value, value, value, value),
        confirm_latency=None,
        cpu_seconds=0.0,
        is_complete=True,
        problems=problems,
    )


@pytest.mark.parametrize(
    ("row", "ours", "rival", "plain", "ratio", "verdict"),
    [
        (RATE, (900, 700, 800), (90, 100, 110), False, "8.00", "holds"),
        (RATE, (900, 700, 790), (90, 100, 110), False, "7.90", "**misses**"),
        (RATE, (160, 170, 150), (90, 100, 110), True, "1.60", "holds"),
        (LATENCY, (0.2, 0.1, 0.3), (0.4, 0.5, 0.3), False, "0.50", "holds"),
        (LATENCY, (0.3, 0.1, 0.3), (0.4, 0.5, 0.3), False, "0.75", "**misses**"),
    ],
)
def test_the_ratio_is_that_of_the_medians(
    row: Row, ours: tuple[float, ...], rival: tuple[float, ...], plain: bool, ratio: str, verdict: str
) -> None:
    for cells in table_rows(row, runs(*ours), runs(*rival), plain):
        assert cells[-3] == ratio
        assert cells[-1] == ("" if cells[1] == COST.unit else verdict)


def test_the_spread_is_the_lowest_and_the_highest() -> None:
    cells = table_rows(RATE, runs(3000, 1000, 2000), runs(500, 300, 400), False)[0]
    assert cells[2:6] == ["2,000", "1,000 - 3,000", "400", "300 - 500"]


@pytest.mark.parametrize(
    "lines_of", [lambda *of: table_rows(*of, False), lambda *of: table_rows(*of, True), floor_rows]
)
def test_what_a_message_costs_stands_beside_a_rate_and_has_no_target(
    lines_of: Callable[[Row, list[Run], list[Run]], list[list[str]]],
) -> None:
    rate, cost = lines_of(RATE, runs(3000, 1000, 2000), runs(500, 300, 400))
    assert rate[0] == cost[0]
    assert cost[1:] == ["processor us/msg", "2.000", "1.000 - 3.000", "0.400", "0.300 - 0.500", "5.00", "", ""]


def test_beside_a_latency_there_is_no_cost() -> None:
    assert [cells[1] for cells in table_rows(LATENCY, runs(1), runs(1), False)] == ["ms p50", "ms p99"]


def test_instructions_stand_where_a_row_was_counted() -> None:
    counts = {"transient": 3126, "stream": 8782}
    (cells,) = instruction_rows(RATE, counts)
    assert cells == [RATE.title, "instructions/msg, without sockets", "3,126", *[""] * (len(COLUMNS) - 3)]
    assert instruction_rows(LATENCY, counts) == []
    assert instruction_rows(RATE, {}) == []


def test_a_row_does_what_the_path_does_whose_instructions_it_has() -> None:
    """Size, durability and kind of queue; with confirms, and acknowledgements of as many."""
    counted = {row.counted: row.scenario for row in ROWS if row.counted}
    assert set(counted) == set(PATHS)
    assert set(COUNTED) == set(recorded()[0])
    for path, scenario in counted.items():
        assert scenario.confirm_window
        assert not scenario.auto_ack
        assert (scenario.ack_every, scenario.prefetch) == (ACK_EVERY, PREFETCH)
        same = {
            name: getattr(scenario, name) for name in ("size", "durable", "persistent", "queue_type", "exchange_type")
        }
        assert same == {name: getattr(PATHS[path], name) for name in same}


def test_machines_get_every_run_with_its_cost_and_the_instructions() -> None:
    found = as_json(RATE, {"ours": runs(2000, 1000)}, {"transient": 3126})
    assert found["instructions_per_message"] == 3126
    assert [run["broker_cpu_us_per_message"] for run in found["ours"]] == [2.0, 1.0]
    assert [run["received_per_s"] for run in found["ours"]] == [2000, 1000]
    assert "instructions_per_message" not in as_json(LATENCY, {"ours": runs(1)}, {"transient": 3126})


@pytest.mark.parametrize(("ours", "verdict"), [((900, 700, 910), "holds"), ((890, 700, 910), "**misses**")])
def test_the_floor_has_a_line_and_a_target_of_its_own(ours: tuple[float, ...], verdict: str) -> None:
    cells = floor_rows(RATE, runs(*ours), runs(900, 1000, 1100))[0]
    assert "floor" in cells[0]
    assert cells[-2:] == [">= 0.9", verdict]


@pytest.mark.parametrize("row", [row for row in ROWS if row.has_floor], ids=lambda row: row.name)
def test_the_floor_carries_its_rows_one_after_the_other(row: Row) -> None:
    """What arrives is as long as what was sent, or the load tells of it."""
    with floor_broker() as floor:
        for _ in range(2):
            result = run_load(replace(row.scenario, targets=(floor.target,), seconds=0.3, warm_up=0.1))
            assert not result.problems
            assert result.counts.received > 10


def test_rows_can_be_picked_by_name() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("finding", "holds"),
    [
        (Finding("memory", "KiB", 20, 20), True),
        (Finding("memory", "KiB", 20.1, 20), False),
        (Finding("rate", "%", 80, 80, is_most=False), True),
        (Finding("rate", "%", 79, 80, is_most=False), False),
        (Finding("told", "B", 5), True),
    ],
)
def test_a_finding_knows_whether_it_keeps_its_limit(finding: Finding, holds: bool) -> None:
    assert finding.holds == holds
    assert ("misses" in finding.cells()[-1]) == (not holds)


def test_without_rabbitmq_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(brokers, "RABBITMQ_SCRIPT", tmp_path / "absent")
    done = CliRunner().invoke(compare_command, ["--pairs", "1", "--output", str(tmp_path / "page.md")])
    assert done.exit_code == 1
    assert "RabbitMQ is not installed" in done.output
    assert "apt-get install rabbitmq-server" in done.output
    assert not (tmp_path / "page.md").exists()


@pytest.mark.parametrize("path", sorted(COUNTED))
def test_the_counted_load_carries_every_message(path: str, tmp_path: Path) -> None:
    """What is run under valgrind, without it: `carry` fails unless all was confirmed, delivered and
    settled.
    """
    carry(COUNTED[path], 1000, tmp_path / "data")


def test_the_counted_load_notices_a_missing_message(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="of 1100 messages"):
        carry(PATHS["transient"], 1100, tmp_path / "data")


def test_the_total_of_a_callgrind_report_is_read() -> None:
    assert read_total("events: Ir\nfn=(1) main\n1 5\n\ntotals: 123456\n") == 123456
    with pytest.raises(BrokerError, match="no total"):
        read_total("events: Ir\n")


def test_a_growth_over_a_tenth_is_told() -> None:
    record = {"instructions_per_message": {"transient": 1000, "persistent": 2000}}
    assert compare(record, {"transient": 1100, "persistent": 2200}) == []
    assert compare(record, {"transient": 1101, "persistent": 100}) == [
        "transient: 1,101 instructions, 10 % over the recorded 1,000"
    ]


@pytest.mark.long
def test_a_message_costs_no_more_instructions_than_recorded() -> None:
    """Needs valgrind, and the Python and the modules of the record: `python -m benchmarks.instructions`
    renews it.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {name: record[name] for name in environment()} == environment(), "recorded elsewhere: record anew"
    assert compare(record, measure()) == []
