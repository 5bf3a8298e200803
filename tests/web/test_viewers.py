"""Who may only look, and everybody's own password."""

from __future__ import annotations

import pytest

from amqp_broker.system_client import SystemClient, SystemRequestError
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web viewers")


def test_a_viewer_sees_and_changes_nothing(http: Http, by_tag: dict[str, Http]) -> None:
    viewer = by_tag["viewer"]
    assert http("PUT", "/queues/%2F/seen", {"durable": True}).status == 201
    assert http("POST", "/exchanges/%2F/amq.default/publish", {
        "routing_key": "seen", "properties": {}, "payload": "secret", "payload_encoding": "string",
    }).status == 200  # fmt: skip
    assert viewer.get("/queues/%2F/seen")["messages"] == 1
    assert viewer.get("/overview")["object_totals"]["queues"] >= 1
    assert viewer.get("/whoami")["tags"] == ["viewer"]
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    publish = {"routing_key": "seen", "properties": {}, "payload": "x", "payload_encoding": "string"}
    for method, path, body in (
        ("POST", "/queues/%2F/seen/get", get), ("POST", "/exchanges/%2F/amq.default/publish", publish),
        ("PUT", "/queues/%2F/more", {}), ("DELETE", "/queues/%2F/seen", None), ("GET", "/aliveness-test/%2F", None),
        ("DELETE", "/queues/%2F/seen/contents", None), ("POST", "/bindings/%2F/e/amq.direct/q/seen", {}),
    ):  # fmt: skip
        said = viewer(method, path, body)
        assert said.status == 401, (method, path, said)
    assert viewer.get("/queues/%2F/seen")["messages"] == 1
    assert http("DELETE", "/queues/%2F/seen").status == 204


def test_ones_own_password(http: Http, broker: RunningBroker) -> None:
    assert http("PUT", "/users/self", {"password": "first", "tags": "viewer"}).status == 201
    own = http.as_user("self", "first")
    assert own("PUT", "/v1/password", {"old_password": "wrong", "password": "second"}).status == 401
    assert own("PUT", "/v1/password", {"old_password": "first", "password": ""}).status == 400
    assert own("PUT", "/v1/password", {"password": "second"}).status == 400
    assert own("PUT", "/v1/password", {"old_password": "first", "password": "second"}).status == 204
    assert own("GET", "/whoami").status == 401, "the old one counts no more"
    renewed = http.as_user("self", "second")
    assert renewed.get("/whoami")["tags"] == ["viewer"], "tags stay"
    assert http.get("/v1/audit?what=password.change&outcome=done")["items"][0]["user"] == "self"
    assert http("PUT", "/permissions/%2F/self", {"configure": "", "write": ".*", "read": ".*"}).status == 201
    with SystemClient(f"amqp://self:second@{broker.url.rpartition('@')[2]}") as client:
        with pytest.raises(SystemRequestError, match="is another one"):
            client.request("password.change", old_password="first", password="third")
        client.request("password.change", old_password="second", password="third")
    assert http.as_user("self", "third").get("/whoami")["name"] == "self"
    for each in (own, renewed):
        each.close()
