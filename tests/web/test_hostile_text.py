"""Names that are too long for AMQP and text that UTF-8 cannot carry, at each endpoint there is: the client's fault,
never the server's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from amqp_broker.protocol.json_values import JsonObject
from tests.web.http_client import Http

pytestmark = pytest.mark.xdist_group("web hostile text")
#: JSON can write half of a surrogate pair; no octets of UTF-8 are it.
HALF_A_PAIR = "\ud800"
TOO_LONG = "a" * 300


@pytest.fixture(scope="module")
def described(http: Http) -> JsonObject:
    document: JsonObject = http("GET", "/v1/openapi.json").json
    return document


def changes(described: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
    """(method, path, description) of each endpoint that changes something."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if method != "get":
                yield method.upper(), path.removeprefix("/api"), operation


def fields(described: JsonObject, operation: JsonObject) -> list[str]:
    for media in operation.get("requestBody", {}).get("content", {}).values():
        kind = media["schema"].get("$ref", "").rpartition("/")[2]
        return list(described["components"]["schemas"].get(kind, {}).get("properties", ()))
    return []


def test_a_name_that_amqp_cannot_carry_is_the_clients_fault(http: Http, described: JsonObject) -> None:
    found = {
        f"{method} {path}": http(method, re.sub(r"\{[^}]+\}", TOO_LONG, path), {}).status
        for method, path, _ in changes(described)
        if "{" in path
    }
    assert found
    assert {where: status for where, status in found.items() if status >= 500} == {}


def test_text_that_utf_8_cannot_carry_is_the_clients_fault(http: Http, described: JsonObject) -> None:
    found = {
        f"{method} {path}": http(method, re.sub(r"\{[^}]+\}", "%2F", path), dict.fromkeys(names, HALF_A_PAIR)).status
        for method, path, operation in changes(described)
        if (names := fields(described, operation))
    }
    assert found
    assert {where: status for where, status in found.items() if status >= 500} == {}


def test_a_payload_of_half_a_pair_is_refused_with_what_is_wrong(http: Http) -> None:
    body = {"routing_key": "q", "properties": {}, "payload": HALF_A_PAIR, "payload_encoding": "string"}
    said = http("POST", "/exchanges/%2F/amq.default/publish", body)
    assert said.status == 400
    assert "payload" in said.reason
