"""Rates and samples of counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.web.errors import ApiError
from amqp_broker.web.rates import Grid, History, Reading, Readings, details, rate_of, read_grid


def test_a_rate_is_the_change_between_the_last_two_readings() -> None:
    readings = Readings()
    assert rate_of("n", *readings.add("queues", "q", 10_000, {"n": 5})) == 0.0
    assert rate_of("n", *readings.add("queues", "q", 15_000, {"n": 105})) == 20.0
    assert rate_of("n", *readings.add("queues", "q", 15_200, {"n": 126})) == pytest.approx(23.27, abs=0.01), (
        "readings closer than a second replace the last one"
    )
    assert rate_of("n", *readings.add("queues", "q", 25_200, {"n": 0})) == 0.0, "a counter that began anew"
    assert rate_of("n", *readings.add("queues", "other", 25_200, {"n": 7})) == 0.0


def test_samples_are_on_the_grid_newest_first() -> None:
    known = [Reading(at, {"n": at // 1000}) for at in range(60_000, 120_001, 5_000)]
    found = details("n", known, Grid(20, 10))
    assert [each["timestamp"] for each in found["samples"]] == [120_000, 110_000, 100_000]
    assert [each["sample"] for each in found["samples"]] == [120, 110, 100]
    assert (found["rate"], found["avg"], found["avg_rate"]) == (1.0, 110.0, 1.0)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(1, 60), st.integers(1, 20))
def test_samples_never_come_from_the_future_and_never_too_many(gaps: list[int], age: int, step: int) -> None:
    at, known = 1_000_000, []
    for gap in gaps:
        at += gap
        known.append(Reading(at, {"n": at}))
    for sample in details("n", known, Grid(age, step)).get("samples", ()):
        assert sample["sample"] <= sample["timestamp"] <= at
    assert len(details("n", known, Grid(age, step)).get("samples", ())) <= age // step + 1


def test_an_hour_is_kept_and_no_more() -> None:
    history = History()
    for number in range(2000):
        history.add(number * 5000, {"n": number})
    assert len(history.readings()) == 721


@pytest.mark.parametrize("query", [
    {"lengths_age": "60"}, {"lengths_incr": "5"}, {"lengths_age": "60", "lengths_incr": "0"},
    {"lengths_age": "3600", "lengths_incr": "1"}, {"lengths_age": "x", "lengths_incr": "1"},
])  # fmt: skip
def test_ranges_that_cannot_be_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        read_grid(query, "lengths")
    assert "invalid_range_parameters" in str(refused.value)
