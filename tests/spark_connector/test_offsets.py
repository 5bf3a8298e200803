"""Offsets in a checkpoint, and how a range is split into tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connector.errors import ConnectorError
from spark_connector.offsets import Offsets, Position, split


def test_offsets_are_the_documented_json_both_ways() -> None:
    written = {"v": 1, "q": {"a": {"g": "x", "o": 5}, "b": {"g": "y", "o": 0}}}
    offsets = Offsets.from_json(written)
    assert offsets["a"] == Position("x", 5)
    assert offsets.to_json() == written
    assert offsets.moved("a", 9).to_json()["q"]["a"] == {"g": "x", "o": 9}


@pytest.mark.parametrize("written", [{}, {"v": 1}, {"v": 1, "q": {"a": 5}}, {"v": 1, "q": {"a": {"g": "x", "o": "?"}}}])
def test_another_sources_checkpoint_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(ConnectorError, match="holds no offsets of format amqp"):
        Offsets.from_json(written)


def test_a_later_versions_checkpoint_is_refused() -> None:
    with pytest.raises(ConnectorError, match="version 2"):
        Offsets.from_json({"v": 2, "q": {}})


@given(st.integers(0, 10**12), st.integers(0, 300_000), st.integers(1, 50), st.integers(100, 100_000))
def test_a_range_is_split_without_a_gap(start: int, count: int, most_tasks: int, most_messages: int) -> None:
    parts = split(start, start + count, most_tasks, most_messages)
    assert [low for low, _ in parts] == ([start, *[high for _, high in parts]][: len(parts)])
    assert sum(high - low for low, high in parts) == count
    assert all(low < high for low, high in parts)
    if most_tasks == 1:
        assert len(parts) <= 1
    else:
        assert all(high - low <= most_messages for low, high in parts)


def test_a_small_batch_is_one_task() -> None:
    assert len(split(0, 1000, 4, 50_000)) == 1
    assert len(split(0, 100_000, 4, 50_000)) == 4
    assert len(split(0, 1_000_000, 4, 50_000)) == 20
