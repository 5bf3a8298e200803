"""GradualTable: a dictionary that never takes, or gives back, much at a time."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.turn.gradual_table import GradualDict, GradualTable

MANY = 20_000
KEYS = st.one_of(st.integers(0, 600), st.text(max_size=2), st.tuples(st.text(max_size=1), st.integers(0, 3)))


@given(st.lists(st.tuples(KEYS, st.integers()), max_size=400))
def test_it_answers_as_a_dictionary_does(pairs: list[tuple[object, int]]) -> None:
    table: GradualTable[object, int] = GradualTable()
    plain: dict[object, int] = {}
    for key, value in pairs:
        assert (key in table) == (key in plain)
        table[key] = plain[key] = value
        assert table[key] == value
    assert list(table) == list(plain)
    assert list(table.items()) == list(plain.items())
    assert len(table) == len(plain)
    assert bool(table) == bool(plain)
    assert [table.get(key) for key, _ in pairs] == [plain[key] for key, _ in pairs]
    assert table.get("none has this key") is None
    for _ in table.let_go():
        pass
    assert list(table) == []


@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=600))
def test_one_without_an_order_takes_keys_away_too(steps: list[tuple[object, bool]]) -> None:
    gradual: GradualDict[object, int] = GradualDict()
    plain: dict[object, int] = {}
    for number, (key, comes) in enumerate(steps):
        if comes:
            gradual[key] = plain[key] = number
        elif key in plain:
            assert gradual.pop(key) == plain.pop(key)
        else:
            with pytest.raises(KeyError):
                gradual.pop(key)
        assert (len(gradual), gradual.get(key)) == (len(plain), plain.get(key))
    assert sorted(gradual.values()) == sorted(plain.values())
    for _ in gradual.let_go():
        pass
    assert len(gradual) == 0


def test_what_is_missing_is_an_error() -> None:
    table: GradualTable[str, int] = GradualTable()
    with pytest.raises(KeyError):
        table["a"]
    table["a"] = 1
    with pytest.raises(KeyError):
        table["b"]


def test_it_takes_little_at_a_time() -> None:
    keys = [f"key {number}" for number in range(MANY)]
    table: GradualTable[str, None] = GradualTable()
    tracemalloc.start()
    most = 0
    for key in keys:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        table[key] = None
        most = max(most, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert 0 < most < 16 * 1024


def test_it_gives_back_little_at_a_time() -> None:
    tracemalloc.start()
    table: GradualTable[tuple[str, int], None] = GradualTable()
    for number in range(MANY):
        table["key", number] = None
    most, before = 0, tracemalloc.get_traced_memory()[0]
    held = before
    for _ in table.let_go():
        now = tracemalloc.get_traced_memory()[0]
        most, before = max(most, before - now), now
    tracemalloc.stop()
    assert held - before > MANY * 50
    assert most < 32 * 1024
