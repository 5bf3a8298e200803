"""SortedKeys against a sorted set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets import sorted_keys
from amqp_broker.octets.sorted_keys import SortedKeys

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=200)


@given(STEPS, st.integers(-1, 61), st.integers(1, 70))
def test_it_is_a_sorted_set(steps: list[tuple[bool, int]], key: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_keys, "_MOST", 4)
        keys: SortedKeys[int] = SortedKeys()
        known: set[int] = set()
        for is_added, each in steps:
            (keys.add if is_added else keys.discard)(each)
            (known.add if is_added else known.discard)(each)
        assert len(keys) == len(known)
        assert keys.after(None, 1000) == sorted(known)
        assert keys.after(key, most) == [each for each in sorted(known) if each > key][:most]


def test_names_of_any_octets_are_kept_apart() -> None:
    names = ["", "a", "a\udcff", "a\x00", "é", "\U0001f600", "A"]
    keys: SortedKeys[str] = SortedKeys()
    for name in names:
        keys.add(name)
    assert keys.after(None, 100) == sorted(names)
    assert keys.after("a", 2) == ["a\x00", "a\udcff"]


def test_slices_are_as_they_are_when_they_are_come_to() -> None:
    keys: SortedKeys[int] = SortedKeys()
    for number in range(5):
        keys.add(number)
    slices = keys.in_slices(2)
    assert next(slices) == [0, 1]
    keys.discard(2)
    keys.add(9)
    assert list(slices) == [[3, 4], [9]]
