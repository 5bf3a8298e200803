"""Virtual hosts: lists, one, made, changed and removed."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import flag, read_body, tags
from amqp_broker.web.endpoint import NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import is_there, require_vhost, show_rows
from amqp_broker.web.endpoints.permissions import WHOSE
from amqp_broker.web.errors import precondition_failed
from amqp_broker.web.listing import answer_list, cut, read_columns, read_query
from amqp_broker.web.node_client import LONG_DEADLINE_S, NodeGone
from amqp_broker.web.shapes import LENGTHS, VHOST, read_view

_UNDEFINED = "undefined"
#: What queues count, and a virtual host shows the sums of.
_COUNTED = ("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
_SUMMED = ("vhost", *LENGTHS, *_COUNTED)


class VhostBody(msgspec.Struct):
    """What is told of a virtual host."""

    description: str | None = None
    tags: JsonValue = None
    default_queue_type: str | None = None
    defaultqueuetype: str | None = None
    tracing: JsonValue = None


def list_vhosts(asked: Asked) -> Answer:
    wanted, view = read_query(asked.query), read_view(asked.query)
    found = asked.objects("vhosts")
    sums = _messages(asked.objects("queues", columns=_SUMMED).rows) if view.has_rates else {}
    rows = [_with_sums(row, sums) for row in found.rows]
    readings = asked.services.readings
    return Answer(value=answer_list(rows, wanted, lambda row: VHOST.finish(row, found.at, readings, view)))


def show_vhost(asked: Asked) -> Answer:
    name, view = asked.name("vhost"), read_view(asked.query)
    answer = asked.verb("object", kind="vhosts", name=name)
    sums = _messages(asked.objects("queues", name, _SUMMED).rows)
    row = _with_sums(answer["object"], sums)
    shown = VHOST.finish(row, answer["at"], asked.services.readings, view)
    return Answer(value=cut(shown, read_columns(asked.query)))


def _messages(queues: list[JsonObject]) -> dict[str, dict[str, int]]:
    """What the queues of each virtual host hold together, and what was counted of them."""
    sums: dict[str, dict[str, int]] = {}
    for row in queues:
        of_vhost = sums.setdefault(row["vhost"], dict.fromkeys((*LENGTHS, *_COUNTED), 0))
        for name in of_vhost:
            of_vhost[name] += row.get(name) or 0
    return sums


def _with_sums(row: JsonObject, sums: dict[str, dict[str, int]]) -> JsonObject:
    """A virtual host, with what its queues, and those it had before, have counted."""
    shown = {name: value for name, value in row.items() if name != "of_deleted_queues"}
    for counters in (sums.get(row["name"], {}), row.get("of_deleted_queues") or {}):
        for name, value in counters.items():
            shown[name] = shown.get(name, 0) + value
    return shown


def put_vhost(asked: Asked) -> Answer:
    name, body = asked.name("vhost"), read_body(asked.body, VhostBody)
    about: JsonObject = {"name": name}
    if body.description is not None:
        about["description"] = body.description
    if body.tags is not None:
        about["tags"] = tags(body.tags)
    queue_type = body.default_queue_type or body.defaultqueuetype
    if queue_type and queue_type != _UNDEFINED:
        about["default_queue_type"] = queue_type
    if body.tracing is not None:
        about["tracing"] = flag(body.tracing)
    was_there = is_there(asked, "vhosts", name=name)
    if not was_there:
        about["permissions_for"] = asked.user.name
    asked.change("vhost.create", **about)
    return created(was_there)


def delete_vhost(asked: Asked) -> Answer:
    """The connection that asks may itself be in there, and goes with it before it hears that it is done."""
    name = asked.name("vhost")
    try:
        asked.change("vhost.delete", deadline_s=LONG_DEADLINE_S, name=name)
    except SystemRequestError as error:
        if error.code != "precondition":
            raise
        raise precondition_failed(error.text.removeprefix("vhost.delete: ")) from None
    except NodeGone:
        if is_there(asked, "vhosts", name=name):
            raise
    return no_content()


def list_permissions(asked: Asked) -> Answer:
    return _rows_of(asked, "permissions")


def list_topic_permissions(asked: Asked) -> Answer:
    return _rows_of(asked, "topic_permissions")


def _rows_of(asked: Asked, kind: str) -> Answer:
    name = asked.name("vhost")
    require_vhost(asked, name)
    return show_rows(asked, [row for row in asked.objects(kind).rows if row["vhost"] == name], *WHOSE)


def show_protection(asked: Asked) -> Answer:
    name = asked.name("vhost")
    answer = asked.verb("object", kind="vhosts", name=name)
    return Answer(value={"protected_from_deletion": answer["object"]["protected_from_deletion"]})


def protect(asked: Asked) -> Answer:
    """From now on it is not deleted, whoever asks (412), until that is taken back."""
    return _protect(asked, True)


def unprotect(asked: Asked) -> Answer:
    return _protect(asked, False)


def _protect(asked: Asked, is_protected: bool) -> Answer:
    asked.change("vhost.protect", name=asked.name("vhost"), protected=is_protected)
    return no_content()


def start_vhost(asked: Asked) -> Answer:
    """It runs wherever the node does."""
    require_vhost(asked, asked.name("vhost"))
    return no_content()


ENDPOINTS = (
    Endpoint("GET", "/vhosts", list_vhosts),
    Endpoint("GET", "/vhosts/{vhost}", show_vhost),
    Endpoint("PUT", "/vhosts/{vhost}", put_vhost, Access.ADMINISTRATOR, body=VhostBody),
    Endpoint("DELETE", "/vhosts/{vhost}", delete_vhost, Access.ADMINISTRATOR, refused=(412,)),
    Endpoint("GET", "/vhosts/{vhost}/permissions", list_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", "/vhosts/{vhost}/topic-permissions", list_topic_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", "/vhosts/{vhost}/deletion/protection", show_protection, Access.ADMINISTRATOR),
    Endpoint("POST", "/vhosts/{vhost}/deletion/protection", protect, Access.ADMINISTRATOR, done=NO_ANSWER),
    Endpoint("DELETE", "/vhosts/{vhost}/deletion/protection", unprotect, Access.ADMINISTRATOR),
    Endpoint("POST", "/vhosts/{vhost}/start/{node}", start_vhost, Access.ADMINISTRATOR, done=NO_ANSWER),
)
