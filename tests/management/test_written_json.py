"""JSON of answers: put together in parts, it says what it would at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.management.written_json import JsonChunks, chunks_of, cut_to, encode, encode_value, list_of
from tests.example_counts import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5), st.sets(st.text(max_size=8)))
def test_parts_that_are_json_already_are_part_of_it(fields: dict[str, Any], written: set[str]) -> None:
    parts = {key: encode_value(value) if key in written else value for key, value in fields.items()}
    assert json.loads(encode(parts)) == fields
    assert encode(parts).isascii()


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
@pytest.mark.parametrize("beside", [{}, {"ok": True}])
def test_what_is_large_comes_in_chunks(count: int, beside: dict[str, Any]) -> None:
    found = JsonChunks("{}")
    rows = JsonChunks("[]")
    for number in range(count):
        rows.add(encode_value({"number": number, "name": "\u20ac"}))
    found.add(encode_value("text"), "about")
    found.add(rows, "rows")
    found.add(list_of(["1", "2"]), "few")
    octets = chunks_of({**beside, "found": found, "more": JsonChunks("[]")})
    assert max(map(len, octets)) < 16 * 1024
    assert json.loads(b"".join(octets)) == {
        **beside,
        "found": {
            "about": "text", "rows": [{"number": number, "name": "\u20ac"} for number in range(count)], "few": [1, 2],
        },
        "more": [],
    }  # fmt: skip


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_chunks_are_cut_to_a_size(chunks: list[bytes], size: int) -> None:
    steps = cut_to(list(chunks), size)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
    assert b"".join(found) == b"".join(chunks)
    assert all(len(each) == size for each in found[:-1])
    assert all(0 < len(each) <= size for each in found[-1:])
