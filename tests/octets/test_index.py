"""OctetIndex against a dict."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets import index
from amqp_broker.octets.index import OctetIndex, is_same

KEYS = st.lists(st.binary(max_size=20), max_size=40)


@given(KEYS, KEYS)
def test_it_finds_what_was_added_and_nothing_else(added: list[bytes], others: list[bytes]) -> None:
    found = OctetIndex()
    numbers: dict[bytes, int] = {}
    for key in added:
        if key not in numbers:
            numbers[key] = found.add(key)
    assert list(numbers.values()) == list(range(len(found)))
    assert found.keys == list(numbers)
    for key in added + others:
        assert found.find(b"<<" + key + b">>", 2, 2 + len(key)) == numbers.get(key, -1)


def test_it_grows_and_forgets() -> None:
    chance = random.Random(5)
    keys = list({chance.randbytes(chance.randrange(1, 40)) for _ in range(20_000)})
    found = OctetIndex()
    for _ in range(2):
        for number, key in enumerate(keys):
            assert found.add(key) == number
        assert [found.find(key, 0, len(key)) for key in keys] == list(range(len(keys)))
        assert all(found.find(key, 0, len(key) - 1) in (-1, number_of(keys, key[:-1])) for key in keys[:50])
        found.clear()
        assert len(found) == 0
        assert {found.find(key, 0, len(key)) for key in keys} == {-1}


def number_of(keys: list[bytes], key: bytes) -> int:
    return keys.index(key) if key in keys else -1


def test_a_full_index_says_so() -> None:
    assert index.MOST_KEYS < 1 << 24
    found = OctetIndex()
    found.keys.extend([b""] * index.MOST_KEYS)
    with pytest.raises(OverflowError, match="is full: clear it"):
        found.add(b"one more")


@given(st.binary(max_size=8), st.binary(max_size=8), st.integers(0, 8))
def test_octets_that_stand_in_others_are_compared_whole(octets: bytes, data: bytes, start: int) -> None:
    start = min(start, len(data))
    for end in range(start, len(data) + 1):
        assert is_same(octets, data, start, end) == (octets == data[start:end])
