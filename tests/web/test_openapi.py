"""The API's description has every endpoint and every struct of a body, as they are in the code."""

from __future__ import annotations

import importlib
import pkgutil
import re

import msgspec
import pytest

import amqp_broker.web.endpoints
from amqp_broker.web.endpoints.all import api_endpoints
from amqp_broker.web.openapi import describe
from tests.web.http_client import Http

FORM = "application/x-www-form-urlencoded"


def structs() -> set[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()
    for each in pkgutil.iter_modules(amqp_broker.web.endpoints.__path__):
        module = importlib.import_module(f"amqp_broker.web.endpoints.{each.name}")
        found |= {
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
        }
    return found


def test_every_endpoint_is_in_it() -> None:
    endpoints = api_endpoints().all
    said = describe(endpoints, "/api", "cookie")
    there = {(method.upper(), path) for path, methods in said["paths"].items() for method in methods}
    assert there == {(each.method, f"/api{each.path}") for each in endpoints}
    for path, methods in said["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert [each["name"] for each in operation["parameters"]] == re.findall(r"\{(\w+)\}", path)
    identities = [each["operationId"] for methods in said["paths"].values() for each in methods.values()]
    assert len(identities) == len(set(identities))


def test_each_success_and_refusal_is_in_it() -> None:
    """That all answers are described, whatever the tests ask, the client of the tests sees (http_client.py)."""
    said = describe(api_endpoints().all, "", "")
    for endpoint in api_endpoints().all:
        responses = said["paths"][endpoint.path][endpoint.method.lower()]["responses"]
        assert [int(status) for status in responses] == sorted({*endpoint.successes, *endpoint.refusals})
        for status, response in responses.items():
            assert response["description"], (endpoint.path, status)
            for content in response.get("content", {}).values() if int(status) >= 400 else ():
                for form in content["schema"].get("anyOf", [content["schema"]]):
                    assert form["$ref"].rpartition("/")[2] in said["components"]["schemas"]
    failed = said["paths"]["/health/checks/alarms"]["get"]["responses"]["503"]["content"]["application/json"]["schema"]
    assert [form["$ref"].rpartition("/")[2] for form in failed["anyOf"]] == ["Error", "FailedCheck"]
    statuses = {
        (method, path): [status for status in responses["responses"] if status < "400"]
        for path, methods in said["paths"].items()
        for method, responses in methods.items()
    }
    assert statuses["put", "/queues/{vhost}/{queue}"] == ["201", "204"]
    assert statuses["delete", "/queues/{vhost}/{queue}"] == ["204"]
    assert statuses["post", "/v1/queues/{vhost}/{queue}/move"] == ["200", "202"]
    assert statuses["put", "/parameters/{component}/{vhost}/{parameter}"] == [], "always refused"


@pytest.mark.parametrize("narrowed", [{"x_vhost": "nothing"}, {}])
def test_lists_of_a_virtual_host_that_is_not_there(http: Http, narrowed: dict[str, str]) -> None:
    """What the client looks at: that each of the answers is described."""
    seen = set()
    for endpoint in api_endpoints().all:
        if endpoint.method == "GET" and "{" not in endpoint.path and endpoint.media == "application/json":
            seen.add(http("GET", f"{endpoint.path}?vhost=nothing", **narrowed).status)
    assert {200, 404} <= seen


def test_every_struct_is_in_it() -> None:
    assert len(structs()) > 15
    wanted = {each.body for each in api_endpoints().all if each.body is not None}
    assert wanted <= structs()
    # Those of which others are made are in the document as parts of them, or in their fields.
    whole = {each.__name__ for each in structs() if not each.__subclasses__()}
    missing = whole - set(describe(api_endpoints().all, "", "")["components"]["schemas"])
    assert not missing, f"name the struct in the table: Endpoint(..., body=...): {sorted(missing)}"


def test_it_is_served(http: Http) -> None:
    said = http.get("/v1/openapi.json")
    assert said["openapi"].startswith("3.1")
    login = http("POST", "/login", raw=b"username=guest&password=guest", prefix="", content_type=FORM)
    cookie = login.headers["set-cookie"].partition("=")[0]
    assert said["components"]["securitySchemes"]["session"]["name"] == cookie
    put = said["paths"]["/api/vhosts/{vhost}"]["put"]
    assert put["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/VhostBody"}
    assert (put["x-least-tag"], said["paths"]["/api/version"]["get"]["security"]) == ("administrator", [])
