"""Verbs of `amq.system`: what is not named stays, nobody locks everybody out, and no request ends a connection."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from amqp_broker.auth.passwords import verify_password
from amqp_broker.metadata.entities import User
from tests.example_counts import examples
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService
from tests.simulation.settings import USER


def user(driver: NodeDriver, name: str) -> User:
    found = driver.node.broker.metadata.user(name)
    assert found is not None
    return found


def test_what_is_not_named_of_a_user_stays(driver: NodeDriver, service: SystemService) -> None:
    assert service.ask("user.put", name="u", password="first", tags=["monitoring"]) == {"ok": True}
    assert service.ask("user.put", name="u", password="second") == {"ok": True}
    assert user(driver, "u").tags == ("monitoring",)
    assert verify_password("second", user(driver, "u").password_hash)
    assert service.ask("user.put", name="u", tags="management, policymaker") == {"ok": True}
    assert user(driver, "u").tags == ("management", "policymaker")
    assert verify_password("second", user(driver, "u").password_hash)
    assert service.ask("user.put", name="u", password="") == {"ok": True}
    assert user(driver, "u").password_hash == ""


def test_two_changes_of_a_user_at_once_are_both_kept(driver: NodeDriver, service: SystemService) -> None:
    other = SystemService(driver)
    service.ask("user.put", name="u", password="first", tags=[])
    service.send("user.put", b'{"name": "u", "password": "second"}')
    other.send("user.put", b'{"name": "u", "tags": ["monitoring"]}')
    driver.settle()
    assert service.answers() == other.answers() == [{"ok": True}]
    assert user(driver, "u").tags == ("monitoring",)
    assert verify_password("second", user(driver, "u").password_hash)


def test_what_is_not_named_of_a_virtual_host_stays(driver: NodeDriver, service: SystemService) -> None:
    definitions = {"vhosts": [{"name": "v", "description": "d", "default_queue_type": "quorum", "tags": ["t"]}]}
    assert service.ask("definitions.import", definitions=definitions)["ok"]
    before = driver.node.broker.metadata.vhost("v")
    assert service.ask("vhost.create", name="v", permissions_for=USER) == {"ok": True}
    assert driver.node.broker.metadata.vhost("v") == before
    assert driver.node.broker.metadata.permission(USER, "v") is not None


def test_a_virtual_host_is_not_made_for_nobody(driver: NodeDriver, service: SystemService) -> None:
    assert service.ask("vhost.create", name="w", permissions_for="nobody")["error"] == "vhost.create: no user 'nobody'"
    assert "w" not in driver.node.broker.vhosts


def test_the_last_administrator_stays_one(driver: NodeDriver, service: SystemService) -> None:
    text = f"user '{USER}' is the last one with the tag administrator; give the tag to somebody else first"
    refused = {"ok": False, "error": f"user.delete: {text}", "code": "precondition"}
    assert service.ask("user.delete", name=USER) == refused
    refused = {"ok": False, "error": f"user.put: {text}", "code": "precondition"}
    assert service.ask("user.put", name=USER, tags=["monitoring"]) == refused
    demoted = {"users": [{"name": USER, "password_hash": "", "tags": []}]}
    refused = service.ask("definitions.import", definitions=demoted)
    assert refused["error"].startswith("definitions.import: users: nobody would have the tag administrator any more")
    service.ask("user.put", name="other", password="x", tags="administrator")
    assert service.ask("user.put", name=USER, tags=["administrator", "x"]) == {"ok": True}
    assert service.ask("user.delete", name="other") == {"ok": True}


def test_of_two_administrators_who_are_deleted_at_two_nodes_one_stays() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    first, second = SystemService(cluster.nodes["n1"]), SystemService(cluster.nodes["n2"])
    first.send("user.put", json.dumps({"name": "other", "tags": "administrator"}).encode())
    cluster.run(500)
    assert first.answers() == [{"ok": True}]
    first.send("user.delete", json.dumps({"name": USER}).encode())
    second.send("user.delete", json.dumps({"name": "other"}).encode())
    cluster.run(500)
    answers = sorted(first.answers() + second.answers(), key=str)
    assert len(answers) <= 2, "who is deleted may be gone before he hears of it"
    left = [user.name for user in cluster.nodes["n3"].node.broker.metadata.users() if "administrator" in user.tags]
    assert len(left) == 1, (left, answers)


def test_of_two_administrators_who_delete_each_other_one_stays(driver: NodeDriver, service: SystemService) -> None:
    other = SystemService(driver)
    service.ask("user.put", name="other", tags="administrator")
    service.send("user.delete", b'{"name": "other"}')
    other.send("user.delete", json.dumps({"name": USER}).encode())
    driver.settle()
    assert service.answers() == [{"ok": True}]
    assert not other.answers()[0]["ok"]


@pytest.mark.parametrize("password", [5, None, ["x"], {"a": 1}, True, "\ud800"])
def test_a_password_that_is_no_text_is_refused(driver: NodeDriver, service: SystemService, password: object) -> None:
    refused = service.ask("user.put", name="u", password=password)
    assert not refused["ok"]
    assert "password" in refused["error"]
    assert driver.node.broker.metadata.user("u") is None


# -- any value in any field --------------------------------------------------------------------------------------------

POLICY = {
    "vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 9}, "apply_to": "all", "priority": 0,
}  # fmt: skip
#: By verb: fields with which it is served.
VERBS: dict[str, dict[str, Any]] = {
    "statistics": {},
    "queue.list": {"vhost": "/"},
    "vhost.create": {"name": "v", "description": "d", "permissions_for": USER},
    "vhost.delete": {"name": "v"},
    "vhost.protect": {"name": "/", "protected": False},
    "vhost.limits": {"vhost": "/", "limits": {"max-queues": 100}},
    "user.put": {"name": "u", "password": "", "tags": ["x"]},
    "user.delete": {"name": "u"},
    "user.limits": {"user": "u", "limits": {"max-channels": 100}},
    "permission.put": {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""},
    "permission.delete": {"user": "u", "vhost": "/"},
    "topic_permission.put": {"user": "u", "vhost": "/", "exchange": "amq.topic", "write": "", "read": ""},
    "topic_permission.delete": {"user": "u", "vhost": "/", "exchange": "amq.topic"},
    "policy.put": POLICY,
    "operator_policy.put": POLICY,
    "policy.delete": {"vhost": "/", "name": "p"},
    "operator_policy.delete": {"vhost": "/", "name": "p"},
    "definitions.export": {"vhost": "/"},
    "definitions.import": {
        "vhost": "/",
        "definitions": {
            "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {"x-expires": 9_999_999}}],
            "exchanges": [{"name": "e", "type": "topic", "arguments": {}, "internal": False}],
            "bindings": [
                {"source": "e", "destination": "q", "destination_type": "queue", "routing_key": "a", "arguments": {}}
            ],
            "policies": [{"name": "p", "pattern": "", "definition": {"max-length": 5}, "priority": 1}],
            "parameters": [{"component": "c", "name": "n", "value": {"a": [1]}}],
        },
    },
    "cluster.status": {"node": "n2"},
    "cluster.add": {"node": "n2=127.0.0.1:1", "identity": "00" * 16},
    "cluster.remove": {"node": "n2", "drops_queues": False},
    "cluster.transfer": {"vhost": "/", "queue": "q", "node": "n2"},
    "cluster.rebalance": {},
    "queues.grow": {"node": "n2", "vhost": "/", "queue": "q"},
    "queues.shrink": {"node": "n2", "vhost": "/", "queue": "q"},
    "queues.rebalance": {},
    "queue.rehome": {"vhost": "/", "name": "q", "home": "n2"},
    "queue.homes": {},
    "queue.types": {},
    "whoami": {"as_user": USER},
    "queue.peek": {"vhost": "/", "name": "q", "from": 0, "limit": 2, "filter": "exchange=x", "state": "ready"},
    "health": {},
    "node": {},
    "totals": {},
    "login": {"user": "u", "password": "p", "host": "10.0.0.1"},
    "objects.page": {"kind": "bindings", "vhost": "/", "limit": 3, "columns": ["source"], "after": '["/"]'},
    "object": {"kind": "queues", "vhost": "/", "name": "q"},
    "parameter.put": {"vhost": "/", "component": "c", "name": "p", "value": {"a": [1]}},
    "parameter.delete": {"vhost": "/", "component": "c", "name": "p"},
    "global_parameter.put": {"name": "p", "value": [1, {"a": None}]},
    "global_parameter.delete": {"name": "p"},
    "connection.close": {"user": "u", "reason": "r"},
    "consumer.cancel": {"connection": "c", "channel": 1, "tag": "t"},
    "nonsense": {"x": 1},
}
SCALARS = [
    None, True, False, 0, -1, 2**63, 10**400, 1.5, "", "x", "u", "/", "\ud800", "\udc80", "x" * 300, "(", ".*",
    "a\x00b", float("inf"), float("nan"),
]  # fmt: skip
json_values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "max-queues", "\ud800", ""]), inner, max_size=3),
    ),
    max_leaves=6,
)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    verb = draw(st.sampled_from(sorted(VERBS)))
    fields = json.loads(json.dumps(VERBS[verb]))
    for _ in range(draw(st.integers(1, 2))):
        place = fields
        while isinstance(place, (dict, list)) and place:
            key = draw(st.sampled_from(sorted(place))) if isinstance(place, dict) else 0
            if isinstance(place[key], (dict, list)) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if draw(st.integers(0, 5)) or not isinstance(place, dict):
                place[key] = draw(st.one_of(json_values, st.sampled_from([nested(200), {"a": nested(90)}])))
            else:
                del place[key]
            break
    # What the requests themselves come through has to stay.
    assume(verb != "vhost.delete" or not isinstance(fields, dict) or fields.get("name") != "/")
    return verb, json.dumps(fields).encode()


@cache
def shared_driver() -> NodeDriver:
    """One node for all examples: each finds what others have left."""
    return NodeDriver()


@settings(max_examples=examples(400))
@given(st.lists(requests(), min_size=1, max_size=3))
def test_any_value_in_any_field_of_any_verb_is_answered(asked: list[tuple[str, bytes]]) -> None:
    driver = shared_driver()
    service = SystemService(driver)
    for verb, body in asked:
        answer = service.ask_octets(verb, body)
        assert isinstance(answer["ok"], bool)
        assert answer["ok"] or answer["error"].startswith(("unknown verb", f"{verb}: ")), answer
    assert not service.client.is_closed
    driver.lose(service.client)
    # Whatever was taken is in the log, and can be written and read.
    again = driver.node.broker.metadata.snapshot()
    assert json.loads(json.dumps(again, allow_nan=False)) == again


BODIES = [b"[", b"[]", b"5", b"\xff", b"[" * 100_000, b'{"a": ' * 2000, b"{}x", b'{"name": 1e999}']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("verb", ["user.put", "queue.list", "definitions.import"])
def test_a_body_that_is_no_request_is_refused(service: SystemService, verb: str, body: bytes) -> None:
    assert service.ask_octets(verb, body)["ok"] is False


def test_a_queue_is_listed_and_counted(driver: NodeDriver, service: SystemService) -> None:
    service.client.send(1, *[declare(f"q{number}") for number in range(30)])
    driver.settle()
    service.client.take()
    listed = service.ask("queue.list", vhost="/")
    assert [row["name"] for row in listed["queues"]] == sorted(f"q{number}" for number in range(30))
    assert listed["delayed"] == []
    assert service.ask("statistics")["statistics"]["queues"] == 30
