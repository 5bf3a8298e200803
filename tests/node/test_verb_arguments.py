"""Every argument of every verb of amq.system is of its type, or the request is refused with the argument's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import amqp_broker.management.verbs.system
from tests.node.node_driver import NodeDriver
from tests.node.system_service import SystemService
from tests.simulation.settings import USER

_TEXT = ["a string", 7, True, None, [], {}, 1.5]
_TEXT_OR_NONE = ["a string", 7, True, [], {}, 1.5]
_NEXT = ["what a read gave as next", 7, True, [], "x"]
_FLAG = ["true or false", 7, "false", None, [], {}, 1.5, "", 0, 1]
_TAGS = ["a list of strings", 7, True, None, {}, [7]]
_TEXTS = ["a list of strings", "x", 7, True, None, {}, [7]]
_OBJECT = ["an object", 7, True, None, [], "x"]
_NUMBER = ["an integer", "7", True, None, [], {}, 1.5]
_PLACE = ["the `next` of the page before", 7, True, [], "x", {"n1": 1}, {"n1": [1]}]
_FROM = ["an integer|a position", "7", True, None, [], {}, 1.5]
_AT = ["an integer|an offset", "soon", "", "1w", True, None, [], {}, 1.5]
_DEFINITIONS = ["an object|definitions", 7, True, None, [], "x"]

PERMISSION = {"user": USER, "vhost": "/"}
POLICY = {"vhost": "/", "name": "p", "pattern": "x", "definition": {"max-length": 1}}
#: By verb: a request that makes sense, and its arguments, with what they have to be and values that are none.
VERBS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "statistics": ({}, {}),
    "queue.list": ({"vhost": "/"}, {"vhost": _TEXT}),
    "vhost.create": (
        {"name": "v"},
        {
            "name": _TEXT, "description": _TEXT, "permissions_for": _TEXT, "tags": _TAGS, "tracing": _FLAG,
            "default_queue_type": _TEXT,
        },
    ),
    "vhost.delete": ({"name": "/"}, {"name": _TEXT}),
    "vhost.protect": ({"name": "/", "protected": False}, {"name": _TEXT, "protected": _FLAG}),
    "vhost.limits": ({"vhost": "/", "limits": {}}, {"vhost": _TEXT, "limits": _OBJECT}),
    "user.put": (
        {"name": "u", "password_hash": ""},
        {"name": _TEXT, "tags": _TAGS, "password_hash": _TEXT, "hashing_algorithm": _TEXT},
    ),
    "login": ({"user": "u", "password": "", "host": "::1"}, {"user": _TEXT, "password": _TEXT, "host": _TEXT}),
    "password.change": (
        {"password": "p", "old_password": "o"}, {"password": _TEXT, "old_password": _TEXT, "as_host": _TEXT},
    ),
    "user.delete": ({"name": USER}, {"name": _TEXT}),
    "user.limits": ({"user": USER, "limits": {}}, {"user": _TEXT, "limits": _OBJECT}),
    "permission.put": (
        {**PERMISSION, "configure": "", "write": "", "read": ""},
        {"user": _TEXT, "vhost": _TEXT, "configure": _TEXT, "write": _TEXT, "read": _TEXT},
    ),
    "permission.delete": (PERMISSION, {"user": _TEXT, "vhost": _TEXT}),
    "topic_permission.put": (
        {**PERMISSION, "exchange": "amq.topic", "write": "", "read": ""},
        {"user": _TEXT, "vhost": _TEXT, "exchange": _TEXT, "write": _TEXT, "read": _TEXT},
    ),
    "topic_permission.delete": (
        {**PERMISSION, "exchange": "amq.topic"},
        {"user": _TEXT, "vhost": _TEXT, "exchange": _TEXT},
    ),
    **{
        f"{kind}.put": (
            POLICY,
            {
                "vhost": _TEXT, "name": _TEXT, "pattern": _TEXT, "apply_to": _TEXT, "priority": _NUMBER,
                "definition": _OBJECT,
            },
        )
        for kind in ("policy", "operator_policy")
    },
    **{
        f"{kind}.delete": ({"vhost": "/", "name": "p"}, {"vhost": _TEXT, "name": _TEXT})
        for kind in ("policy", "operator_policy")
    },
    "policy.preview": (
        POLICY,
        {
            "vhost": _TEXT, "name": _TEXT, "pattern": _TEXT, "apply_to": _TEXT, "priority": _NUMBER,
            "definition": _OBJECT, "operator": _FLAG,
        },
    ),
    "definitions.export": ({}, {"vhost": _TEXT}),
    "definitions.import": (
        {"definitions": {}},
        {"definitions": _DEFINITIONS, "vhost": _TEXT, "dry_run": _FLAG, "only": _TEXTS},
    ),
    "definitions.diff": ({"definitions": {}}, {"definitions": _DEFINITIONS, "vhost": _TEXT}),
    "cluster.status": ({}, {"node": _TEXT, "brief": _FLAG}),
    "cluster.add": ({"node": "n4=127.0.0.1:7104"}, {"node": _TEXT, "identity": _TEXT}),
    "cluster.remove": ({"node": "n4"}, {"node": _TEXT, "drops_queues": _FLAG}),
    "cluster.transfer": (
        {"vhost": "/", "queue": "q", "node": "n4"}, {"vhost": _TEXT, "queue": _TEXT, "node": _TEXT},
    ),
    "cluster.rebalance": ({}, {}),
    "queues.grow": ({"node": "n4"}, {"node": _TEXT, "vhost": _TEXT, "queue": _TEXT}),
    "queues.shrink": ({"node": "n4"}, {"node": _TEXT, "vhost": _TEXT, "queue": _TEXT}),
    "queues.rebalance": ({}, {}),
    "queue.rehome": ({"name": "q", "home": "n4"}, {"vhost": _TEXT, "name": _TEXT, "home": _TEXT}),
    "queue.homes": ({"name": "q"}, {"vhost": _TEXT, "name": _TEXT}),
    "queue.types": ({}, {}),
    "whoami": ({}, {"as_user": _TEXT}),
    "queue.peek": (
        {"vhost": "/", "name": "q"},
        {
            "vhost": _TEXT, "name": _TEXT, "from": _FROM, "backwards": _FLAG, "limit": _NUMBER, "filter": _TEXT,
            "max_body_bytes": _NUMBER, "body_from": _NUMBER, "state": _TEXT,
        },
    ),
    "health": ({}, {}),
    "node": ({}, {}),
    "node.settings": ({}, {}),
    "totals": ({}, {}),
    "objects.page": (
        {"kind": "queues"},
        {"kind": _TEXT, "vhost": _TEXT, "limit": _NUMBER, "columns": _TEXTS, "after": _TEXT},
    ),
    "object": (
        {"kind": "bindings", "vhost": "/", "source": "", "destination": "q", "properties_key": "q"},
        {
            "kind": _TEXT, "vhost": _TEXT, "source": _TEXT, "destination": _TEXT, "destination_type": _TEXT,
            "properties_key": _TEXT,
        },
    ),
    "consumer.cancel": (
        {"connection": "c", "channel": 1, "tag": "t"}, {"connection": _TEXT, "channel": _NUMBER, "tag": _TEXT},
    ),
    "parameter.put": (
        {"vhost": "/", "component": "c", "name": "p", "value": 1}, {"vhost": _TEXT, "component": _TEXT, "name": _TEXT},
    ),
    "parameter.delete": (
        {"vhost": "/", "component": "c", "name": "p"}, {"vhost": _TEXT, "component": _TEXT, "name": _TEXT},
    ),
    "global_parameter.put": ({"name": "p", "value": 1}, {"name": _TEXT, "value": ["given"]}),
    "global_parameter.delete": ({"name": "p"}, {"name": _TEXT}),
    "audit.page": (
        {},
        {
            "before": _PLACE, "limit": _NUMBER, "node": _TEXT, "user": _TEXT, "what": _TEXT, "vhost": _TEXT,
            "name": _TEXT, "outcome": _TEXT, "from": _TEXT, "since": _NUMBER, "until": _NUMBER,
        },
    ),
    "route.test": (
        {"vhost": "/", "exchange": "amq.topic"},
        {
            "vhost": _TEXT, "exchange": _TEXT, "routing_key": _TEXT, "headers": _OBJECT, "properties": _OBJECT,
            "user": _TEXT, "limit": _NUMBER, "skip": _NUMBER, "size": _NUMBER, "expiration": _NUMBER,
        },
    ),
    "stream.compact": ({"vhost": "/", "name": "q"}, {"vhost": _TEXT, "name": _TEXT}),
    "stream.stat": ({"vhost": "/", "name": "q"}, {"vhost": _TEXT, "name": _TEXT}),
    "stream.find": (
        {"vhost": "/", "name": "q", "time": 1}, {"vhost": _TEXT, "name": _TEXT, "time": _NUMBER, "at": _AT},
    ),
    "stream.segments": (
        {"vhost": "/", "name": "q"}, {"vhost": _TEXT, "name": _TEXT, "from": _NUMBER, "limit": _NUMBER},
    ),
    "stream.trim": ({"vhost": "/", "name": "q", "before": 1}, {"vhost": _TEXT, "name": _TEXT, "before": _NUMBER}),
    "stream.seek": (
        {"vhost": "/", "name": "q", "group": "g", "offset": 1},
        {"vhost": _TEXT, "name": _TEXT, "group": _TEXT, "offset": _NUMBER},
    ),
    "stream.grow": (
        {"vhost": "/", "name": "q", "partitions": 2}, {"vhost": _TEXT, "name": _TEXT, "partitions": _NUMBER},
    ),
    "stream.forget": ({"vhost": "/", "name": "q", "group": "g"}, {"vhost": _TEXT, "name": _TEXT, "group": _TEXT}),
    "quorum.view": ({"vhost": "/", "name": "q"}, {"vhost": _TEXT, "name": _TEXT}),
    "tap.open": (
        {"kind": "trace", "vhost": "/"},
        {
            "kind": _TEXT, "vhost": _TEXT, "seconds": _NUMBER, "exchange": _TEXT_OR_NONE, "routing_key": _TEXT_OR_NONE,
            "queue": _TEXT_OR_NONE, "message_id": _TEXT_OR_NONE, "correlation_id": _TEXT_OR_NONE, "headers": _OBJECT,
        },
    ),
    "tap.read": ({"id": "t"}, {"id": _TEXT, "after": _NEXT, "limit": _NUMBER}),
    "tap.close": ({"id": "t"}, {"id": _TEXT}),
    "tap.list": ({}, {}),
    **{verb: ({}, {"node": _TEXT}) for verb in ("node.guard", "node.revive")},
    "node.drain": ({}, {"node": _TEXT, "pace": _NUMBER}),
    "connection.close": ({"user": "u"}, {"name": _TEXT, "user": _TEXT, "reason": _TEXT}),
}  # fmt: skip

CASES = [
    (verb, request, argument, expected, values)
    for verb, (request, arguments) in VERBS.items()
    for argument, (expected, *values) in arguments.items()
]


@pytest.fixture(scope="module")
def driver() -> NodeDriver:
    return NodeDriver()


@pytest.fixture(scope="module")
def service(driver: NodeDriver) -> SystemService:
    return SystemService(driver)


def test_the_table_has_every_verb(driver: NodeDriver) -> None:
    assert sorted(driver.node.system._verbs) == sorted(VERBS)


def test_the_table_has_every_argument() -> None:
    """Whatever a verb reads of a request is in the table, under some verb."""
    folder = Path(amqp_broker.management.verbs.system.__file__).parent.parent
    source = "".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    read = set(re.findall(r'request\.(?:get|text|texts|number|name|tags|limits|flag|has)\(\s*"(\w+)"', source))
    # Asked by nodes alone, and what names one thing of one kind.
    others = {"group", "number", "verb", "share", "is_failure"}
    assert read
    assert read - others <= {argument for _, arguments in VERBS.values() for argument in arguments}


@pytest.mark.parametrize(
    ("verb", "request_", "argument", "expected", "values"), CASES, ids=[f"{case[0]} {case[2]}" for case in CASES]
)
def test_what_is_not_of_its_type_is_refused_by_name(
    service: SystemService, verb: str, request_: dict[str, Any], argument: str, expected: str, values: list[Any]
) -> None:
    for value in values:
        answer = service.ask(verb, **{**request_, argument: value})
        assert not answer["ok"], (value, answer)
        assert re.search(f"{verb}: .*{argument}.*({expected})", answer["error"]), (value, answer["error"])
