"""Percentiles of the histogram against a sorted list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.bench.histogram import SLOTS, Histogram, highest_of

DURATIONS = st.integers(min_value=0, max_value=2**62)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@settings(deadline=None)
@given(st.lists(DURATIONS, min_size=1, max_size=200), st.floats(min_value=0.01, max_value=1))
def test_a_percentile_is_within_one_percent_of_the_exact_one(values: list[int], share: float) -> None:
    exact = sorted(values)[max(1, int(share * len(values) + 0.5)) - 1]
    found = filled(values).percentile(share)
    assert exact <= found <= exact * 1.008


@settings(deadline=None)
@given(st.lists(DURATIONS, min_size=1))
def test_total_and_highest_are_exact(values: list[int]) -> None:
    histogram = filled(values)
    assert histogram.total == len(values)
    assert histogram.highest == max(values)
    assert histogram.percentile(1) == max(values)


@settings(deadline=None)
@given(st.lists(DURATIONS), st.lists(DURATIONS))
def test_adding_counts_both_and_subtracting_takes_the_first_away(first: list[int], second: list[int]) -> None:
    both = filled(first)
    both.add(filled(second))
    together = filled(first + second)
    assert [both.percentile(q) for q in (0.5, 0.9, 1)] == [together.percentile(q) for q in (0.5, 0.9, 1)]
    both.subtract(filled(first))
    assert both.total == len(second)
    if second:
        assert max(second) <= both.percentile(1) <= max(second) * 1.008


def test_an_empty_histogram_has_no_percentiles() -> None:
    assert Histogram().percentile(0.5) == 0


def test_a_negative_duration_is_left_out() -> None:
    assert filled([-1, -(2**40)]).total == 0


def test_slots_grow_strictly() -> None:
    edges = [highest_of(slot) for slot in range(SLOTS)]
    assert edges == sorted(set(edges))
    assert edges[-1] == 2**63 - 1
