"""Users with the tag `protected`: HTTP neither changes nor deletes them, in no way that it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http

NAME, PROTECTED = "keeper", "protected"


@pytest.fixture
def kept(http: Http, broker: RunningBroker) -> Iterator[dict[str, Any]]:
    """As HTTP shows him before and after."""
    assert http("PUT", f"/users/{NAME}", {"password": "secret", "tags": f"management,{PROTECTED}"}).status == 201
    before = http.get(f"/users/{NAME}")
    yield before
    assert http.get(f"/users/{NAME}") == before
    with SystemClient(broker.url) as client:  # as the command line does
        client.request("user.delete", name=NAME)


def test_he_is_not_changed(http: Http, kept: dict[str, Any]) -> None:
    for body in ({"password": "other", "tags": "administrator"}, {"tags": ""}, {"password_hash": ""}):
        said = http("PUT", f"/users/{NAME}", body)
        assert (said.status, f"user '{NAME}' has the tag protected" in said.reason) == (412, True)
    own = http.as_user(NAME, "secret")
    assert own("PUT", "/v1/password", {"old_password": "secret", "password": "other"}).status == 412
    assert own("GET", "/whoami").status == 200
    own.close()


def test_he_is_not_deleted(http: Http, kept: dict[str, Any]) -> None:
    assert http("DELETE", f"/users/{NAME}").status == 412
    http("PUT", "/users/other", {"password": "x", "tags": ""})
    assert http("POST", "/users/bulk-delete", {"users": ["other", NAME]}).status == 412
    assert http("GET", "/users/other").status == 200, "all of them, or none"
    assert http("POST", "/users/bulk-delete", {"users": ["other"]}).status == 204


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["administrator"]}, {"tags": PROTECTED}, {"tags": []}, {"password_hash": ""}, {"password": "x"},
        {"limits": {"max-connections": 0}},
    ],
)
def test_definitions_do_not_change_him(http: Http, kept: dict[str, Any], change: dict[str, Any]) -> None:
    definitions = {"users": [{**kept, **change}]}
    assert http("POST", "/definitions", definitions).status == 412
    assert http("POST", "/definitions?only=users[0]", definitions).status == 412
    assert http("POST", "/definitions?only=vhosts[0]", {**definitions, "vhosts": [{"name": "/"}]}).status == 204


@pytest.mark.parametrize("place", ["users[00]", "users[0", "users[0]]", "users[\u0660]", "users[ 0]", "users[+0]"])
def test_a_place_is_written_in_one_way(http: Http, kept: dict[str, Any], place: str) -> None:
    said = http("POST", f"/definitions?only={quote(place)}", {"users": [{**kept, "tags": []}]})
    assert (said.status, place in said.reason) == (400, True)


def test_his_limits_are_not_changed(http: Http, kept: dict[str, Any]) -> None:
    assert http("PUT", f"/user-limits/{NAME}/max-connections", {"value": 0}).status == 412
    assert http("DELETE", f"/user-limits/{NAME}/max-connections").status == 412


def test_a_request_is_no_message(http: Http, kept: dict[str, Any]) -> None:
    """It would be carried out by the node, which knows nothing of how it came."""
    payload = {"payload": f'{{"name": "{NAME}"}}', "payload_encoding": "string"}
    body = {"routing_key": "user.delete", "properties": {}, **payload}
    said = http("POST", "/exchanges/%2F/amq.system/publish", body)
    assert (said.status, "amq.system" in said.reason) == (400, True)


def test_what_was_exported_goes_in_again(http: Http, kept: dict[str, Any]) -> None:
    assert http("POST", "/definitions", http.get("/definitions")).status == 204


def test_who_is_not_there_yet_may_become_so(http: Http, broker: RunningBroker) -> None:
    definitions = {"users": [{"name": "later", "password_hash": "", "tags": [PROTECTED]}]}
    assert http("POST", "/definitions", definitions).status == 204
    assert http("DELETE", "/users/later").status == 412
    with SystemClient(broker.url) as client:
        client.request("user.put", name="later", tags=[])
    assert http("DELETE", "/users/later").status == 204
