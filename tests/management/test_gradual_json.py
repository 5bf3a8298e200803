"""Large bodies of JSON are read bit by bit, and come to what `json.loads` makes of them."""

from __future__ import annotations

import json
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.management.gradual_json import AT_ONCE_BYTES, read_gradually
from amqp_broker.protocol.json_values import JsonValue
from tests.node.system_service import SystemService

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)
#: What stands in JSON, put together by chance.
PIECES = st.lists(
    st.sampled_from(['{', '}', '[', ']', ',', ':', '"a"', '"', "1", "-0.5e3", "null", "NaN", " ", "\n", "\ufeff", "x"]),
    max_size=12,
)


def refuse(name: str) -> NoReturn:
    raise ValueError(name)


def read(body: bytes) -> JsonValue:
    reading = read_gradually(body, refuse)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


def same(body: bytes) -> None:
    try:
        expected = json.loads(body, parse_constant=refuse)
    except ValueError as error:
        with pytest.raises(type(error)):
            read(body)
    else:
        found = read(body)
        assert found == expected
        assert json.dumps(found) == json.dumps(expected)  # 1, 1.0 and True are equal; so are keys in any order


@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_a_value_is_what_it_is_at_once(value: JsonValue, indent: int | None, is_ascii: bool) -> None:
    same(json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass"))


@given(VALUES.map(lambda value: json.dumps(value).encode()), st.integers(0, 200), st.sampled_from(b'{}[],:"0n \xff'))
def test_a_wrong_octet_is_the_same_error(body: bytes, place: int, octet: int) -> None:
    place %= len(body)
    same(body[:place] + bytes([octet]) + body[place + 1 :])
    same(body[:place])


@given(PIECES)
def test_whatever_is_put_together_is_read_or_refused_as_at_once(pieces: list[str]) -> None:
    same("".join(pieces).encode())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_other_encodings(encoding: str) -> None:
    same('{"a": ["é"], "a": 2}'.encode(encoding))


def test_what_is_nested_too_deeply_is_said_so() -> None:
    with pytest.raises(RecursionError):
        read(b"[" * 100_000)


def test_ten_thousand_queues_are_many_slices() -> None:
    queues = [{"name": f"q{number}", "vhost": "/", "durable": True, "arguments": {}} for number in range(10_000)]
    body = json.dumps({"definitions": {"queues": queues}}).encode()
    slices = sum(1 for _ in read_gradually(body, refuse))
    assert slices >= len(body) // (2 * 8 * 1024)


def test_a_large_request_is_answered_as_a_small_one(service: SystemService) -> None:
    queues = [{"name": f"q{number}", "vhost": "/", "durable": True, "arguments": {}} for number in range(300)]
    assert len(json.dumps(queues)) > AT_ONCE_BYTES
    assert service.ask("definitions.import", definitions={"queues": queues})["commands"] == 300
    assert "q299" in {row["name"] for row in service.ask("queue.list", vhost="/")["queues"]}
    refused = service.ask("user.put", name="x", password=["x" * AT_ONCE_BYTES])
    assert not refused["ok"]
    assert "password" in refused["error"]
    unknown = service.ask("no.verb", text="x" * AT_ONCE_BYTES)
    assert "no.verb" in unknown["error"]
