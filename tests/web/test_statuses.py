"""Statuses, endpoint by endpoint: of names that nobody has, of an empty body and of one that is no JSON. Who may ask,
and with which methods, is the table of test_access.py."""

from __future__ import annotations

import re

import pytest

from tests.web.http_client import Http
from tests.web.test_access import LEAST, LEFT_OUT

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web statuses")

#: What is not as the rule says (`expected`): with an empty body, and with one that is no JSON, where it makes a
#: difference.
EXCEPTIONS = {
    ("GET", "/v1/queues/{vhost}/{queue}/messages/{position}/body"): (400,),
    ("GET", "/v1/streams/{vhost}/{stream}/offset"): (400,),
    ("POST", "/v1/streams/{vhost}/{stream}/compact"): (404, 404),
    ("DELETE", "/queues/quorum/{vhost}/{queue}/replicas/delete"): (400,),
    ("DELETE", "/queues/quorum/replicas/on/{node}/shrink"): (400,),
    ("GET", "/connections/username/{user}"): (200,),
    ("DELETE", "/connections/username/{user}"): (204,),
    ("PUT", "/vhosts/{vhost}"): (201, 400),
    ("POST", "/vhosts/{vhost}/deletion/protection"): (404, 404),
    ("POST", "/vhosts/{vhost}/start/{node}"): (404, 404),
    ("PUT", "/users/{user}"): (201, 400),
    ("GET", "/users/{user}/queues"): (200,),
    ("GET", "/auth/hash_password/{password}"): (200,),
    ("GET", "/bindings/{vhost}/e/{exchange}/q/{destination}"): (200,),
    ("GET", "/bindings/{vhost}/e/{exchange}/e/{destination}"): (200,),
    ("GET", "/parameters/{component}"): (200,),
    ("POST", "/v1/rebalance/classic-queues"): (202, 400),
    ("POST", "/definitions"): (204, 400),
    ("POST", "/all-configuration"): (204, 400),
    ("POST", "/definitions/{vhost}"): (404, 404),
    ("GET", "/health/checks/certificate-expiration/{within}/{unit}"): (400,),
    ("GET", "/health/checks/port-listener/{port}"): (400,),
    ("GET", "/health/checks/protocol-listener/{protocols}"): (503,),
    ("GET", "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}"): (200,),
    ("POST", "/login"): (415, 415),
    ("DELETE", "/login"): (204,),
    ("PUT", "/feature-flags/{feature}/enable"): (404, 404),
    ("DELETE", "/reset"): (204,),
    ("DELETE", "/reset/{node}"): (204,),
    ("GET", "/auth/attempts/{node}"): (200,),
    ("DELETE", "/auth/attempts/{node}"): (204,),
    ("GET", "/auth/attempts/{node}/source"): (200,),
    ("DELETE", "/auth/attempts/{node}/source"): (204,),
    ("GET", "/v1/tail"): (400,),
    ("POST", "/v1/definitions/diff"): (200, 400),
    ("POST", "/v1/nodes/{node}/revive"): (404, 404),
    # These look for what is named before they look for a field of the body.
    ("PUT", "/queues/{vhost}/{queue}"): (404, 400),
    ("PUT", "/exchanges/{vhost}/{exchange}"): (404, 400),
    ("POST", "/v1/queues/{vhost}/{queue}/replay"): (404, 400),
    ("POST", "/bindings/{vhost}/e/{exchange}/q/{destination}"): (404, 400),
    ("POST", "/bindings/{vhost}/e/{exchange}/e/{destination}"): (404, 400),
    ("POST", "/v1/exchanges/{vhost}/{exchange}/route-test"): (404, 400),
    ("POST", "/v1/nodes/{node}/drain"): (404, 400),
}


def expected(method: str, template: str) -> tuple[int, ...]:
    """200 for a list, 404 for a name, 400 for a body."""
    found = EXCEPTIONS.get((method, template))
    if found is not None:
        return found
    return (400, 400) if method in ("PUT", "POST") else (404 if "{" in template else 200,)


def test_each_endpoint_says_what_is_wrong(http: Http) -> None:
    wrong = []
    for template, methods in LEAST.items():
        path = re.sub(r"\{\w+\}", "nothing", template)
        for method in methods:
            if (method, template) in LEFT_OUT:
                continue
            bodies = (b"{}", b'{"') if method in ("PUT", "POST") else (None,)
            found = tuple(http(method, path, raw=body).status for body in bodies)
            if 201 in found:
                assert http("DELETE", path).status == 204
            if found != expected(method, template):
                wrong.append((method, template, found))
    assert not wrong, "\n".join(map(str, wrong))


def test_no_exception_is_of_an_endpoint_that_is_gone() -> None:
    assert {template for _, template in EXCEPTIONS} <= LEAST.keys()
