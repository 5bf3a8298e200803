"""Names in paths and in properties_key: any octets, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.web.endpoint import Endpoint, Endpoints
from amqp_broker.web.endpoints.all import api_endpoints
from amqp_broker.web.path import encode, split_path
from amqp_broker.web.properties_key import properties_key
from tests.web.http_client import Http

ANY_NAME = st.binary(min_size=1, max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))


@given(st.lists(ANY_NAME, min_size=1, max_size=4))
def test_any_names_survive_a_path(names: list[str]) -> None:
    assert split_path("/" + "/".join(map(encode, names))) == tuple(names)


@given(ANY_NAME, ANY_NAME)
def test_a_place_is_found_by_its_words_whatever_the_names(vhost: str, queue: str) -> None:
    endpoints = Endpoints(
        Endpoint("GET", path, lambda asked: (_ for _ in ()).throw(AssertionError))
        for path in ("/queues", "/queues/{vhost}/{queue}", "/queues/{vhost}/{queue}/bindings")
    )
    found = endpoints.find(split_path(f"/queues/{encode(vhost)}/{encode(queue)}/bindings"))
    assert found is not None
    assert found[1] == {"vhost": vhost, "queue": queue}
    assert found[0].allowed == "GET, HEAD, OPTIONS"
    assert endpoints.find(split_path(f"/queues/{encode(vhost)}")) is None


def test_a_word_goes_before_a_name() -> None:
    endpoints = Endpoints(
        Endpoint("GET", path, lambda asked: (_ for _ in ()).throw(AssertionError))
        for path in ("/users/{user}", "/users/without-permissions", "/users/{user}/permissions")
    )
    word, name = endpoints.find(("users", "without-permissions")), endpoints.find(("users", "guest"))
    assert word is not None
    assert name is not None
    assert (word[1], name[1]) == ({}, {"user": "guest"})
    behind = endpoints.find(("users", "without-permissions", "permissions"))
    assert behind is not None
    assert behind[1] == {"user": "without-permissions"}


def test_what_names_a_binding() -> None:
    assert properties_key("", {}) == "~"
    assert properties_key("a b~c/d", {}) == "a+b%7Ec%2Fd"
    assert properties_key("", {"x": 1}).startswith("~")
    assert properties_key("k", {"x": 1, "y": [2]}) == properties_key("k", {"y": [2], "x": 1})
    assert properties_key("k", {"x": 1}) != properties_key("k", {"x": 2})


@given(ANY_NAME, ANY_NAME, st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))
def test_two_bindings_have_two_names(one: str, other: str, arguments: dict[str, int]) -> None:
    if one != other:
        assert properties_key(one, arguments) != properties_key(other, arguments)
    assert split_path(encode(properties_key(one, arguments))) == (properties_key(one, arguments),)


@pytest.mark.parametrize("method", sorted({each.method for each in api_endpoints().all}))
def test_each_endpoint_takes_the_longest_names(http: Http, method: str) -> None:
    """Each octet of them takes three in a path. Whatever is asked for is not there, or is no such thing: but it is
    understood, and what may wait or stream is asked for nothing."""
    name = "é" * 127 + "/"
    found = {}
    for each in api_endpoints().all:
        if each.method != method or "{" not in each.path:
            continue
        segments = (encode(name) if part.startswith("{") else part for part in each.path.split("/"))
        said = http(method, "/".join(segments), {} if method in ("PUT", "POST") else None)
        found[each.path] = said.status
        if said.body and said.headers.get("content-type", "").startswith("application/json"):
            assert said.json is not None
    assert len(found) >= 1
    # There is no listener of such a protocol: that check fails.
    assert found.pop("/health/checks/protocol-listener/{protocols}", 503) == 503
    strange = {path: status for path, status in found.items() if status not in (200, 201, 204, 400, 404)}
    assert not strange
    http("DELETE", f"/vhosts/{encode(name)}")
    http("DELETE", f"/users/{encode(name)}")
