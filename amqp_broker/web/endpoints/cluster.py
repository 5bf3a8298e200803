"""What concerns the node and the cluster as a whole: features, settings, statistics, leaderships."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoint import NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import show_rows
from amqp_broker.web.errors import object_not_found
from amqp_broker.web.node_client import LONG_DEADLINE_S
from amqp_broker.web.product import API_LEVEL
from amqp_broker.web.workers import whole_node

#: So long somebody may wait until a node can be stopped, and how often it is looked at, seconds.
_LONGEST_WAIT_S: Final = 60.0
_LOOK_S: Final = 0.5
_FEATURES: Final = (
    "classic_mirrored_queue_version", "classic_queue_type_delivery_support", "direct_exchange_routing_v2",
    "drop_unroutable_metric", "empty_basic_get_metric", "feature_flags_v2", "implicit_default_bindings",
    "listener_records_in_ets", "maintenance_mode_status", "message_containers", "quorum_queue",
    "quorum_queue_non_voters", "rabbit_exchange_type_headers", "stream_queue", "stream_filtering",
    "tracking_records_in_ets", "user_limits", "virtual_host_metadata", "khepri_db",
)  # fmt: skip


def show_version(asked: Asked) -> Answer:
    return Answer(value=API_LEVEL)


def show_auth(asked: Asked) -> Answer:
    return Answer(value={"oauth_enabled": False})


def list_extensions(asked: Asked) -> Answer:
    return Answer(value=[])


def list_features(asked: Asked) -> Answer:
    """There is nothing to be switched on: all of it is, whatever of it means something here."""
    return show_rows(asked, [_feature(name) for name in _FEATURES])


def _feature(name: str) -> JsonObject:
    return {
        "name": name, "state": "enabled", "desc": "", "doc_url": "", "stability": "required", "provided_by": "rabbit",
    }  # fmt: skip


def enable_feature(asked: Asked) -> Answer:
    if asked.name("feature") not in _FEATURES:
        raise object_not_found()
    return no_content()


def list_deprecated(asked: Asked) -> Answer:
    return Answer(value=[])


def rebalance(asked: Asked) -> Answer:
    asked.change("cluster.rebalance", deadline_s=LONG_DEADLINE_S)
    return no_content()


class DrainBody(msgspec.Struct):
    """pace: connections that are closed in a second; the node's setting without it."""

    pace: int | None = None


def drain(asked: Asked) -> Answer:
    """The node lets go of its work; `guard` says when it has."""
    body = read_body(asked.body, DrainBody)
    return _of_node(asked, "node.drain", {} if body.pace is None else {"pace": body.pace})


def revive(asked: Asked) -> Answer:
    return _of_node(asked, "node.revive")


def guard(asked: Asked) -> Answer:
    """Whether the node could be stopped; `wait=SECONDS`: the answer comes when it could, or after that time."""
    until = time.monotonic() + min(integer(asked.query.get("wait", "0"), "wait"), _LONGEST_WAIT_S)
    while True:
        answer = _of_node(asked, "node.guard")
        if answer.value["is_safe"] or time.monotonic() >= until:
            return answer
        time.sleep(_LOOK_S)


def _of_node(asked: Asked, verb: str, fields: JsonObject | None = None) -> Answer:
    node = asked.name("node")
    if node not in asked.services.node.request("node")["members"]:
        raise object_not_found()
    ask = asked.verb if verb == "node.guard" else asked.change
    said = ask(verb, node=node, **(fields or {}))
    return Answer(value={key: value for key, value in said.items() if key != "ok"})


def reset(asked: Asked) -> Answer:
    """Forgets what was read for rates; the node's counters never fall."""
    asked.services.forget()
    return no_content()


def list_attempts(asked: Asked) -> Answer:
    """Those of the whole node, whichever of its workers somebody has come to."""
    counted = whole_node(asked.services.totals.read(), asked.name("node")).get("auth_attempts", {})
    rows = [
        {
            "protocol": protocol,
            "auth_attempts": counts["attempts"],
            "auth_attempts_failed": counts["failed"],
            "auth_attempts_succeeded": counts["succeeded"],
        }
        for protocol, counts in counted.items()
    ]
    return show_rows(asked, rows)


def list_attempts_by_source(asked: Asked) -> Answer:
    """Attempts are not counted by where they came from: whoever guesses would fill the memory."""
    return Answer(value=[])


def forget_attempts(asked: Asked) -> Answer:
    return no_content()


def show_settings(asked: Asked) -> Answer:
    """The settings that are in force, with secrets covered."""
    settings = asked.verb("node.settings")["settings"]
    lines = [f"{key} = {value}\n" for key, value in settings.items()]
    return Answer(raw="".join(lines).encode(), media="text/plain; charset=utf-8")


ENDPOINTS = (
    Endpoint("GET", "/version", show_version, Access.NOBODY_ASKED),
    Endpoint("GET", "/auth", show_auth, Access.NOBODY_ASKED),
    Endpoint("GET", "/extensions", list_extensions),
    Endpoint("GET", "/feature-flags", list_features),
    Endpoint("PUT", "/feature-flags/{feature}/enable", enable_feature, Access.ADMINISTRATOR, done=NO_ANSWER),
    Endpoint("GET", "/deprecated-features", list_deprecated),
    Endpoint("GET", "/deprecated-features/used", list_deprecated),
    Endpoint("POST", "/rebalance/queues", rebalance, Access.ADMINISTRATOR, done=NO_ANSWER),
    Endpoint("POST", "/v1/nodes/{node}/drain", drain, Access.ADMINISTRATOR, body=DrainBody),
    Endpoint("POST", "/v1/nodes/{node}/revive", revive, Access.ADMINISTRATOR),
    Endpoint("GET", "/v1/nodes/{node}/guard", guard, Access.MONITORING),
    Endpoint("DELETE", "/reset", reset, Access.ADMINISTRATOR),
    Endpoint("DELETE", "/reset/{node}", reset, Access.ADMINISTRATOR),
    Endpoint("GET", "/auth/attempts/{node}", list_attempts, Access.MONITORING),
    Endpoint("DELETE", "/auth/attempts/{node}", forget_attempts, Access.MONITORING),
    Endpoint("GET", "/auth/attempts/{node}/source", list_attempts_by_source, Access.MONITORING),
    Endpoint("DELETE", "/auth/attempts/{node}/source", forget_attempts, Access.MONITORING),
    Endpoint("GET", "/config/effective", show_settings, Access.ADMINISTRATOR, media="text/plain"),
)
