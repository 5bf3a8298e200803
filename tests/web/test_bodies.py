"""Bodies of requests: what counts as nothing, and what is refused with which words."""

from __future__ import annotations

import msgspec
import pytest

from amqp_broker.web.answer import encode_json
from amqp_broker.web.body import flag, integer, read_body, tags
from amqp_broker.web.errors import ApiError


class Wanted(msgspec.Struct):
    pattern: str
    priority: int = 0


def refusal(body: bytes) -> object:
    with pytest.raises(ApiError) as refused:
        read_body(body, Wanted)
    assert refused.value.status == 400
    assert refused.value.body is not None
    assert refused.value.body["error"] == "bad_request"
    return refused.value.body["reason"]


def test_what_is_wrong_is_said() -> None:
    assert refusal(b"{") == "not_json"
    assert refusal(b'"{}"') == "not_json"
    assert refusal(b"[" * 100_000) == "not_json"
    assert refusal(b"NaN") == "not_json"
    for nothing in (b"", b"null", b"undefined", b"{}"):
        assert refusal(nothing) == [{"key_missing": "pattern"}]
    assert "priority" in str(refusal(b'{"pattern": "", "priority": "x"}'))
    assert read_body(b'{"pattern": "a", "other": 1}', Wanted) == Wanted("a")


def test_flags_numbers_and_tags_as_clients_write_them() -> None:
    assert [flag(value) for value in (True, False, "true", "false", None)] == [True, False, True, False, False]
    assert [integer(value, "n") for value in (5, "5", "-1")] == [5, 5, -1]
    assert tags("a, b,") == tags(["a", "b"]) == ["a", "b"]
    for wrong in ("nope", 1, []):
        with pytest.raises(ApiError):
            flag(wrong)
    for wrong in ("1.5", 1.5, True, None):
        with pytest.raises(ApiError):
            integer(wrong, "n")


def test_octets_that_are_no_text_are_json_all_the_same() -> None:
    assert encode_json({"name": "a\udcff"}) == b'{"name":"a\\udcff"}'
    assert encode_json({"name": "ä"}) == '{"name":"ä"}'.encode()
