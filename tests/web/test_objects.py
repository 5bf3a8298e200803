"""Objects over HTTP: made, seen, refused and removed, with the statuses and bodies that RabbitMQ's clients know."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.testing.embedded import RunningBroker
from tests.example_counts import examples
from tests.web.http_client import Http, segment

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web objects")

ANY_NAME = (
    st.binary(min_size=1, max_size=40)
    .map(lambda octets: octets.decode("utf-8", "surrogateescape"))
    # Declarations leave out line ends, as RabbitMQ's do.
    .filter(lambda name: not name.startswith("amq.") and not {"\0", "\r", "\n"} & {*name})
)
few = settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


@few
@given(ANY_NAME)
def test_any_name_survives(http: Http, name: str) -> None:
    """Made, made again, in the list, alone, and gone: of each kind of object."""
    one = segment(name)
    made: list[tuple[str, dict[str, Any], str, dict[str, str]]] = [
        (f"/vhosts/{one}", {}, "/vhosts", {"name": name}),
        (f"/users/{one}", {"password": "p", "tags": ""}, "/users", {"name": name}),
        (f"/permissions/{one}/{one}", {"configure": "", "write": "", "read": ""}, "/permissions", {"user": name}),
        (f"/policies/{one}/{one}", {"pattern": "x", "definition": {"max-length": 1}}, "/policies", {"name": name}),
        (f"/queues/{one}/{one}", {"durable": True}, "/queues", {"name": name, "vhost": name}),
        (f"/exchanges/{one}/{one}", {"type": "topic"}, f"/exchanges/{one}", {"name": name, "vhost": name}),
    ]
    for path, body, _, _ in made:
        assert http("PUT", path, body).status == 201, path
        assert http("PUT", path, body).status == 204, path
    bound = http("POST", f"/bindings/{one}/e/{one}/q/{one}", {"routing_key": name, "arguments": {"x": 5}})
    assert bound.status == 201, bound
    binding = f"/bindings/{one}/e/{one}/q/{bound.headers['location']}"
    assert http.get(binding)["routing_key"] == name
    for path, _, listed, fields in made:
        assert any(fields.items() <= row.items() for row in http.get(listed)), listed
        assert fields.items() <= http.get(path).items()
    assert http("DELETE", binding).status == 204
    for path, *_ in reversed(made):
        assert http("DELETE", path).status == 204, path
        assert http("DELETE", path).status in (404, 400), path
        assert http("GET", path).status == 404, path


@pytest.mark.parametrize(
    "field",
    [
        b"\x01vd" + struct.pack(">d", math.nan),
        b"\x01vd" + struct.pack(">d", math.inf),
        b"\x01vT" + b"\xff" * 8,
        b"\x01vD\x02" + struct.pack(">i", 314),
        b"\x01vx\x00\x00\x00\x02\xff\xfe",
        b"\x01vS\x00\x00\x00\x01\xff",
    ],
    ids=["not a number", "infinity", "late timestamp", "decimal", "byte array", "not UTF-8"],
)
def test_a_binding_is_removed_whatever_its_arguments_are(broker: RunningBroker, http: Http, field: bytes) -> None:
    """JSON has no form for some values: what is shown of them does not name the binding to the node."""
    bind = m.QueueBind(queue="odd", exchange="amq.headers", routing_key="key", arguments=Table({}, field))
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDeclare(queue="odd"))
        channel.call(bind)
        (row,) = [row for row in http.get("/queues/%2F/odd/bindings?columns=properties_key,source") if row["source"]]
        path = f"/bindings/%2F/e/amq.headers/q/odd/{segment(row['properties_key'])}"
        assert http("DELETE", path).status == 204
        assert http("GET", path).status == 404
        channel.call(m.QueueDelete(queue="odd"))


def test_a_queue_from_its_declaration_to_its_end(http: Http) -> None:
    path = "/queues/%2F/orders"
    assert http("PUT", path, {"durable": "true", "arguments": {"x-max-length": 5}}).status == 201
    other = http("PUT", path, {"durable": False})
    assert other.status == 400
    assert "inequivalent arg 'durable'" in other.reason
    assert http("PUT", path, {"durable": "nope"}).reason == ["not_boolean", "nope"]
    assert http("PUT", path, {"durable": True, "node": "elsewhere"}).status == 400
    assert http("PUT", f"/queues/%2F/{'q' * 256}", {}).status == 400
    assert http("PUT", "/queues/%2F/amq.mine", {}).json == {"error": "not_authorised", "reason": "Access refused."}
    assert http("PUT", "/queues/nowhere/q", {}).json == {"error": "not_found", "reason": "vhost_not_found"}
    queue = http.get(path)
    assert (queue["name"], queue["type"], queue["arguments"]) == ("orders", "classic", {"x-max-length": 5})
    message = {"routing_key": "orders", "properties": {}, "payload": "hi", "payload_encoding": "string"}
    assert http("POST", "/exchanges/%2F/amq.default/publish", message).json == {"routed": True}
    assert "not empty" in http("DELETE", f"{path}?if-empty=true").reason
    assert http("DELETE", f"{path}/contents").status == 204
    assert http("DELETE", f"{path}?if-empty=true&if-unused=true").status == 204
    assert http("DELETE", path).json == NOT_FOUND
    assert http("DELETE", f"{path}/contents").json == NOT_FOUND


def test_get_and_publish(http: Http) -> None:
    http("PUT", "/queues/%2F/inbox", {"durable": True})
    headers = {"s": "text", "i": 5, "l": [1, True], "t": {"a": None}}
    for payload, encoding in (("grün", "string"), (base64.b64encode(b"\xff\xfe").decode(), "base64")):
        properties = {"headers": headers, "delivery_mode": 2, "timestamp": 1700000000, "content_type": "text/plain"}
        said = http("POST", "/exchanges/%2F/amq.default/publish", {
            "routing_key": "inbox", "properties": properties, "payload": payload, "payload_encoding": encoding,
        })  # fmt: skip
        assert said.json == {"routed": True}
    wanted = {"count": "5", "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 2}
    first, second = http("POST", "/queues/%2F/inbox/get", wanted).json
    assert (first["payload"], first["payload_bytes"], first["payload_encoding"]) == ("gr", 5, "string")
    assert first["properties"]["headers"] == headers
    assert (first["properties"]["timestamp"], first["message_count"], first["redelivered"]) == (1700000000, 1, False)
    assert (second["payload"], second["payload_encoding"]) == (base64.b64encode(b"\xff\xfe").decode(), "base64")
    again = http("POST", "/queues/%2F/inbox/get", {**wanted, "ackmode": "reject_requeue_false"}).json
    assert [each["payload_bytes"] for each in again] == [5, 2], "they were put back where they were"
    assert http("POST", "/queues/%2F/inbox/get", wanted).json == []
    assert http("POST", "/queues/%2F/nothing/get", wanted).json == {"error": "not_found", "reason": "queue_not_found"}
    for wrong in ({"count": 1}, {**wanted, "ackmode": "x"}, {**wanted, "encoding": "x"}, {**wanted, "count": 0}):
        assert http("POST", "/queues/%2F/inbox/get", wrong).status == 400
    lines = base64.encodebytes(bytes(200)).decode().replace("\n", "\r\n ")
    said = http("POST", "/exchanges/%2F/amq.default/publish", {
        "routing_key": "inbox", "properties": {}, "payload": lines, "payload_encoding": "base64",
    })  # fmt: skip
    assert said.json == {"routed": True}
    (wrapped,) = http("POST", "/queues/%2F/inbox/get", {**wanted, "ackmode": "ack_requeue_false"}).json
    assert wrapped["payload_bytes"] == 200
    http("DELETE", "/queues/%2F/inbox")


def test_what_cannot_be_published(http: Http) -> None:
    message = {"routing_key": "nobody", "properties": {}, "payload": "", "payload_encoding": "string"}
    assert http("POST", "/exchanges/%2F/amq.topic/publish", message).json == {"routed": False}
    for wrong, reason in (
        ({"payload": 5}, "payload_not_string"), ({"payload_encoding": "x"}, ["unsupported_encoding", "x"]),
        ({"payload": "%", "payload_encoding": "base64"}, "payload is not base64"),
        ({"properties": {"priority": "high"}}, ["not_integer", {"priority": "high"}]),
        ({"properties": {"headers": 5}}, ["headers_not_object", 5]),
    ):  # fmt: skip
        said = http("POST", "/exchanges/%2F/amq.topic/publish", {**message, **wrong})
        assert (said.status, said.reason) == (400, reason)
    missing = http("POST", "/exchanges/%2F/nothing/publish", message)
    assert (missing.status, missing.reason) == (404, "exchange_not_found")
    assert http("POST", "/exchanges/nowhere/x/publish", message).reason == "vhost_not_found"


def test_bindings(http: Http) -> None:
    http("PUT", "/queues/%2F/bound", {"durable": True})
    http("PUT", "/exchanges/%2F/from", {"type": "headers", "durable": True})
    http("PUT", "/exchanges/%2F/to", {"type": "fanout", "durable": True})
    path = "/bindings/%2F/e/from/q/bound"
    plain = http("POST", path, raw=b"")
    assert (plain.status, plain.headers["location"], plain.body) == (201, "bound/~", b"")
    keyed = http("POST", path, {"routing_key": "a b/c~", "arguments": {"x-match": "any", "n": 5}})
    listed = http.get(path)
    assert {"~", keyed.headers["location"].partition("/")[2].replace("%25", "%").replace("%2B", "+")} >= {
        row["properties_key"] for row in listed if not row["arguments"]
    }
    for row in listed:
        one = f"{path}/{segment(row['properties_key'])}"
        assert http.get(one) == row
    assert http.get("/queues/%2F/bound/bindings")[0]["source"] == ""
    assert len(http.get("/queues/%2F/bound/bindings")) == 3
    assert http("POST", "/bindings/%2F/e/from/e/to", {}).status == 201
    assert [row["destination"] for row in http.get("/exchanges/%2F/from/bindings/source")].count("to") == 1
    assert len(http.get("/exchanges/%2F/to/bindings/destination")) == 1
    for row in listed:
        one = f"{path}/{segment(row['properties_key'])}"
        assert http("DELETE", one).status == 204
        assert http("DELETE", one).json == NOT_FOUND
    assert http("POST", "/bindings/%2F/e/nothing/q/bound", {}).json == NOT_FOUND
    for ends in ("%2F/e/nothing/q/bound", "%2F/e/from/q/nothing", "%2F/e/from/e/nothing", "nowhere/e/from/q/bound"):
        assert http.get(f"/bindings/{ends}") == [], ends
    assert http("POST", path, raw=b"x" * 6000).status == 413
    for gone in ("/queues/%2F/bound", "/exchanges/%2F/from", "/exchanges/%2F/to"):
        http("DELETE", gone)


def test_users_and_what_they_may(http: Http) -> None:
    assert http("PUT", "/users/ann", {"password": "p", "tags": ["management", "x"]}).status == 201
    assert http.get("/users/ann")["tags"] == ["management", "x"]
    ann = http.as_user("ann", "p")
    assert ann.get("/whoami") == {"name": "ann", "tags": ["management", "x"], "is_internal_user": True}
    assert ann.get("/vhosts") == [], "nothing is hers yet"
    assert ann("GET", "/queues/%2F").reason == "User not authorised to access virtual host"
    assert ann("PUT", "/queues/%2F/q", {}).status == 401
    hashed = http.get("/auth/hash_password/other")["ok"]
    assert http("PUT", "/users/ann", {"password_hash": hashed, "tags": "management"}).status == 204
    assert ann("GET", "/whoami").status == 401, "the old password is forgotten at once"
    ann = http.as_user("ann", "other")
    assert ann.get("/whoami")["name"] == "ann"
    nobody = {"configure": "", "write": "", "read": ""}
    assert http("PUT", "/permissions/%2F/nobody", nobody).reason == "vhost_or_user_not_found"
    assert http("PUT", "/permissions/nowhere/ann", nobody).reason == "vhost_or_user_not_found"
    assert http("PUT", "/permissions/%2F/ann", {**nobody, "read": "("}).status == 400
    assert http("PUT", "/permissions/%2F/ann", {"configure": ""}).reason == [{"key_missing": "write"}]
    assert http("PUT", "/permissions/%2F/ann", {**nobody, "configure": "^ann"}).status == 201
    assert ann("PUT", "/queues/%2F/bob", {}).json == {"error": "not_authorised", "reason": "Access refused."}
    assert ann("PUT", "/queues/%2F/ann-1", {}).status == 201
    assert [row["name"] for row in ann.get("/vhosts")] == ["/"]
    topic = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert http("PUT", "/topic-permissions/%2F/ann", topic).status == 201
    assert http.get("/topic-permissions/%2F/ann") == [{"user": "ann", "vhost": "/", **topic}]
    assert http("DELETE", "/topic-permissions/%2F/ann").status == 204
    assert http.get("/users/ann/permissions")[0]["configure"] == "^ann"
    assert "ann" in [row["user"] for row in http.get("/vhosts/%2F/permissions")]
    assert ann("DELETE", "/queues/%2F/ann-1").status == 204
    assert http("POST", "/users/bulk-delete", {"users": ["ann", "never-was"]}).status == 204
    assert http("GET", "/users/ann").json == NOT_FOUND
    assert ann("GET", "/whoami").json == {"error": "not_authorized", "reason": "Not_Authorized"}
    assert http("DELETE", "/users/guest").status == 400, "somebody has to administer"


def test_policies_limits_and_the_cluster_name(http: Http) -> None:
    policy = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 3, "apply-to": "queues"}
    assert http("PUT", "/policies/%2F/five", policy).status == 201
    assert http.get("/policies/%2F/five") == {"vhost": "/", "name": "five", **policy}
    bad = http("PUT", "/policies/%2F/bad", {"pattern": "(", "definition": {"max-length": 5}})
    assert bad.status == 400
    assert bad.reason.startswith("Validation failed\n\n")
    assert http("PUT", "/policies/%2F/bad", {"definition": {}}).reason == [{"key_missing": "pattern"}]
    assert http("PUT", "/policies/nowhere/p", policy).reason == "vhost_not_found"
    assert http("PUT", "/operator-policies/%2F/op", {"pattern": "x", "definition": {"expires": 5000}}).status == 201
    assert [row["name"] for row in http.get("/operator-policies")] == ["op"]
    for path in ("/policies/%2F/five", "/operator-policies/%2F/op"):
        assert http("DELETE", path).status == 204
        assert http("DELETE", path).status == 404
    assert http("PUT", "/vhost-limits/%2F/max-queues", {"value": 100}).status == 204
    assert http("PUT", "/vhost-limits/%2F/max-connections", {"value": "50"}).status == 204
    assert http.get("/vhost-limits/%2F") == [{"vhost": "/", "value": {"max-queues": 100, "max-connections": 50}}]
    assert http("DELETE", "/vhost-limits/%2F/max-queues").status == 204
    assert http.get("/vhost-limits") == [{"vhost": "/", "value": {"max-connections": 50}}]
    assert http("DELETE", "/vhost-limits/%2F/max-connections").status == 204
    assert http("PUT", "/vhost-limits/%2F/max-x", {"value": 1}).status == 400
    assert http("PUT", "/vhost-limits/%2F/max-queues", {"value": "x"}).status == 400
    assert http("PUT", "/user-limits/guest/max-channels", {"value": 1000}).status == 204
    assert http.get("/user-limits/guest") == [{"user": "guest", "value": {"max-channels": 1000}}]
    assert http("DELETE", "/user-limits/guest/max-channels").status == 204
    assert http("PUT", "/global-parameters/mine", {"value": {"a": [1]}}).status == 201
    assert http.get("/global-parameters/mine") == {"name": "mine", "value": {"a": [1]}}
    assert http("DELETE", "/global-parameters/mine").status == 204
    assert http("DELETE", "/global-parameters/mine").status == 404
    refused = http("PUT", "/parameters/shovel/%2F/s", {"value": {}}).reason
    assert refused.startswith("Validation failed\n\ncomponent shovel not found: ")
    imported = {"parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": {}}]}
    assert http("POST", "/definitions", imported).status == 204
    assert http.get("/parameters/shovel/%2F") == imported["parameters"]
    assert http("DELETE", "/parameters/shovel/%2F/s").status == 204
    assert http("DELETE", "/parameters/shovel/%2F/s").status == 404
    assert http("PUT", "/cluster-name", {"name": "warren"}).status == 204
    assert http.get("/cluster-name") == {"name": "warren"} == {"name": http.get("/overview")["cluster_name"]}


@pytest.mark.parametrize(("kind", "idle", "value"), [
    ("policies", "ha-mode", "all"), ("operator-policies", "max-in-memory-length", 5),
])  # fmt: skip
def test_what_of_a_policy_does_nothing_is_said(http: Http, kind: str, idle: str, value: object) -> None:
    definition = {"max-length": 5, idle: value}
    policy = {"pattern": "^idle", "definition": definition, "apply-to": "queues"}
    for status in (201, 204):
        said = http("PUT", f"/{kind}/%2F/idle", policy)
        assert (said.status, said.body) == (status, b"")
        assert said.headers["x-warning"].startswith(f"definition.{idle} has no effect here: ")
    assert http.get(f"/{kind}/%2F/idle")["definition"] == definition, "it is kept"
    foreseen = {**policy, "vhost": "/", "operator": kind != "policies"}
    assert http("POST", "/v1/policies/preview", foreseen).json["notes"] == [said.headers["x-warning"]]
    plain = http("PUT", f"/{kind}/%2F/idle", {**policy, "definition": {"max-length": 5}})
    assert "x-warning" not in plain.headers
    assert http("DELETE", f"/{kind}/%2F/idle").status == 204


def test_vhosts(http: Http) -> None:
    assert http("PUT", "/vhosts/v", {"description": "d", "tags": "a, b", "default_queue_type": "quorum"}).status == 201
    vhost = http.get("/vhosts/v")
    about = {"description": "d", "tags": ["a", "b"], "default_queue_type": "quorum"}
    assert vhost["metadata"] == about
    assert about.items() <= vhost.items()
    assert http("PUT", "/vhosts/v", {"description": "other"}).status == 204
    assert http.get("/vhosts/v")["tags"] == ["a", "b"], "what is not named stays"
    assert http("PUT", "/vhosts/w", {"default_queue_type": "nope"}).status == 400
    assert http("GET", "/vhosts/w").status == 404
    assert http("PUT", "/queues/v/q", {"durable": True}).status == 201
    assert http.get("/queues/v/q")["type"] == "quorum"
    assert http.get("/queues?columns=name")[0].keys() == {"name"}
    assert http("GET", "/queues", x_vhost="v").json[0]["name"] == "q"
    assert http("DELETE", "/vhosts/v").status == 204
    assert http("GET", "/queues/v").json == NOT_FOUND


def test_a_protected_virtual_host_is_not_deleted(http: Http) -> None:
    protection = "/vhosts/locked/deletion/protection"
    for method in ("GET", "POST", "DELETE"):
        assert http(method, protection).json == NOT_FOUND
    http("PUT", "/vhosts/locked", {"description": "d"})
    assert http.get(protection) == {"protected_from_deletion": False}
    assert http("POST", protection).status == http("POST", protection).status == 204
    refused = http("DELETE", "/vhosts/locked")
    text = "Refusing to delete virtual host 'locked' because it is protected from deletion"
    assert (refused.status, refused.json) == (412, {"error": "precondition_failed", "reason": text})
    # What is said of it otherwise leaves that as it is.
    assert http("PUT", "/vhosts/locked", {"description": "e"}).status == 204
    vhost = http.get("/vhosts/locked")
    assert (vhost["protected_from_deletion"], vhost["metadata"]["protected_from_deletion"]) == (True, True)
    (exported,) = [each for each in http.get("/definitions")["vhosts"] if each["name"] == "locked"]
    assert exported["metadata"]["protected_from_deletion"] is True
    assert http("DELETE", protection).status == http("DELETE", protection).status == 204
    assert "protected_from_deletion" not in http.get("/vhosts/locked")["metadata"]
    assert http("POST", "/definitions", {"vhosts": [exported]}).status == 204
    assert http("DELETE", "/vhosts/locked").status == 412
    http("DELETE", protection)
    assert http("DELETE", "/vhosts/locked").status == 204
    whats = [line["what"] for line in http.get("/v1/audit?what=vhost.&name=locked&limit=2")["items"]]
    assert whats == ["vhost.delete", "vhost.protect"]


def test_connections_and_channels(http: Http, broker: RunningBroker) -> None:
    with Connection.open(broker.url, name="mine") as connection, connection.channel() as channel:
        http("PUT", "/queues/%2F/watched", {})
        channel.consume("watched", consumer_tag="tag", prefetch_count=7)
        mine = [row for row in http.get("/connections") if row["client_properties"].get("connection_name") == "mine"]
        (row,) = mine
        one = f"/connections/{segment(row['name'])}"
        assert http.get(one)["user"] == "guest"
        (seen,) = http.get(f"{one}/channels")
        assert (seen["number"], seen["confirm"], seen["connection_details"]["name"]) == (1, False, row["name"])
        assert http.get(f"/channels/{segment(seen['name'])}")["consumer_details"][0]["consumer_tag"] == "tag"
        (consumer,) = [each for each in http.get("/consumers/%2F") if each["queue"]["name"] == "watched"]
        assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("tag", 7)
        assert consumer["channel_details"]["connection_name"] == row["name"]
        assert http.get("/queues/%2F/watched")["consumer_details"][0]["consumer_tag"] == "tag"
        assert row["name"] in [each["name"] for each in http.get("/connections/username/guest")]
        assert http("DELETE", one, X_Reason="because").status == 204
        with pytest.raises(Exception, match=r"320 .*because"):
            connection.channel()
        assert http("DELETE", one).status == 404


def test_definitions(http: Http) -> None:
    http("PUT", "/vhosts/old", {})
    http("PUT", "/queues/old/q", {"durable": True})
    http("POST", "/bindings/old/e/amq.topic/q/q", {"routing_key": "a.*"})
    whole = http.get("/definitions")
    assert whole["rabbitmq_definition_format"] == "cluster"
    assert {"users", "vhosts", "permissions", "queues", "exchanges", "bindings", "policies"} <= whole.keys()
    one = http.get("/definitions/old")
    assert (one["original_vhost_name"], [row["name"] for row in one["queues"]]) == ("old", ["q"])
    assert "vhost" not in one["queues"][0]
    http("PUT", "/vhosts/old", {"description": "before", "tags": "a,b", "default_queue_type": "quorum"})
    http("PUT", "/vhost-limits/old/max-queues", {"value": 7})
    http("PUT", "/policies/old/p", {"pattern": "^q", "definition": {"max-length": 5}})
    http("PUT", "/operator-policies/old/op", {"pattern": "^q", "definition": {"max-length": 9}})
    http("PUT", "/exchanges/old/x", {"type": "fanout", "durable": True})
    one = http.get("/definitions/old")
    assert one.keys() == {
        "rabbit_version", "rabbitmq_version", "product_name", "product_version", "rabbitmq_definition_format",
        "original_vhost_name", "explanation", "metadata", "description", "limits", "parameters", "policies", "queues",
        "exchanges", "bindings",
    }  # fmt: skip
    assert one["metadata"] == {"description": "before", "tags": ["a", "b"], "default_queue_type": "quorum"}
    assert (one["description"], one["limits"]) == ("before", {"max-queues": 7})
    inside = [row for category in one.values() if isinstance(category, list) for row in category]
    assert len(inside) == 6, "queue, exchange, binding, policy, operator policy, limits"
    assert not any("vhost" in row for row in inside)
    saved = http("GET", "/definitions?download=my%22file.json")
    assert saved.headers["content-disposition"] == 'attachment; filename="my_file.json"'
    http("PUT", "/vhosts/new", {})
    assert http("POST", "/definitions/new", one).status == 204
    assert http.get("/queues/new/q")["durable"] is True
    http("DELETE", "/vhosts/new")
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
    form = head + saved.body + b"\r\n--x--\r\n"
    assert http("POST", "/definitions", raw=form, content_type="multipart/form-data; boundary=x").status == 204
    bad = http("POST", "/definitions", {"queues": [{"name": "q", "vhost": "nowhere"}]})
    assert (bad.status, bad.json["error"]) == (400, "bad_request")
    assert http("POST", "/definitions", raw=b"[").reason == "not_json"
    assert http("POST", "/definitions/nowhere", {}).status == 404
    http("DELETE", "/vhosts/old")


def test_a_policy_is_previewed(http: Http) -> None:
    for name in ("p.one", "p.two", "other"):
        assert http("PUT", f"/queues/%2F/{name}", {"durable": True}).status == 201
    wanted = {"vhost": "/", "pattern": "^p\\.", "definition": {"max-length": 5}, "apply-to": "queues"}
    said = http("POST", "/v1/policies/preview", wanted)
    assert said.json["queues"] == {"matched": 2, "applied": 2, "names": ["p.one", "p.two"]}
    assert said.json["exchanges"]["matched"] == 0
    strong = {"pattern": "two", "definition": {"max-length": 1}, "priority": 9}
    assert http("PUT", "/policies/%2F/strong", strong).status == 201
    assert http("POST", "/v1/policies/preview", wanted).json["queues"]["applied"] == 1
    assert http("POST", "/v1/policies/preview", {**wanted, "name": "strong"}).json["queues"]["applied"] == 2
    assert "policy" not in http.get("/queues/%2F/p.one") or not http.get("/queues/%2F/p.one")["policy"]
    assert http("POST", "/v1/policies/preview", {**wanted, "definition": {"no": 1}}).status == 400
    assert http("DELETE", "/policies/%2F/strong").status == 204
    for name in ("p.one", "p.two", "other"):
        assert http("DELETE", f"/queues/%2F/{name}").status == 204


def test_definitions_are_compared(http: Http) -> None:
    queue = {"name": "compared", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    whole = {"queues": [queue, {**queue, "name": "chosen"}]}
    said = http("POST", "/v1/definitions/diff", whole)
    assert said.status == 200
    assert [row["place"] for row in said.json["add"]] == ["queues[0]", "queues[1]"]
    dry = http("POST", "/definitions?dry_run=true", whole)
    assert (dry.status, dry.json["changes"]) == (200, 2)
    assert http("GET", "/queues/%2F/compared").status == 404
    assert http("POST", "/definitions?only=queues%5B1%5D", whole).status == 204
    assert http("GET", "/queues/%2F/compared").status == 404
    assert http("GET", "/queues/%2F/chosen").status == 200
    assert http("POST", "/definitions?only=queues%5B7%5D", whole).status == 400
    assert http("POST", "/v1/definitions/diff", {"queues": [{"name": 1}]}).status == 400
    assert http("DELETE", "/queues/%2F/chosen").status == 204


def test_lists_are_paged_by_the_server(http: Http) -> None:
    for number in range(12):
        http("PUT", f"/queues/%2F/paged-{number:02}", {})
    page = http.get("/queues?page=2&page_size=5&name=^paged&use_regex=true&sort=name&sort_reverse=true&columns=name")
    assert [row["name"] for row in page["items"]] == [f"paged-{number:02}" for number in range(6, 1, -1)]
    counts = (page["filtered_count"], page["item_count"], page["page_count"], page["page"])
    assert counts == (12, 5, 3, 2)
    first = http.get("/queues/%2F?page=2&page_size=5&columns=name")
    assert first["items"] == http.get("/queues/%2F?columns=name")[5:10], "the node's own order is that of the list"
    assert first["total_count"] == len(http.get("/queues/%2F"))
    assert "page_out_of_range" in http("GET", "/queues?page=9&page_size=5").reason
    assert "page_out_of_range" in http("GET", "/queues?page=9&page_size=500").reason
    assert "invalid_pagination_parameters" in http("GET", "/queues?page=0").reason
    plain = http.get("/queues/%2F?disable_stats=true&enable_queue_totals=true")
    assert {"name", "vhost", "type", "node", "state", "messages"} <= plain[0].keys()
    assert "messages_details" not in plain[0]
    for number in range(12):
        http("DELETE", f"/queues/%2F/paged-{number:02}")


def test_what_has_no_name_is_filtered_by_what_it_is_between(http: Http, broker: RunningBroker) -> None:
    def found(path: str, name: str) -> int:
        return int(http.get(f"{path}?page=1&name={name}")["filtered_count"])

    http("PUT", "/queues/%2F/filtered", {"durable": True})
    http("POST", "/bindings/%2F/e/amq.topic/q/filtered", {"routing_key": "key.of.it"})
    http("PUT", "/users/filtered-user", {"password": "p", "tags": ""})
    http("PUT", "/permissions/%2F/filtered-user", {"configure": "", "write": "", "read": ""})
    http("PUT", "/topic-permissions/%2F/filtered-user", {"exchange": "amq.topic", "write": "", "read": ""})
    http("PUT", "/user-limits/filtered-user/max-channels", {"value": 5})
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.consume("filtered", consumer_tag="a-tag")
        for name in ("a-tag", "filter", "guest"):
            assert found("/consumers", name) == 1, name
        assert found("/consumers", "nobody") == 0
    for path, names in (
        ("/bindings/%2F", ("KEY.of", "filtered&use_regex=true&sort=routing_key")),
        ("/queues/%2F/filtered/bindings", ("amq.topic", "key")),
        ("/exchanges/%2F/amq.topic/bindings/source", ("filtered", "of.it")),
        ("/permissions", ("filtered-user",)),
        ("/users/filtered-user/permissions", ("%2F",)),
        ("/vhosts/%2F/permissions", ("filtered",)),
        ("/topic-permissions", ("amq.topic", "filtered")),
        ("/user-limits", ("filtered",)),
    ):
        assert all(found(path, name) for name in names), path
        assert not found(path, "nothing-that-is"), path
    http("DELETE", "/queues/%2F/filtered")
    http("DELETE", "/users/filtered-user")


def test_what_an_import_leaves_out_is_said(http: Http) -> None:
    fleeting = {"vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
    policy = {"vhost": "/", "name": "mirrors", "pattern": "^none$", "definition": {"ha-mode": "all"}, "priority": 0}
    hostile = {**fleeting, "name": "grün\r\nx-other: 1"}
    definitions = {"queues": [hostile], "policies": [{**policy, "apply-to": "queues"}]}
    said = http("POST", "/definitions", definitions)
    assert (said.status, said.body) == (204, b"")
    mirrors, queue = said.headers["x-warning"].split("; queues")
    assert mirrors.startswith("policies[0]: definition.ha-mode has no effect here: ")
    assert queue.startswith(r"[0]: queue 'gr\xfcn\r\nx-other: 1' was left out: it is not durable")
    assert "x-other" not in said.headers
    many = {"queues": [{**fleeting, "name": f"fleeting {number}"} for number in range(200)]}
    said = http("POST", "/definitions/%2F", many)
    warning = said.headers["x-warning"]
    assert len(warning) < 4200
    assert warning.endswith("more: ask with dry_run=true")
    assert len(http("POST", "/definitions?dry_run=true", many).json["notes"]) == 200
    assert http("DELETE", "/policies/%2F/mirrors").status == 204
    assert "x-warning" not in http("POST", "/definitions", {"queues": []}).headers
