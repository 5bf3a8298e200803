"""ranges_of: settled sequences as runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queues.store import ranges_of


def test_runs() -> None:
    assert ranges_of([7]) == [(7, 1)]
    assert ranges_of([3, 1, 2]) == [(1, 3)]
    assert ranges_of([10, 1, 2, 9, 5]) == [(1, 2), (5, 1), (9, 2)]
    assert ranges_of([(1 << 64) - 2, (1 << 64) - 3]) == [((1 << 64) - 3, 2)]


@given(st.lists(st.integers(1, 60), min_size=1))
def test_the_same_numbers_in_as_few_runs_as_can_be(sequences: list[int]) -> None:
    expected = sorted(set(sequences))
    ranges = ranges_of(list(sequences))
    assert [number for first, count in ranges for number in range(first, first + count)] == expected
    ends = [first + count for first, count in ranges]
    assert all(end < first for end, (first, _) in zip(ends, ranges[1:], strict=False))
